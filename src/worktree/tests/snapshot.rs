//! Taking the state of the files.

use super::{Scene, base_tree, read, write};
use std::fs;
use std::os::unix::fs::symlink;

#[tokio::test]
async fn a_snapshot_has_all_changes_and_leaves_the_agent_s_index_alone() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    let base = base_tree(&scene, &worktree).await;
    assert_eq!(worktree.snapshot().await.unwrap(), base);
    write(&worktree.path().join("a"), "staged\n");
    scene.git_in(worktree.path(), &["add", "a"]).await;
    write(&worktree.path().join("a"), "newer\n");
    write(&worktree.path().join("new/deep"), "n\n");
    fs::remove_file(worktree.path().join("src/b")).unwrap();
    let index = fs::read(worktree.admin.join("index")).unwrap();
    let tree = worktree.snapshot().await.unwrap();
    assert_eq!(fs::read(worktree.admin.join("index")).unwrap(), index);
    assert_eq!(worktree.changed_paths(&base, &tree).await.unwrap(), ["a", "new/deep", "src/b"]);
    let shown = scene.git(&["show", &format!("{}:a", tree.as_str())]).await;
    assert_eq!(shown, "newer");
    fs::remove_dir_all(worktree.path().join("new")).unwrap();
    let later = worktree.snapshot().await.unwrap();
    assert_eq!(worktree.changed_paths(&tree, &later).await.unwrap(), ["new/deep"]);
    let litter = fs::read_dir(&worktree.admin).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(litter.filter(|name| name.to_string_lossy().starts_with("runner-")).count(), 1);
}

#[tokio::test]
async fn flags_in_the_agent_s_index_hide_nothing() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    let base = base_tree(&scene, &worktree).await;
    scene.git_in(worktree.path(), &["update-index", "--assume-unchanged", "a"]).await;
    scene.git_in(worktree.path(), &["update-index", "--skip-worktree", "src/b"]).await;
    scene.git_in(worktree.path(), &["config", "core.ignoreStat", "true"]).await;
    write(&worktree.path().join("a"), "x\n");
    write(&worktree.path().join("src/b"), "y\n");
    let tree = worktree.snapshot().await.unwrap();
    assert_eq!(worktree.changed_paths(&base, &tree).await.unwrap(), ["a", "src/b"]);
}

#[tokio::test]
async fn a_change_in_the_second_of_a_snapshot_is_seen() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    for round in 0..20 {
        // Same size, so that only times can tell.
        write(&worktree.path().join("a"), &format!("{round:02}\n"));
        let tree = worktree.snapshot().await.unwrap();
        let shown = scene.git(&["show", &format!("{}:a", tree.as_str())]).await;
        assert_eq!(shown, format!("{round:02}"));
    }
}

#[tokio::test]
async fn b158_names_of_all_kinds_come_as_they_are() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    let names =
        ["\"quoted\" \\ back", "-dash", "line\nend", "tab\there", "ümlaut/é 1.txt", "文档/é 1.txt", ":(glob)x*", " "];
    for name in names {
        write(&worktree.path().join(name), name);
    }
    let base = base_tree(&scene, &worktree).await;
    let tree = worktree.snapshot().await.unwrap();
    let mut expected = names;
    expected.sort_unstable();
    assert_eq!(worktree.changed_paths(&base, &tree).await.unwrap(), expected);
}

#[tokio::test]
async fn a_renamed_file_is_two_paths_and_a_changed_kind_one() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    fs::rename(worktree.path().join("a"), worktree.path().join("z")).unwrap();
    fs::remove_file(worktree.path().join("src/b")).unwrap();
    symlink("../z", worktree.path().join("src/b")).unwrap();
    let base = base_tree(&scene, &worktree).await;
    let tree = worktree.snapshot().await.unwrap();
    assert_eq!(worktree.changed_paths(&base, &tree).await.unwrap(), ["a", "src/b", "z"]);
}

#[tokio::test]
async fn embedded_repositories_do_not_stop_a_snapshot() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    let base = base_tree(&scene, &worktree).await;
    write(&worktree.path().join("new"), "n\n");
    scene.git_in(worktree.path(), &["init", "--quiet", "empty"]).await;
    write(&worktree.path().join("empty/file"), "f\n");
    scene.git_in(worktree.path(), &["init", "--quiet", "full"]).await;
    scene.git_in(&worktree.path().join("full"), &["commit", "--quiet", "--allow-empty", "-m", "m"]).await;
    let tree = worktree.snapshot().await.unwrap();
    assert_eq!(worktree.changed_paths(&base, &tree).await.unwrap(), ["full", "new"]);
}

#[tokio::test]
async fn a_worktree_whose_git_file_is_gone_or_forged_is_still_read_from_its_own_folder() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    let base = base_tree(&scene, &worktree).await;
    write(&worktree.path().join("new"), "n\n");
    fs::remove_file(worktree.path().join(".git")).unwrap();
    let tree = worktree.snapshot().await.unwrap();
    assert_eq!(worktree.changed_paths(&base, &tree).await.unwrap(), ["new"]);
    scene.git_in(worktree.path(), &["init", "--quiet"]).await;
    assert_eq!(worktree.snapshot().await.unwrap(), tree);
}

#[tokio::test]
async fn b114_a_worktree_that_is_gone_or_replaced_is_told() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    let git_file = read(&worktree.path().join(".git"));
    fs::remove_file(worktree.path().join(".git")).unwrap();
    assert!(!worktree.intact().await);
    fs::write(worktree.path().join(".git"), &git_file).unwrap();
    assert!(worktree.intact().await);
    fs::write(worktree.path().join(".git"), format!("gitdir: {}/.git", scene.repo().display())).unwrap();
    assert!(!worktree.intact().await);
    fs::remove_dir_all(worktree.path()).unwrap();
    assert!(!worktree.intact().await);
    let error = worktree.snapshot().await.unwrap_err();
    assert!(error.ends_with("/w is gone"), "{error}");
    symlink(scene.repo(), worktree.path()).unwrap();
    assert!(!worktree.intact().await);
    assert!(worktree.snapshot().await.is_err());
    let before = read(&scene.repo().join("a"));
    let base = base_tree(&scene, &worktree).await;
    assert!(worktree.restore(&base, &["a".to_owned()]).await.is_err());
    assert_eq!(read(&scene.repo().join("a")), before);
}

#[tokio::test]
async fn objects_that_the_agent_threw_away_are_written_again() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    write(&worktree.path().join("new"), "n\n");
    let tree = worktree.snapshot().await.unwrap();
    scene.git_in(worktree.path(), &["gc", "--quiet", "--prune=now"]).await;
    assert!(!scene.try_git_in(worktree.path(), &["cat-file", "-e", tree.as_str()]).await.0);
    assert_eq!(worktree.snapshot().await.unwrap(), tree);
    assert_eq!(scene.git(&["show", &format!("{}:new", tree.as_str())]).await, "n");
}

#[tokio::test]
async fn pipes_and_sockets_are_passed_over() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    let base = base_tree(&scene, &worktree).await;
    let _socket = std::os::unix::net::UnixListener::bind(worktree.path().join("socket")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, worktree.path().join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    assert_eq!(worktree.snapshot().await.unwrap(), base);
}
