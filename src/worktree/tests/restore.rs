//! Putting paths back.

use super::{Scene, Worktree, base_tree, read, write};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

/// Restores what changed below `tests`, as a glob would pick it; gives back what still differs from the base.
async fn restore_tests(scene: &Scene, worktree: &Worktree) -> Vec<String> {
    let base = base_tree(scene, worktree).await;
    let tree = worktree.snapshot().await.unwrap();
    let changed = worktree.changed_paths(&base, &tree).await.unwrap();
    let protected: Vec<_> = changed.into_iter().filter(|path| path.starts_with("tests/")).collect();
    assert!(!protected.is_empty());
    worktree.restore(&base, &protected).await.unwrap();
    let tree = worktree.snapshot().await.unwrap();
    worktree.changed_paths(&base, &tree).await.unwrap()
}

#[tokio::test]
async fn changed_deleted_added_and_renamed_files_are_put_back() {
    let scene = Scene::new().await;
    for name in ["deleted", "renamed", "mode", "kind", "folder"] {
        scene.write(&format!("tests/{name}"), name);
    }
    scene.write("tests/deep/er/file", "f");
    scene.commit_all("more").await;
    let worktree = scene.worktree("w").await;
    let tests = worktree.path().join("tests");
    write(&tests.join("t"), "changed\n");
    write(&worktree.path().join("a"), "work\n");
    fs::remove_file(tests.join("deleted")).unwrap();
    fs::rename(tests.join("renamed"), tests.join("new name")).unwrap();
    fs::set_permissions(tests.join("mode"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::remove_file(tests.join("kind")).unwrap();
    symlink("../a", tests.join("kind")).unwrap();
    fs::remove_file(tests.join("folder")).unwrap();
    write(&tests.join("folder/inner/x"), "x");
    fs::remove_dir_all(tests.join("deep")).unwrap();
    write(&tests.join("deep"), "now a file");
    write(&tests.join("added/in/folders"), "x");
    write(&tests.join("*"), "not a glob");
    assert_eq!(restore_tests(&scene, &worktree).await, ["a"]);
    assert_eq!(read(&worktree.path().join("a")), "work\n");
    assert_eq!(read(&tests.join("t")), "t\n");
    assert!(!tests.join("added").exists());
    assert_eq!(fs::metadata(tests.join("mode")).unwrap().permissions().mode() & 0o111, 0);
}

#[tokio::test]
async fn nothing_is_done_through_a_link_in_place_of_a_protected_folder() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    let outside = scene.at("outside");
    write(&outside.join("t"), "outside\n");
    fs::remove_dir_all(worktree.path().join("tests")).unwrap();
    symlink(&outside, worktree.path().join("tests")).unwrap();
    assert_eq!(restore_tests(&scene, &worktree).await, [""; 0]);
    assert_eq!(read(&outside.join("t")), "outside\n");
    assert!(worktree.path().join("tests").symlink_metadata().unwrap().is_dir());
}

#[tokio::test]
async fn an_added_path_behind_a_link_is_not_deleted_outside() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    let outside = scene.at("outside");
    write(&outside.join("file"), "outside\n");
    symlink(&outside, worktree.path().join("link")).unwrap();
    let base = base_tree(&scene, &worktree).await;
    worktree.restore(&base, &["link/file".to_owned()]).await.unwrap();
    assert_eq!(read(&outside.join("file")), "outside\n");
    worktree.restore(&base, &["link".to_owned()]).await.unwrap();
    assert!(worktree.path().join("link").symlink_metadata().is_err());
    assert_eq!(read(&outside.join("file")), "outside\n");
}

#[tokio::test]
async fn an_embedded_repository_among_protected_files_goes() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    scene.git_in(worktree.path(), &["init", "--quiet", "tests/inner"]).await;
    let inner = worktree.path().join("tests/inner");
    write(&inner.join("file"), "f");
    scene.git_in(&inner, &["add", "--all"]).await;
    scene.git_in(&inner, &["commit", "--quiet", "-m", "m"]).await;
    assert_eq!(restore_tests(&scene, &worktree).await, [""; 0]);
    assert!(!inner.exists());
}

#[tokio::test]
async fn names_that_are_not_utf8_are_found_again() {
    let scene = Scene::new().await;
    let named = |bytes: &'static [u8]| OsStr::from_bytes(bytes);
    let folder = scene.repo().join("tests").join(named(b"d\xff"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join(named(b"f\xfe")), "old").unwrap();
    scene.commit_all("bytes").await;
    let worktree = scene.worktree("w").await;
    let folder = worktree.path().join("tests").join(named(b"d\xff"));
    fs::write(folder.join(named(b"f\xfe")), "new").unwrap();
    fs::write(folder.join(named(b"g\xfd")), "added").unwrap();
    assert_eq!(restore_tests(&scene, &worktree).await, [""; 0]);
    assert_eq!(read(&folder.join(named(b"f\xfe"))), "old");
    assert!(!folder.join(named(b"g\xfd")).exists());
}

#[tokio::test]
async fn paths_that_leave_the_worktree_are_refused() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    let base = base_tree(&scene, &worktree).await;
    for path in ["", "../x", "/etc/x", ".git", "tests/../../x", "./a"] {
        let error = worktree.restore(&base, &[path.to_owned()]).await.unwrap_err();
        assert_eq!(error, format!("`{path}` is not a path in a worktree"));
    }
    worktree.restore(&base, &[]).await.unwrap();
}
