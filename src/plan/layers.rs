//! Layers of settings: built-in < `runner.toml` < job file < command line. Each value keeps the place where it was
//! written, and with it its origin.
//!
//! Tables are merged key by key, also `headers` and `env`; lists and the matrix are taken whole. Of two keys that
//! exclude each other the one of the higher layer wins.

use crate::spec::{
    Code, CourseSpec, Diagnostic, Entry, JobSpec, Layer, ModelSpec, Place, PublishSpec, SourceFile, WorktreeSpec,
    Written, masked, parse_job,
};
use std::collections::BTreeMap;
use std::path::Path;

/// The text of the built-in defaults.
pub const DEFAULTS: &str = include_str!("defaults.toml");

/// The built-in defaults as a job, with relative paths from `folder`.
pub(super) fn built_in(folder: &Path) -> (JobSpec, Vec<Diagnostic>) {
    let file = SourceFile::new(Layer::BuiltIn, "built-in", folder, DEFAULTS);
    let (spec, found) = parse_job(&file);
    (spec.unwrap_or_default(), found)
}

/// One job of several layers, the highest first. Hooks of the built-in layer are defaults of hooks and left out.
pub(super) fn layered(layers: &[&JobSpec]) -> JobSpec {
    let models: Vec<&ModelSpec> = layers.iter().map(|layer| &layer.model).collect();
    let trees: Vec<&WorktreeSpec> = layers.iter().map(|layer| &layer.worktree).collect();
    JobSpec {
        name: first(layers, |job| &job.name),
        description: first(layers, |job| &job.description),
        prompt: first(layers, |job| &job.prompt),
        prompt_file: first(layers, |job| &job.prompt_file),
        follow_ups: first(layers, |job| &job.follow_ups),
        max_turns: first(layers, |job| &job.max_turns),
        token_budget: first(layers, |job| &job.token_budget),
        task_budget: first(layers, |job| &job.task_budget),
        loop_limit: first(layers, |job| &job.loop_limit),
        max_cost_usd: first(layers, |job| &job.max_cost_usd),
        timeout: first(layers, |job| &job.timeout),
        course: CourseSpec {
            retries: first(layers, |job| &job.course.retries),
            retry_on: first(layers, |job| &job.course.retry_on),
            attempts: first(layers, |job| &job.course.attempts),
            needs: first(layers, |job| &job.course.needs),
            priority: first(layers, |job| &job.course.priority),
            group: first(layers, |job| &job.course.group),
        },
        tags: first(layers, |job| &job.tags),
        protect: first(layers, |job| &job.protect),
        require_changes: first(layers, |job| &job.require_changes),
        matrix: first(layers, |job| &job.matrix),
        context_files: first(layers, |job| &job.context_files),
        repo: first(layers, |job| &job.repo),
        model: ModelSpec {
            provider: first(&models, |model| &model.provider),
            name: first(&models, |model| &model.name),
            fallback: first(&models, |model| &model.fallback),
            small: first(&models, |model| &model.small),
            base_url: first(&models, |model| &model.base_url),
            api_key_env: first(&models, |model| &model.api_key_env),
            max_output_tokens: first(&models, |model| &model.max_output_tokens),
            thinking: first(&models, |model| &model.thinking),
            context_window: first(&models, |model| &model.context_window),
            headers: united(&models, |model| &model.headers),
            cassette: first(&models, |model| &model.cassette),
        },
        publish: PublishSpec {
            on_pass: first(layers, |job| &job.publish.on_pass),
            commit_message: first(layers, |job| &job.publish.commit_message),
            author: first(layers, |job| &job.publish.author),
        },
        worktree: WorktreeSpec {
            base: first(&trees, |tree| &tree.base),
            branch: first(&trees, |tree| &tree.branch),
            setup: first(&trees, |tree| &tree.setup),
            env: united(&trees, |tree| &tree.env),
            pass_env: first(&trees, |tree| &tree.pass_env),
            keep: first(&trees, |tree| &tree.keep),
            fixture: first(&trees, |tree| &tree.fixture),
        },
        stop_hooks: first(layers, |job| &job.stop_hooks).filter(is_no_default),
        tool_hooks: first(layers, |job| &job.tool_hooks).filter(is_no_default),
        broken: layers.iter().flat_map(|layer| layer.broken.iter().cloned()).collect(),
    }
}

fn is_no_default<T>(hooks: &Written<Vec<T>>) -> bool {
    hooks.layer() != Layer::BuiltIn
}

fn first<L, T: Clone>(layers: &[&L], key: impl Fn(&L) -> &Option<T>) -> Option<T> {
    layers.iter().find_map(|layer| key(layer).clone())
}

fn united<L>(layers: &[&L], key: impl Fn(&L) -> &BTreeMap<String, Entry>) -> BTreeMap<String, Entry> {
    layers.iter().rev().flat_map(|layer| key(layer).clone()).collect()
}

/// Leaves at most one of each two keys that exclude each other, and reports those that stand in one layer.
pub(super) fn settle(job: &mut JobSpec) -> Vec<Diagnostic> {
    let prompts = exclusive((&mut job.prompt, "prompt"), (&mut job.prompt_file, "prompt_file"));
    let sources = exclusive((&mut job.repo, "repo"), (&mut job.worktree.fixture, "fixture"));
    prompts.into_iter().chain(sources).collect()
}

fn exclusive<T, U>(
    (first, first_name): (&mut Option<Written<T>>, &str),
    (second, second_name): (&mut Option<Written<U>>, &str),
) -> Option<Diagnostic> {
    let (Some(one), Some(other)) = (first.as_ref(), second.as_ref()) else { return None };
    match one.layer().cmp(&other.layer()) {
        std::cmp::Ordering::Less => *first = None,
        std::cmp::Ordering::Greater => *second = None,
        std::cmp::Ordering::Equal => {
            let (place, earlier) = (other.place.clone(), one.place.clone());
            *second = None;
            return Some(
                Diagnostic::error(Code::Conflict, format!("`{first_name}` and `{second_name}` exclude each other"))
                    .at(place, "this one")
                    .also(earlier, "and this one")
                    .help("leave one of them out"),
            );
        }
    }
    None
}

/// A setting that differs from the built-in default: which, what was written, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The full name of the key: `model.name`.
    pub key: String,
    /// What was written, on one line, shortened.
    pub written: String,
    /// Where: `jobs/a.toml:4`, `runner.toml:2`, `--model`.
    pub origin: String,
}

/// Everything in a job that was set above the built-in layer, to something else than is built in.
pub(super) fn settings(job: &JobSpec, defaults: &JobSpec) -> Vec<Setting> {
    // The hooks of the built-in layer are none, so one that runs the same is still one that was written.
    let built_in = JobSpec { stop_hooks: None, tool_hooks: None, ..defaults.clone() };
    let built_in: BTreeMap<String, &str> =
        places(&built_in).into_iter().map(|(key, place)| (key, place.text())).collect();
    places(job)
        .into_iter()
        .filter(|(key, place)| place.file.layer() != Layer::BuiltIn && built_in.get(key) != Some(&place.text()))
        .map(|(key, place)| Setting { key, written: on_one_line(place.text()), origin: place.origin() })
        .collect()
}

/// Every key of a job that has a value, and where it stands.
fn places(job: &JobSpec) -> Vec<(String, &Place)> {
    let (model, tree) = (&job.model, &job.worktree);
    let keys = [
        ("name", place(job.name.as_ref())),
        ("description", place(job.description.as_ref())),
        ("prompt", place(job.prompt.as_ref())),
        ("prompt_file", place(job.prompt_file.as_ref())),
        ("follow_ups", place(job.follow_ups.as_ref())),
        ("max_turns", place(job.max_turns.as_ref())),
        ("token_budget", place(job.token_budget.as_ref())),
        ("task_budget", place(job.task_budget.as_ref())),
        ("loop_limit", place(job.loop_limit.as_ref())),
        ("max_cost_usd", place(job.max_cost_usd.as_ref())),
        ("timeout", place(job.timeout.as_ref())),
        ("retries", place(job.course.retries.as_ref())),
        ("retry_on", place(job.course.retry_on.as_ref())),
        ("attempts", place(job.course.attempts.as_ref())),
        ("needs", place(job.course.needs.as_ref())),
        ("priority", place(job.course.priority.as_ref())),
        ("group", place(job.course.group.as_ref())),
        ("tags", place(job.tags.as_ref())),
        ("protect", place(job.protect.as_ref())),
        ("require_changes", place(job.require_changes.as_ref())),
        ("matrix", place(job.matrix.as_ref())),
        ("context_files", place(job.context_files.as_ref())),
        ("repo", place(job.repo.as_ref())),
        ("model.provider", place(model.provider.as_ref())),
        ("model.name", place(model.name.as_ref())),
        ("model.fallback", place(model.fallback.as_ref())),
        ("model.small", place(model.small.as_ref())),
        ("model.base_url", place(model.base_url.as_ref())),
        ("model.api_key_env", place(model.api_key_env.as_ref())),
        ("model.max_output_tokens", place(model.max_output_tokens.as_ref())),
        ("model.thinking", place(model.thinking.as_ref())),
        ("model.context_window", place(model.context_window.as_ref())),
        ("model.cassette", place(model.cassette.as_ref())),
        ("publish.on_pass", place(job.publish.on_pass.as_ref())),
        ("publish.commit_message", place(job.publish.commit_message.as_ref())),
        ("publish.author", place(job.publish.author.as_ref())),
        ("worktree.base", place(tree.base.as_ref())),
        ("worktree.branch", place(tree.branch.as_ref())),
        ("worktree.setup", place(tree.setup.as_ref())),
        ("worktree.pass_env", place(tree.pass_env.as_ref())),
        ("worktree.keep", place(tree.keep.as_ref())),
        ("worktree.fixture", place(tree.fixture.as_ref())),
    ];
    let headers = model.headers.iter().map(|(name, entry)| (format!("model.headers.{name}"), &entry.value.place));
    let env = tree.env.iter().map(|(name, entry)| (format!("worktree.env.{name}"), &entry.value.place));
    let stops = job.stop_hooks.iter().flat_map(|hooks| &hooks.value);
    let stops = stops.enumerate().map(|(at, hook)| (format!("stop_hooks[{at}].run"), &hook.run.place));
    let tools = job.tool_hooks.iter().flat_map(|hooks| &hooks.value);
    let tools = tools.enumerate().map(|(at, hook)| (format!("tool_hooks[{at}].run"), &hook.run.place));
    let keys = keys.into_iter().filter_map(|(key, place)| Some((key.to_owned(), place?)));
    keys.chain(headers).chain(env).chain(stops).chain(tools).collect()
}

fn place<T>(value: Option<&Written<T>>) -> Option<&Place> {
    value.map(|value| &value.place)
}

/// The longest text of a setting that is shown, in characters.
const SHOWN: usize = 60;

fn on_one_line(text: &str) -> String {
    let line = masked(text).split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Turns;

    fn spec(layer: Layer, name: &str, text: &str) -> JobSpec {
        let (spec, found) = parse_job(&SourceFile::new(layer, name, "", text));
        assert_eq!(found, []);
        spec.unwrap()
    }

    #[test]
    fn the_built_in_defaults_can_be_read() {
        let (job, found) = built_in(Path::new("/w"));
        assert_eq!(found, []);
        assert_eq!(job.repo.unwrap().place.file.folder(), Path::new("/w"));
    }

    #[test]
    fn b088_one_precedence_for_every_limit() {
        let (base, _) = built_in(Path::new(""));
        let settings = spec(
            Layer::Settings,
            "runner.toml",
            "max_turns = 10\ntoken_budget = 7\n[worktree.env]\nA = '1'\nB = '1'\n",
        );
        let job = spec(Layer::Job, "a.toml", "max_turns = 20\n[worktree.env]\nB = '2'\n");
        let merged = layered(&[&job, &settings, &base]);
        assert_eq!(merged.max_turns.as_ref().unwrap().value, Turns(20));
        assert_eq!(merged.token_budget.as_ref().unwrap().place.origin(), "runner.toml:2");
        let env: Vec<_> =
            merged.worktree.env.iter().map(|(name, entry)| (name.as_str(), entry.value.value.as_str())).collect();
        assert_eq!(env, [("A", "1"), ("B", "2")]);
        assert!(merged.stop_hooks.is_none(), "no gate is built in");
        let keys: Vec<_> = super::settings(&merged, &base)
            .into_iter()
            .map(|set| format!("{} = {} ({})", set.key, set.written, set.origin))
            .collect();
        assert_eq!(
            keys,
            [
                "max_turns = 20 (a.toml:1)",
                "token_budget = 7 (runner.toml:2)",
                "worktree.env.A = '1' (runner.toml:4)",
                "worktree.env.B = '2' (a.toml:3)"
            ]
        );
    }

    #[test]
    fn of_two_that_exclude_each_other_the_higher_layer_wins() {
        let settings = spec(Layer::Settings, "runner.toml", "prompt_file = 'x.md'\n");
        let job = spec(Layer::Job, "a.toml", "prompt = 'x'\n");
        let mut merged = layered(&[&job, &settings]);
        assert_eq!(exclusive((&mut merged.prompt, "prompt"), (&mut merged.prompt_file, "prompt_file")), None);
        assert!(merged.prompt.is_some() && merged.prompt_file.is_none());
        let mut both = spec(Layer::Job, "a.toml", "prompt = 'x'\nprompt_file = 'x.md'\n");
        assert!(exclusive((&mut both.prompt, "prompt"), (&mut both.prompt_file, "prompt_file")).is_some());
    }
}
