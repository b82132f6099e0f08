//! Making worktrees, and taking failed ones back.

use super::{NewWorktree, Repository, Scene, Worktree, contents, read, write};
use std::fs;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_worktree_has_the_files_and_a_locked_branch_of_its_own() {
    let scene = Scene::new().await;
    let worktree = scene.worktree("w").await;
    assert_eq!(worktree.path(), scene.at("worktrees").canonicalize().unwrap().join("w"));
    assert_eq!(read(&worktree.path().join("src/b")), "b\n");
    assert_eq!(scene.git_in(worktree.path(), &["status", "--porcelain", "--branch"]).await, "## job/w");
    assert_eq!(scene.git_in(worktree.path(), &["rev-parse", "HEAD"]).await, worktree.base());
    let list = scene.git(&["worktree", "list", "--porcelain"]).await;
    assert!(list.contains(&format!("locked runner r1/w pid {}", std::process::id())), "{list}");
    assert!(worktree.intact().await);
}

#[tokio::test]
async fn the_checkout_of_the_person_stays_as_it_is() {
    let scene = Scene::new().await;
    scene.write("a", "not committed\n");
    scene.write("untracked", "x");
    scene.git(&["add", "a"]).await;
    let before = contents(&scene.repo());
    let worktree = scene.worktree("w").await;
    assert_eq!(read(&worktree.path().join("a")), "a\n");
    assert!(!worktree.path().join("untracked").exists());
    write(&worktree.path().join("a"), "work\n");
    let tree = worktree.snapshot().await.unwrap();
    worktree.restore(&tree, &["a".to_owned()]).await.unwrap();
    worktree.commit(&tree, "work").await.unwrap();
    worktree.remove().await.unwrap();
    let after = contents(&scene.repo());
    let git = scene.repo().join(".git");
    for (path, bytes) in &before {
        assert_eq!(after.get(path), Some(bytes), "{}", path.display());
    }
    let new = after.keys().filter(|path| !before.contains_key(*path) && !path.starts_with(git.join("objects")));
    let new: Vec<_> = new.map(|path| path.strip_prefix(&git).unwrap().display().to_string()).collect();
    assert_eq!(new, ["logs/refs/heads/job/w", "refs/heads/job/w", "runner-worktrees.lock"]);
}

#[tokio::test]
async fn bases_of_all_kinds_do() {
    let scene = Scene::new().await;
    scene.git(&["checkout", "--quiet", "--detach"]).await;
    scene.worktree("detached").await;
    scene.git(&["clone", "--quiet", "--bare", ".", "../bare"]).await;
    let repository = Repository::discover(&scene.at("bare")).await.unwrap();
    let base = repository.resolve("main").unwrap();
    let (path, cancel) = (scene.at("worktrees/bare"), CancellationToken::new());
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
    write(&worktree.path().join("new"), "");
    let tree = worktree.snapshot().await.unwrap();
    assert!(worktree.commit(&tree, "m").await.unwrap().is_some());
    worktree.remove().await.unwrap();
    assert!(!path.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b099_sixteen_at_once_from_a_tracked_branch() {
    let scene = Scene::new().await;
    scene.git(&["config", "branch.autoSetupMerge", "always"]).await;
    scene.git(&["remote", "add", "origin", "."]).await;
    scene.git(&["fetch", "--quiet", "origin"]).await;
    let before = read(&scene.repo().join(".git/config"));
    let repository = scene.discover().await;
    let base = repository.resolve("origin/main").unwrap();
    let cancel = CancellationToken::new();
    let names: Vec<_> =
        (0..16).map(|number| (scene.at(&format!("worktrees/{number}")), format!("job/{number}"))).collect();
    let all = names.iter().map(|(path, branch)| {
        let new = NewWorktree {
            path,
            branch,
            goes_on: false,
            base: &base,
            owner: "runner r/x pid 1",
            env: &scene.env,
            cancel: &cancel,
        };
        Worktree::create(&repository, new)
    });
    let made = futures_util::future::join_all(all).await;
    for worktree in made {
        assert!(worktree.unwrap().intact().await);
    }
    assert_eq!(scene.count().await, 17);
    assert_eq!(read(&scene.repo().join(".git/config")), before);
}

#[tokio::test]
async fn b100_a_lock_that_somebody_holds_on_the_configuration_does_no_harm() {
    let scene = Scene::new().await;
    fs::write(scene.repo().join(".git/config.lock"), "").unwrap();
    let worktree = scene.worktree("w").await;
    worktree.remove().await.unwrap();
    assert_eq!(scene.branches().await, "main");
}

#[tokio::test]
async fn b100_what_fails_leaves_nothing() {
    let scene = Scene::new().await;
    // The checkout fails after the registration: the filter is required and fails.
    scene.write(".gitattributes", "a filter=broken\n");
    scene.commit_all("attributes").await;
    scene.git(&["config", "filter.broken.smudge", "false"]).await;
    scene.git(&["config", "filter.broken.required", "true"]).await;
    let error = scene.try_worktree("w", "job/w").await.unwrap_err();
    assert!(error.contains("smudge filter broken failed"), "{error}");
    assert_eq!(scene.branches().await, "main");
    assert_eq!(scene.count().await, 1);
    assert!(!scene.at("worktrees/w").exists());
    scene.git(&["config", "filter.broken.smudge", "cat"]).await;
    scene.worktree("w").await;
}

#[tokio::test]
async fn a_cancelled_one_leaves_nothing() {
    let scene = Scene::new().await;
    let repository = scene.discover().await;
    let base = repository.resolve("HEAD").unwrap();
    let (path, cancel) = (scene.at("worktrees/w"), CancellationToken::new());
    cancel.cancel();
    let new = NewWorktree {
        path: &path,
        branch: "b",
        goes_on: false,
        base: &base,
        owner: "o",
        env: &scene.env,
        cancel: &cancel,
    };
    assert_eq!(Worktree::create(&repository, new).await.unwrap_err(), "cancelled");
    assert!(!path.exists());
    assert_eq!(scene.branches().await, "main");
}

/// The number of a process that is dead.
fn dead() -> u32 {
    let mut child = {
        #[expect(clippy::disallowed_methods, reason = "a number that was in use is all that is wanted")]
        std::process::Command::new("true").spawn().unwrap()
    };
    child.wait().unwrap();
    child.id()
}

#[tokio::test]
async fn b101_left_overs_of_a_killed_run_are_struck_off() {
    let scene = Scene::new().await;
    let owner = format!("runner r0/w pid {}", dead());
    let old = scene.owned_worktree("w", "fixed", &owner).await.unwrap();
    fs::remove_dir_all(old.path()).unwrap();
    let again = scene.try_worktree("w", "fixed").await.unwrap();
    assert!(again.intact().await);
    assert_eq!(scene.count().await, 2);
}

#[tokio::test]
async fn b101_worktrees_of_the_living_and_folders_with_work_stay() {
    let scene = Scene::new().await;
    let alive = scene.worktree("alive").await;
    fs::remove_dir_all(alive.path()).unwrap();
    let owner = format!("runner r0/kept pid {}", dead());
    let kept = scene.owned_worktree("kept", "kept", &owner).await.unwrap();
    scene.worktree("third").await;
    assert_eq!(scene.count().await, 4);
    assert!(kept.intact().await);
    let error = scene.try_worktree("kept", "other").await.unwrap_err();
    assert!(error.ends_with("/kept exists already and is not empty"), "{error}");
    assert!(kept.intact().await);
}

#[tokio::test]
async fn b101_a_process_number_that_is_ours_now_was_another_run_s() {
    let scene = Scene::new().await;
    let owner = format!("runner r0/w pid {}", std::process::id());
    let old = scene.owned_worktree("w", "fixed", &owner).await.unwrap();
    fs::remove_dir_all(old.path()).unwrap();
    scene.try_worktree("w2", "fixed").await.unwrap();
}

#[tokio::test]
async fn b101_work_on_the_branch_of_a_killed_run_stays() {
    let scene = Scene::new().await;
    let owner = format!("runner r0/w pid {}", dead());
    let old = scene.owned_worktree("w", "fixed", &owner).await.unwrap();
    scene.git_in(old.path(), &["commit", "--quiet", "--allow-empty", "-m", "work"]).await;
    fs::remove_dir_all(old.path()).unwrap();
    let error = scene.try_worktree("w", "fixed").await.unwrap_err();
    assert!(error.starts_with("the branch `fixed` exists already: "), "{error}");
}

#[tokio::test]
async fn b102_an_empty_folder_is_used_and_a_full_one_refused() {
    let scene = Scene::new().await;
    fs::create_dir_all(scene.at("worktrees/w")).unwrap();
    scene.worktree("w").await;
    write(&scene.at("worktrees/full/precious"), "p");
    let error = scene.try_worktree("full", "job/full").await.unwrap_err();
    assert!(error.ends_with("worktrees/full exists already and is not empty"), "{error}");
    assert_eq!(read(&scene.at("worktrees/full/precious")), "p");
    write(&scene.at("worktrees/file"), "f");
    assert!(scene.try_worktree("file", "job/file").await.is_err());
    assert_eq!(read(&scene.at("worktrees/file")), "f");
    assert_eq!(scene.branches().await, "job/w\nmain");
}

#[tokio::test]
async fn b103_a_branch_that_exists_is_refused_and_its_holder_named() {
    let scene = Scene::new().await;
    let error = scene.try_worktree("w", "main").await.unwrap_err();
    let root = scene.repo().canonicalize().unwrap();
    assert!(
        error.starts_with(&format!("the branch `main` exists already and is checked out in {}:", root.display())),
        "{error}"
    );
    scene.git(&["worktree", "add", "--quiet", "-b", "side", "../side"]).await;
    let error = scene.try_worktree("w", "side").await.unwrap_err();
    assert!(error.contains("/side: delete it"), "{error}");
    scene.git(&["branch", "free"]).await;
    let error = scene.try_worktree("w", "free").await.unwrap_err();
    assert!(error.starts_with("the branch `free` exists already: delete it"), "{error}");
    let error = scene.try_worktree("w", "free/below").await.unwrap_err();
    assert!(error.contains("free"), "{error}");
    let error = scene.try_worktree("w", "a..b").await.unwrap_err();
    assert_eq!(error, "`a..b` cannot be the name of a branch");
    assert_eq!(scene.branches().await, "free\nmain\nside");
    assert_eq!(scene.count().await, 2);
    assert!(!scene.at("worktrees/w").exists());
}

#[tokio::test]
async fn b110_git_lfs_that_is_missing_leaves_pointers_and_a_note() {
    let scene = Scene::new().await;
    scene.write("big", "pointer\n");
    scene.commit_all("big").await;
    scene.write(".gitattributes", "big filter=lfs\n");
    scene.commit_all("attributes").await;
    for (key, value) in
        [("process", "git-lfs-absent filter-process"), ("smudge", "git-lfs-absent"), ("required", "true")]
    {
        scene.git(&["config", &format!("filter.lfs.{key}"), value]).await;
    }
    let bin = scene.at("bin");
    fs::create_dir(&bin).unwrap();
    let git = super::path().split(':').map(|dir| std::path::Path::new(dir).join("git")).find(|file| file.is_file());
    std::os::unix::fs::symlink(git.unwrap(), bin.join("git")).unwrap();
    let mut env = scene.env.clone();
    env.set("PATH", bin.display().to_string());
    let repository = scene.discover().await;
    let base = repository.resolve("HEAD").unwrap();
    let (path, cancel) = (scene.at("worktrees/w"), CancellationToken::new());
    let new =
        NewWorktree { path: &path, branch: "b", goes_on: false, base: &base, owner: "o", env: &env, cancel: &cancel };
    let worktree = Worktree::create(&repository, new).await.unwrap();
    assert_eq!(read(&worktree.path().join("big")), "pointer\n");
    write(&worktree.path().join("big"), "other\n");
    worktree.snapshot().await.unwrap();
    assert_eq!(repository.notes(), ["the program `git-lfs` is missing, so files in Git LFS stay pointers"]);
}

#[tokio::test]
async fn b115_b116_relative_links_and_sparse_checkouts_work() {
    let scene = Scene::new().await;
    scene.git(&["config", "worktree.useRelativePaths", "true"]).await;
    scene.git(&["sparse-checkout", "set", "src"]).await;
    let worktree = scene.worktree("w").await;
    assert!(worktree.path().join("src/b").exists());
    assert!(!worktree.path().join("tests").exists());
    write(&worktree.path().join("src/b"), "changed\n");
    write(&worktree.path().join("other/new"), "n\n");
    let base = super::base_tree(&scene, &worktree).await;
    let tree = worktree.snapshot().await.unwrap();
    assert_eq!(worktree.changed_paths(&base, &tree).await.unwrap(), ["other/new", "src/b"]);
    assert!(worktree.intact().await);
}

#[tokio::test]
async fn b121_hooks_of_the_repository_do_not_run() {
    let scene = Scene::new().await;
    for name in
        ["post-checkout", "pre-commit", "post-commit", "commit-msg", "reference-transaction", "post-index-change"]
    {
        let hook = scene.repo().join(".git/hooks").join(name);
        write(&hook, &format!("#!/bin/sh\ntouch {}/ran-{name}\nexit 1\n", scene.folder.path().display()));
        fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let worktree = scene.worktree("w").await;
    write(&worktree.path().join("a"), "work\n");
    let tree = worktree.snapshot().await.unwrap();
    assert!(worktree.commit(&tree, "work").await.unwrap().is_some());
    worktree.unlock().await;
    let ran: Vec<_> = fs::read_dir(scene.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(ran.iter().all(|name| !name.to_string_lossy().starts_with("ran-")), "{ran:?}");
}

#[tokio::test]
async fn one_that_is_cancelled_during_the_checkout_leaves_nothing() {
    let scene = Scene::new().await;
    scene.write(".gitattributes", "a filter=slow\n");
    scene.commit_all("attributes").await;
    let marker = scene.at("began");
    scene.git(&["config", "filter.slow.smudge", &format!("touch '{}'; exec sleep 1000", marker.display())]).await;
    let repository = scene.discover().await;
    let base = repository.resolve("HEAD").unwrap();
    let (path, cancel) = (scene.at("worktrees/w"), CancellationToken::new());
    let new = NewWorktree {
        path: &path,
        branch: "b",
        goes_on: false,
        base: &base,
        owner: "o",
        env: &scene.env,
        cancel: &cancel,
    };
    let cancelling = async {
        while !marker.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (made, ()) = tokio::join!(Worktree::create(&repository, new), cancelling);
    assert_eq!(made.unwrap_err(), "`git reset` was cancelled");
    assert!(!path.exists());
    assert_eq!(scene.branches().await, "main");
    assert_eq!(scene.count().await, 1);
}

#[tokio::test]
async fn b108_a_submodule_stays_empty_and_can_be_a_repository_itself() {
    let scene = Scene::new().await;
    scene.git(&["clone", "--quiet", ".", "../library"]).await;
    scene.git(&["submodule", "--quiet", "add", "../library", "lib"]).await;
    scene.commit_all("submodule").await;
    let worktree = scene.worktree("w").await;
    assert_eq!(fs::read_dir(worktree.path().join("lib")).unwrap().count(), 0);
    let base = super::base_tree(&scene, &worktree).await;
    assert_eq!(worktree.snapshot().await.unwrap(), base);
    scene.git_in(worktree.path(), &["submodule", "--quiet", "update", "--init"]).await;
    assert_eq!(worktree.snapshot().await.unwrap(), base);
    worktree.remove().await.unwrap();

    let repository = Repository::discover(&scene.repo().join("lib")).await.unwrap();
    let base = repository.resolve("HEAD").unwrap();
    let (path, cancel) = (scene.at("worktrees/lib"), CancellationToken::new());
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
    write(&worktree.path().join("a"), "work\n");
    let tree = worktree.snapshot().await.unwrap();
    assert!(worktree.commit(&tree, "m").await.unwrap().is_some());
    assert_eq!(scene.git(&["status", "--porcelain"]).await, "");
}

#[tokio::test]
async fn a_registration_lock_that_is_held_is_waited_for() {
    let scene = Scene::new().await;
    let held = fs::File::create(scene.repo().join(".git/runner-worktrees.lock")).unwrap();
    held.lock().unwrap();
    let making = scene.worktree("w");
    let mut making = std::pin::pin!(making);
    let early = tokio::time::timeout(std::time::Duration::from_millis(300), &mut making).await;
    assert!(early.is_err());
    assert_eq!(scene.count().await, 1);
    drop(held);
    assert!(making.await.intact().await);
}

#[tokio::test]
async fn git_that_is_missing_is_named() {
    let scene = Scene::new().await;
    let repository = scene.discover().await;
    let base = repository.resolve("HEAD").unwrap();
    let mut env = scene.env.clone();
    env.set("PATH", scene.at("home").display().to_string());
    let (path, cancel) = (scene.at("worktrees/w"), CancellationToken::new());
    let new =
        NewWorktree { path: &path, branch: "b", goes_on: false, base: &base, owner: "o", env: &env, cancel: &cancel };
    let error = Worktree::create(&repository, new).await.unwrap_err();
    assert_eq!(error, "the program `git` is missing: it is not in PATH");
}
