//! Checkpoints: the files of a job as they were at a savepoint, kept by a reference that no branch shows.

use super::registration::lock;
use super::repository::in_background;
use super::{TreeId, Worktree};
use crate::units::RunId;
use git2::{Oid, Repository, Signature};
use tokio_util::sync::CancellationToken;

/// Below it lie the checkpoints of all runs, by run and job.
const ROOT: &str = "refs/runner/checkpoints";

/// The reference of a job's checkpoints; `place` is the job, with its attempt where it has several.
#[must_use]
pub fn checkpoint_ref(run: &RunId, place: &str) -> String {
    format!("{ROOT}/{}/{place}", run.0)
}

impl Worktree {
    /// Keeps a tree, and with it the one that the agent was given, whatever is thrown away as unused meanwhile.
    ///
    /// # Errors
    /// Says in words what the repository refused.
    pub async fn checkpoint(&self, reference: &str, start: &TreeId, tree: &TreeId) -> Result<(), String> {
        let (common_dir, base) = (self.common_dir.clone(), self.base.clone());
        let (reference, start, tree) = (reference.to_owned(), start.clone(), tree.clone());
        in_background(move || {
            let repo = Self::open(&common_dir)?;
            let cannot = |error: git2::Error| format!("cannot keep a checkpoint: {}", error.message());
            let base = Oid::from_str(&base).and_then(|base| repo.find_commit(base)).map_err(cannot)?;
            // The same commit each time, so that nothing has to be remembered about it.
            let who = Signature::new("runner", "runner@localhost", &base.time()).map_err(cannot)?;
            let given = commit(&repo, &who, "what the agent was given", &start, &base)?;
            let given = repo.find_commit(given).map_err(cannot)?;
            let id = commit(&repo, &who, "a checkpoint", &tree, &given)?;
            repo.reference(&reference, id, true, "runner: a checkpoint").map(drop).map_err(cannot)
        })
        .await
    }

    /// Gives up a job's checkpoints. Failing leaves a reference too many, no more.
    pub async fn drop_checkpoint(&self, reference: &str) {
        // References that are deleted side by side stand in each other's way.
        let Ok(lock) = lock(&self.common_dir, &CancellationToken::new()).await else { return };
        let (common_dir, reference) = (self.common_dir.clone(), reference.to_owned());
        let dropped = in_background(move || {
            let _lock = lock;
            if let Ok(mut found) = Self::open(&common_dir)?.find_reference(&reference) {
                drop(found.delete());
            }
            Ok(())
        });
        drop(dropped.await);
    }

    /// Makes the files as they are in a tree, ignored ones excepted; `now` is how they are.
    ///
    /// # Errors
    /// Says in words what could not be put right, or that there is no such tree.
    pub async fn return_to(&self, tree: &TreeId, now: &TreeId) -> Result<(), String> {
        let paths = self.changed_paths(tree, now).await?;
        self.restore(tree, &paths).await
    }
}

fn commit(
    repo: &Repository,
    who: &Signature<'_>,
    message: &str,
    tree: &TreeId,
    parent: &git2::Commit<'_>,
) -> Result<Oid, String> {
    let tree = tree.find(repo)?;
    let made = repo.commit(None, who, who, message, &tree, &[parent]);
    made.map_err(|error| format!("cannot keep a checkpoint: {}", error.message()))
}
