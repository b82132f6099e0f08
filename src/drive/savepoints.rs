//! Keeps a job's savepoints, so that another process can go on from them: the files by a reference, the rest in the transcript.
//!
//! A savepoint is on the disk before the model is called again; its files are read while that call is under way. Whatever could change
//! them waits until they are kept and the transcript says so. So the files in the worktree are those of the last savepoint, or the last
//! savepoint names the tree that they were.

use super::changes::Changes;
use super::query::QueryEvent;
use crate::error::Result;
use crate::event::JobReport;
use crate::output::Transcript;
use crate::query::{Ledger, Notice, Query};
use crate::report::json::{Given, Stand};
use crate::units::{Elapsed, Usage};
use crate::worktree::{TreeId, Worktree};
use std::sync::Arc;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use tokio::task::{JoinError, JoinSet};

/// What a checkpoint says in place of a tree that could not be kept.
const UNKNOWN: &str = "unknown";

/// The savepoints of one conversation.
pub(super) struct Savepoints<'a> {
    pub(super) transcript: Transcript,
    keeper: Keeper,
    changes: &'a Changes,
    quiet: Arc<RwLock<()>>,
    /// The tree as it was last read; `None` when something may have changed it since.
    tree: Option<TreeId>,
    /// Something that may change them waits for the files that are being kept.
    touched: bool,
    /// Files that are being kept: one task at most.
    pending: JoinSet<Keeping>,
    /// What was used, as the transcript says it.
    booked: Usage,
}

/// Keeps files.
#[derive(Clone)]
struct Keeper {
    worktree: Arc<Worktree>,
    start: TreeId,
    reference: String,
}

/// What came of it; nothing changes the files before this is dropped.
struct Keeping {
    tree: std::result::Result<TreeId, String>,
    _quiet: OwnedRwLockWriteGuard<()>,
}

/// What may come next.
pub(super) enum Next {
    /// The query tells something, or has ended.
    Event(Option<QueryEvent>),
    /// Files are kept, or cannot be.
    Kept(std::result::Result<(), String>),
}

impl Keeper {
    async fn keep(&self) -> std::result::Result<TreeId, String> {
        let tree = self.worktree.snapshot().await?;
        self.worktree.checkpoint(&self.reference, &self.start, &tree).await?;
        Ok(tree)
    }
}

impl<'a> Savepoints<'a> {
    /// For a conversation that has used so much already.
    pub(super) fn new(
        transcript: Transcript,
        worktree: Arc<Worktree>,
        changes: &'a Changes,
        quiet: Arc<RwLock<()>>,
        reference: String,
        booked: Usage,
    ) -> Self {
        let keeper = Keeper { worktree, start: changes.start().clone(), reference };
        Self { transcript, keeper, changes, quiet, tree: None, touched: false, pending: JoinSet::new(), booked }
    }

    /// Tells in the transcript what the agent is given.
    pub(super) async fn started(&mut self, at: Elapsed) -> Result<Option<String>> {
        let given = Given {
            tree: self.keeper.start.as_str().to_owned(),
            ignored: self.changes.ignored().clone(),
            pinned: self.keeper.worktree.pinned().clone(),
        };
        self.transcript.started(at, &given)?;
        let (start, reference) = (self.keeper.start.clone(), &self.keeper.reference);
        let kept = self.keeper.worktree.checkpoint(reference, &start, &start).await;
        if kept.is_ok() {
            self.tree = Some(start);
        }
        Ok(kept.err())
    }

    /// Waits for what comes next.
    pub(super) async fn next(&mut self, query: &mut super::query::QueryRun, at: impl Fn() -> Elapsed) -> Result<Next> {
        tokio::select! {
            biased;
            Some(kept) = self.pending.join_next() => self.kept(kept, at()).map(Next::Kept),
            event = query.next() => Ok(Next::Event(event)),
        }
    }

    fn kept(
        &mut self,
        kept: std::result::Result<Keeping, JoinError>,
        at: Elapsed,
    ) -> Result<std::result::Result<(), String>> {
        let Ok(Keeping { tree, _quiet }) = kept else {
            return Ok(Err("the runner failed while it kept the files".into()));
        };
        match tree {
            Ok(tree) => {
                self.transcript.checkpoint(at, tree.as_str())?;
                self.tree = (!self.touched).then_some(tree);
                Ok(Ok(()))
            }
            Err(problem) => {
                // The files change from here on, so that this savepoint cannot be gone on from.
                self.transcript.checkpoint(at, UNKNOWN)?;
                Ok(Err(problem))
            }
        }
    }

    /// Notes what may change the files.
    pub(super) fn watch(&mut self, event: &QueryEvent, only_looks: impl Fn(&str) -> bool) {
        let touches = match event {
            QueryEvent::ToolStarted { tool, .. } => !only_looks(tool),
            QueryEvent::HookStarted { .. } => true,
            QueryEvent::Notice(_)
            | QueryEvent::Record { .. }
            | QueryEvent::KeepResult { .. }
            | QueryEvent::ToolFinished { .. }
            | QueryEvent::HookFinished { .. }
            | QueryEvent::Warning(_)
            | QueryEvent::Progress(_)
            | QueryEvent::Finished(_) => false,
        };
        if touches {
            self.touched = true;
            self.tree = None;
        }
    }

    /// Writes down what the calls have come to, when that has changed: a call that was paid for must count, whatever happens next.
    pub(super) fn keep_books(&mut self, at: Elapsed, query: &Query) -> Result<()> {
        let ledger: &Ledger = query.ledger();
        if *ledger.used() == self.booked {
            return Ok(());
        }
        self.booked = *ledger.used();
        self.transcript.books(at, query.model_calls(), ledger.used(), ledger.spent())
    }

    /// Takes a savepoint. The model is called again only after this has come back.
    pub(super) async fn save(&mut self, at: Elapsed, notice: &Notice, report: &JobReport) -> Result<()> {
        let Notice::Savepoint { transition, saved } = notice else { return Ok(()) };
        while let Some(kept) = self.pending.join_next().await {
            drop(self.kept(kept, at)?);
        }
        let stand = self.stand(self.tree.as_ref());
        self.transcript.savepoint(at, *transition, &stand, saved, report)?;
        if stand.tree.is_none() {
            let quiet = Arc::clone(&self.quiet).write_owned().await;
            let keeper = self.keeper.clone();
            self.touched = false;
            self.pending.spawn(async move { Keeping { tree: keeper.keep().await, _quiet: quiet } });
        }
        Ok(())
    }

    /// The conversation has ended; the report holds the terminal. What is left can be done by another process too.
    pub(super) async fn end(&mut self, at: Elapsed, report: &JobReport) -> Result<Option<String>> {
        while let Some(kept) = self.pending.join_next().await {
            drop(self.kept(kept, at)?);
        }
        let tree = match self.tree.take() {
            Some(tree) => tree,
            None => match self.keeper.keep().await {
                Ok(tree) => tree,
                Err(problem) => return Ok(Some(problem)),
            },
        };
        self.transcript.ended(at, &self.stand(Some(&tree)), report).map(|()| None)
    }

    fn stand(&self, tree: Option<&TreeId>) -> Stand {
        let (given, by_agent) = self.changes.state();
        Stand { tree: tree.map(|tree| tree.as_str().to_owned()), given: given.as_str().to_owned(), by_agent }
    }
}
