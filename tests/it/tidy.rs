//! Rules of the source tree that the compiler does not know. Each is checked on the tree, and on small texts that break it.

mod source;

use source::{code, paths, without_tests};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The most lines that ship in one file; past about 200 it is worth a look whether it is two.
const MAX_LINES: usize = 500;

/// Names that say nothing about what is inside.
const VAGUE: &[&str] = &["util", "utils", "helper", "helpers", "common", "misc", "imp"];

/// The top-level modules in the order in which `lib.rs` lists them: a module uses only those before it.
struct Map(Vec<(String, Colour)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colour {
    /// No waiting, clock, files, environment or processes.
    Pure,
    /// May do input and output.
    Rim,
}

impl Map {
    /// Reads `pub mod name; // P` and `pub mod name; // R`.
    ///
    /// # Errors
    /// A module without its colour.
    fn parse(lib: &str) -> Result<Self, String> {
        let mut modules = Vec::new();
        for (index, line) in lib.lines().enumerate() {
            let Some((name, comment)) = line.strip_prefix("pub mod ").and_then(|rest| rest.split_once(';')) else {
                continue;
            };
            let colour = match comment.trim() {
                "// P" => Colour::Pure,
                "// R" => Colour::Rim,
                _ => {
                    return Err(format!(
                        "src/lib.rs:{}: `{name}` is neither `// P` (pure) nor `// R` (rim)",
                        index + 1
                    ));
                }
            };
            modules.push((name.to_owned(), colour));
        }
        Ok(Self(modules))
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|(module, _)| module == name)
    }
}

/// A file of the tree.
struct File {
    /// Relative to the package, with `/`.
    path: String,
    text: String,
}

impl File {
    /// The modules that lead to it, the top-level one first. Empty for `lib.rs` and `main.rs`.
    fn module(&self) -> Vec<&str> {
        let inside = self.path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
        inside.split('/').filter(|name| !matches!(*name, "lib" | "main")).collect()
    }

    /// Its code without tests.
    fn shipped(&self) -> String {
        without_tests(&code(&self.text)).0
    }
}

/// Pure modules name nothing that waits or reaches the world.
fn purity(map: &Map, file: &File) -> Vec<String> {
    const SEGMENTS: &[&str] =
        &["tokio", "async", "await", "Instant", "SystemTime", "reqwest", "git2", "tempfile", "rustix"];
    const STARTS: &[&str] = &[
        "std::fs",
        "std::env",
        "std::process",
        "std::net",
        "std::thread",
        "std::io::stdin",
        "std::io::stdout",
        "std::io::stderr",
    ];
    const ENDS: &[&str] = &["Timestamp::now", "Zoned::now"];
    let module = file.module();
    let Some(top) = module.first().filter(|top| map.0.contains(&((**top).to_owned(), Colour::Pure))) else {
        return Vec::new();
    };
    let named = |path: &str| {
        path.split("::").any(|segment| SEGMENTS.contains(&segment))
            || STARTS.iter().any(|start| path == *start || path.starts_with(&format!("{start}::")))
            || ENDS.iter().any(|end| path.ends_with(end))
    };
    paths(&file.shipped())
        .into_iter()
        .filter(|(_, path)| named(path))
        .map(|(line, path)| format!("{}:{line}: `{top}` is pure, but names `{path}`", file.path))
        .collect()
}

/// Top-level modules use only those before them.
fn direction(map: &Map, file: &File) -> Vec<String> {
    let module = file.module();
    let Some((top, depth)) = module.first().map(|top| (*top, module.len())) else { return Vec::new() };
    let Some(own) = map.place(top) else {
        return vec![format!("{}:1: `{top}` is not in the list of modules in src/lib.rs", file.path)];
    };
    paths(&file.shipped())
        .into_iter()
        .filter_map(|(line, path)| {
            let used = from_root(&path, depth)?;
            let message =
                format!("{}:{line}: `{top}` may only use what comes before it, but names `{path}`", file.path);
            map.place(used).filter(|at| *at > own).map(|_| message)
        })
        .collect()
}

/// The top-level name in a path that begins at the root of the crate, by `crate::` or by enough `super::`.
fn from_root(path: &str, depth: usize) -> Option<&str> {
    let mut segments = path.split("::").peekable();
    let mut supers = 0;
    while segments.next_if(|segment| *segment == "super").is_some() {
        supers += 1;
    }
    if supers == depth || (supers == 0 && segments.next() == Some("crate")) { segments.next() } else { None }
}

/// A `mod.rs` is a table of contents.
fn contents_only(file: &File) -> Vec<String> {
    const ITEMS: &[&str] = &["fn", "struct", "enum", "trait", "impl", "union", "macro_rules"];
    if !file.path.ends_with("/mod.rs") {
        return Vec::new();
    }
    paths(&file.shipped())
        .into_iter()
        .filter(|(_, word)| ITEMS.contains(&word.as_str()))
        .map(|(line, word)| {
            format!("{}:{line}: a mod.rs holds docs, `mod` and `pub use` alone, no `{word}`", file.path)
        })
        .collect()
}

fn size(file: &File) -> Vec<String> {
    let lines = file.shipped().lines().count();
    if lines > MAX_LINES {
        return vec![format!("{}:{MAX_LINES}: {lines} lines ship in one file, more than {MAX_LINES}", file.path)];
    }
    Vec::new()
}

fn head(file: &File) -> Vec<String> {
    if file.text.starts_with("//! ") {
        return Vec::new();
    }
    vec![format!("{}:1: a file begins with `//!` and says what it is for", file.path)]
}

fn name(file: &File) -> Vec<String> {
    let module = file.module();
    let vague = module.iter().filter(|part| VAGUE.contains(part));
    vague.map(|part| format!("{}:1: `{part}` does not say what is inside", file.path)).collect()
}

/// Every file is declared by the file above it: nothing lies about that is never compiled.
fn declared(files: &[File], root: &str) -> Vec<String> {
    let declares = |parent: &str, child: &str| {
        let declaration = format!("mod {child};");
        let of_child = |line: &str| {
            let visibility = line.trim().strip_suffix(&declaration);
            visibility.is_some_and(|visibility| visibility.is_empty() || visibility.starts_with("pub"))
        };
        files.iter().any(|file| file.path == parent && code(&file.text).lines().any(of_child))
    };
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| file.path != root && !file.path.ends_with("/main.rs")) {
        let module = file.path.trim_end_matches(".rs").trim_end_matches("/mod");
        let Some((above, child)) = module.rsplit_once('/') else { continue };
        let parents = if above == folder {
            vec![root.to_owned()]
        } else {
            vec![format!("{above}.rs"), format!("{above}/mod.rs")]
        };
        if !parents.iter().any(|parent| declares(parent, child)) {
            faults.push(format!("{}:1: `mod {child};` is missing in {}", file.path, parents.join(" or ")));
        }
    }
    faults
}

/// Every dependency says what it saves: the line above it is a comment.
fn dependencies(manifest: &str) -> Vec<String> {
    let (mut faults, mut inside, mut above) = (Vec::new(), false, "");
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        let header = line.starts_with('[');
        let table = header && line.contains("dependencies");
        let single = table && !line.trim_end_matches(']').ends_with("dependencies");
        let entry = inside && !header && line.contains('=') && line.starts_with(|c: char| c.is_alphanumeric());
        if (entry || single) && !above.starts_with('#') {
            faults.push(format!("Cargo.toml:{}: the line above a dependency says what it saves: `{line}`", index + 1));
        }
        if header {
            inside = table && !single;
        }
        above = line;
    }
    faults
}

/// The files of one folder and below, in order. Modules that exist for tests alone are left out.
fn files(folder: &str) -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut folders, mut files) = (vec![root.join(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
                files.push(File { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// The paths, without `.rs`, of the modules that are declared under `#[cfg(test)]`.
fn test_modules(files: &[File]) -> BTreeSet<String> {
    let of = |file: &File| {
        let (folder, stem) = file.path.trim_end_matches(".rs").rsplit_once('/').unwrap();
        let folder =
            if matches!(stem, "mod" | "lib" | "main") { folder.to_owned() } else { format!("{folder}/{stem}") };
        without_tests(&code(&file.text))
            .1
            .into_iter()
            .map(move |module| format!("{folder}/{module}"))
            .collect::<Vec<_>>()
    };
    files.iter().flat_map(of).collect()
}

fn shipped_files() -> Vec<File> {
    let mut files = files("src");
    let tests = test_modules(&files);
    files.retain(|file| {
        !tests.iter().any(|test| file.path == format!("{test}.rs") || file.path.starts_with(&format!("{test}/")))
    });
    assert!(files.len() > 10, "only {} files found", files.len());
    files
}

fn map() -> Map {
    Map::parse(&fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap()).unwrap()
}

/// The map of a small tree, for rules that are tried on it.
fn small_map() -> Map {
    Map::parse("pub mod units; // P\npub mod query; // P\npub mod report; // P\npub mod drive; // R").unwrap()
}

/// Runs one rule on every file that ships.
#[track_caller]
fn check(rule: impl Fn(&File) -> Vec<String>) {
    let faults: Vec<_> = shipped_files().iter().flat_map(rule).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// Runs one rule on a text that breaks it once and on one that keeps it.
#[track_caller]
fn check_rule(rule: impl Fn(&File) -> Vec<String>, path: &str, bad: &str, expected: &str, good: &str) {
    let file = |text: &str| File { path: path.to_owned(), text: text.to_owned() };
    assert_eq!(rule(&file(bad)), [expected]);
    assert_eq!(rule(&file(good)), [""; 0]);
}

#[test]
fn pure_modules_do_no_input_or_output() {
    let map = map();
    check(|file| purity(&map, file));
}

#[test]
fn modules_use_only_those_before_them() {
    let map = map();
    check(|file| direction(&map, file));
}

#[test]
fn mod_files_hold_no_code() {
    check(contents_only);
}

#[test]
fn files_are_small() {
    check(size);
}

#[test]
fn files_say_what_they_are_for() {
    check(head);
    let faults: Vec<_> = files("tests").iter().flat_map(head).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn names_say_something() {
    check(name);
}

#[test]
fn every_file_is_part_of_the_crate() {
    let mut faults = declared(&files("src"), "src/lib.rs");
    faults.extend(declared(&files("tests/it"), "tests/it/main.rs"));
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn every_dependency_has_its_reason() {
    let faults = dependencies(&fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap());
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn every_module_has_its_colour() {
    let parsed = Map::parse("//! X.\npub mod a; // P\npub mod b; // R\n").unwrap();
    assert_eq!(parsed.0, [("a".to_owned(), Colour::Pure), ("b".to_owned(), Colour::Rim)]);
    let fault = Map::parse("pub mod a; // P\npub mod b;").map(|_| ()).unwrap_err();
    assert_eq!(fault, "src/lib.rs:2: `b` is neither `// P` (pure) nor `// R` (rim)");
    assert!(map().0.len() > 10);
}

#[test]
fn purity_sees_what_it_should() {
    let check = |bad: &str, named: &str| {
        let expected = format!("src/query/machine.rs:1: `query` is pure, but names `{named}`");
        let good = "use std::fmt; // std::fs\n#[cfg(test)]\nmod tests { use std::fs; }";
        check_rule(|file| purity(&small_map(), file), "src/query/machine.rs", bad, &expected, good);
    };
    check("use std::{fmt, fs};", "std::fs");
    check("let x = std::env::var(\"HOME\");", "std::env::var");
    check("async fn x() {}", "async");
    check("x.await", "await");
    check("std::time::Instant::now()", "std::time::Instant::now");
    check("use tokio::sync::mpsc;", "tokio::sync::mpsc");
    check("jiff::Timestamp::now()", "jiff::Timestamp::now");
    let rim = File { path: "src/drive/run.rs".into(), text: "use std::fs;".into() };
    assert_eq!(purity(&small_map(), &rim), [""; 0]);
}

#[test]
fn direction_sees_what_it_should() {
    let check = |bad: &str, named: &str| {
        let expected =
            format!("src/query/machine.rs:1: `query` may only use what comes before it, but names `{named}`");
        check_rule(
            |file| direction(&small_map(), file),
            "src/query/machine.rs",
            bad,
            &expected,
            "use crate::{units, query::Event}; use super::event;",
        );
    };
    check("use crate::drive::run;", "crate::drive::run");
    check("use crate::{units, report::table};", "crate::report::table");
    check("super::super::drive::call()", "super::super::drive::call");
    let unknown = File { path: "src/magic.rs".into(), text: String::new() };
    assert_eq!(
        direction(&small_map(), &unknown),
        ["src/magic.rs:1: `magic` is not in the list of modules in src/lib.rs"]
    );
}

#[test]
fn file_rules_see_what_they_should() {
    check_rule(
        contents_only,
        "src/plan/mod.rs",
        "mod job;\npub fn x() {}",
        "src/plan/mod.rs:2: a mod.rs holds docs, `mod` and `pub use` alone, no `fn`",
        "//! The fn of it.\nmod job;\npub use job::Job;",
    );
    check_rule(
        size,
        "src/exit.rs",
        &"a;\n".repeat(501),
        "src/exit.rs:500: 501 lines ship in one file, more than 500",
        &format!("{}#[cfg(test)]\nmod tests {{\n{}}}", "a;\n".repeat(499), "b;\n".repeat(100)),
    );
    check_rule(
        head,
        "src/exit.rs",
        "use x;",
        "src/exit.rs:1: a file begins with `//!` and says what it is for",
        "//! X.",
    );
    let vague = File { path: "src/plan/utils.rs".into(), text: String::new() };
    assert_eq!(name(&vague), ["src/plan/utils.rs:1: `utils` does not say what is inside"]);
}

#[test]
fn forgotten_files_are_seen() {
    let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    let mut tree = vec![
        file("src/lib.rs", "pub mod plan;\npub(crate) mod exit;"),
        file("src/main.rs", ""),
        file("src/exit.rs", ""),
        file("src/plan/mod.rs", "mod job;"),
        file("src/plan/job.rs", ""),
    ];
    assert_eq!(declared(&tree, "src/lib.rs"), [""; 0]);
    tree.push(file("src/plan/old.rs", ""));
    tree.push(file("src/new.rs", ""));
    assert_eq!(
        declared(&tree, "src/lib.rs"),
        [
            "src/plan/old.rs:1: `mod old;` is missing in src/plan.rs or src/plan/mod.rs",
            "src/new.rs:1: `mod new;` is missing in src/lib.rs"
        ]
    );
}

#[test]
fn test_modules_are_told_apart() {
    let file = |path: &str| File { path: path.into(), text: "#[cfg(test)]\nmod tests;".into() };
    let found = test_modules(&[file("src/query/mod.rs"), file("src/exit.rs")]);
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["src/exit/tests", "src/query/tests"]);
}

#[test]
fn unexplained_dependencies_are_seen() {
    assert_eq!(dependencies("[package]\nname = \"x\"\n[dependencies]\n# Why.\na = \"1\"\n[lints]\nb = 1"), [""; 0]);
    assert_eq!(
        dependencies("[dev-dependencies]\na = \"1\"\n\n[target.'cfg(unix)'.dependencies.b]\nversion = \"1\""),
        [
            "Cargo.toml:2: the line above a dependency says what it saves: `a = \"1\"`",
            "Cargo.toml:4: the line above a dependency says what it saves: `[target.'cfg(unix)'.dependencies.b]`"
        ]
    );
}
