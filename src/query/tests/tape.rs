//! A process that dies and another one that goes on: what would be on the disk by then.

use super::world::World;
use super::*;
use crate::query::{Past, Saved};
use std::sync::Arc;

/// What is on the disk.
#[derive(Clone, Default)]
pub(super) struct Tape {
    /// Whether the process may die.
    pub(super) is_kept: bool,
    said: Vec<Arc<Message>>,
    history: History,
    /// The world as it was at the last savepoint, and what was saved.
    last: Option<Box<(World, Saved)>>,
    pub(super) deaths: u32,
}

impl Tape {
    pub(super) fn recorded(&mut self, message: &Arc<Message>) {
        if self.is_kept {
            self.said.push(Arc::clone(message));
            self.history = self.history.with(Arc::clone(message));
        }
    }

    pub(super) fn compacted(&mut self, summary: u64, kept_from: Option<u64>) {
        let Some(first) = self.said.iter().find(|message| message.id == summary) else { return };
        // By place: a summary has a higher number than the messages that follow it.
        let from = self.history.iter().position(|message| Some(message.id) == kept_from);
        let tail = self.history.iter().skip(from.unwrap_or(usize::MAX)).filter(|message| message.id != summary);
        self.history = std::iter::once(first).chain(tail).cloned().collect();
    }
}

impl World {
    /// A savepoint: the disk holds what was said up to here.
    pub(super) fn keep(&mut self, saved: Saved) -> Result<(), String> {
        if !self.tape.is_kept {
            return Ok(());
        }
        let text = serde_json::to_string(&saved).map_err(|error| error.to_string())?;
        let back: Saved = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        if back != saved {
            return Err(format!("it comes back in another way than it was saved: {text}"));
        }
        let (script, last) = (std::mem::take(&mut self.script), self.tape.last.take());
        drop(last);
        let world = self.clone();
        self.script = script;
        self.tape.last = Some(Box::new((world, saved)));
        Ok(())
    }

    /// The process dies; another one goes on from the last savepoint.
    pub(super) fn die(&mut self, line: String) -> Result<(), String> {
        let Some(last) = self.tape.last.take() else { return Ok(()) };
        let (mut world, saved) = *last;
        let past = Past::new(saved, world.tape.history.clone(), world.tape.said.clone())?;
        world.script = std::mem::take(&mut self.script);
        world.tape.deaths = self.tape.deaths + 1;
        world.script.push(line);
        world.play.now = self.play.now;
        let before = std::mem::replace(&mut world.play.query, Query::resumed(world.params.clone(), past));
        world.calls.clear();
        world.runs.clear();
        world.hook = None;
        *self = world;
        self.play("> start".into())?;
        // Digests may have had the words of a small model; everything else is shown as it was.
        let digests = |query: &Query| !query.state().view.described().spans.is_empty();
        let digests = digests(&before) || digests(&self.play.query);
        let (was, is) = (&before.state().view, &self.play.query.state().view);
        let same =
            was.shown().iter().map(|message| &message.blocks).eq(is.shown().iter().map(|message| &message.blocks));
        if self.end.is_none() && !digests && !(same && was.described() == is.described()) {
            return Err(format!(
                "the model is shown something else after a death: {:?}, and was {:?}",
                is.described(),
                was.described()
            ));
        }
        Ok(())
    }
}
