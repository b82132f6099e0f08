//! Patches that reproduce the work.

use super::{Scene, write};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

#[tokio::test]
async fn a_patch_applied_to_the_base_gives_the_tree() {
    let scene = Scene::new().await;
    scene.write("binary", "\0\u{1}\u{2}");
    scene.write("crlf", "one\r\ntwo\r\n");
    scene.write("文档/é 1.txt", "x\n");
    scene.commit_all("more").await;
    for (key, value) in [
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("diff.external", "false"),
        ("color.ui", "always"),
        ("core.pager", "false"),
        ("diff.txt.textconv", "false"),
        ("diff.context", "0"),
    ] {
        scene.git(&["config", key, value]).await;
    }
    let worktree = scene.worktree("w").await;
    let path = worktree.path();
    write(&path.join(".gitattributes"), "*.txt diff=txt\n");
    fs::write(path.join("binary"), b"\0\xff\xfe").unwrap();
    write(&path.join("crlf"), "one\r\n2\r\n");
    write(&path.join("文档/é 1.txt"), "y\n");
    write(&path.join("new \"x\"\nline"), "no end of line");
    fs::remove_file(path.join("src/b")).unwrap();
    fs::rename(path.join("a"), path.join("moved")).unwrap();
    fs::set_permissions(path.join("tests/t"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink("nowhere", path.join("link")).unwrap();
    write(&path.join("empty"), "");
    let tree = worktree.snapshot().await.unwrap();
    let file = scene.at("out/diff.patch");
    worktree.write_patch(&tree, &file).await.unwrap();
    assert_eq!(fs::read_dir(scene.at("out")).unwrap().count(), 1);

    scene.git(&["worktree", "add", "--quiet", "--detach", "../clean"]).await;
    let clean = scene.at("clean");
    scene.git_in(&clean, &["apply", "--index", &file.display().to_string()]).await;
    assert_eq!(scene.git_in(&clean, &["write-tree"]).await, tree.as_str());
}

#[tokio::test]
async fn no_change_is_an_empty_file() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    let tree = worktree.snapshot().await.unwrap();
    worktree.write_patch(&tree, &scene.at("p")).await.unwrap();
    assert_eq!(fs::read(scene.at("p")).unwrap(), b"");
}

#[tokio::test]
async fn a_patch_needs_no_folder() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    write(&worktree.path().join("a"), "work\n");
    let tree = worktree.snapshot().await.unwrap();
    fs::remove_dir_all(worktree.path()).unwrap();
    worktree.write_patch(&tree, &scene.at("p")).await.unwrap();
    assert!(fs::read_to_string(scene.at("p")).unwrap().contains("+work"));
}
