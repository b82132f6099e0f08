//! Keeps the work on the worktree's branch.

use super::remove::delete_untouched_branch;
use super::repository::in_background;
use super::{TreeId, Worktree};
use git2::{Oid, Repository, Signature};

/// Who commits where git knows no name or address. The host `localhost` says that nobody reads mail there.
const FALLBACK: (&str, &str) = ("runner", "runner@localhost");

/// A commit that holds a job's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its full id.
    pub id: String,
    /// The branch that points at it.
    pub branch: String,
}

impl Worktree {
    /// Commits a snapshot to the worktree's branch, wherever the agent has moved `HEAD`.
    ///
    /// On top of what the agent committed there, or of the base when it reset the branch elsewhere. Where the agent
    /// committed all of it, its own commit is given back. `None` when there is no work. No hook runs and nothing is
    /// signed. The name is git's `user.name` and `user.email`, else `runner` and `runner@localhost`.
    ///
    /// # Errors
    /// Says in words what the repository refused.
    pub async fn commit(&self, tree: &TreeId, message: &str) -> Result<Option<Commit>, String> {
        self.commit_by(tree, message, None).await
    }

    /// As [`Worktree::commit`], with an author of the form `Name <address>`; the committer stays git's.
    ///
    /// # Errors
    /// Says in words what the repository refused, or that the author is not of that form.
    pub async fn commit_by(
        &self,
        tree: &TreeId,
        message: &str,
        author: Option<&str>,
    ) -> Result<Option<Commit>, String> {
        let (common_dir, branch, base) = (self.common_dir.clone(), self.branch.clone(), self.base.clone());
        let (tree, message, author) = (tree.clone(), message.to_owned(), author.map(str::to_owned));
        in_background(move || {
            let repo = Self::open(&common_dir)?;
            let author = author.as_deref().map(named).transpose()?;
            let work = Work { repo: &repo, branch: &branch, base: &base, author };
            let id = work.commit(&tree, &message).map_err(|error| format!("cannot commit to `{branch}`: {error}"))?;
            Ok(id.map(|id| Commit { id: id.to_string(), branch }))
        })
        .await
    }

    /// Takes the branch away, whatever is on it, unless somebody has it checked out: for work that stays as a patch alone.
    /// Failing leaves a name too many, no more.
    pub async fn drop_branch(&self) {
        let (common_dir, branch) = (self.common_dir.clone(), self.branch.clone());
        let dropped = in_background(move || {
            let repo = Self::open(&common_dir)?;
            let tip = repo.find_reference(&format!("refs/heads/{branch}")).ok().and_then(|found| found.target());
            if let Some(tip) = tip {
                delete_untouched_branch(&repo, &branch, tip);
            }
            Ok(())
        });
        drop(dropped.await);
    }
}

/// An author written as `Name <address>`.
fn named(author: &str) -> Result<Signature<'static>, String> {
    let parts = author.trim().strip_suffix('>').and_then(|rest| rest.split_once('<'));
    let signature = parts.and_then(|(name, email)| Signature::now(name.trim(), email.trim()).ok());
    signature.ok_or_else(|| format!("the author {author:?} is not of the form `Name <address>`"))
}

struct Work<'a> {
    repo: &'a Repository,
    branch: &'a str,
    base: &'a str,
    author: Option<Signature<'static>>,
}

impl Work<'_> {
    fn commit(&self, tree: &TreeId, message: &str) -> Result<Option<Oid>, String> {
        let said = |error: git2::Error| error.message().to_owned();
        let tree = tree.find(self.repo)?;
        let base = Oid::from_str(self.base).map_err(said)?;
        let name = format!("refs/heads/{}", self.branch);
        let tip = self.repo.find_reference(&name).ok().and_then(|reference| reference.target());
        let descends = |tip: &Oid| *tip == base || self.repo.graph_descendant_of(*tip, base).unwrap_or_default();
        let parent = self.repo.find_commit(tip.filter(descends).unwrap_or(base)).map_err(said)?;
        let id = if parent.tree_id() == tree.id() {
            if parent.id() == base {
                return Ok(None);
            }
            parent.id()
        } else {
            let committer = self.identity().map_err(said)?;
            let author = self.author.as_ref().unwrap_or(&committer);
            self.repo.commit(None, author, &committer, message, &tree, &[&parent]).map_err(said)?
        };
        if tip != Some(id) {
            self.repo.reference(&name, id, true, "runner: the work of a job").map_err(said)?;
        }
        Ok(Some(id))
    }

    /// The person's, as far as git knows it.
    fn identity(&self) -> Result<Signature<'static>, git2::Error> {
        let config = self.repo.config().and_then(|mut config| config.snapshot()).ok();
        let known = |key: &str| {
            let value = config.as_ref().and_then(|config| config.get_str(key).ok().map(str::to_owned));
            value.filter(|value| !value.trim().is_empty())
        };
        let name = known("user.name").unwrap_or_else(|| FALLBACK.0.to_owned());
        let email = known("user.email").unwrap_or_else(|| FALLBACK.1.to_owned());
        // A name of nothing but marks is refused.
        Signature::now(&name, &email).or_else(|_| Signature::now(FALLBACK.0, FALLBACK.1))
    }
}
