//! Work that is pushed, in one step and in two, to a real git server with a password; and work that is brought into a checkout.

use crate::case::{Case, Ran, until};
use crate::forge::Forge;
use crate::looping::{GATE, job, mend};
use crate::mock::{Mock, Script, text, tool};
use base64::Engine as _;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const USER: &str = "bot";
const SECRET: &str = "tok-3f9a-Not-For-Your-Eyes";

/// A repository that was cloned from the server, with one job against a model.
fn case(mock: &Mock, publish: &str) -> (Case, Forge) {
    scripted(mock, "mend a.txt, fixes #12 for @octocat", publish)
}

fn scripted(mock: &Mock, prompt: &str, publish: &str) -> (Case, Forge) {
    let case = Case::new(&[("a.txt", "one\n"), ("check.sh", "grep -q two a.txt\n")]);
    let root = case.outside().join("server");
    fs::create_dir_all(root.join("acme")).unwrap();
    fs::create_dir_all(case.outside().join("tmp")).unwrap();
    case.git_in(case.outside(), &["clone", "-q", "--bare", "repo", "server/acme/demo.git"]);
    let forge = Forge::start(&root, USER, SECRET);
    case.git_in(&forge.repository(), &["config", "http.receivepack", "true"]);
    case.git(&["remote", "add", "origin", &forge.url()]);
    let tmp = case.outside().join("tmp").display().to_string();
    let case = case
        .job("job", &job(mock, prompt, &format!("{GATE}\n[publish]\n{publish}\n")))
        .env("TMPDIR", tmp)
        .env("RUNNER_PUBLISH_USER", USER)
        .env("RUNNER_PUBLISH_API_URL", forge.api());
    (case, forge)
}

fn good() -> Mock {
    Mock::start(Script::calls([mend(), text("Done.")]))
}

fn publish(case: &Case, args: &[&str]) -> Ran {
    case.finish(case.command(&[&["publish"], args].concat()).spawn().unwrap())
}

/// The commit of a branch on the server.
fn pushed(case: &Case, forge: &Forge, branch: &str) -> String {
    case.git_in(&forge.repository(), &["for-each-ref", "--format=%(objectname)", &format!("refs/heads/{branch}")])
}

fn branches(case: &Case, forge: &Forge) -> String {
    case.git_in(&forge.repository(), &["for-each-ref", "--format=%(refname:short)"])
}

/// Every file below a folder that holds the secret, in any form that git or HTTP gives it.
fn with_secret(folder: &Path) -> Vec<PathBuf> {
    let header = base64::engine::general_purpose::STANDARD.encode(format!("{USER}:{SECRET}"));
    let needles = [SECRET.as_bytes(), header.as_bytes()];
    let (mut folders, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if let Ok(bytes) = fs::read(&path)
                && needles.iter().any(|needle| bytes.windows(needle.len()).any(|part| part == *needle))
            {
                found.push(path);
            }
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The command lines of all processes.
fn command_lines() -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let line = |entry: fs::DirEntry| {
        let bytes = fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&bytes).replace('\0', " "))
    };
    processes.filter_map(line).collect()
}

#[test]
fn a_job_that_passed_is_pushed_and_its_token_is_seen_nowhere() {
    let mock = good();
    let (case, forge) =
        case(&mock, "on_pass = \"push\"\ncommit_message = \"fix: {{ job }}\"\nauthor = \"A Bot <a@b.example>\"");
    let case = case.env("RUNNER_PUBLISH_TOKEN", SECRET);
    // What an agent could have written there must not matter.
    case.git(&["config", "credential.helper", "!echo password=stolen >&2"]);
    case.write(".git/hooks/pre-push", "#!/bin/sh\ntouch ../hook-ran\n");
    forge.with(|state| state.hold = true);
    let child = case.start();
    assert!(until(Duration::from_mins(1), || forge.with(|state| state.pushes > 0).then_some(())).is_some());
    let lines = command_lines();
    assert!(lines.iter().any(|line| line.contains("remote-http") && line.contains("acme/demo")), "the push is at work");
    let header = base64::engine::general_purpose::STANDARD.encode(format!("{USER}:{SECRET}"));
    assert!(!lines.iter().any(|line| line.contains(SECRET) || line.contains(&header)));
    assert_eq!(with_secret(case.outside()), [""; 0].map(PathBuf::from), "while it is pushed");
    forge.with(|state| state.hold = false);
    let ran = case.finish(child).expect(0);
    let result = ran.result("job");
    let (branch, commit) = (result["branch"].as_str().unwrap(), result["commit"].as_str().unwrap());
    assert_eq!(pushed(&case, &forge, branch), commit);
    let shown = case.git(&["log", "-1", "--format=%an <%ae> %s", commit]);
    assert_eq!(shown, "A Bot <a@b.example> fix: job");
    let published: Value = serde_json::from_str(&ran.file("jobs/job/published.json")).unwrap();
    assert_eq!((&published["commit"], &published["pull_request"]), (&result["commit"], &Value::Null));
    assert_eq!(with_secret(case.outside()), [""; 0].map(PathBuf::from), "afterwards");
    assert!(!ran.stderr.contains(SECRET) && ran.stderr.contains("pushed `runner/"), "{}", ran.stderr);
    assert!(!case.outside().join("hook-ran").exists() && !case.root().join("hook-ran").exists());
    assert!(forge.with(|state| state.pulls.is_empty()));
    assert_eq!(mock.breaches(), [""; 0]);
}

#[test]
fn no_tool_gate_or_setup_command_sees_a_token() {
    let look = "env | grep -c -e tok-3f9a -e RUNNER_PUBLISH_TOKEN -e GH_TOKEN > seen.txt; cat seen.txt";
    let mock = Mock::start(Script::calls([tool("Bash", json!({"command": look})), mend(), text("Done.")]));
    let more = "[worktree]\nsetup = [\"! env | grep tok-3f9a\"]\npass_env = [\"GH_TOKEN\", \"OTHER\", \"RUNNER_PUBLISH_TOKEN\"]\n";
    let (case, _forge) = case(&mock, "on_pass = \"push\"");
    let text = case.read("jobs/job.toml").replace("[publish]", &format!("{more}[publish]"));
    let text = text.replace("sh check.sh", "! env | grep tok-3f9a && sh check.sh");
    case.write("jobs/job.toml", text);
    let case = case.env("RUNNER_PUBLISH_TOKEN", SECRET).env("GH_TOKEN", SECRET).env("OTHER", SECRET);
    let ran = case.run().expect(0);
    let results = mock.requests()[1].results();
    assert_eq!(results[0].1.trim(), "0", "{results:?}");
    assert_eq!(ran.ending("job"), "passed completed completed");
}

#[test]
fn two_steps_the_second_with_the_token() {
    let mock = good();
    let (case, forge) = case(&mock, "on_pass = \"pull-request\"");
    let case = case.env("CI", "true");
    let ran = case.run().expect(0);
    assert!(ran.stderr.contains("left as a bundle"), "{}", ran.stderr);
    let digest = ran.stderr.lines().find_map(|line| line.strip_prefix("to publish: digest ")).unwrap().to_owned();
    assert_eq!(branches(&case, &forge), "main");
    let result = ran.result("job");
    let (branch, commit) = (result["branch"].as_str().unwrap(), result["commit"].as_str().unwrap());

    // Elsewhere: a fresh and shallow clone of what the server has, and the run's folder as an artifact.
    let run = case.outside().join("elsewhere/artifact/run");
    let address = format!("file://{}", forge.repository().display());
    case.git_in(case.outside(), &["clone", "-q", "--depth", "1", &address, "elsewhere"]);
    let there = case.outside().join("elsewhere");
    case.git_in(&there, &["remote", "set-url", "origin", &forge.url()]);
    copy(ran.folder.as_ref().unwrap(), &run);
    let case = case.env("RUNNER_PUBLISH_TOKEN", SECRET);
    let state = || (case.git_in(&there, &["for-each-ref"]), case.git_in(&there, &["count-objects", "-v"]));
    let before = state();
    let step = |args: &[&str]| {
        let mut command = case.command(&[&["publish"], args].concat());
        case.finish(command.current_dir(&there).spawn().unwrap())
    };
    let first = step(&["artifact/run", "--digest", &digest]).expect(0);
    assert!(
        first.stdout.starts_with(&format!("job  pushed  {branch}  https://forge.test/acme/demo/pull/1")),
        "{}",
        first.stdout
    );
    assert_eq!(pushed(&case, &forge, branch), commit);
    assert_eq!(state(), before, "nothing of it came into the repository");
    let pull = forge.with(|state| state.pulls[0].clone());
    assert_eq!((&pull["draft"], &pull["base"]["ref"]), (&json!(false), &json!("main")));
    let (title, body) = (pull["title"].as_str().unwrap(), pull["body"].as_str().unwrap());
    assert!(title.starts_with("job: mend a.txt"), "{title}");
    for word in ["#12", "@octocat"] {
        assert!(!body.contains(word) && !title.contains(word), "{word} is live in {title}\n{body}");
    }
    for word in ["**passed** (`completed`)", "| `check`: `sh check.sh` |  | pass |", &commit[..12]] {
        assert!(body.contains(word), "{word}\n{body}");
    }
    let record = fs::read_to_string(run.join("jobs/job/published.json")).unwrap();

    let second = step(&["artifact/run/job", "--digest", &digest]).expect(0);
    assert!(second.stdout.starts_with("job  up to date  "), "{}", second.stdout);
    assert_eq!(fs::read_to_string(run.join("jobs/job/published.json")).unwrap(), record);
    assert_eq!(forge.with(|state| state.pulls.len()), 1);
    assert_eq!(with_secret(case.outside()), [""; 0].map(PathBuf::from));
    assert_eq!(fs::read_dir(case.outside().join("tmp")).unwrap().count(), 0, "no quarantine stays");
}

#[test]
fn a_server_that_stumbles_is_asked_again_and_none_is_doubled() {
    let mock = good();
    let (case, forge) = case(&mock, "on_pass = \"pull-request\"");
    forge.with(|state| {
        state.failures = vec![(502, "Retry-After: 0\r\n"), (429, "Retry-After: 0\r\n"), (403, "Retry-After: 0\r\n")];
    });
    let ran = case.env("RUNNER_PUBLISH_TOKEN", SECRET).run().expect(0);
    assert!(ran.stderr.contains("pull request https://forge.test/acme/demo/pull/1"), "{}", ran.stderr);
    assert_eq!(forge.with(|state| state.pulls.len()), 1);
}

#[test]
fn what_was_changed_after_the_run_is_refused_and_nothing_is_pushed() {
    let mock = good();
    let (case, forge) = case(&mock, "on_pass = \"push\"");
    let case = case.env("RUNNER_PUBLISH", "later").env("RUNNER_PUBLISH_TOKEN", SECRET);
    let ran = case.run().expect(0);
    let digest = ran.stderr.lines().find_map(|line| line.strip_prefix("to publish: digest ")).unwrap().to_owned();
    let run = ran.folder.clone().unwrap();
    let change = |name: &str, from: &str, to: &str| {
        let path = run.join(name);
        let bytes = fs::read(&path).unwrap();
        let at = bytes.windows(from.len()).position(|part| part == from.as_bytes()).expect(from);
        let changed = [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat();
        fs::write(&path, changed).unwrap();
        (path, bytes)
    };
    for (name, from, to) in [
        ("jobs/job/work.bundle", "PACK", "PAKC"),
        ("jobs/job/diff.patch", "+two", "+six"),
        ("jobs/job/publish.json", "\"verdict\": \"passed\"", "\"verdict\": \"failed\""),
        ("jobs/job/publish.json", "\"branch\": \"runner/", "\"branch\": \"runner2/"),
        ("jobs/job/result.json", "\"model_calls\": 2", "\"model_calls\": 1"),
        ("publish.sha256", "jobs/job/work.bundle", "jobs/job/work.bundlf"),
    ] {
        let (path, old) = change(name, from, to);
        let refused = publish(&case, &["last", "--digest", &digest]).expect(1);
        assert!(
            refused.stderr.contains("changed since the run ended") && refused.stderr.contains("nothing was pushed"),
            "{name}: {}",
            refused.stderr
        );
        // Also by who knows no digest, as far as one file tells on another.
        publish(&case, &["last"]).expect(1);
        fs::write(path, old).unwrap();
    }
    let kept = fs::read(run.join("jobs/job/publish.json")).unwrap();
    fs::remove_file(run.join("jobs/job/publish.json")).unwrap();
    let refused = publish(&case, &["last", "--digest", &digest]).expect(1);
    assert!(refused.stderr.contains("taken away"), "{}", refused.stderr);
    fs::write(run.join("jobs/job/publish.json"), kept).unwrap();
    fs::rename(run.join("jobs/job/work.bundle"), run.join("moved")).unwrap();
    std::os::unix::fs::symlink(run.join("moved"), run.join("jobs/job/work.bundle")).unwrap();
    let refused = publish(&case, &["last", "--digest", &digest]).expect(1);
    assert!(refused.stderr.contains("no regular file"), "{}", refused.stderr);
    fs::remove_file(run.join("jobs/job/work.bundle")).unwrap();
    fs::rename(run.join("moved"), run.join("jobs/job/work.bundle")).unwrap();
    // What is written in the end must not be led elsewhere either.
    std::os::unix::fs::symlink("/nowhere", run.join("jobs/job/published.json")).unwrap();
    let refused = publish(&case, &["last", "--digest", &digest]).expect(1);
    assert!(refused.stderr.contains("published.json is no regular file"), "{}", refused.stderr);
    assert_eq!(branches(&case, &forge), "main");
    assert!(forge.with(|state| state.requests.is_empty()), "the server was not even asked");
}

#[test]
fn work_of_others_is_never_overwritten() {
    let mock = good();
    let (case, forge) = case(&mock, "on_pass = \"push\"");
    let ran = case.env("RUNNER_PUBLISH", "later").env("RUNNER_PUBLISH_TOKEN", SECRET);
    let (case, ran) = {
        let done = ran.run().expect(0);
        (ran, done)
    };
    let branch = ran.result("job")["branch"].as_str().unwrap().to_owned();
    // Somebody else has a branch of that name, with a commit of their own.
    let tree = case.git(&["rev-parse", "main^{tree}"]);
    let foreign = case.git_in(&forge.repository(), &["commit-tree", "-m", "theirs", &tree]);
    case.git_in(&forge.repository(), &["update-ref", &format!("refs/heads/{branch}"), &foreign]);
    let refused = publish(&case, &["last"]).expect(1);
    assert!(refused.stderr.contains("holds other work, which is not overwritten"), "{}", refused.stderr);
    assert_eq!(pushed(&case, &forge, &branch), foreign);
    assert!(!ran.folder.unwrap().join("jobs/job/published.json").exists());
}

#[test]
fn b178_a_server_that_says_no_costs_nothing_but_the_push() {
    let mock = good();
    let (case, forge) = case(&mock, "on_pass = \"push\"");
    let hook = forge.repository().join("hooks/pre-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\necho this branch is protected >&2\nexit 1\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let case = case.env("RUNNER_PUBLISH_TOKEN", SECRET);
    let ran = case.run().expect(0);
    assert!(ran.stderr.contains("this branch is protected") && ran.stderr.contains("runner publish"), "{}", ran.stderr);
    let result = ran.result("job");
    assert_eq!(result["verdict"], "passed");
    assert_eq!(case.git(&["rev-parse", result["branch"].as_str().unwrap()]), result["commit"].as_str().unwrap());
    publish(&case, &["last"]).expect(3);
    fs::remove_file(hook).unwrap();
    publish(&case, &["last"]).expect(0);
    let wrong = case.env("RUNNER_PUBLISH_TOKEN", "not-the-token-at-all");
    let denied = publish(&wrong, &["last"]).expect(3);
    assert!(
        denied.stderr.contains("is the token right") && !denied.stderr.contains("not-the-token"),
        "{}",
        denied.stderr
    );
}

#[test]
fn changes_that_act_unread_are_not_published_unless_allowed() {
    let write = tool("Write", json!({"file_path": ".github/workflows/ci.yml", "content": "on: push\n"}));
    let hide = tool("Bash", json!({"command": "printf 'a\\0b' > bin.dat; ln -s /etc/passwd out"}));
    let mock = Mock::start(Script::calls([mend(), write, hide, text("Done.")]));
    let (case, forge) = case(&mock, "on_pass = \"push\"");
    let case = case.env("RUNNER_PUBLISH_TOKEN", SECRET);
    let ran = case.run().expect(0);
    assert!(ran.stderr.contains(".github/workflows/ci.yml: protected"), "{}", ran.stderr);
    assert_eq!(branches(&case, &forge), "main");
    let refused = publish(&case, &["last", "--allow", ".github/**"]).expect(1);
    for word in ["bin.dat: a binary file", "out: a link that leads out of the repository (/etc/passwd)", "--allow"] {
        assert!(refused.stderr.contains(word), "{}", refused.stderr);
    }
    assert!(!refused.stderr.contains("protected:"), "{}", refused.stderr);
    publish(&case, &["last", "--allow", ".github/**", "--allow", "{bin.dat,out}", "--dry-run"]).expect(0);
    assert_eq!(branches(&case, &forge), "main");
    publish(&case, &["last", "--allow", ".github/**", "--allow", "{bin.dat,out}"]).expect(0);
    assert_eq!(branches(&case, &forge).lines().count(), 2);
    publish(&case, &["last", "--max-files", "1", "--allow", "**"]).expect(1);
    publish(&case, &["last", "--allow", "**", "--branches", "fix/*"]).expect(1);
}

#[test]
fn a_job_that_failed_is_published_on_demand_and_as_a_draft() {
    let mock =
        Mock::start(Script::calls([tool("Write", json!({"file_path": "b.txt", "content": "half\n"})), text("Done.")]));
    let (case, forge) = case(&mock, "on_pass = \"pull-request\"");
    let case = case.env("RUNNER_PUBLISH_TOKEN", SECRET);
    let ran = case.run().expect(1);
    assert_eq!(branches(&case, &forge), "main");
    let skipped = publish(&case, &["last"]).expect(0);
    assert!(skipped.stderr.contains("--include-failed"), "{}", skipped.stderr);
    publish(&case, &["last", "--include-failed"]).expect(0);
    let pull = forge.with(|state| state.pulls[0].clone());
    assert_eq!(pull["draft"], true);
    assert!(
        pull["title"].as_str().unwrap().starts_with(&format!("[{}]", ran.result("job")["reason"].as_str().unwrap()))
    );
}

#[test]
fn jobs_that_can_not_be_pushed_are_refused_before_they_cost_anything() {
    let mock = good();
    let (case, _forge) = case(&mock, "on_pass = \"push\"");
    case.git(&["remote", "remove", "origin"]);
    let ran = case.run().expect(2);
    assert!(ran.stderr.contains("no remote `origin`") && mock.requests().is_empty(), "{}", ran.stderr);
    case.git(&["remote", "add", "origin", "http://git.example.org/o/r"]);
    let case = case.env("RUNNER_PUBLISH_TOKEN", SECRET);
    let ran = case.run().expect(2);
    assert!(ran.stderr.contains("not encrypted"), "{}", ran.stderr);
    case.write("jobs/job.toml", "prompt = 'x'\n[publish]\non_pass = 'pull request'\nauthor = 'me'\n");
    let ran = case.run().expect(2);
    for word in ["pull-request", "author"] {
        assert!(ran.stderr.contains(word), "{}", ran.stderr);
    }
}

#[test]
fn work_that_shall_stay_a_patch_leaves_no_branch() {
    let mock = good();
    let (case, _forge) = case(&mock, "on_pass = \"none\"");
    let before = case.git(&["for-each-ref"]);
    let ran = case.run().expect(0);
    let result = ran.result("job");
    assert_eq!((&result["branch"], &result["commit"]), (&Value::Null, &Value::Null));
    assert_eq!(case.git(&["for-each-ref"]), before);
    assert!(ran.file("jobs/job/diff.patch").contains("+two"));
    assert!(publish(&case, &["last/job"]).expect(1).stderr.contains("left nothing to be published"));
    assert!(publish(&case, &["last"]).expect(0).stderr.contains("nothing to publish"));
}

#[test]
fn a_folder_is_pushed_to_without_a_token_and_a_workflow_is_told_the_digest() {
    let mock = Mock::start(Script::made(|request| if request.turn() == 1 { mend() } else { text("Done.") }));
    let (case, forge) = case(&mock, "on_pass = \"push\"");
    case.git(&["remote", "set-url", "origin", "../server/acme/demo.git"]);
    let now = case.run().expect(0);
    let branch = now.result("job")["branch"].as_str().unwrap().to_owned();
    assert_eq!(pushed(&case, &forge, &branch), now.result("job")["commit"].as_str().unwrap());

    let output = case.outside().join("output");
    let case = case.env("RUNNER_PUBLISH", "later").env("GITHUB_ACTIONS", "true");
    let case = case.env("GITHUB_OUTPUT", output.display().to_string());
    let later = case.run().expect(0);
    let branch = later.result("job")["branch"].as_str().unwrap().to_owned();
    assert_eq!(pushed(&case, &forge, &branch), "");
    let told = fs::read_to_string(output).unwrap();
    let digest = told.lines().find_map(|line| line.strip_prefix("publish-digest=")).expect(&told);
    publish(&case, &["last", "--digest", digest]).expect(0);
    assert_eq!(pushed(&case, &forge, &branch), later.result("job")["commit"].as_str().unwrap());
}

#[test]
fn a_remote_by_ssh_is_reached_as_the_person_reaches_it() {
    let mock = good();
    let (case, forge) = case(&mock, "on_pass = \"push\"");
    case.git(&["remote", "set-url", "origin", "git@nowhere.invalid:acme/demo.git"]);
    // Stands in for ssh: it runs what it is asked to on the other side.
    let other_side = case.outside().join("server");
    let ssh = case.outside().join("ssh");
    fs::write(&ssh, format!("#!/bin/sh\nfor last; do :; done\ncd {} && exec sh -c \"$last\"\n", other_side.display()))
        .unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    let case = case.env("GIT_SSH_COMMAND", ssh.display().to_string()).env("CI", "1");
    let ran = case.run().expect(0);
    let result = ran.result("job");
    assert_eq!(
        pushed(&case, &forge, result["branch"].as_str().unwrap()),
        result["commit"].as_str().unwrap(),
        "{}",
        ran.stderr
    );
}

fn apply(case: &Case, args: &[&str]) -> Ran {
    case.finish(case.command(&[&["apply"], args].concat()).spawn().unwrap())
}

#[test]
fn a_patch_is_applied_whole_or_not_at_all() {
    let work =
        "git mv old.txt new.txt && printf 'x\\0y' > bin.dat && chmod +x check.sh && rm gone.txt && ln -s a.txt link";
    let mock = Mock::start(Script::calls([mend(), tool("Bash", json!({"command": work})), text("Done.")]));
    let case = Case::new(&[
        ("a.txt", "one\n"),
        ("check.sh", "grep -q two a.txt\n"),
        ("old.txt", "moved\nas\nit\nis\n"),
        ("gone.txt", "x\n"),
        ("other.txt", "o\n"),
    ])
    .job("job", &job(&mock, "mend a.txt", GATE));
    let ran = case.run().expect(0);
    let branch = ran.result("job")["branch"].as_str().unwrap().to_owned();

    // Changes of one's own in the way: nothing is touched.
    case.write("a.txt", "mine\n");
    case.write("bin.dat", "mine too\n");
    let status = case.git(&["status", "--porcelain"]);
    let refused = apply(&case, &["last/job"]).expect(2);
    assert!(
        refused.stderr.contains("a.txt") && refused.stderr.contains("bin.dat") && refused.stderr.contains("stash"),
        "{}",
        refused.stderr
    );
    assert_eq!((case.git(&["status", "--porcelain"]), case.read("a.txt")), (status, "mine\n".into()));
    case.git(&["checkout", "-q", "a.txt"]);
    fs::remove_file(case.root().join("bin.dat")).unwrap();

    // Changes elsewhere are no hindrance, and stay.
    case.write("other.txt", "mine\n");
    let applied = apply(&case, &["last/job"]).expect(0);
    assert!(applied.stdout.contains("bin.dat") && applied.stdout.contains("new.txt"), "{}", applied.stdout);
    assert_eq!((case.read("a.txt"), case.read("other.txt")), ("two\n".into(), "mine\n".into()));
    assert_eq!(fs::read(case.root().join("bin.dat")).unwrap(), b"x\0y");
    assert!(!case.root().join("gone.txt").exists() && !case.root().join("old.txt").exists());
    case.git(&["checkout", "-q", "other.txt"]);
    case.git(&["add", "-A", "--", ".", ":!jobs"]);
    assert_eq!(case.git(&["diff", "--cached", &branch]), "", "it is what the job made");
    case.git(&["commit", "-q", "-m", "taken"]);
    let again = apply(&case, &["last/job"]);
    assert!(again.code == Some(0) && again.stderr.contains("already"), "{} {}", again.stdout, again.stderr);

    // What has moved on since conflicts, and nothing is half applied.
    case.git(&["reset", "-q", "--hard", "HEAD~1"]);
    case.write("a.txt", "three\n");
    case.git(&["commit", "-q", "-am", "moved on"]);
    let refused = apply(&case, &["last/job"]).expect(2);
    assert!(
        refused.stderr.contains("conflicts") && refused.stderr.contains("a.txt") && refused.stderr.contains("--branch"),
        "{}",
        refused.stderr
    );
    assert_eq!(case.git(&["status", "--porcelain"]), "?? jobs/");

    // The branch itself.
    apply(&case, &["last/job", "--branch"]).expect(0);
    assert_eq!(case.git(&["branch", "--show-current"]), branch);
    assert!(apply(&case, &["last"]).expect(2).stderr.contains("RUN/JOB"));
    assert!(apply(&case, &["last/nope"]).expect(2).stderr.contains("no job `nope`"));
}

#[test]
fn a_branch_that_is_gone_comes_back_from_its_bundle() {
    let mock = good();
    let (case, _forge) = case(&mock, "on_pass = \"push\"");
    let case = case.env("RUNNER_PUBLISH", "later");
    let ran = case.run().expect(0);
    let result = ran.result("job");
    let branch = result["branch"].as_str().unwrap();
    case.git(&["branch", "-D", "-q", branch]);
    case.git(&["reflog", "expire", "--expire=now", "--all"]);
    case.git(&["gc", "-q", "--prune=now"]);
    apply(&case, &["last/job", "--branch"]).expect(0);
    assert_eq!(case.git(&["rev-parse", "HEAD"]), result["commit"].as_str().unwrap());
    assert_eq!(case.read("a.txt"), "two\n");
}
