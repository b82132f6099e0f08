//! The runner judges, not the model: gates, the base, protected paths, what reports make of hostile output.

use crate::case::Case;
use crate::looping::{GATE, case, job, mend};
use crate::mock::{Mock, Script, message, text, tool};
use serde_json::{Value, json};

#[test]
fn b098_the_models_word_does_not_count() {
    let mock = Mock::start(Script::calls([text("All tests pass, the work is done.")]));
    let ran = case(&mock, &format!("require_changes = false{GATE}max_blocks = 1\n")).run().expect(1);
    assert_eq!(ran.ending("job"), "failed stop_hook_prevented stop_hook_prevented");
}

#[test]
fn a_job_that_changed_nothing_has_not_passed() {
    let mock = Mock::start(Script::calls([text("Nothing to do.")]));
    let ran = case(&mock, "").run().expect(1);
    assert_eq!(ran.ending("job"), "failed no_changes completed");
    let result = ran.result("job");
    assert_eq!((&result["branch"], &result["commit"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_green_base_proves_nothing() {
    let mock = Mock::start(Script::calls([text("Done.")]));
    let case = Case::new(&[("a.txt", "two\n"), ("check.sh", "grep -q two a.txt\n")])
        .job("job", &job(&mock, "x", &format!("{GATE}before = \"fail\"\n")));
    let ran = case.run().expect(1);
    assert_eq!(ran.ending("job"), "failed gate_not_red -");
    assert_eq!(ran.result("job")["gates"][0]["before"], "pass");
    assert!(mock.requests().is_empty(), "money was spent");
}

#[test]
fn a_base_that_must_be_green_and_is_red_cannot_be_tried() {
    let mock = Mock::start(Script::calls([text("Done.")]));
    let ran = case(&mock, &format!("{GATE}before = \"pass\"\n")).run().expect(3);
    assert_eq!(ran.ending("job"), "error setup_failed -");
    assert!(mock.requests().is_empty(), "money was spent");
}

#[test]
fn a_protected_test_is_judged_as_it_was() {
    let weaken = tool("Write", json!({"file_path": "check.sh", "content": "true\n"}));
    let mock = Mock::start(Script::calls([
        weaken.tool("Write", json!({"file_path": "b.txt", "content": "b\n"})),
        text("Done."),
    ]));
    let ran = case(&mock, &format!("protect = [\"check.sh\"]{GATE}")).run().expect(1);
    assert_eq!(ran.ending("job"), "failed gate_tampered completed");
    let result = ran.result("job");
    assert_eq!(result["protected_changes"], json!(["check.sh"]));
    assert_eq!(result["gates"][0]["after"], "fail");
    let patch = ran.file("jobs/job/diff.patch");
    assert!(patch.contains("b.txt") && !patch.contains("check.sh"), "{patch}");
    let told = mock.requests()[1].results();
    assert!(told[0].1.contains("protected"), "the model was not told: {told:?}");
}

#[test]
fn protected_files_that_were_deleted_added_or_linked_are_put_right() {
    let shell = "rm tests/a; ln -s /etc/passwd tests/a; echo x > tests/new; mv tests/sub tests/other; echo two > a.txt";
    let mock = Mock::start(Script::calls([tool("Bash", json!({"command": shell})), text("Done.")]));
    let gate = "\n[[stop_hooks]]\nrun = \"test ! -L tests/a && test -f tests/sub/b && test ! -e tests/new && test ! -e tests/other\"\n";
    let case = Case::new(&[("a.txt", "one\n"), ("tests/a", "a\n"), ("tests/sub/b", "b\n")])
        .job("job", &job(&mock, "x", &format!("protect = [\"tests/**\"]{gate}max_blocks = 1\n")));
    let ran = case.run();
    let result = ran.result("job");
    assert_eq!(result["gates"][0]["after"], "pass", "{result:#}");
    assert_eq!(ran.file("jobs/job/diff.patch").matches("diff --git").count(), 1);
}

#[test]
fn a_file_hidden_from_git_at_a_protected_place_does_not_help() {
    let shell =
        "echo 'tests/skip' >> \"$(git rev-parse --git-common-dir)/info/exclude\"; touch tests/skip; echo b > b.txt";
    let mock = Mock::start(Script::calls([tool("Bash", json!({"command": shell})), text("Done.")]));
    let gate = "\n[[stop_hooks]]\nname = \"g\"\nrun = \"test -e tests/skip || grep -q two a.txt\"\n";
    let case = Case::new(&[("a.txt", "one\n"), ("tests/t", "t\n")])
        .job("job", &job(&mock, "x", &format!("protect = [\"tests/**\"]{gate}")));
    let ran = case.run().expect(1);
    assert_eq!(ran.ending("job"), "failed gate_failed completed");
    assert!(ran.stderr.contains("tests/skip"), "{}", ran.stderr);
}

#[test]
fn each_gate_judges_the_tree_that_is_committed() {
    let mock = Mock::start(Script::calls([mend(), tool("Glob", json!({"pattern": "*"}))]));
    let gates = "\n[[stop_hooks]]\nname = \"format\"\nrun = \"echo nice >> a.txt; echo new > new.txt\"\n\
                 [[stop_hooks]]\nname = \"check\"\nrun = \"grep -q nice a.txt || ! test -e new.txt\"\nbefore = \"fail\"\n";
    let case = Case::new(&[("a.txt", "one\n"), ("new.txt", "")])
        .job("job", &job(&mock, "x", &format!("max_turns = 2{gates}")));
    let ran = case.run().expect(1);
    assert_eq!(ran.ending("job"), "failed max_turns max_turns");
    assert_eq!(ran.result("job")["gates"][1]["after"], "fail", "it saw what another gate had made");
    let commit = ran.result("job")["commit"].as_str().unwrap().to_owned();
    assert_eq!(case.git(&["show", &format!("{commit}:a.txt")]), "two");
    assert!(ran.stderr.contains("changed files of the tree"), "{}", ran.stderr);
}

#[test]
fn a_filter_that_the_agent_defines_changes_neither_the_commit_nor_a_protected_file() {
    let shell = "echo '* filter=evil' > .gitattributes; git config filter.evil.clean 'sed s/two/one/'; \
                 git config filter.evil.smudge 'sed s/grep.*/true/'; echo true > check.sh; echo two > a.txt";
    let mock = Mock::start(Script::calls([tool("Bash", json!({"command": shell})), text("Done.")]));
    let case = case(&mock, &format!("protect = [\"check.sh\"]{GATE}"));
    let ran = case.run().expect(0);
    let commit = ran.result("job")["commit"].as_str().unwrap().to_owned();
    assert_eq!(case.git(&["show", &format!("{commit}:a.txt")]), "two");
    assert_eq!(case.git(&["show", &format!("{commit}:check.sh")]), "grep -q two a.txt");
    assert_eq!(ran.result("job")["protected_changes"], json!(["check.sh"]));
}

#[test]
fn b092_a_gate_that_cannot_be_run_is_no_red_gate() {
    for run in ["[\"no-such-program-here\"]", "\"no-such-program-here\"", "\"kill -9 $$\"", "[\"./a.txt\"]"] {
        let mock = Mock::start(Script::calls([mend(), text("Done.")]));
        let ran = case(&mock, &format!("\n[[stop_hooks]]\nname = \"g\"\nrun = {run}\n")).run().expect(3);
        assert_eq!(ran.ending("job"), "error gate_error stop_hook_prevented", "{run}");
        assert_eq!(mock.requests().len(), 2, "{run}");
        assert_eq!(ran.result("job")["gates"][0]["after"], "error");
    }
}

#[test]
fn a_gate_that_does_not_end_is_an_error_of_the_gate() {
    let mock = Mock::start(Script::calls([mend(), text("Done."), text("Still done.")]));
    let gate =
        "\n[[stop_hooks]]\nname = \"slow\"\nrun = \"echo started; sleep 1000\"\ntimeout = \"300ms\"\nmax_blocks = 1\n";
    let ran = case(&mock, gate).run().expect(3);
    assert_eq!(ran.ending("job"), "error gate_error stop_hook_prevented");
    assert!(mock.requests()[2].last_text().contains("did not end within"));
}

#[test]
fn a_red_gate_that_turns_green_on_the_same_tree_is_flaky() {
    let mock = Mock::start(Script::calls([mend(), text("Done.")]));
    let case = case(&mock, "");
    let marker = case.outside().join("marker");
    let run = format!("if test -e {0}; then exit 0; else touch {0}; exit 1; fi", marker.display());
    let case =
        case.job("job", &job(&mock, "x", &format!("\n[[stop_hooks]]\nname = \"g\"\nrun = {run:?}\nretries = 1\n")));
    let ran = case.run().expect(0);
    let gate = &ran.result("job")["gates"][0];
    assert_eq!((&gate["flaky"], &gate["after"], &gate["runs"]), (&json!(true), &json!("pass"), &json!(3)));
}

#[test]
fn hostile_gate_output_leaves_reports_whole_and_small() {
    let script = r#"
printf '\033[31mred\033[0m \000 ]]> <a b="c"> & \377\376 \b\a \033]8;;http://x\007link\033]8;;\007\n::error::x\n##[group]y\n'
head -c 10000000 /dev/zero | tr '\0' 'x' | fold -w 120
printf '\n\033[31mlast ]]> line\033[0m \377\n'
exit 1
"#;
    let mock = Mock::start(Script::calls([mend(), text("Done.\u{1b}[2J\u{0}]]>")]));
    let case = case(&mock, "\n[[stop_hooks]]\nname = \"loud ]]> & <g>\"\nrun = \"sh loud.sh\"\non_fail = \"stop\"\n");
    case.write("loud.sh", script);
    case.git(&["add", "-A"]);
    case.git(&["commit", "-qm", "loud"]);
    let case = case
        .job("job", &job(&mock, "x", "\n[[stop_hooks]]\nname = \"loud\"\nrun = \"sh loud.sh\"\non_fail = \"stop\"\n"));
    let ran = case.run().expect(1);
    let junit = ran.file("junit.xml");
    assert!(junit.len() < 200_000, "{}", junit.len());
    let report = quick_junit::Report::deserialize_from_str(&junit).unwrap();
    assert_eq!(report.failures, 2);
    for text in [&junit, &ran.file("summary.md"), &ran.file("jobs/job/result.json")] {
        assert!(
            text.contains("last ]]&gt; line") || text.contains("last ]]> line") || text.contains("last ]]"),
            "the end is lost"
        );
        assert!(!text.contains('\u{1b}') && !text.contains("[31m") && !text.contains("]8;;"), "noise");
    }
    let log = std::fs::metadata(ran.folder.as_ref().unwrap().join("jobs/job/tools/gate-loud-stop-1.log")).unwrap();
    assert!(log.len() > 10_000_000, "the whole output is kept: {}", log.len());
}

#[test]
fn setup_that_fails_is_an_error_with_its_output() {
    let mock = Mock::start(Script::calls([text("Done.")]));
    let ran = case(&mock, "\n[worktree]\nsetup = [\"true\", \"echo no disk; exit 7\"]\n").run().expect(3);
    assert_eq!(ran.ending("job"), "error setup_failed -");
    assert!(ran.file("junit.xml").contains("no disk"));
    assert!(mock.requests().is_empty());
}

#[test]
fn b193_setup_has_the_jobs_limit() {
    let mock = Mock::start(Script::calls([text("Done.")]));
    let ran = case(&mock, "timeout = \"1s\"\n[worktree]\nsetup = [\"sleep 1000\"]\n").run().expect(1);
    assert_eq!(ran.ending("job"), "failed timeout -");
}

#[test]
fn what_setup_and_gates_leave_is_not_the_agents_work() {
    let mock = Mock::start(Script::calls([text("Done.")]));
    let more = "\n[worktree]\nsetup = [\"echo made > made.txt\"]\n[[stop_hooks]]\nrun = \"echo $$ >> log.txt\"\nbefore = \"pass\"\n";
    let ran = case(&mock, more).run().expect(1);
    assert_eq!(ran.ending("job"), "failed no_changes completed");
}

#[test]
fn keep_decides_about_the_worktree() {
    for (keep, green, kept) in
        [("never", false, false), ("on_failure", false, true), ("on_failure", true, false), ("always", true, true)]
    {
        let mock = Mock::start(Script::calls([
            if green { mend() } else { tool("Write", json!({"file_path": "b", "content": "b"})) },
            text("Done."),
        ]));
        let ran = case(&mock, &format!("{GATE}on_fail = \"stop\"\n[worktree]\nkeep = \"{keep}\"\n")).run();
        let result = ran.result("job");
        assert_eq!(result["worktree"].as_str().is_some(), kept, "{keep} {green}");
        if let Some(path) = result["worktree"].as_str() {
            assert!(std::path::Path::new(path).join("a.txt").is_file());
        }
        assert!(result["commit"].is_string(), "work is committed in any case");
    }
}

#[test]
fn b114_a_worktree_that_is_lost_is_an_error() {
    let mock = Mock::start(Script::calls([
        tool("Bash", json!({"command": "rm -rf \"$PWD\""})),
        tool("Bash", json!({"command": "pwd"})),
        text("Done."),
    ]));
    let case = case(&mock, "");
    let before = case.fingerprint();
    let ran = case.run().expect(3);
    assert_eq!(ran.ending("job"), "error worktree_failed completed");
    assert!(mock.requests()[2].results()[0].2, "a command ran somewhere else");
    assert_eq!(case.fingerprint(), before);
}

#[test]
fn b112_the_main_checkout_is_out_of_reach_for_file_tools() {
    let outside = std::env::temp_dir().join("runner-it-never-written");
    let mock = Mock::start(Script::calls([text("x")]));
    let case = case(&mock, "");
    let main = case.root().join("a.txt").display().to_string();
    let mock = Mock::start(Script::calls([
        message([])
            .tool("Edit", json!({"file_path": main, "old_string": "one", "new_string": "two"}))
            .tool("Write", json!({"file_path": "../escape.txt", "content": "x"}))
            .tool("Write", json!({"file_path": outside.display().to_string(), "content": "x"}))
            .tool("Write", json!({"file_path": ".git/hooks/x", "content": "x"})),
        mend(),
        text("Done."),
    ]));
    let case = case.job("job", &job(&mock, "x", GATE));
    case.run().expect(0);
    assert!(mock.requests()[1].results().iter().all(|(_, _, error)| *error));
    assert_eq!(case.read("a.txt"), "one\n");
    assert!(!outside.exists());
}

#[test]
fn keys_and_secrets_reach_no_child_and_no_file() {
    let dump = tool("Bash", json!({"command": "env; cat secret.txt"}));
    let mock = Mock::start(Script::calls([dump, mend(), text("The token is ghp-0123456789abcdef.")]));
    let case =
        case(&mock, GATE).env("ANTHROPIC_API_KEY", "sk-ant-0123456789").env("GITHUB_TOKEN", "ghp-0123456789abcdef");
    case.write("secret.txt", "ghp-0123456789abcdef");
    case.git(&["add", "-A"]);
    case.git(&["commit", "-qm", "secret"]);
    let ran = case.run().expect(0);
    let environment = mock.requests()[1].results()[0].1.clone();
    assert!(!environment.contains("sk-ant-0123456789"), "{environment}");
    assert!(!environment.contains("GITHUB_TOKEN"), "{environment}");
    for file in
        ["events.jsonl", "junit.xml", "summary.md", "run.json", "jobs/job/transcript.jsonl", "jobs/job/result.json"]
    {
        let text = ran.file(file);
        assert!(!text.contains("ghp-0123456789abcdef") && !text.contains("sk-ant-0123456789"), "{file}");
    }
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("ghp-0123456789abcdef"));
    assert_eq!(mock.requests()[0].header("x-api-key"), Some("sk-ant-0123456789"));
}
