//! `transcript.jsonl` back to what a job goes on from.
//!
//! A runner that was killed may have left a torn last line, and a machine that lost its power a tail of zeros: what can be read is
//! read, up to the first line that cannot.

use super::codes::{by_code, schema};
use super::message::MessageLine;
use super::result::job_report;
use crate::event::JobReport;
use crate::outcome::Transition;
use crate::query::{History, Message, Past, Saved};
use crate::report::json::savepoint::{Given, Stand};
use crate::report::json::value::UsageValue;
use crate::units::{Usage, Usd};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

/// What a transcript tells to whoever goes on with its job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taped {
    /// The commit that the work starts from.
    pub base: Option<String>,
    /// The branch of the work.
    pub branch: Option<String>,
    /// The worktree's path.
    pub worktree: Option<String>,
    /// What the agent was given; `None` when it had not begun.
    pub given: Option<Given>,
    /// Where to go on.
    pub stage: Option<Stage>,
    /// How many bytes can be read; what follows is torn.
    pub whole: usize,
    /// Lines after the savepoint, which are set aside.
    pub set_aside: usize,
    /// What did not fit together, in words.
    pub trouble: Vec<String>,
}

/// A place to go on from.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The number of the savepoint, from 1.
    pub savepoint: usize,
    /// The conversation, with what was used since then counted in.
    pub past: Past,
    /// The files; where they were not kept, they are as in the worktree, since nothing has changed them after the savepoint.
    pub stand: Stand,
    /// What was known of the job.
    pub report: JobReport,
    /// The conversation has ended: only judging is left. The report's outcome holds the terminal.
    pub ended: bool,
}

#[derive(Deserialize)]
struct MetaLine {
    schema: u32,
    base: Option<String>,
    branch: Option<String>,
    worktree: Option<String>,
}

#[derive(Deserialize)]
struct CompactionLine {
    agent: Option<u32>,
    summary: u64,
    kept_from: Option<u64>,
}

#[derive(Deserialize)]
struct SavepointLine {
    transition: Option<String>,
    stand: Stand,
    saved: Saved,
    report: Value,
}

#[derive(Deserialize)]
struct CheckpointLine {
    tree: String,
}

#[derive(Deserialize)]
struct BooksLine {
    calls: u32,
    usage: UsageValue,
    spent: Usd,
}

#[derive(Deserialize)]
struct EndedLine {
    stand: Stand,
    report: Value,
}

#[derive(Deserialize)]
struct ResumedLine {
    savepoint: usize,
}

/// The conversation while it is read.
#[derive(Clone, Default)]
struct Fold {
    said: Vec<Arc<Message>>,
    history: History,
    transitions: Vec<Transition>,
}

/// A savepoint, and what was there by then.
struct Kept {
    said: usize,
    history: History,
    transitions: usize,
    line: SavepointLine,
    /// What was used up to here and since.
    books: Option<(u32, Usage, Usd)>,
    ended: Option<EndedLine>,
    /// Lines that followed.
    lines: usize,
}

/// Reads the text of a `transcript.jsonl`. `only_kept`: the worktree is lost, so only a savepoint whose files were kept will do.
///
/// # Errors
/// Says in words what is wrong with its first line. Whatever comes later only shortens what is gone on from.
pub fn transcript(text: &str, only_kept: bool) -> Result<Taped, String> {
    let mut taped = Taped::default();
    let mut fold = Fold::default();
    let mut kept: Vec<Kept> = Vec::new();
    for line in text.split_inclusive('\n') {
        let read = serde_json::from_str::<Value>(line).ok().filter(|value| line.ends_with('\n') && value.is_object());
        let Some(value) = read else { break };
        if taped.whole == 0 {
            let meta: MetaLine = serde_json::from_value(value).map_err(|error| error.to_string())?;
            schema(meta.schema)?;
            (taped.base, taped.branch, taped.worktree) = (meta.base, meta.branch, meta.worktree);
        } else if let Err(problem) = take(value, &mut taped, &mut fold, &mut kept) {
            taped.trouble.push(problem);
            break;
        }
        taped.whole += line.len();
    }
    if taped.whole == 0 {
        return Err("its first line cannot be read".into());
    }
    taped.stage = choose(kept, &fold, only_kept, &mut taped);
    Ok(taped)
}

fn take(value: Value, taped: &mut Taped, fold: &mut Fold, kept: &mut Vec<Kept>) -> Result<(), String> {
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(last) = kept.last_mut() {
        last.lines += usize::from(kind != "resumed");
    }
    let said = |error: serde_json::Error| format!("a line of the kind `{kind}`: {error}");
    match kind.as_str() {
        "message" => {
            let line: MessageLine = serde_json::from_value(value).map_err(said)?;
            if line.agent.is_none() {
                let message = Arc::new(line.message()?);
                fold.said.push(Arc::clone(&message));
                fold.history = fold.history.with(message);
            }
        }
        "compaction" => {
            let line: CompactionLine = serde_json::from_value(value).map_err(said)?;
            if line.agent.is_none() {
                fold.compact(&line);
            }
        }
        "started" => taped.given = Some(serde_json::from_value(value).map_err(said)?),
        "savepoint" => {
            let line: SavepointLine = serde_json::from_value(value).map_err(said)?;
            fold.transitions.extend(line.transition.as_deref().map(by_code::<Transition>).transpose()?);
            kept.push(Kept {
                said: fold.said.len(),
                history: fold.history.clone(),
                transitions: fold.transitions.len(),
                line,
                books: None,
                ended: None,
                lines: 0,
            });
        }
        "checkpoint" => {
            let line: CheckpointLine = serde_json::from_value(value).map_err(said)?;
            if let Some(last) = kept.last_mut() {
                last.line.stand.tree = Some(line.tree);
                last.lines -= 1;
            }
        }
        "books" => {
            let line: BooksLine = serde_json::from_value(value).map_err(said)?;
            if let Some(last) = kept.last_mut() {
                last.books = Some((line.calls, line.usage.into(), line.spent));
            }
        }
        "ended" => {
            let line: EndedLine = serde_json::from_value(value).map_err(said)?;
            if let Some(last) = kept.last_mut() {
                last.ended = Some(line);
            }
        }
        "resumed" => {
            let line: ResumedLine = serde_json::from_value(value).map_err(said)?;
            // What was used after it stays used.
            let books = kept.iter().filter_map(|kept| kept.books).next_back();
            kept.truncate(line.savepoint);
            let Some(last) = kept.last_mut() else {
                return Err("it goes on from a savepoint that is not there".into());
            };
            (last.books, last.ended, last.lines) = (books, None, 0);
            fold.said.truncate(last.said);
            fold.transitions.truncate(last.transitions);
            fold.history = last.history.clone();
        }
        // Turns are told by the books; a later version may have more kinds.
        _ => {}
    }
    Ok(())
}

impl Fold {
    /// The summary takes the place of everything before `kept_from`: by place, as its number is higher than theirs.
    fn compact(&mut self, line: &CompactionLine) {
        let Some(first) = self.said.iter().rfind(|message| message.id == line.summary) else { return };
        let from = self.history.iter().position(|message| Some(message.id) == line.kept_from);
        let tail = self.history.iter().skip(from.unwrap_or(usize::MAX)).filter(|message| message.id != line.summary);
        self.history = std::iter::once(first).chain(tail).cloned().collect();
    }
}

/// The newest savepoint that fits together.
fn choose(mut kept: Vec<Kept>, fold: &Fold, only_kept: bool, taped: &mut Taped) -> Option<Stage> {
    let newest = fold.said.iter().map(|message| message.id).max().unwrap_or_default();
    // What was used after a savepoint that cannot be gone on from stays used.
    let books = kept.iter().filter_map(|kept| kept.books).next_back();
    while let Some(one) = kept.pop() {
        let (savepoint, lines) = (kept.len() + 1, one.lines);
        if only_kept && one.line.stand.tree.is_none() && one.ended.is_none() {
            taped.set_aside += lines + 1;
            continue;
        }
        match stage(one, savepoint, fold, newest, books) {
            Ok(stage) => {
                taped.set_aside += if stage.ended { 0 } else { lines };
                return Some(stage);
            }
            Err(problem) => {
                taped.trouble.push(format!("savepoint {savepoint} cannot be gone on from: {problem}"));
                taped.set_aside += lines + 1;
            }
        }
    }
    None
}

fn stage(
    kept: Kept,
    savepoint: usize,
    fold: &Fold,
    newest: u64,
    books: Option<(u32, Usage, Usd)>,
) -> Result<Stage, String> {
    let SavepointLine { stand, mut saved, report, transition: _ } = kept.line;
    if let Some((calls, used, spent)) = books.filter(|(calls, ..)| *calls >= saved.calls) {
        (saved.calls, saved.used, saved.spent) = (calls, used, spent);
    }
    saved.numbers.0 = saved.numbers.0.max(newest);
    let said = fold.said.iter().take(kept.said).cloned().collect();
    let past = Past::new(saved, kept.history, said)?;
    let ended = kept.ended.is_some();
    let (stand, report) = kept.ended.map_or((stand, report), |ended| (ended.stand, ended.report));
    let mut report = job_report(&report.to_string())?;
    report.transitions = fold.transitions.iter().take(kept.transitions).copied().collect();
    Ok(Stage { savepoint, past, stand, report, ended })
}
