//! Resolves one named job: its task, its limits, and the parts that have files of their own.

use super::course::course;
use super::expand::{Named, head};
use super::gates::stop_hooks;
use super::job::{Limits, PlannedJob};
use super::model::model;
use super::publish::publish;
use super::resolve::{JobFile, Request};
use super::scope::Scope;
use super::template::Names;
use super::tool_hooks::tool_hooks;
use super::worktree::{source, worktree};
use crate::spec::{Code, Diagnostic, JobSpec, Layer, Place, SourceFile, Written};

/// Plans one job; `None` when something is wrong with it. The findings are given in any case.
pub(super) fn plan_job(
    request: &Request<'_>,
    file: &JobFile,
    spec: &JobSpec,
    defaults: &JobSpec,
    job: &Named,
) -> (Option<PlannedJob>, Vec<Diagnostic>) {
    let mut names = Names::default();
    names.0.insert("job".into(), job.id.as_str().into());
    names.0.insert("run".into(), request.run.0.clone());
    names.0.extend(job.combination.iter().map(|(key, value)| (format!("matrix.{key}"), value.value.clone())));
    let (world, purpose) = (request.world, request.purpose);
    let mut scope = Scope { names, broken: &spec.broken, world, purpose, found: Vec::new() };
    let planned = planned(&mut scope, file, spec, defaults, job);
    (planned, scope.found)
}

/// Each part is resolved before the first `?`, so that every part reports what is wrong with it.
fn planned(
    scope: &mut Scope<'_>,
    file: &JobFile,
    spec: &JobSpec,
    defaults: &JobSpec,
    job: &Named,
) -> Option<PlannedJob> {
    let description = spec.description.as_ref().and_then(|text| scope.fill(text));
    let prompt = prompt(scope, file, spec);
    let follow_ups = spec.follow_ups.as_ref().and_then(|list| scope.texts(&list.value));
    let tags = spec.tags.as_ref().and_then(|list| scope.texts(&list.value));
    let protect = spec.protect.as_ref().and_then(|list| protect(scope, &list.value));
    let context_files = spec.context_files.as_ref().and_then(|list| context_files(scope, &list.value));
    let model = model(scope, spec);
    let source = source(scope, spec);
    let key = model.as_ref().and_then(|(model, _)| model.provider.key_variable());
    let worktree = worktree(scope, spec, key);
    let stop_hooks = stop_hooks(scope, spec, defaults);
    let tool_hooks = tool_hooks(scope, spec, defaults);
    let course = course(scope, spec);
    let publish = publish(scope, spec);
    let token_budget = spec.token_budget.as_ref()?.value;
    let (model, max_cost) = model?;
    let (gates, hooks) = stop_hooks?;
    Some(PlannedJob {
        id: job.id.clone(),
        file: file.source.name().to_owned(),
        stem: file.stem.clone(),
        description: description?.value,
        prompt: prompt?,
        follow_ups: follow_ups?,
        limits: Limits {
            max_turns: spec.max_turns.as_ref()?.value,
            token_budget: token_budget.total,
            max_cost,
            timeout: spec.timeout.as_ref()?.value,
            keep_working: token_budget.keep_working,
            task_budget: spec.task_budget.as_ref().map(|budget| budget.value),
            loop_limit: spec.loop_limit.as_ref()?.value,
        },
        tags: tags?,
        protect: protect?,
        require_changes: spec.require_changes.as_ref()?.value,
        context_files: context_files?,
        matrix: job.combination.iter().map(|(key, value)| (key.clone(), value.value.clone())).collect(),
        model,
        source: source?,
        worktree: worktree?,
        gates,
        hooks,
        tool_hooks: tool_hooks?,
        course: course?,
        publish: publish?,
    })
}

/// The task: written in place, or in a file of its own.
fn prompt(scope: &mut Scope<'_>, file: &JobFile, spec: &JobSpec) -> Option<String> {
    if let Some(text) = &spec.prompt {
        return scope.fill(text).map(|text| text.value);
    }
    let Some(written) = &spec.prompt_file else {
        if !scope.is_broken(&["prompt", "prompt_file"]) {
            scope.report(
                Diagnostic::error(Code::MissingKey, "the job has no task: `prompt` is missing")
                    .at(head(file), "neither `prompt` nor `prompt_file` in this file")
                    .help("for example: prompt = \"The test `parse_empty` panics. Find out why and fix it.\""),
            );
        }
        return None;
    };
    let (path, shown) = scope.path(written)?;
    let content = match scope.world.text(&path) {
        Ok(content) => content,
        Err(why) => {
            scope.report(
                Diagnostic::error(Code::NotFound, format!("the prompt file {shown} cannot be read: {why}"))
                    .at(written.place.clone(), "")
                    .note("paths are relative to the file that names them"),
            );
            return None;
        }
    };
    if content.trim().is_empty() {
        let report = Diagnostic::error(Code::OutOfRange, format!("the prompt file {shown} is blank"));
        scope.report(report.at(written.place.clone(), "must hold the task"));
        return None;
    }
    let folder = path.parent().unwrap_or(&path);
    let source = SourceFile::new(Layer::Job, shown, folder, &content);
    let content = Written::new(source.text().to_owned(), Place::whole(&source));
    scope.fill(&content).map(|text| text.value)
}

fn protect(scope: &mut Scope<'_>, written: &[Written<String>]) -> Option<Vec<String>> {
    let globs = scope.fill_all(written)?;
    let checked: Vec<_> = globs
        .into_iter()
        .map(|glob| {
            scope.inside("protect", &glob)?;
            match globset::GlobBuilder::new(&glob.value).literal_separator(true).build() {
                Ok(_) => Some(glob.value),
                Err(error) => {
                    let report = Diagnostic::error(Code::BadGlob, format!("{:?} is not a glob", glob.value));
                    scope.report(report.at(glob.place, error.kind().to_string()));
                    None
                }
            }
        })
        .collect();
    checked.into_iter().collect()
}

fn context_files(scope: &mut Scope<'_>, written: &[Written<String>]) -> Option<Vec<String>> {
    let paths = scope.fill_all(written)?;
    let checked: Vec<_> =
        paths.into_iter().map(|path| scope.inside("context_files", &path).map(|()| path.value)).collect();
    checked.into_iter().collect()
}
