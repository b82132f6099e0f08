//! Grep on small trees.

use super::*;
use crate::tools::workspace::tests::{arguments, workspace};
use serde_json::{Value, json};
use std::fs;

fn run(space: &Workspace, input: Value) -> Answer {
    grep(space, &arguments(&GREP, input), &CancellationToken::new())
}

fn small() -> (tempfile::TempDir, Workspace) {
    workspace(&[
        ("src/a.rs", "fn one() {}\nfn two() { one() }\n// end\n"),
        ("src/b.py", "def one():\n    pass\n"),
        (".github/ci.yml", "run: one\n"),
        ("README.md", "nothing here\n"),
    ])
}

#[test]
fn files_are_the_default() {
    let (_dir, space) = small();
    assert_eq!(run(&space, json!({ "pattern": "one" })).unwrap(), ".github/ci.yml\nsrc/a.rs\nsrc/b.py\n");
    assert_eq!(run(&space, json!({ "pattern": "one", "path": "src", "type": "rust" })).unwrap(), "src/a.rs\n");
    assert_eq!(run(&space, json!({ "pattern": "ONE", "-i": true, "glob": "*.py" })).unwrap(), "src/b.py\n");
}

#[test]
fn content_has_path_and_number() {
    let (_dir, space) = small();
    assert_eq!(
        run(&space, json!({ "pattern": "one\\(", "output_mode": "content" })).unwrap(),
        "src/a.rs:1:fn one() {}\nsrc/a.rs:2:fn two() { one() }\nsrc/b.py:1:def one():\n"
    );
    assert_eq!(
        run(&space, json!({ "pattern": "end$", "output_mode": "content", "-n": false })).unwrap(),
        "src/a.rs:// end\n"
    );
    assert_eq!(
        run(&space, json!({ "pattern": "\\w+\\(\\)", "output_mode": "content", "-o": true, "path": "src/a.rs" }))
            .unwrap(),
        "src/a.rs:1:one()\nsrc/a.rs:2:two()\nsrc/a.rs:2:one()\n"
    );
}

#[test]
fn context_lines_are_told_from_matches() {
    let (_dir, space) = workspace(&[("a", "1\n2\n3\nx\n5\n6\n7\nx\n"), ("b", "x\n")]);
    let all = "a-3-3\na:4:x\na-5-5\n--\na-7-7\na:8:x\n--\nb:1:x\n";
    for name in ["-C", "context"] {
        assert_eq!(run(&space, json!({ "pattern": "x", "output_mode": "content", name: 1 })).unwrap(), all);
    }
    assert_eq!(
        run(&space, json!({ "pattern": "x", "output_mode": "content", "-A": 1, "path": "a" })).unwrap(),
        "a:4:x\na-5-5\n--\na:8:x\n"
    );
    assert_eq!(
        run(&space, json!({ "pattern": "x", "output_mode": "content", "-C": 1, "-B": 0, "path": "a" })).unwrap(),
        "a:4:x\na-5-5\n--\na:8:x\n"
    );
}

#[test]
fn counts_are_lines() {
    let (_dir, space) = small();
    assert_eq!(
        run(&space, json!({ "pattern": "one", "output_mode": "count" })).unwrap(),
        ".github/ci.yml:1\nsrc/a.rs:2\nsrc/b.py:1\n[4 matching lines in 3 files]\n"
    );
}

#[test]
fn multiline_spans_lines() {
    let (_dir, space) = small();
    let input = json!({ "pattern": "two.*end", "multiline": true, "output_mode": "content" });
    assert_eq!(run(&space, input).unwrap(), "src/a.rs:2:fn two() { one() }\nsrc/a.rs:3:// end\n");
    let input = json!({ "pattern": "^def.*?pass$", "multiline": true, "output_mode": "content", "-o": true });
    assert_eq!(run(&space, input).unwrap(), "src/b.py:1:def one():\n    pass\n");
    let error = run(&space, json!({ "pattern": "two\\nend" })).unwrap_err();
    assert!(error.contains("set `multiline` to true"), "{error}");
}

#[test]
fn pages_follow_each_other() {
    let lines = (1..=600).map(|n| format!("x{n}\n")).collect::<Vec<_>>().concat();
    let (_dir, space) = workspace(&[("f", &lines)]);
    let page = |offset: usize, limit: Option<usize>| {
        run(&space, json!({ "pattern": "x", "output_mode": "content", "offset": offset, "head_limit": limit })).unwrap()
    };
    let first = page(0, None);
    assert!(first.starts_with("f:1:x1\n"));
    assert!(first.ends_with(
        "f:250:x250\n[lines 1-250; 600 matching lines in 1 file in all: go on with offset 250, or narrow the search]\n"
    ));
    assert!(page(250, Some(2)).starts_with("f:251:x251\nf:252:x252\n[lines 251-252; "));
    assert_eq!(page(599, None), "f:600:x600\n[600 matching lines in 1 file]\n");
    assert_eq!(page(700, None), "[nothing at offset 700: 600 matching lines in 1 file]\n");
    assert_eq!(page(0, Some(0)).lines().count(), 600);
}

#[test]
fn results_are_bounded_and_do_not_depend_on_threads() {
    let content = format!("{}\n", "needle ".repeat(20)).repeat(50);
    let files: Vec<(String, &str)> = (0..200).map(|n| (format!("d{}/f{n:03}", n % 7), content.as_str())).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, content)| (path.as_str(), *content)).collect();
    let (_dir, space) = workspace(&files);
    let input = json!({ "pattern": "needle", "output_mode": "content", "head_limit": 0 });
    let first = run(&space, input.clone()).unwrap();
    assert!(first.len() < BYTES + 200, "{}", first.len());
    assert!(first.contains("; 10000 matching lines in 200 files in all: go on with offset "), "{first}");
    for _ in 0..10 {
        assert_eq!(run(&space, input.clone()).unwrap(), first);
    }
}

#[test]
fn b155_what_the_ignore_rules_hide_is_said() {
    let (_dir, space) = workspace(&[
        (".gitignore", "scripts/*\n*.log\n"),
        ("scripts/deploy.sh", "needle\n"),
        ("a.log", "needle\n"),
        ("src/a.rs", "x\n"),
    ]);
    assert_eq!(
        run(&space, json!({ "pattern": "needle" })).unwrap(),
        "No match for `needle` in 2 files. But 2 of 2 ignored files would match, such as `a.log`, \
         `scripts/deploy.sh`: name the folder in `path` to search it.\n"
    );
    assert_eq!(
        run(&space, json!({ "pattern": "needle", "path": "scripts/" })).unwrap(),
        "scripts/deploy.sh\n[these files are ignored by git]\n"
    );
    assert_eq!(run(&space, json!({ "pattern": "needle", "path": "a.log" })).unwrap(), "a.log\n");
    assert_eq!(run(&space, json!({ "pattern": "none" })).unwrap(), "No match for `none` in 2 files.\n");
}

#[test]
fn b156_an_ignored_folder_is_searched_when_named() {
    let (_dir, space) = workspace(&[("venv/.gitignore", "*\n"), ("venv/lib/x/y.py", "needle\n")]);
    assert!(run(&space, json!({ "pattern": "needle", "path": "venv/lib" })).unwrap().starts_with("venv/lib/x/y.py\n"));
    assert!(run(&space, json!({ "pattern": "needle", "path": "venv" })).unwrap().starts_with("venv/lib/x/y.py\n"));
}

#[test]
fn b157_huge_lines_are_cut() {
    let line = format!("{}needle{}\n", "x".repeat(2_500_000), "y".repeat(2_500_000));
    let (_dir, space) = workspace(&[("min.js", &line)]);
    let text = run(&space, json!({ "pattern": "needle", "output_mode": "content" })).unwrap();
    assert!(text.len() < 600 && text.contains("xneedley"), "{text}");
    let text = run(&space, json!({ "pattern": "x+", "output_mode": "content", "-o": true })).unwrap();
    assert!(text.len() < 600, "{}", text.len());
}

#[test]
fn binary_files_are_skipped_with_a_note() {
    let (dir, space) = workspace(&[("a.txt", "needle\n")]);
    fs::write(dir.path().join("b.bin"), b"needle\n\0\n").unwrap();
    let text = run(&space, json!({ "pattern": "needle", "output_mode": "content" })).unwrap();
    assert_eq!(text, "a.txt:1:needle\n[1 binary file not searched; `grep -a` in Bash does]\n");
}

#[test]
fn other_encodings_are_searched() {
    let (dir, space) = workspace(&[]);
    fs::write(dir.path().join("latin"), b"caf\xe9 needle\r\n").unwrap();
    let utf16: Vec<u8> = "\u{feff}needle é\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(dir.path().join("utf16"), utf16).unwrap();
    let text = run(&space, json!({ "pattern": "needle.*$", "output_mode": "content" })).unwrap();
    assert_eq!(text, "latin:1:caf\u{fffd} needle\nutf16:1:needle é\n");
    assert_eq!(run(&space, json!({ "pattern": "needle$" })).unwrap(), "latin\n");
}

#[test]
fn globs_filter_as_models_mean_them() {
    let (_dir, space) =
        workspace(&[("web/src/a.ts", "x"), ("web/src/b.tsx", "x"), ("web/gen/c.ts", "x"), ("d.js", "x")]);
    let files = |glob: &str, path: &str| {
        let text = run(&space, json!({ "pattern": "x", "glob": glob, "path": path })).unwrap();
        text.lines().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(files("*.ts", ""), ["web/gen/c.ts", "web/src/a.ts"]);
    assert_eq!(files("*.{ts,tsx}", "web/src"), ["web/src/a.ts", "web/src/b.tsx"]);
    assert_eq!(files("*.tsx, *.js", ""), ["d.js", "web/src/b.tsx"]);
    assert_eq!(files("web/src/**", "web"), ["web/src/a.ts", "web/src/b.tsx"]);
    assert_eq!(files("src/*.ts", "web"), ["web/src/a.ts"]);
    assert_eq!(files("!gen", ""), ["d.js", "web/src/a.ts", "web/src/b.tsx"]);
    assert_eq!(files("**/src/*.ts", ""), ["web/src/a.ts"]);
    let text = run(&space, json!({ "pattern": "x", "glob": "*.go" })).unwrap();
    assert_eq!(text, "No match for `x` in 0 files. `glob` and `type` leave out all 4 files.\n");
}

#[test]
fn mistakes_get_advice() {
    let (_dir, space) = small();
    let error = run(&space, json!({ "pattern": "foo(" })).unwrap_err();
    assert!(error.contains("unclosed group") && error.ends_with("write `foo\\(`."), "{error}");
    let error = run(&space, json!({ "pattern": "(?=x)" })).unwrap_err();
    assert!(error.contains("`grep -P` in Bash"), "{error}");
    let error = run(&space, json!({ "pattern": "x", "type": "typescript2" })).unwrap_err();
    assert!(error.starts_with("There is no file type `typescript2`. Did you mean `typescript`?"), "{error}");
    assert!(run(&space, json!({ "pattern": "" })).unwrap_err().contains("empty"));
    assert!(run(&space, json!({ "pattern": "x", "path": "scr" })).unwrap_err().contains("Did you mean `src`?"));
    assert!(run(&space, json!({ "pattern": "x", "path": "/etc" })).unwrap_err().contains("outside of the worktree"));
    assert!(run(&space, json!({ "pattern": "x", "glob": "a[" })).unwrap_err().contains("is no glob"));
}

#[test]
fn links_are_not_followed_out() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "needle\n").unwrap();
    let (dir, space) = small();
    std::os::unix::fs::symlink(outside.path(), dir.path().join("out")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), dir.path().join("file")).unwrap();
    assert!(run(&space, json!({ "pattern": "needle" })).unwrap().starts_with("No match"));
}
