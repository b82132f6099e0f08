//! Names that are made, not written: of jobs from file and matrix, of gates from their commands.

use crate::units::JobId;

/// A text as part of a name: what is not allowed becomes `-`. It may come out empty.
pub(super) fn as_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        let c = if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' };
        // No run of dashes, and no two dots: git refuses those in a branch.
        if !(matches!(c, '-' | '.') && name.ends_with(c)) {
            name.push(c);
        }
    }
    name.trim_matches(['-', '.']).to_owned()
}

/// The name of a job, made of parts: fit for [`JobId`], cut to its length.
pub(super) fn job_name<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let parts: Vec<_> = parts.map(as_name).filter(|part| !part.is_empty()).collect();
    let joined = parts.join("-");
    let name = cut(&joined, JobId::MAX);
    if JobId::new(name).is_ok() {
        return name.to_owned();
    }
    // What is left to break a rule: nothing at all, or a final `.lock`.
    let name = format!("{}-job", cut(name, JobId::MAX - 4));
    name.trim_start_matches('-').to_owned()
}

/// The name, or the name with a number behind it, such that it is not `taken`.
pub(super) fn unique(name: &str, max: usize, taken: impl Fn(&str) -> bool) -> String {
    let mut candidate = name.to_owned();
    let mut number = 1_u32;
    while taken(&candidate) {
        number += 1;
        let suffix = format!("-{number}");
        candidate = format!("{}{suffix}", cut(name, max - suffix.len()));
    }
    candidate
}

fn cut(name: &str, max: usize) -> &str {
    name.get(..max).unwrap_or(name).trim_end_matches(['-', '.'])
}

/// The longest name of a gate or hook, in characters.
pub(super) const HOOK_MAX: usize = 60;

/// The name of a gate or hook, from the first words of its command: `cargo test --locked` is `cargo-test`. `otherwise` it is
/// where those give none.
pub(super) fn hook_name(command: &str, otherwise: &str) -> String {
    let plain = |word: &&str| {
        let letter = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
        !word.starts_with('-') && word.chars().all(letter)
    };
    let words: Vec<_> = command.split_whitespace().take_while(plain).take(2).collect();
    let words = words.iter().map(|word| as_name(word.rsplit('/').next().unwrap_or(word)));
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let name = words.join("-");
    if name.is_empty() { otherwise.into() } else { cut(&name, HOOK_MAX).to_owned() }
}

/// What is wrong with the name of a gate or hook: it becomes part of the names of files.
pub(super) fn hook_name_fault(name: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.trim().is_empty() {
        Some("must not be blank".into())
    } else if name.len() > HOOK_MAX {
        Some(format!("has at most {HOOK_MAX} characters, this one has {}", name.len()))
    } else if name.starts_with(['.', '-']) {
        Some("starts with a letter, a digit or `_`".into())
    } else {
        let bad = name.chars().find(|c| !allowed(*c))?;
        Some(format!("is made of letters, digits, `.`, `_` and `-`, not {bad:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_parts_make_a_good_job_name() {
        let name = |parts: &[&str]| job_name(parts.iter().copied());
        assert_eq!(name(&["fix", "src/a.rs", "1"]), "fix-src-a.rs-1");
        assert_eq!(name(&["my job", "..", "x..y"]), "my-job-x.y");
        assert_eq!(name(&["日本"]), "job");
        assert_eq!(name(&["a.lock"]), "a.lock-job");
        for parts in [&["x", &"y".repeat(300)][..], &["", ""], &["-.-"], &["é", "ß"], &[&"x.lock".repeat(30)]] {
            JobId::new(&name(parts)).unwrap();
        }
    }

    #[test]
    fn a_taken_name_gets_a_number() {
        assert_eq!(unique("a", 5, |name| name == "a" || name == "a-2"), "a-3");
        assert_eq!(unique("abcde", 5, |name| name == "abcde"), "abc-2");
    }

    #[test]
    fn gates_are_named_by_their_first_words() {
        for (command, name) in [
            ("cargo test --workspace", "cargo-test"),
            ("./scripts/check.sh all", "check.sh-all"),
            ("sh -c 'exit 1'", "sh"),
            ("! grep x y", "gate"),
            ("test \"$x\" = 1", "test"),
            ("cargo fmt && cargo test", "cargo-fmt"),
        ] {
            assert_eq!(hook_name(command, "gate"), name);
            assert_eq!(hook_name_fault(name), None);
        }
        assert!(hook_name_fault("a b").is_some() && hook_name_fault(" ").is_some() && hook_name_fault("-x").is_some());
    }
}
