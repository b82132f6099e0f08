//! From text to what was written: one parse, then a walk over the spanned tree that finds every error of the file.

use super::budget::{task_budget, token_budget};
use super::course::course;
use super::diagnostic::{Code, Diagnostic};
use super::hook::{stop_hooks, tool_hooks};
use super::job::JobSpec;
use super::keys::Table;
use super::matrix::matrix;
use super::model::model;
use super::publish::publish;
use super::read::{Field, Reader, Value};
use super::source::SourceFile;
use super::worktree::worktree;
use crate::units::Turns;
use std::collections::BTreeSet;
use std::sync::Arc;
use toml::Spanned;
use toml::de::DeTable;

/// Reads a job file: what could be read of it, and everything that is wrong with it.
///
/// There is no job where the file is not TOML.
pub fn parse_job(file: &Arc<SourceFile>) -> (Option<JobSpec>, Vec<Diagnostic>) {
    let mut reader = Reader::new(file);
    let spec = document(&mut reader, file).map(|root| job(&mut reader, root.get_ref()));
    finished(reader, spec)
}

/// Reads `runner.toml`: the job that its `[defaults]` stand for, and everything that is wrong with it.
pub fn parse_settings(file: &Arc<SourceFile>) -> (Option<JobSpec>, Vec<Diagnostic>) {
    let mut reader = Reader::new(file);
    let spec = document(&mut reader, file).map(|root| {
        let root = root.get_ref();
        reader.refuse_unknown(Table::Settings, root);
        let defaults = reader.key(Table::Settings, root, "defaults", |reader, field, value| {
            let Some(table) = value.get_ref().as_table() else {
                return reader.wrong_type(field, value, "a table");
            };
            Some(job(reader, table))
        });
        defaults.map(|written| written.value).unwrap_or_default()
    });
    finished(reader, spec)
}

/// The tree of a text. All syntax errors are reported, and then there is no tree.
fn document<'a>(reader: &mut Reader, file: &'a Arc<SourceFile>) -> Option<Spanned<DeTable<'a>>> {
    let (root, errors) = DeTable::parse_recoverable(file.text());
    if errors.is_empty() {
        return Some(root);
    }
    let mut last = None;
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        let line = file.line_column(span.start).0;
        // One broken value makes the parser stumble again on the same line: the first report says it all.
        if last.replace(line) != Some(line) {
            reader.refuse(Diagnostic::error(Code::Syntax, error.message()), span, "");
        }
    }
    None
}

fn finished(reader: Reader, spec: Option<JobSpec>) -> (Option<JobSpec>, Vec<Diagnostic>) {
    let Reader { mut found, broken, .. } = reader;
    let at = |diagnostic: &Diagnostic| diagnostic.at.as_ref().map_or(0, |(place, _)| place.span.start);
    found.sort_by_key(at);
    (spec.map(|spec| JobSpec { broken, ..spec }), found)
}

fn job(reader: &mut Reader, from: &DeTable<'_>) -> JobSpec {
    let table = Table::Job;
    reader.refuse_unknown(table, from);
    JobSpec {
        name: reader.key(table, from, "name", Reader::text),
        description: reader.key(table, from, "description", one_line),
        prompt: reader.key(table, from, "prompt", Reader::words),
        prompt_file: reader.key(table, from, "prompt_file", Reader::words),
        follow_ups: reader.key(table, from, "follow_ups", Reader::list),
        max_turns: reader.key(table, from, "max_turns", |reader, field, value| {
            reader.whole(field, value, 1..=100_000).map(|turns| Turns(turns as u32))
        }),
        token_budget: reader.key(table, from, "token_budget", token_budget),
        task_budget: reader.key(table, from, "task_budget", task_budget),
        loop_limit: reader.key(table, from, "loop_limit", |reader, field, value| {
            reader.whole(field, value, 4..=1_000).map(|limit| limit as u32)
        }),
        max_cost_usd: reader.key(table, from, "max_cost_usd", Reader::usd),
        timeout: reader.key(table, from, "timeout", Reader::duration),
        course: course(reader, from),
        tags: reader.key(table, from, "tags", Reader::list),
        protect: reader.key(table, from, "protect", Reader::list),
        require_changes: reader.key(table, from, "require_changes", Reader::boolean),
        matrix: reader.key(table, from, "matrix", matrix),
        context_files: reader.key(table, from, "context_files", Reader::list),
        repo: reader.key(table, from, "repo", Reader::words),
        model: reader.key(table, from, "model", model).map(|model| model.value).unwrap_or_default(),
        publish: reader.key(table, from, "publish", publish).map(|table| table.value).unwrap_or_default(),
        worktree: reader.key(table, from, "worktree", worktree).map(|tree| tree.value).unwrap_or_default(),
        stop_hooks: reader.key(table, from, "stop_hooks", stop_hooks),
        tool_hooks: reader.key(table, from, "tool_hooks", tool_hooks),
        broken: BTreeSet::new(),
    }
}

fn one_line(reader: &mut Reader, field: Field<'_>, value: &Value<'_>) -> Option<String> {
    let text = reader.text(field, value)?;
    if text.contains(['\n', '\r']) {
        let report = Diagnostic::error(Code::OutOfRange, format!("`{}` has several lines", field.name));
        reader.refuse(report, value.span(), "must be one line");
        return None;
    }
    Some(text)
}
