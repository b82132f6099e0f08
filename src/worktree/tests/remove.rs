//! The end of worktrees.

use super::{Scene, write};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[tokio::test]
async fn a_removed_worktree_without_work_leaves_nothing() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    write(&worktree.path().join("untracked"), "x");
    let locked = worktree.path().join("read-only");
    write(&locked.join("file"), "x");
    fs::set_permissions(&locked, PermissionsExt::from_mode(0o555)).unwrap();
    let path = worktree.path().to_owned();
    worktree.remove().await.unwrap();
    assert!(!path.exists());
    assert!(!scene.repo().join(".git/worktrees").exists());
    assert_eq!(scene.count().await, 1);
    assert_eq!(scene.branches().await, "main");
}

#[tokio::test]
async fn a_branch_with_work_stays() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    write(&worktree.path().join("a"), "work\n");
    let tree = worktree.snapshot().await.unwrap();
    worktree.commit(&tree, "m").await.unwrap();
    worktree.remove().await.unwrap();
    assert_eq!(scene.branches().await, "job/w\nmain");
}

#[tokio::test]
async fn a_folder_that_the_agent_removed_is_struck_off() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    fs::remove_dir_all(worktree.path()).unwrap();
    worktree.remove().await.unwrap();
    assert_eq!(scene.count().await, 1);
    let worktree = scene.worktree("w").await;
    scene.git(&["worktree", "remove", "-f", "-f", &worktree.path().display().to_string()]).await;
    worktree.remove().await.unwrap();
    assert_eq!(scene.branches().await, "main");
}

#[tokio::test]
async fn a_branch_that_somebody_else_took_stays() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    scene.git_in(worktree.path(), &["checkout", "--quiet", "--detach"]).await;
    scene.git(&["checkout", "--quiet", "job/w"]).await;
    worktree.remove().await.unwrap();
    assert_eq!(scene.branches().await, "job/w\nmain");
    assert_eq!(scene.git(&["status", "--porcelain", "--branch"]).await, "## job/w");
}

#[tokio::test]
async fn an_unlocked_worktree_is_the_person_s() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    write(&worktree.path().join("a"), "work\n");
    write(&worktree.path().join("new"), "n\n");
    let tree = worktree.snapshot().await.unwrap();
    worktree.commit(&tree, "m").await.unwrap();
    let path = worktree.path().to_owned();
    worktree.unlock().await;
    assert_eq!(scene.git_in(&path, &["status", "--porcelain"]).await, "");
    let list = scene.git(&["worktree", "list", "--porcelain"]).await;
    assert!(!list.contains("locked"), "{list}");
    let admin = scene.repo().join(".git/worktrees/w");
    assert!(
        fs::read_dir(admin).unwrap().all(|entry| !entry.unwrap().file_name().to_string_lossy().starts_with("runner"))
    );
    scene.git(&["worktree", "remove", &path.display().to_string()]).await;
}
