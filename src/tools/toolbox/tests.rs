//! Calls as the loop makes them.

use super::*;
use serde_json::json;
use std::fs;
use std::path::Path;

struct Case {
    _dir: tempfile::TempDir,
    root: PathBuf,
    tools: Toolbox,
}

fn case() -> Case {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("wt");
    fs::create_dir(&root).unwrap();
    fs::write(root.join(".git"), "gitdir: elsewhere").unwrap();
    let root = root.canonicalize().unwrap();
    let context = ToolContext {
        root: root.clone(),
        env: Environment::default(),
        outputs: dir.path().join("run/tools"),
        protect: vec!["tests/**".into()],
    };
    Case { _dir: dir, root, tools: Toolbox::new(context).unwrap() }
}

fn call(name: &str, input: Value) -> ToolUse {
    let Value::Object(input) = input else { panic!("not an object") };
    ToolUse { id: "call".into(), name: name.into(), input: ToolInput::Object(input) }
}

impl Case {
    async fn run(&self, name: &str, input: Value) -> ToolResult {
        self.tools.run(&call(name, input), Access::Full, &CancellationToken::new()).await
    }
}

#[tokio::test]
async fn files_are_written_edited_read_and_found() {
    let case = case();
    assert_eq!(
        case.run("Write", json!({ "file_path": "a.txt", "content": "one\n" })).await.content,
        "Created `a.txt` (1 line)."
    );
    let edit = json!({ "file_path": "a.txt", "old_string": "one", "new_string": "two" });
    assert_eq!(case.run("Edit", edit).await.content, "Edited `a.txt`. It reads now:\n     1\ttwo\n");
    assert_eq!(case.run("Read", json!({ "file_path": "a.txt" })).await.content, "     1\ttwo\n");
    assert_eq!(case.run("Glob", json!({ "pattern": "*" })).await.content, "a.txt\n");
    let found = case.run("Grep", json!({ "pattern": "two" })).await;
    assert_eq!((found.content.as_str(), found.is_error, &*found.id), ("a.txt\n", false, "call"));
}

#[tokio::test]
async fn b005_an_unknown_tool_is_an_error_result_at_once() {
    let case = case();
    insta::assert_snapshot!(
        case.run("WebSearch", json!({ "query": "x" })).await.content,
        @"Nothing was run: there is no tool `WebSearch`. The tools are Read, Write, Edit, Glob, Grep, Bash, TaskOutput, TaskStop."
    );
    let result = case.run("bash", json!({ "command": "x" })).await;
    assert!(result.is_error && result.content.contains("Did you mean Bash?"), "{}", result.content);
}

#[tokio::test]
async fn input_that_is_wrong_is_not_run() {
    let case = case();
    let result = case.run("Write", json!({ "path": "a", "content": "x" })).await;
    assert!(result.is_error && result.content.contains("did you mean `file_path`?"), "{}", result.content);
    let input = ToolInput::Invalid { raw: "{\"file_path\": \"a".into(), problem: "it ends too early".into() };
    let result =
        case.tools.run(&ToolUse { input, ..call("Write", json!({})) }, Access::Full, &CancellationToken::new()).await;
    insta::assert_snapshot!(
        result.content,
        @r#"Nothing was run: the input of this call is no JSON object: it ends too early. It was: {"file_path": "a"#
    );
    assert!(result.is_error);
    assert_eq!(fs::read_dir(&case.root).unwrap().count(), 1);
}

#[tokio::test]
async fn b114_nothing_runs_when_the_worktree_is_gone() {
    let case = case();
    fs::write(case.root.join("f"), "x").unwrap();
    fs::remove_file(case.root.join(".git")).unwrap();
    for (name, input) in [
        ("Bash", json!({ "command": "touch run" })),
        ("Write", json!({ "file_path": "g", "content": "x" })),
        ("Read", json!({ "file_path": "f" })),
    ] {
        let result = case.run(name, input).await;
        assert!(result.is_error && result.content.contains("is gone"), "{name}: {}", result.content);
    }
    assert_eq!(fs::read_dir(&case.root).unwrap().count(), 1);
}

#[tokio::test]
async fn a_cancelled_call_does_nothing() {
    let case = case();
    let cancel = CancellationToken::new();
    cancel.cancel();
    for (name, input) in [
        ("Write", json!({ "file_path": "a", "content": "x" })),
        ("Grep", json!({ "pattern": "x" })),
        ("Bash", json!({ "command": "touch run" })),
    ] {
        let result = case.tools.run(&call(name, input), Access::Full, &cancel).await;
        assert_eq!((result.content.as_str(), result.is_error), (CANCELLED, true), "{name}");
    }
    assert_eq!(fs::read_dir(&case.root).unwrap().count(), 1);
}

#[tokio::test]
async fn an_image_comes_with_the_result() {
    let case = case();
    fs::write(case.root.join("a.png"), crate::tools::picture::tests::a_png(64, 48, 100)).unwrap();
    let result = case.run("Read", json!({ "file_path": "a.png" })).await;
    assert_eq!(result.content, "`a.png` is a PNG image, 64 x 48 pixels, 157 bytes.");
    assert_eq!((result.media.len(), result.is_error), (1, false));
    assert!(result.media[0].data.starts_with("iVBORw0KGgo"));
}

#[tokio::test]
async fn b149_edits_that_run_at_once_all_count() {
    let case = case();
    let lines = (1..=40).map(|n| format!("<{n}>\n")).collect::<Vec<_>>().concat();
    fs::write(case.root.join("f"), &lines).unwrap();
    let edits = (1..=40).map(|n| {
        let path = if n % 2 == 0 { "f" } else { "./f" };
        case.run("Edit", json!({ "file_path": path, "old_string": format!("<{n}>"), "new_string": "x" }))
    });
    for result in futures_util::future::join_all(edits).await {
        assert!(!result.is_error, "{}", result.content);
    }
    assert_eq!(fs::read_to_string(case.root.join("f")).unwrap(), "x\n".repeat(40));
}

#[tokio::test]
async fn b037_a_result_is_never_blank() {
    let case = case();
    fs::write(case.root.join("blank"), "").unwrap();
    assert!(!case.run("Read", json!({ "file_path": "blank" })).await.content.trim().is_empty());
}

#[tokio::test]
async fn a_result_is_bounded_whatever_it_quotes() {
    let case = case();
    let result = case.run("Read", json!({ "file_path": "x/".repeat(2_000_000) })).await;
    assert!(result.is_error && result.content.len() < RESULT + 100, "{}", result.content.len());
    let input = ToolInput::Invalid { raw: "é".repeat(1_000_000), problem: "it is text".into() };
    let result =
        case.tools.run(&ToolUse { input, ..call("Read", json!({})) }, Access::Full, &CancellationToken::new()).await;
    assert!(result.content.len() < 1_000);
}

#[tokio::test]
async fn who_only_reads_gets_no_more() {
    let case = case();
    let names: Vec<&str> =
        Toolbox::definitions_for(Access::ReadOnly).into_iter().map(|definition| definition.name).collect();
    assert_eq!(names, ["Read", "Glob", "Grep"]);
    assert_eq!(Toolbox::definitions_for(Access::Full), Toolbox::definitions());
    let run = async |name, input| case.tools.run(&call(name, input), Access::ReadOnly, &CancellationToken::new()).await;
    for name in ["Write", "Edit", "Bash", "TaskOutput", "TaskStop"] {
        let result = run(name, json!({})).await;
        let expected =
            format!("Nothing was run: {name} is not open to you, who only reads. The tools are Read, Glob, Grep.");
        assert_eq!((result.content, result.is_error), (expected, true));
    }
    assert!(run("Nothing", json!({})).await.content.ends_with("The tools are Read, Glob, Grep."));
    assert!(!run("Glob", json!({ "pattern": "*" })).await.is_error);
}

#[tokio::test]
async fn whole_outputs_are_read_and_nothing_else_beside_the_worktree() {
    use std::os::unix::fs::symlink;
    let case = case();
    let outputs = case.root.with_file_name("run").join("tools");
    let log = outputs.join("bash-1.log");
    let read = async |path: &Path| case.run("Read", json!({ "file_path": path })).await;
    assert!(read(&log).await.content.contains("outside of the worktree"), "no folder yet");
    fs::create_dir_all(&outputs).unwrap();
    fs::write(&log, "one\ntwo\n").unwrap();
    assert_eq!(read(&log).await.content, "     1\tone\n     2\ttwo\n");
    for path in [&log, &outputs] {
        let found = case.run("Grep", json!({ "pattern": "two", "path": path, "output_mode": "content" })).await;
        assert_eq!(found.content, format!("{}:2:two\n", log.display()));
    }
    let result = read(&outputs.join("bash-2.log")).await;
    assert!(result.is_error && result.content.contains("Did you mean"), "{}", result.content);
    fs::write(outputs.join("../secret"), "x").unwrap();
    symlink("../secret", outputs.join("link")).unwrap();
    symlink(outputs.join(".."), outputs.join("up")).unwrap();
    symlink(case.root.join(".git"), outputs.join("git")).unwrap();
    for name in ["../secret", "link", "up/secret", "git"] {
        let result = read(&outputs.join(name)).await;
        let words = if name == "git" { "belongs to git" } else { "outside of the worktree" };
        assert!(result.is_error && result.content.contains(words), "{name}: {}", result.content);
    }
    for (name, input) in [
        ("Write", json!({ "file_path": log, "content": "x" })),
        ("Edit", json!({ "file_path": log, "old_string": "one", "new_string": "x" })),
    ] {
        assert!(case.run(name, input).await.content.contains("outside of the worktree"));
    }
    assert_eq!(fs::read_to_string(&log).unwrap(), "one\ntwo\n");
}

#[tokio::test]
async fn a_command_runs_in_the_background_while_others_are_called() {
    let mut case = case();
    case.tools.around.env.set("PATH", "/usr/local/bin:/usr/bin:/bin");
    case.run("Bash", json!({ "command": "mkfifo go" })).await;
    let begun = case.run("Bash", json!({ "command": "read x < go; echo $x", "run_in_background": true })).await;
    assert!(!begun.is_error && begun.content.contains("`bash_1`"), "{}", begun.content);
    let looked = case.run("TaskOutput", json!({ "task_id": "bash_1", "block": false })).await;
    assert!(looked.content.contains("still running"), "{}", looked.content);
    let edited = case.run("Write", json!({ "file_path": "f", "content": "" })).await;
    assert!(!edited.is_error, "{}", edited.content);
    assert_eq!(case.run("Bash", json!({ "command": "echo hello > go; echo sent" })).await.content, "sent");
    assert_eq!(case.tools.next_ended().await.unwrap().how, "ended with exit code 0");
    let looked = case.run("TaskOutput", json!({ "task_id": "bash_1" })).await;
    assert!(looked.content.starts_with("hello\n[`bash_1`: ended with exit code 0"), "{}", looked.content);
    case.run("Bash", json!({ "command": "read x < go", "run_in_background": true })).await;
    assert!(case.run("TaskStop", json!({ "task_id": "bash_2" })).await.content.contains("was stopped"));
    case.tools.shutdown().await;
    assert_eq!(case.tools.next_ended().await, None);
}

#[test]
fn a_subject_is_one_short_line() {
    let subject = |name, input| Toolbox::subject(&call(name, input));
    assert_eq!(subject("Bash", json!({ "command": "cargo test\necho x" })), "cargo test...");
    assert_eq!(subject("Bash", json!({ "command": "a\u{1b}b" })), "a\\u{1b}b");
    assert_eq!(subject("Grep", json!({ "pattern": "fn main" })), "fn main");
    let path = format!("/{}/src/lib.rs", "long".repeat(50));
    let shown = subject("Read", json!({ "file_path": path }));
    assert!(shown.starts_with("...") && shown.ends_with("/src/lib.rs") && shown.len() == 80, "{shown}");
    assert_eq!(subject("TaskOutput", json!({ "task_id": "bash_1" })), "bash_1");
    assert_eq!(subject("TaskStop", json!({ "task_id": "bash_2" })), "bash_2");
    assert_eq!(subject("Read", json!({})), "");
    assert_eq!(subject("Nothing", json!({ "command": "x" })), "");
}

#[test]
fn what_only_reads_is_known() {
    let read_only = |name| Toolbox::concurrency(&call(name, json!({}))) == Concurrency::Shared;
    assert!(read_only("Read") && read_only("Glob") && read_only("Grep") && read_only("TaskOutput"));
    assert!(read_only("Unknown"));
    assert!(!read_only("Write") && !read_only("Edit") && !read_only("Bash") && !read_only("TaskStop"));
}

#[test]
fn definitions_are_short_and_fit_for_every_provider() {
    let definitions = Toolbox::definitions();
    let names: Vec<&str> = definitions.iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["Read", "Write", "Edit", "Glob", "Grep", "Bash", "TaskOutput", "TaskStop"]);
    let text: Vec<String> =
        definitions.iter().map(|tool| format!("{} {}", tool.description, tool.input_schema)).collect();
    let words = text.join("\n");
    let words = words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).count();
    assert!(words < 900, "{words} words are sent with every request");
    for tool in &definitions {
        let fields = tool.input_schema["properties"].as_object().unwrap();
        assert!(fields.keys().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))));
        assert!(!tool.description.contains("  "), "{}", tool.description);
    }
}

#[test]
fn a_wrong_context_is_refused() {
    let context = |root: PathBuf, protect: Vec<String>| ToolContext {
        root,
        env: Environment::default(),
        outputs: "out".into(),
        protect,
    };
    let dir = tempfile::tempdir().unwrap();
    assert!(Toolbox::new(context(dir.path().join("none"), vec![])).unwrap_err().contains("cannot use"));
    assert!(Toolbox::new(context(dir.path().into(), vec!["a[".into()])).unwrap_err().contains("is no glob"));
}
