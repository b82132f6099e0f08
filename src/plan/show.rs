//! The plan as text: for people, and as JSON.

use super::job::{
    CommandLine, Course, GatePlan, HookPlan, ModelPlan, OnPass, PlannedJob, Provider, Source, ToolHookPlan,
};
use super::resolve::Plan;
use crate::spec::{Before, Diagnostic, Keep, OnFail, Thinking, ToolHookEvent, grouped};
use crate::units::{JobId, Tokens, Usd, show_duration};
use serde_json::{Value, json};

/// The version of the JSON form. Keys may be added under it; none is renamed.
const SCHEMA: u32 = 1;

impl Plan {
    /// The plan for people: every job with its effective values, and what was set above the defaults, and where.
    pub fn text(&self) -> String {
        let before = [None].into_iter().chain(self.jobs.iter().map(Some));
        let jobs: Vec<String> = self.jobs.iter().zip(before).map(|(job, before)| self.job_text(job, before)).collect();
        let count = if jobs.len() == 1 { "1 job".to_owned() } else { format!("{} jobs", jobs.len()) };
        format!("{}\n{count}\n", jobs.join("\n"))
    }

    fn job_text(&self, job: &PlannedJob, before: Option<&PlannedJob>) -> String {
        let mut lines = vec![format!("{}  ({})\n", job.id, job.file)];
        let mut line = |label: &str, value: &str| {
            if !value.is_empty() {
                let value = value.lines().map(str::trim).collect::<Vec<_>>().join(" ");
                lines.push(format!("  {label:<10} {value}\n"));
            }
        };
        let limits = &job.limits;
        let cost = limits.max_cost.map_or("no cap on money".to_owned(), |cost| format!("${}", cost.dollars()));
        let target = if limits.keep_working { " as cap and target" } else { "" };
        line("about", &job.description);
        line("model", &model_text(job));
        line("price", &price_text(&job.model));
        for (label, model) in [("fallback", &job.model.fallback), ("small", &job.model.small)] {
            line(label, &model.as_deref().map_or_else(String::new, further_text));
        }
        line(
            "limits",
            &format!(
                "{} turns, {} tokens{target}, {cost}, {}, {} equal tool calls in a row",
                limits.max_turns,
                grouped(limits.token_budget.0),
                show_duration(limits.timeout),
                limits.loop_limit
            ),
        );
        let task_budget =
            limits.task_budget.map(|budget| format!("{} tokens, as the model is told", grouped(budget.0)));
        line("budget", &task_budget.unwrap_or_default());
        line("files", &source_text(job));
        line("branch", &format!("{}, worktree kept: {}", job.worktree.branch, keep(job.worktree.keep)));
        for command in &job.worktree.setup {
            line("setup", &command.shown());
        }
        line("protect", &job.protect.join(", "));
        let gates = job.gates.iter().map(|gate| (gate.place, "gate", gate_text(gate)));
        let mut stop_hooks: Vec<_> =
            gates.chain(job.hooks.iter().map(|hook| (hook.place, "hook", hook_text(hook)))).collect();
        stop_hooks.sort();
        for (_, label, text) in stop_hooks {
            line(label, &text);
        }
        if job.gates.is_empty() {
            line("gate", "none: nothing but a change is asked of this job");
        }
        for hook in &job.tool_hooks {
            line("tool hook", &tool_hook_text(hook));
        }
        if !job.require_changes {
            line("changes", "not required");
        }
        line("follow-ups", &if job.follow_ups.is_empty() { String::new() } else { job.follow_ups.len().to_string() });
        line("course", &course_text(job));
        line("publish", &publish_text(job));
        line("tags", &job.tags.join(", "));
        let settings = self.settings.get(&job.id);
        match before.filter(|before| self.settings.get(&before.id) == settings) {
            // The jobs of one matrix have all their settings in common.
            Some(before) => line("set", &format!("as for {}", before.id)),
            None => {
                for (at, setting) in settings.into_iter().flatten().enumerate() {
                    let label = if at == 0 { "set" } else { "" };
                    line(label, &format!("{} = {}  ({})", setting.key, setting.written, setting.origin));
                }
            }
        }
        lines.concat()
    }

    /// The plan as one JSON object: `schema`, `jobs`, `warnings`.
    pub fn json(&self) -> Value {
        let jobs: Vec<Value> = self.jobs.iter().map(|job| self.job_json(job)).collect();
        let warnings: Vec<Value> = self.warnings.iter().map(diagnostic_json).collect();
        json!({ "schema": SCHEMA, "jobs": jobs, "warnings": warnings })
    }

    fn job_json(&self, job: &PlannedJob) -> Value {
        let settings: Vec<Value> = self
            .settings
            .get(&job.id)
            .into_iter()
            .flatten()
            .map(|set| json!({ "key": set.key, "written": set.written, "origin": set.origin }))
            .collect();
        let gates: Vec<Value> = job.gates.iter().map(gate_json).collect();
        let hooks: Vec<Value> = job.hooks.iter().map(hook_json).collect();
        let setup: Vec<String> = job.worktree.setup.iter().map(CommandLine::shown).collect();
        let (repo, fixture) = match &job.source {
            Source::Repo(path) => (Some(path.display().to_string()), None),
            Source::Fixture(path) => (None, Some(path.display().to_string())),
        };
        json!({
            "job": job.id.as_str(),
            "file": job.file,
            "description": job.description,
            "prompt": job.prompt,
            "follow_ups": job.follow_ups,
            "matrix": job.matrix,
            "tags": job.tags,
            "course": course_json(&job.course),
            "max_turns": job.limits.max_turns.0,
            "token_budget": job.limits.token_budget.0,
            "keep_working": job.limits.keep_working,
            "task_budget": job.limits.task_budget.map(|budget| budget.0),
            "loop_limit": job.limits.loop_limit,
            "max_cost_usd": job.limits.max_cost.map(Usd::dollars),
            "timeout_s": job.limits.timeout.as_secs_f64(),
            "protect": job.protect,
            "require_changes": job.require_changes,
            "context_files": job.context_files,
            "repo": repo,
            "model": model_json(&job.model),
            "worktree": {
                "base": job.worktree.base,
                "branch": job.worktree.branch,
                "setup": setup,
                "env": job.worktree.env.keys().collect::<Vec<_>>(),
                "pass_env": job.worktree.pass_env,
                "keep": keep(job.worktree.keep),
                "fixture": fixture,
            },
            "publish": {
                "on_pass": job.publish.on_pass.code(),
                "commit_message": job.publish.commit_message,
                "author": job.publish.author,
            },
            "gates": gates,
            "hooks": hooks,
            "tool_hooks": job.tool_hooks.iter().map(tool_hook_json).collect::<Vec<_>>(),
            "settings": settings,
        })
    }
}

/// The JSON form of a failed check: `schema`, `errors`, `warnings`.
pub fn findings_json(found: &[Diagnostic]) -> Value {
    let of =
        |errors: bool| found.iter().filter(|one| one.is_error() == errors).map(diagnostic_json).collect::<Vec<_>>();
    json!({ "schema": SCHEMA, "errors": of(true), "warnings": of(false) })
}

fn diagnostic_json(diagnostic: &Diagnostic) -> Value {
    let place = diagnostic.at.as_ref().map(|(place, _)| place);
    let position = place.map(|place| place.file.line_column(place.span.start));
    json!({
        "code": diagnostic.code.text(),
        "message": diagnostic.message,
        "file": place.map(|place| place.file.name()),
        "line": position.map(|(line, _)| line),
        "column": position.map(|(_, column)| column),
        "label": diagnostic.at.as_ref().map(|(_, label)| label),
        "notes": diagnostic.notes,
        "help": diagnostic.help,
    })
}

fn model_text(job: &PlannedJob) -> String {
    let model = &job.model;
    let reached = match &model.provider {
        Provider::Anthropic { base_url, .. } => format!("anthropic at {base_url}"),
        Provider::Replay { cassette } => format!("replay of {}", cassette.display()),
    };
    format!("{}, {reached}, {}", model.name, answers_text(model))
}

/// A model that is reached as the main one.
fn further_text(model: &ModelPlan) -> String {
    format!("{}, {}; price: {}", model.name, answers_text(model), price_text(model))
}

fn answers_text(model: &ModelPlan) -> String {
    let thinking = match model.thinking {
        None => String::new(),
        Some(Thinking::Off) => ", thinking off".into(),
        Some(Thinking::Adaptive) => ", thinking adaptive".into(),
        Some(Thinking::Budget(budget)) => format!(", thinking up to {} tokens", grouped(budget.0)),
    };
    let (output, window) = (grouped(model.max_output.0), grouped(model.context_window.0));
    format!("answers up to {output} of {window} tokens{thinking}")
}

fn price_text(model: &ModelPlan) -> String {
    match (&model.provider, &model.prices) {
        (Provider::Replay { .. }, _) => "nothing is spent".into(),
        (Provider::Anthropic { .. }, None) => "not known, so cost is not counted".into(),
        (Provider::Anthropic { .. }, Some(prices)) => {
            let million = |price: Usd| price.times(Tokens(1_000_000)).dollars();
            let base = prices.base;
            format!("${} in, ${} out for a million tokens", million(base.input), million(base.output))
        }
    }
}

fn course_json(course: &Course) -> Value {
    json!({
        "needs": course.needs.iter().map(JobId::as_str).collect::<Vec<_>>(),
        "attempts": course.attempts,
        "retries": course.retries,
        "retry_on": course.retry_on.iter().map(|reason| reason.code()).collect::<Vec<_>>(),
        "priority": course.priority,
        "group": course.group.as_ref().map(|group| json!({ "name": group.name, "max": group.max })),
    })
}

/// When it runs and how often it is tried, where that is not the plain way.
fn course_text(job: &PlannedJob) -> String {
    let course = &job.course;
    let mut parts = Vec::new();
    if !course.needs.is_empty() {
        let needs: Vec<&str> = course.needs.iter().map(JobId::as_str).collect();
        parts.push(format!("after {}", needs.join(", ")));
    }
    if course.attempts > 1 {
        parts.push(format!("{} attempts side by side", course.attempts));
    }
    if course.retries > 0 {
        let reasons: Vec<&str> = course.retry_on.iter().map(|reason| reason.code()).collect();
        let on = if reasons.is_empty() { String::new() } else { format!(" on {}", reasons.join(", ")) };
        parts.push(format!("tried again up to {} times{on}", course.retries));
    }
    if course.priority != 0 {
        parts.push(format!("priority {}", course.priority));
    }
    if let Some(group) = &course.group {
        parts.push(format!("at most {} of the group {} at once", group.max, group.name));
    }
    parts.join("; ")
}

/// Nothing where the branch stays here under a message of ours, as is usual.
fn publish_text(job: &PlannedJob) -> String {
    let publish = &job.publish;
    let mut parts = Vec::new();
    if publish.on_pass != OnPass::default() {
        parts.push(publish.on_pass.code().to_owned());
    }
    parts.extend(publish.author.as_ref().map(|author| format!("by {author}")));
    let subject = publish.commit_message.as_ref().and_then(|message| message.lines().next());
    parts.extend(subject.map(|subject| format!("as {subject:?}")));
    parts.join(", ")
}

fn source_text(job: &PlannedJob) -> String {
    match &job.source {
        Source::Repo(path) => format!("{} of the repository at {}", job.worktree.base, path.display()),
        Source::Fixture(path) => format!("a fresh repository made from {}", path.display()),
    }
}

fn gate_text(gate: &GatePlan) -> String {
    let before = match gate.before {
        Before::Any => String::new(),
        Before::Fail | Before::Pass => format!(", before: {}", word(gate.before)),
    };
    let on_fail = on_fail_text(gate.on_fail, gate.max_blocks);
    let retries = if gate.retries == 0 { String::new() } else { format!(", {} retries", gate.retries) };
    format!("{}: {}  (up to {}, {on_fail}{before}{retries})", gate.name, gate.run.shown(), show_duration(gate.timeout))
}

fn hook_text(hook: &HookPlan) -> String {
    let (timeout, on_fail) = (show_duration(hook.timeout), on_fail_text(hook.on_fail, hook.max_blocks));
    format!("{}: {}  (up to {timeout}, {on_fail})", hook.name, hook.run.shown())
}

fn on_fail_text(on_fail: OnFail, max_blocks: u32) -> String {
    match on_fail {
        OnFail::Block if max_blocks == 1 => "blocks once".into(),
        OnFail::Block => format!("blocks up to {max_blocks} times"),
        OnFail::Stop => "stops the loop".into(),
    }
}

fn hook_json(hook: &HookPlan) -> Value {
    json!({
        "name": hook.name,
        "run": hook.run.shown(),
        "timeout_s": hook.timeout.as_secs_f64(),
        "max_blocks": hook.max_blocks,
        "on_fail": on_fail(hook.on_fail),
        "place": hook.place,
    })
}

fn gate_json(gate: &GatePlan) -> Value {
    json!({
        "name": gate.name,
        "run": gate.run.shown(),
        "timeout_s": gate.timeout.as_secs_f64(),
        "max_blocks": gate.max_blocks,
        "on_fail": on_fail(gate.on_fail),
        "before": word(gate.before),
        "retries": gate.retries,
        "place": gate.place,
    })
}

fn model_json(model: &ModelPlan) -> Value {
    let (provider, base_url, api_key_env, headers, cassette) = match &model.provider {
        Provider::Anthropic { base_url, api_key_env, headers } => {
            ("anthropic", Some(base_url), Some(api_key_env), headers.keys().collect::<Vec<_>>(), None)
        }
        Provider::Replay { cassette } => ("replay", None, None, Vec::new(), Some(cassette.display().to_string())),
    };
    json!({
        "provider": provider,
        "name": model.name,
        "base_url": base_url,
        "api_key_env": api_key_env,
        "headers": headers,
        "cassette": cassette,
        "max_output_tokens": model.max_output.0,
        "thinking": thinking_json(model.thinking),
        "context_window": model.context_window.0,
        "prices_known": model.prices.is_some(),
        "binds_thinking": model.binds_thinking,
        "fallback": model.fallback.as_deref().map(further_json),
        "small": model.small.as_deref().map(further_json),
    })
}

/// A model that is reached as the main one.
fn further_json(model: &ModelPlan) -> Value {
    json!({
        "name": model.name,
        "max_output_tokens": model.max_output.0,
        "thinking": thinking_json(model.thinking),
        "context_window": model.context_window.0,
        "prices_known": model.prices.is_some(),
        "binds_thinking": model.binds_thinking,
    })
}

fn thinking_json(thinking: Option<Thinking>) -> Option<Value> {
    thinking.map(|thinking| match thinking {
        Thinking::Off => json!("off"),
        Thinking::Adaptive => json!("adaptive"),
        Thinking::Budget(budget) => json!({ "budget_tokens": budget.0 }),
    })
}

fn tool_hook_text(hook: &ToolHookPlan) -> String {
    let when = match hook.event {
        ToolHookEvent::Pre => "before",
        ToolHookEvent::Post => "after",
    };
    let (tools, timeout) = (hook.matches.shown(), show_duration(hook.timeout));
    format!("{when} {tools}: {}  (up to {timeout})", hook.run.shown())
}

fn tool_hook_json(hook: &ToolHookPlan) -> Value {
    json!({
        "event": match hook.event { ToolHookEvent::Pre => "pre", ToolHookEvent::Post => "post" },
        "match": hook.matches.shown(),
        "run": hook.run.shown(),
        "timeout_s": hook.timeout.as_secs_f64(),
    })
}

const fn on_fail(on_fail: OnFail) -> &'static str {
    match on_fail {
        OnFail::Block => "block",
        OnFail::Stop => "stop",
    }
}

const fn keep(keep: Keep) -> &'static str {
    match keep {
        Keep::Never => "never",
        Keep::OnFailure => "on_failure",
        Keep::Always => "always",
    }
}

const fn word(before: Before) -> &'static str {
    match before {
        Before::Any => "any",
        Before::Fail => "fail",
        Before::Pass => "pass",
    }
}
