//! Resolves `[[tool_hooks]]`.

use super::gates::{NO_SAY, command, missing_program};
use super::job::ToolHookPlan;
use super::matcher::ToolMatcher;
use super::scope::Scope;
use crate::spec::{Code, Diagnostic, JobSpec, ToolHookSpec, Written, nearest_word};

/// The tools that a job can have, those of MCP servers aside.
const TOOLS: [&str; 9] = ["Read", "Write", "Edit", "Glob", "Grep", "Bash", "Agent", "TaskOutput", "TaskStop"];

/// The hooks around tool calls of a job. `defaults` is the built-in layer.
pub(super) fn tool_hooks(scope: &mut Scope<'_>, job: &JobSpec, defaults: &JobSpec) -> Option<Vec<ToolHookPlan>> {
    let written: &[ToolHookSpec] = job.tool_hooks.as_ref().map_or(&[], |hooks| &hooks.value);
    let defaults = defaults.tool_hooks.as_ref()?.value.first()?;
    let planned: Vec<_> = written.iter().map(|hook| tool_hook(scope, job, hook, defaults)).collect();
    planned.into_iter().collect()
}

fn tool_hook(
    scope: &mut Scope<'_>,
    job: &JobSpec,
    hook: &ToolHookSpec,
    defaults: &ToolHookSpec,
) -> Option<ToolHookPlan> {
    let matches = match &hook.matches {
        None => Some(ToolMatcher::All),
        Some(written) => matcher(scope, written),
    };
    let run = command(scope, &hook.run);
    if let Some(run) = &run {
        missing_program(scope, job, &hook.run, run, NO_SAY);
    }
    let timeout = hook.timeout.as_ref().or(defaults.timeout.as_ref())?.value;
    Some(ToolHookPlan { event: hook.event.value, matches: matches?, run: run?, timeout })
}

fn matcher(scope: &mut Scope<'_>, written: &Written<String>) -> Option<ToolMatcher> {
    let text = scope.fill(written)?;
    let matcher = match ToolMatcher::parse(&text.value) {
        Ok(matcher) => matcher,
        Err(why) => {
            scope.report(
                Diagnostic::error(Code::BadValue, "`match` names no tools and is no regular expression")
                    .at(text.place, why)
                    .help("for example: match = \"Edit|Write\", or match = \"^mcp__\""),
            );
            return None;
        }
    };
    if let ToolMatcher::Names(names) = &matcher {
        let unknown = names.iter().filter(|name| !TOOLS.contains(&name.as_str()) && !name.starts_with("mcp__"));
        for name in unknown {
            let report = Diagnostic::warning(Code::UnknownTool, format!("there is no tool {name:?}"))
                .at(text.place.narrowed(name), "the hook never runs for it");
            scope.report(match nearest_word(&TOOLS, name) {
                Some(near) => report.help(format!("there is a tool with a similar name: {near:?}")),
                None => report.note(format!("the tools are {}, and those of servers: mcp__…", TOOLS.join(", "))),
            });
        }
    }
    Some(matcher)
}
