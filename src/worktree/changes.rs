//! What the commits of a branch change, as plain data to be judged.

use git2::{Delta, Diff, DiffFindOptions, DiffOptions, FileMode, Oid, Patch, Repository};

/// One commit and what it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Its full id.
    pub commit: String,
    /// What it changes against its parent.
    pub changes: Vec<Change>,
}

/// One changed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The path; for a removed file the one that it had.
    pub path: String,
    /// The path that it was moved or copied from.
    pub from: Option<String>,
    /// What is there now.
    pub after: After,
    /// Lines that were added.
    pub added: u64,
    /// Lines that were taken away.
    pub removed: u64,
    /// The size of what is there now, in bytes.
    pub size: u64,
    /// The added lines themselves; cut off where there are very many.
    pub text: Vec<String>,
}

/// What is at a path after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing.
    Nothing,
    /// Text.
    Text,
    /// Something else than text.
    Binary,
    /// A symbolic link that leads there.
    Link(String),
    /// A submodule.
    Submodule,
}

/// Larger files are not looked into line by line, in bytes.
const LOOKED_AT: usize = 8 << 20;
/// The most text that is held for one step, in bytes.
const TEXT_MAX: usize = 64 << 20;
/// The most commits that are looked at; a job that made more is no job to publish unseen.
const STEPS_MAX: usize = 1_000;

/// The commits from behind `base` to `commit`, the oldest first, and all of it as one step.
///
/// # Errors
/// Says in words that `commit` is not on top of `base` in a straight line, or that an object cannot be read.
pub(super) fn steps(repo: &Repository, base: &str, commit: &str) -> Result<(Vec<Step>, Step), String> {
    let said = |error: git2::Error| error.message().to_owned();
    let (base, tip) = (Oid::from_str(base).map_err(said)?, Oid::from_str(commit).map_err(said)?);
    if !repo.graph_descendant_of(tip, base).map_err(said)? {
        return Err(format!("the commit {tip} is not on top of the base {base}"));
    }
    let mut steps = Vec::new();
    let mut at = tip;
    while at != base {
        let commit = repo.find_commit(at).map_err(said)?;
        if commit.parent_count() != 1 {
            return Err(format!("the commit {at} has {} parents: a merge is not published", commit.parent_count()));
        }
        if steps.len() == STEPS_MAX {
            return Err(format!("there are more than {STEPS_MAX} commits"));
        }
        let parent = commit.parent_id(0).map_err(said)?;
        steps.push(Step { commit: at.to_string(), changes: between(repo, parent, at).map_err(said)? });
        at = parent;
    }
    steps.reverse();
    let whole = match steps.as_slice() {
        [only] => only.clone(),
        _ => Step { commit: tip.to_string(), changes: between(repo, base, tip).map_err(said)? },
    };
    Ok((steps, whole))
}

fn between(repo: &Repository, old: Oid, new: Oid) -> Result<Vec<Change>, git2::Error> {
    let tree = |id| repo.find_commit(id).and_then(|commit| commit.tree());
    let mut options = DiffOptions::new();
    // Attributes of the work decide nothing about how it is looked at.
    options.force_text(true).context_lines(0).ignore_submodules(false).include_typechange(true);
    let mut diff = repo.diff_tree_to_tree(Some(&tree(old)?), Some(&tree(new)?), Some(&mut options))?;
    diff.find_similar(Some(DiffFindOptions::new().renames(true)))?;
    let mut room = TEXT_MAX;
    (0..diff.deltas().len()).map(|index| change(repo, &diff, index, &mut room)).collect()
}

fn change(repo: &Repository, diff: &Diff<'_>, index: usize, room: &mut usize) -> Result<Change, git2::Error> {
    let delta = diff.get_delta(index).ok_or_else(|| git2::Error::from_str("a change went missing"))?;
    let shown = |file: git2::DiffFile<'_>| {
        file.path_bytes().map(|path| String::from_utf8_lossy(path).into_owned()).unwrap_or_default()
    };
    let (old, new) = (delta.old_file(), delta.new_file());
    let mut change = Change {
        path: if delta.status() == Delta::Deleted { shown(old) } else { shown(new) },
        from: matches!(delta.status(), Delta::Renamed | Delta::Copied).then(|| shown(delta.old_file())),
        after: After::Nothing,
        added: 0,
        removed: 0,
        size: 0,
        text: Vec::new(),
    };
    if delta.status() != Delta::Deleted {
        change.after = match delta.new_file().mode() {
            FileMode::Commit => After::Submodule,
            mode @ (FileMode::Unreadable
            | FileMode::Tree
            | FileMode::Blob
            | FileMode::BlobGroupWritable
            | FileMode::BlobExecutable
            | FileMode::Link) => {
                let blob = repo.find_blob(delta.new_file().id())?;
                change.size = blob.size() as u64;
                if mode == FileMode::Link {
                    After::Link(String::from_utf8_lossy(blob.content()).into_owned())
                } else if blob.is_binary() {
                    After::Binary
                } else {
                    After::Text
                }
            }
        };
    }
    let old_size = repo.find_blob(delta.old_file().id()).map_or(0, |blob| blob.size());
    if change.after == After::Submodule || change.size as usize > LOOKED_AT || old_size > LOOKED_AT {
        return Ok(change);
    }
    if let Some(patch) = Patch::from_diff(diff, index)? {
        let (_, added, removed) = patch.line_stats()?;
        (change.added, change.removed) = (added as u64, removed as u64);
        for hunk in 0..patch.num_hunks() {
            for line in 0..patch.num_lines_in_hunk(hunk)? {
                let line = patch.line_in_hunk(hunk, line)?;
                if line.origin() == '+' && line.content().len() <= *room {
                    *room -= line.content().len();
                    change.text.push(String::from_utf8_lossy(line.content()).trim_end().to_owned());
                }
            }
        }
    }
    Ok(change)
}
