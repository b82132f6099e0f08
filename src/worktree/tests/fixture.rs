//! Repositories made from folders.

use super::{NewWorktree, Repository, Scene, Worktree, read, write};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_fixture_becomes_one_commit_with_all_that_counts() {
    let scene = Scene::empty().await;
    let folder = scene.at("fixture");
    write(&folder.join("run.sh"), "#!/bin/sh\n");
    fs::set_permissions(folder.join("run.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    write(&folder.join("text"), "one\r\ntwo\r\n");
    write(&folder.join(".hidden/é x"), "h");
    symlink("text", folder.join("link")).unwrap();
    symlink("/nowhere", folder.join("dangling")).unwrap();
    write(&folder.join(".gitignore"), "target\n");
    write(&folder.join("target/out"), "o");
    write(&folder.join("sub/.git/config"), "c");
    write(&folder.join("sub/file"), "f");
    let repository = Repository::from_fixture(&folder, &scene.at("fixture.git"), &scene.env).await.unwrap();
    assert_eq!(repository.notes(), [""; 0]);
    let base = repository.resolve("HEAD").unwrap();
    let again = Repository::from_fixture(&folder, &scene.at("second/fixture.git"), &scene.env).await.unwrap();
    assert_eq!(again.resolve("HEAD").unwrap(), base);
    let same = Repository::from_fixture(&folder, &scene.at("fixture.git"), &scene.env).await.unwrap();
    assert_eq!(same.resolve("HEAD").unwrap(), base);

    let (path, cancel) = (scene.at("w"), CancellationToken::new());
    let new = NewWorktree {
        path: &path,
        branch: "b",
        goes_on: false,
        base: &base,
        owner: "o",
        env: &scene.env,
        cancel: &cancel,
    };
    let worktree = Worktree::create(&repository, new).await.unwrap();
    let files = scene
        .git_in(worktree.path(), &["-c", "core.quotePath=false", "ls-files", "--format=%(objectmode) %(path)"])
        .await;
    insta::assert_snapshot!(files, @r"
    100644 .gitignore
    100644 .hidden/é x
    120000 dangling
    120000 link
    100755 run.sh
    100644 sub/file
    100644 text
    ");
    assert_eq!(read(&worktree.path().join("text")), "one\r\ntwo\r\n");
    assert_eq!(scene.git_in(worktree.path(), &["status", "--porcelain"]).await, "");
}

#[tokio::test]
async fn what_is_no_folder_is_refused() {
    let scene = Scene::empty().await;
    let error = Repository::from_fixture(&scene.at("absent"), &scene.at("f.git"), &scene.env).await.unwrap_err();
    assert!(error.ends_with("/absent is not a folder"), "{error}");
    assert!(!scene.at("f.git").exists());
}

#[tokio::test]
async fn an_empty_folder_is_an_empty_commit() {
    let scene = Scene::empty().await;
    fs::create_dir(scene.at("fixture")).unwrap();
    let repository = Repository::from_fixture(&scene.at("fixture"), &scene.at("f.git"), &scene.env).await.unwrap();
    assert!(repository.resolve("HEAD").is_ok());
}
