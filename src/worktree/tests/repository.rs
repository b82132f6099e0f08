//! Finding a repository, and what it says of itself.

use super::{Repository, Scene, write};

#[tokio::test]
async fn a_repository_is_found_from_a_folder_inside() {
    let scene = Scene::new().await;
    let repository = Repository::discover(&scene.repo().join("src")).await.unwrap();
    assert_eq!(repository.root(), scene.repo().canonicalize().unwrap());
    assert_eq!(repository.common_dir(), repository.root().join(".git"));
    assert_eq!(repository.notes(), [""; 0]);
    let head = scene.git(&["rev-parse", "HEAD"]).await;
    for base in ["HEAD", "main", &head[..10], "refs/heads/main"] {
        assert_eq!(repository.resolve(base).unwrap(), head);
    }
}

#[tokio::test]
async fn a_linked_worktree_is_its_own_root_with_its_own_head() {
    let scene = Scene::new().await;
    scene.git(&["worktree", "add", "--quiet", "-b", "side", "../side"]).await;
    scene.git_in(&scene.at("side"), &["commit", "--quiet", "--allow-empty", "-m", "more"]).await;
    let repository = Repository::discover(&scene.at("side")).await.unwrap();
    assert_eq!(repository.root(), scene.at("side").canonicalize().unwrap());
    assert_eq!(repository.common_dir(), scene.repo().join(".git").canonicalize().unwrap());
    assert_eq!(repository.resolve("HEAD").unwrap(), scene.git(&["rev-parse", "side"]).await);
}

#[tokio::test]
async fn a_bare_repository_is_its_own_root() {
    let scene = Scene::new().await;
    scene.git(&["clone", "--quiet", "--bare", ".", "../bare"]).await;
    let repository = Repository::discover(&scene.at("bare")).await.unwrap();
    assert_eq!(repository.root(), scene.at("bare").canonicalize().unwrap());
    assert!(repository.resolve("main").is_ok());
}

#[tokio::test]
async fn what_is_not_there_is_said_in_words() {
    let scene = Scene::empty().await;
    let home = scene.at("home");
    let error = Repository::discover(&home).await.unwrap_err();
    assert!(error.starts_with(&format!("there is no git repository at {}", home.display())), "{error}");
    let error = Repository::discover(&scene.at("absent")).await.unwrap_err();
    assert!(error.ends_with("/absent does not exist"), "{error}");
    let error = scene.discover().await.resolve("HEAD").unwrap_err();
    assert!(error.contains("has no commit yet"), "{error}");
}

#[tokio::test]
async fn a_name_without_a_commit_is_refused_with_a_hint() {
    let scene = Scene::new().await;
    let repository = scene.discover().await;
    let error = repository.resolve("nope").unwrap_err();
    assert!(error.starts_with("`nope` names no commit in the repository "), "{error}");
    let error = repository.resolve("HEAD:a").unwrap_err();
    assert!(error.starts_with("`HEAD:a` names no commit"), "{error}");
    scene.git(&["update-ref", "refs/remotes/origin/topic", "HEAD"]).await;
    let error = repository.resolve("topic").unwrap_err();
    assert!(error.ends_with("; there is `origin/topic`"), "{error}");
}

#[tokio::test]
async fn notes_tell_what_the_base_lacks() {
    let scene = Scene::new().await;
    scene.write("a", "changed\n");
    assert_eq!(
        scene.discover().await.notes(),
        ["the checkout has 1 uncommitted change, which is not part of the base"]
    );
    scene.write("new/one", "");
    scene.write(".gitmodules", "");
    let notes = scene.discover().await.notes();
    assert_eq!(notes[0], "the checkout has 3 uncommitted changes, which are not part of the base");
    assert_eq!(notes[1], "submodules stay empty in worktrees unless `setup` fills them");
}

#[tokio::test]
async fn b118_a_shallow_clone_is_noted_and_works() {
    let scene = Scene::new().await;
    scene.commit_all("second").await;
    let url = format!("file://{}", scene.repo().display());
    scene.git(&["clone", "--quiet", "--depth=1", &url, "../shallow"]).await;
    scene.git_in(&scene.at("shallow"), &["checkout", "--quiet", "--detach"]).await;
    let repository = Repository::discover(&scene.at("shallow")).await.unwrap();
    assert_eq!(repository.notes(), ["the clone is shallow: older history is not there"]);
    let base = repository.resolve("HEAD").unwrap();
    let cancel = tokio_util::sync::CancellationToken::new();
    let path = scene.at("worktrees/w");
    let new = super::NewWorktree {
        path: &path,
        branch: "job/w",
        goes_on: false,
        base: &base,
        owner: "runner r/w pid 1",
        env: &scene.env,
        cancel: &cancel,
    };
    let worktree = super::Worktree::create(&repository, new).await.unwrap();
    write(&worktree.path().join("a"), "changed\n");
    let tree = worktree.snapshot().await.unwrap();
    assert!(worktree.commit(&tree, "work").await.unwrap().is_some());
    worktree.write_patch(&tree, &scene.at("p.patch")).await.unwrap();
    assert!(super::read(&scene.at("p.patch")).contains("+changed"));
    let error = repository.resolve("HEAD~1").unwrap_err();
    assert!(error.contains("the clone is shallow"), "{error}");
}
