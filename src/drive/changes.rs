//! Tells the agent's changes from those that the gates leave behind: a test that writes a lock file is no work.

use crate::worktree::{TreeId, Worktree};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Who changed the tree.
pub(super) struct Changes {
    worktree: Arc<Worktree>,
    /// The tree that the agent was given.
    start: TreeId,
    /// Ignored files at protected places that were there when the agent began.
    ignored: BTreeSet<PathBuf>,
    state: Mutex<State>,
}

struct State {
    /// The tree when the agent was last given its turn.
    given: TreeId,
    by_agent: bool,
}

impl Changes {
    /// The agent is given this tree, and these ignored files at protected places.
    pub(super) fn new(worktree: Arc<Worktree>, start: TreeId, ignored: BTreeSet<PathBuf>) -> Self {
        let state = Mutex::new(State { given: start.clone(), by_agent: false });
        Self { worktree, start, ignored, state }
    }

    /// As they were when another process had got so far.
    pub(super) fn going_on(self, given: TreeId, by_agent: bool) -> Self {
        Self { state: Mutex::new(State { given, by_agent }), ..self }
    }

    /// The tree when the agent was last given its turn, and whether it had changed anything before that.
    pub(super) fn state(&self) -> (TreeId, bool) {
        let state = self.lock();
        (state.given.clone(), state.by_agent)
    }

    /// Ignored files at protected places that were there when the agent began.
    pub(super) const fn ignored(&self) -> &BTreeSet<PathBuf> {
        &self.ignored
    }

    /// The tree that the agent was given.
    pub(super) const fn start(&self) -> &TreeId {
        &self.start
    }

    /// The agent believes that it has finished; the gates run next.
    pub(super) async fn before_gates(&self) {
        // A tree that cannot be read now cannot be read at the end either, and that is when it is told.
        if let Ok(tree) = self.worktree.snapshot().await {
            let mut state = self.lock();
            state.by_agent |= tree != state.given;
        }
    }

    /// The gates have run; what they left is there from now on.
    pub(super) async fn after_gates(&self) {
        if let Ok(tree) = self.worktree.snapshot().await {
            self.lock().given = tree;
        }
    }

    /// Whether the agent changed anything, now that its work has come to this tree.
    pub(super) fn by_agent(&self, last: &TreeId) -> bool {
        let state = self.lock();
        *last != self.start && (state.by_agent || *last != state.given)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
