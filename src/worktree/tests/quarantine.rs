//! Work that nobody has looked at: what is taken in, what is not, and what is seen of it.

use super::{Scene, write};
use crate::worktree::{After, Quarantine};
use bytes::Bytes;
use std::fs;

/// A bundle of the branch `job/w` from `main`, as Git itself makes it.
async fn bundle(scene: &Scene) -> Bytes {
    scene.git(&["bundle", "create", "--quiet", "--version=2", "../work.bundle", "^main", "refs/heads/job/w"]).await;
    fs::read(scene.at("work.bundle")).unwrap().into()
}

async fn ids(scene: &Scene) -> (String, String) {
    (scene.git(&["rev-parse", "main"]).await, scene.git(&["rev-parse", "job/w"]).await)
}

#[tokio::test]
async fn work_is_taken_in_and_seen_without_reaching_the_repository() {
    let scene = Scene::new().await;
    scene.git(&["checkout", "-q", "-b", "job/w"]).await;
    write(&scene.repo().join("a"), "new\n");
    scene.commit_all("one").await;
    scene.git(&["mv", "src/b", "src/c"]).await;
    fs::write(scene.repo().join("blob"), b"x\0y").unwrap();
    std::os::unix::fs::symlink("../x", scene.repo().join("link")).unwrap();
    // An attribute hides nothing.
    write(&scene.repo().join(".gitattributes"), "a -diff\nblob diff\n");
    scene.commit_all("two").await;
    let ((base, commit), bundle) = (ids(&scene).await, bundle(&scene).await);
    let repository = scene.discover().await;
    scene.git(&["checkout", "-q", "main"]).await;
    scene.git(&["branch", "-q", "-D", "job/w"]).await;
    scene.git(&["reflog", "expire", "--expire=now", "--all"]).await;
    scene.git(&["gc", "--quiet", "--prune=now"]).await;
    let quarantine = Quarantine::beside(&repository, &scene.env).await.unwrap();
    quarantine.take(bundle, &base, &commit, "job/w").await.unwrap();
    assert!(!scene.try_git_in(&scene.repo(), &["cat-file", "-e", &commit]).await.0, "it is not in the repository");
    let (steps, whole) = quarantine.changes(&base, &commit).await.unwrap();
    let seen = |changes: &[crate::worktree::Change]| {
        let one = |change: &crate::worktree::Change| {
            let from = change.from.as_ref().map_or_else(String::new, |from| format!("{from} -> "));
            format!("{from}{} {:?} +{}", change.path, change.after, change.added)
        };
        changes.iter().map(one).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(steps.len(), 2);
    assert_eq!(seen(&steps[0].changes), "a Text +1");
    insta::assert_snapshot!(seen(&whole.changes), @r#"
    .gitattributes Text +2
    a Text +1
    blob Binary +1
    link Link("../x") +1
    src/b -> src/c Text +0
    "#);
    assert_eq!(whole.changes[1].text, ["new"]);
    assert!(whole.changes.iter().all(|change| change.after != After::Nothing));
}

#[tokio::test]
async fn what_is_not_what_it_says_is_not_taken() {
    let scene = Scene::new().await;
    scene.git(&["checkout", "-q", "-b", "job/w"]).await;
    write(&scene.repo().join("a"), "new\n");
    scene.commit_all("one").await;
    let ((base, commit), good) = (ids(&scene).await, bundle(&scene).await);
    let repository = scene.discover().await;
    let fresh = || Quarantine::beside(&repository, &scene.env);
    let take = async |bundle: Bytes, base: &str, commit: &str, branch: &str| {
        fresh().await.unwrap().take(bundle, base, commit, branch).await.unwrap_err()
    };
    assert!(take(good.clone(), &base, &commit, "main").await.contains("not the branch `main`"));
    assert!(take(good.clone(), &base, &base, "job/w").await.contains("not the branch"));
    let nowhere = "1234567890123456789012345678901234567890";
    assert!(take(good.clone(), nowhere, &commit, "job/w").await.contains("fetch it first"));
    let mut torn = good.to_vec();
    let last = torn.len() - 30;
    torn[last] ^= 1;
    assert!(take(torn.into(), &base, &commit, "job/w").await.contains("index-pack"));
    assert!(take(good.slice(..good.len() - 40), &base, &commit, "job/w").await.contains("index-pack"));
}

#[tokio::test]
async fn merges_strange_histories_and_broken_objects_are_refused() {
    let scene = Scene::new().await;
    let base = scene.git(&["rev-parse", "main"]).await;
    let tree = scene.git(&["rev-parse", "main^{tree}"]).await;
    let repository = scene.discover().await;
    let judge = async |commit: &str| {
        scene.git(&["update-ref", "refs/heads/job/w", commit]).await;
        let bundle = bundle(&scene).await;
        let quarantine = Quarantine::beside(&repository, &scene.env).await.unwrap();
        quarantine.take(bundle, &base, commit, "job/w").await?;
        quarantine.changes(&base, commit).await.map(|_| ())
    };
    let stranger = scene.git(&["commit-tree", "-m", "root", &tree]).await;
    assert!(judge(&stranger).await.unwrap_err().contains("not on top of the base"));
    let merge = scene.git(&["commit-tree", "-m", "merge", "-p", &base, "-p", &stranger, &tree]).await;
    assert!(judge(&merge).await.unwrap_err().contains("2 parents"));
    // A tree with a `.git` in it would write into the repository of whoever checks it out.
    let blob = scene.git(&["rev-parse", "main:a"]).await;
    write(&scene.at("entry"), &format!("100644 blob {blob}\t.git\n"));
    let shell = format!("git mktree < {}", scene.at("entry").display());
    let evil = scene.git(&["-c", &format!("alias.evil=!{shell}"), "evil"]).await;
    let commit = scene.git(&["commit-tree", "-m", "evil", "-p", &base, &evil]).await;
    let said = judge(&commit).await.unwrap_err();
    assert!(said.contains("hasDotgit") || said.contains("'.git'"), "{said}");
}
