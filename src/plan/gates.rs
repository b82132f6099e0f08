//! Resolves commands and `[[stop_hooks]]`.

use super::job::{CommandLine, GatePlan};
use super::names::{GATE_MAX, gate_name, gate_name_fault, unique};
use super::scope::Scope;
use super::world::Purpose;
use crate::spec::{Code, CommandSpec, Diagnostic, JobSpec, Place, StopHookSpec, Written};
use std::collections::BTreeMap;

/// A command with its names filled in.
pub(super) fn command(scope: &mut Scope<'_>, written: &Written<CommandSpec>) -> Option<CommandLine> {
    match &written.value {
        CommandSpec::Shell(line) => {
            let line = Written::new(line.clone(), written.place.clone());
            scope.fill(&line).map(|line| CommandLine::Shell(line.value))
        }
        CommandSpec::Argv(words) => scope.texts(words).map(CommandLine::Argv),
    }
}

/// The gates of a job. `defaults` is a hook of the built-in layer.
pub(super) fn gates(scope: &mut Scope<'_>, job: &JobSpec, defaults: &StopHookSpec) -> Option<Vec<GatePlan>> {
    let hooks: &[StopHookSpec] = job.stop_hooks.as_ref().map_or(&[], |hooks| &hooks.value);
    let explicit = explicit_names(scope, hooks)?;
    let mut gates: Vec<GatePlan> = Vec::new();
    let mut whole = true;
    for (at, hook) in hooks.iter().enumerate() {
        let Some(run) = command(scope, &hook.run) else {
            whole = false;
            continue;
        };
        missing_program(scope, job, hook, &run);
        let taken =
            |name: &str| explicit.values().any(|other| other == name) || gates.iter().any(|gate| gate.name == name);
        let name = match explicit.get(&at) {
            Some(name) => name.clone(),
            None => unique(&gate_name(&run.shown()), GATE_MAX, taken),
        };
        gates.push(GatePlan {
            name,
            run,
            timeout: hook.timeout.as_ref().or(defaults.timeout.as_ref())?.value,
            max_blocks: hook.max_blocks.as_ref().or(defaults.max_blocks.as_ref())?.value,
            on_fail: hook.on_fail.as_ref().or(defaults.on_fail.as_ref())?.value,
            before: hook.before.as_ref().or(defaults.before.as_ref())?.value,
            retries: hook.retries.as_ref().or(defaults.retries.as_ref())?.value,
            place: at,
        });
    }
    whole.then_some(gates)
}

/// The names that the author gave, by the position of the hook.
fn explicit_names(scope: &mut Scope<'_>, hooks: &[StopHookSpec]) -> Option<BTreeMap<usize, String>> {
    let mut names: BTreeMap<usize, String> = BTreeMap::new();
    let mut places: BTreeMap<String, Place> = BTreeMap::new();
    let mut whole = true;
    for (at, hook) in hooks.iter().enumerate() {
        let Some(written) = &hook.name else { continue };
        let Some(name) = scope.fill(written) else {
            whole = false;
            continue;
        };
        if let Some(fault) = gate_name_fault(&name.value) {
            scope.report(Diagnostic::error(Code::BadName, format!("the name of a gate {fault}")).at(name.place, ""));
            whole = false;
        } else if let Some(first) = places.get(&name.value) {
            let report = Diagnostic::error(Code::DuplicateName, format!("two gates have the name `{}`", name.value))
                .at(name.place, "again here")
                .also(first.clone(), "first here");
            scope.report(report);
            whole = false;
        } else {
            places.insert(name.value.clone(), name.place);
            names.insert(at, name.value);
        }
    }
    whole.then_some(names)
}

/// Words that a shell knows without a program.
const SHELL_WORDS: [&str; 46] = [
    ".", ":", "[", "alias", "bg", "break", "case", "cd", "command", "continue", "echo", "eval", "exec", "exit",
    "export", "false", "fg", "for", "getopts", "hash", "if", "jobs", "kill", "local", "printf", "pwd", "read",
    "readonly", "return", "set", "shift", "test", "time", "times", "trap", "true", "type", "ulimit", "umask",
    "unalias", "unset", "until", "wait", "while", "fc", "source",
];

/// The program that a command begins with, where that can be told and does not depend on the worktree.
fn program(run: &CommandLine) -> Option<&str> {
    let name = match run {
        CommandLine::Argv(argv) => argv.first()?.as_str(),
        CommandLine::Shell(line) => {
            let word = line.split_whitespace().next()?;
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '/');
            if SHELL_WORDS.contains(&word) || !word.chars().all(plain) {
                return None;
            }
            word
        }
    };
    (!name.contains('/') || name.starts_with('/')).then_some(name)
}

fn missing_program(scope: &mut Scope<'_>, job: &JobSpec, hook: &StopHookSpec, run: &CommandLine) {
    let Some(name) = program(run).filter(|name| !scope.world.has_program(name)) else { return };
    if job.worktree.env.contains_key("PATH") {
        return;
    }
    let message = format!("the program `{name}` is not there");
    let has_setup = job.worktree.setup.as_ref().is_some_and(|setup| !setup.value.is_empty());
    let report = match (scope.purpose, has_setup) {
        (Purpose::Check, false) => Diagnostic::error(Code::NotFound, message),
        (Purpose::Check, true) => Diagnostic::warning(Code::NotFound, message).note("setup may bring it"),
        (Purpose::Run, _) => Diagnostic::warning(Code::NotFound, message).note("without it the gate cannot judge"),
    };
    let label = if name.contains('/') { "no such program" } else { "not found in PATH" };
    scope.report(report.at(hook.run.place.narrowed(name), label));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_guessed_with_care() {
        let shell = |line: &str| program(&CommandLine::Shell(line.into())).map(str::to_owned);
        assert_eq!(shell("cargo test"), Some("cargo".into()));
        assert_eq!(shell("/bin/true x"), Some("/bin/true".into()));
        for unclear in
            ["./check.sh", "cd x && make", "A=1 make", "$X y", "! grep x", "(make)", "test -f x", "node_modules/.bin/x"]
        {
            assert_eq!(shell(unclear), None, "{unclear}");
        }
        assert_eq!(program(&CommandLine::Argv(vec!["test".into()])), Some("test"));
    }
}
