//! Resolves commands and `[[stop_hooks]]`.

use super::job::{CommandLine, GatePlan, HookPlan};
use super::names::{HOOK_MAX, hook_name, hook_name_fault, unique};
use super::scope::Scope;
use super::world::Purpose;
use crate::spec::{Code, CommandSpec, Diagnostic, JobSpec, Place, StopHookKind, StopHookSpec, Written};
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

/// The gates of a job, and its stop hooks that judge nothing. `defaults` is the built-in layer.
pub(super) fn stop_hooks(
    scope: &mut Scope<'_>,
    job: &JobSpec,
    defaults: &JobSpec,
) -> Option<(Vec<GatePlan>, Vec<HookPlan>)> {
    let written: &[StopHookSpec] = job.stop_hooks.as_ref().map_or(&[], |hooks| &hooks.value);
    let built_in: &[StopHookSpec] = defaults.stop_hooks.as_ref().map_or(&[], |hooks| &hooks.value);
    let explicit = explicit_names(scope, written)?;
    let mut made: Vec<String> = Vec::new();
    let (mut gates, mut hooks) = (Vec::new(), Vec::new());
    let mut whole = true;
    for (place, hook) in written.iter().enumerate() {
        let Some(run) = command(scope, &hook.run) else {
            whole = false;
            continue;
        };
        let kind = hook.kind();
        let (word, loss) = match kind {
            StopHookKind::Gate => ("gate", "without it the gate cannot judge"),
            StopHookKind::Hook => ("hook", NO_SAY),
        };
        missing_program(scope, job, &hook.run, &run, loss);
        let taken = |name: &str| explicit.values().chain(&made).any(|other| other == name);
        let name = match explicit.get(&place) {
            Some(name) => name.clone(),
            None => unique(&hook_name(&run.shown(), word), HOOK_MAX, taken),
        };
        made.push(name.clone());
        let defaults = built_in.iter().find(|built_in| built_in.kind() == kind)?;
        let timeout = hook.timeout.as_ref().or(defaults.timeout.as_ref())?.value;
        let max_blocks = hook.max_blocks.as_ref().or(defaults.max_blocks.as_ref())?.value;
        let on_fail = hook.on_fail.as_ref().or(defaults.on_fail.as_ref())?.value;
        match kind {
            StopHookKind::Gate => {
                let before = hook.before.as_ref().or(defaults.before.as_ref())?.value;
                let retries = hook.retries.as_ref().or(defaults.retries.as_ref())?.value;
                gates.push(GatePlan { name, run, timeout, max_blocks, on_fail, before, retries, place });
            }
            StopHookKind::Hook => hooks.push(HookPlan { name, run, timeout, max_blocks, on_fail, place }),
        }
    }
    whole.then_some((gates, hooks))
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
        if let Some(fault) = hook_name_fault(&name.value) {
            scope.report(
                Diagnostic::error(Code::BadName, format!("the name of a stop hook {fault}")).at(name.place, ""),
            );
            whole = false;
        } else if let Some(first) = places.get(&name.value) {
            let report =
                Diagnostic::error(Code::DuplicateName, format!("two stop hooks have the name `{}`", name.value))
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

/// What is lost with the program of a hook that judges nothing.
pub(super) const NO_SAY: &str = "without it the hook has no say";

/// Reports a program that is not there; `loss` says what that means.
pub(super) fn missing_program(
    scope: &mut Scope<'_>,
    job: &JobSpec,
    written: &Written<CommandSpec>,
    run: &CommandLine,
    loss: &str,
) {
    let Some(name) = program(run).filter(|name| !scope.world.has_program(name)) else { return };
    if job.worktree.env.contains_key("PATH") {
        return;
    }
    let message = format!("the program `{name}` is not there");
    let has_setup = job.worktree.setup.as_ref().is_some_and(|setup| !setup.value.is_empty());
    let report = match (scope.purpose, has_setup) {
        (Purpose::Check, false) => Diagnostic::error(Code::NotFound, message),
        (Purpose::Check, true) => Diagnostic::warning(Code::NotFound, message).note("setup may bring it"),
        (Purpose::Run, _) => Diagnostic::warning(Code::NotFound, message).note(loss),
    };
    let label = if name.contains('/') { "no such program" } else { "not found in PATH" };
    scope.report(report.at(written.place.narrowed(name), label));
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
