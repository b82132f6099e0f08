//! Keeping the work.

use super::{Scene, Worktree, write};
use std::path::Path;

async fn commit(worktree: &Worktree) -> Option<String> {
    let tree = worktree.snapshot().await.unwrap();
    let commit = worktree.commit(&tree, "the work\n").await.unwrap()?;
    assert_eq!(commit.branch, "job/w");
    Some(commit.id)
}

async fn agent_commits(scene: &Scene, folder: &Path) -> String {
    scene.git_in(folder, &["add", "--all"]).await;
    scene.git_in(folder, &["commit", "--quiet", "-m", "agent"]).await;
    scene.git_in(folder, &["rev-parse", "HEAD"]).await
}

#[tokio::test]
async fn work_becomes_one_commit_on_the_branch() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    assert_eq!(commit(&worktree).await, None);
    write(&worktree.path().join("a"), "work\n");
    let id = commit(&worktree).await.unwrap();
    assert_eq!(scene.git(&["rev-parse", "job/w"]).await, id);
    assert_eq!(scene.git(&["log", "--format=%P %s", "-1", &id]).await, format!("{} the work", worktree.base()));
    assert_eq!(commit(&worktree).await, Some(id));
    let base = worktree.base().to_owned();
    assert_eq!(scene.git(&["rev-parse", "main"]).await, base);
}

#[tokio::test]
async fn b120_no_identity_and_a_signer_that_fails_are_no_hindrance() {
    let scene = Scene::new().await;
    for (key, value) in [("commit.gpgSign", "true"), ("gpg.program", "false"), ("user.name", ""), ("user.email", " ")] {
        scene.git(&["config", key, value]).await;
    }
    let worktree = scene.worktree("w").await;
    write(&worktree.path().join("a"), "work\n");
    let id = commit(&worktree).await.unwrap();
    let shown = scene.git(&["log", "-1", "--format=%an <%ae> %cn <%ce> %G?", &id]).await;
    assert_eq!(shown, "runner <runner@localhost> runner <runner@localhost> N");
}

#[tokio::test]
async fn the_person_s_identity_is_used() {
    let scene = Scene::new().await;
    scene.git(&["config", "user.name", "É Person"]).await;
    scene.git(&["config", "user.email", "p@example.org"]).await;
    let worktree = scene.worktree("w").await;
    write(&worktree.path().join("a"), "work\n");
    let id = commit(&worktree).await.unwrap();
    assert_eq!(scene.git(&["log", "-1", "--format=%an <%ae>", &id]).await, "É Person <p@example.org>");
}

#[tokio::test]
async fn an_author_may_be_named_and_a_branch_dropped() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    write(&worktree.path().join("a"), "work\n");
    let tree = worktree.snapshot().await.unwrap();
    for bad in ["nobody", "<>", "A <b"] {
        assert!(worktree.commit_by(&tree, "x", Some(bad)).await.unwrap_err().contains("Name <address>"), "{bad}");
    }
    let id = worktree.commit_by(&tree, "x", Some("A Bot <bot@example.org>")).await.unwrap().unwrap().id;
    let shown = scene.git(&["log", "-1", "--format=%an <%ae> %cn", &id]).await;
    assert!(shown.starts_with("A Bot <bot@example.org> "), "{shown}");
    assert!(!shown.ends_with("A Bot"), "the committer is git's own: {shown}");
    worktree.drop_branch().await;
    assert_eq!(scene.git(&["branch", "--list", "job/w"]).await.len(), "+ job/w".len(), "it is checked out");
    worktree.remove().await.unwrap();
    worktree.drop_branch().await;
    assert_eq!(scene.git(&["branch", "--list", "job/w"]).await, "");
}

#[tokio::test]
async fn what_the_agent_committed_is_kept_as_it_is() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    write(&worktree.path().join("a"), "work\n");
    let own = agent_commits(&scene, worktree.path()).await;
    assert_eq!(commit(&worktree).await, Some(own.clone()));
    write(&worktree.path().join("more"), "m\n");
    let id = commit(&worktree).await.unwrap();
    assert_eq!(scene.git(&["rev-parse", &format!("{id}^")]).await, own);
}

#[tokio::test]
async fn work_that_was_committed_and_taken_back_is_told_as_history() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    write(&worktree.path().join("a"), "work\n");
    let own = agent_commits(&scene, worktree.path()).await;
    write(&worktree.path().join("a"), "a\n");
    let id = commit(&worktree).await.unwrap();
    assert_eq!(scene.git(&["rev-parse", &format!("{id}^")]).await, own);
}

#[tokio::test]
async fn the_branch_gets_the_work_wherever_the_agent_went() {
    let scene = Scene::new().await;
    for (name, args) in [
        ("switched", &["checkout", "--quiet", "-b", "elsewhere"][..]),
        ("detached", &["checkout", "--quiet", "--detach"]),
        ("renamed", &["branch", "-m", "job/other"]),
    ] {
        let worktree = scene.worktree("w").await;
        scene.git_in(worktree.path(), args).await;
        write(&worktree.path().join("a"), name);
        agent_commits(&scene, worktree.path()).await;
        let id = commit(&worktree).await.unwrap();
        assert_eq!(scene.git(&["rev-parse", "job/w"]).await, id, "{name}");
        assert_eq!(scene.git(&["rev-parse", "job/w^"]).await, worktree.base(), "{name}");
        assert_eq!(scene.git(&["show", "job/w:a"]).await, name);
        worktree.remove().await.unwrap();
        scene.git(&["branch", "-D", "job/w"]).await;
    }
}

#[tokio::test]
async fn a_branch_reset_to_strange_history_gets_a_commit_on_the_base() {
    let scene = Scene::new().await;
    scene.commit_all("second").await;
    let worktree = scene.worktree("w").await;
    scene.git_in(worktree.path(), &["reset", "--hard", "--quiet", "HEAD~1"]).await;
    write(&worktree.path().join("a"), "work\n");
    let id = commit(&worktree).await.unwrap();
    assert_eq!(scene.git(&["rev-parse", &format!("{id}^")]).await, worktree.base());
    assert_eq!(scene.git(&["rev-parse", "job/w"]).await, id);
}

#[tokio::test]
async fn a_branch_reset_without_work_is_no_work() {
    let scene = Scene::new().await;
    scene.commit_all("second").await;
    let worktree = scene.worktree("w").await;
    scene.git_in(worktree.path(), &["reset", "--hard", "--quiet", "HEAD~1"]).await;
    assert_eq!(commit(&worktree).await, None);
}
