//! The end of a job: its patch is written, its work is committed, its worktree kept or removed. Nothing is lost.

use super::job::JobRun;
use super::workspace::Workspace;
use crate::event::RunEventKind;
use crate::outcome::{Outcome, Reason, Verdict};
use crate::plan::{Keep, OnPass};
use crate::process;
use crate::publish::inert;
use crate::report::cut::marked_head;
use crate::units::show_duration;
use std::time::Duration;

/// All of it must be done within this time; a large tree takes seconds.
const LIMIT: Duration = Duration::from_mins(5);
/// After a signal there is less patience: CI services kill about 10 s after they ask.
const HURRIED: Duration = Duration::from_secs(4);

/// Closes a job and gives back its outcome, which changes only if the work could not be kept.
pub(super) async fn close(run: &mut JobRun<'_>, workspace: Workspace, outcome: Outcome) -> Outcome {
    let limit = if run.hurried() { HURRIED } else { LIMIT };
    let problem = match tokio::time::timeout(limit, keep_work(run, &workspace)).await {
        Ok(Ok(())) => None,
        Ok(Err(problem)) => Some(problem),
        Err(_) => Some(format!("the work was not saved within {}", show_duration(limit))),
    };
    let keep = match (run.job.worktree.keep, outcome.verdict()) {
        (Keep::OnFailure, Verdict::Passed) | (Keep::Never, _) => problem.is_some(),
        (Keep::Always, _)
        | (Keep::OnFailure, Verdict::Failed | Verdict::Error | Verdict::Skipped | Verdict::Cancelled) => true,
    };
    // Another attempt has passed: its own work is in its patch and on its branch, and nobody will look into its worktree.
    let is_rival = run.job.course.attempts > 1 && outcome.reason == Reason::FailFast && problem.is_none();
    let keep = keep && !(is_rival && run.job.worktree.keep != Keep::Always);
    let root = workspace.root().to_owned();
    // What a killed guard left behind; a call's own guard has ended everything else long ago.
    drop(tokio::task::spawn_blocking(process::sweep).await);
    // What was stopped from outside can be gone on with.
    if outcome.verdict() != Verdict::Cancelled {
        drop(tokio::time::timeout(limit, workspace.worktree().drop_checkpoint(&run.place.reference)).await);
    }
    if keep {
        run.report.worktree = workspace.worktree().intact().await.then_some(root);
        drop(tokio::time::timeout(limit, workspace.release()).await);
    } else {
        let worktree = std::sync::Arc::clone(workspace.worktree());
        match tokio::time::timeout(limit, workspace.remove()).await {
            Ok(Ok(())) if run.job.publish.on_pass == OnPass::None => worktree.drop_branch().await,
            Ok(Ok(())) => {}
            Ok(Err(why)) => warn(run, &format!("the worktree {} could not be removed: {why}", root.display())).await,
            Err(_) => warn(run, &format!("the worktree {} could not be removed in time", root.display())).await,
        }
    }
    match problem {
        None => outcome,
        Some(problem) => {
            warn(run, &problem).await;
            // A pass whose work is lost is no pass.
            match outcome.verdict() {
                Verdict::Passed => Outcome {
                    terminal: outcome.terminal,
                    ..Outcome::without_loop(Reason::WorktreeFailed, format!("the work could not be saved: {problem}"))
                },
                Verdict::Failed | Verdict::Error | Verdict::Skipped | Verdict::Cancelled => outcome,
            }
        }
    }
}

async fn keep_work(run: &mut JobRun<'_>, workspace: &Workspace) -> Result<(), String> {
    let worktree = workspace.worktree();
    let tree = match run.judged.take() {
        Some(tree) => tree,
        None => worktree.snapshot().await?,
    };
    let patch = run.place.folder.join("diff.patch");
    worktree.write_patch(&tree, &patch).await?;
    if run.job.publish.on_pass == OnPass::None {
        return Ok(()); // The patch is all that is wanted.
    }
    let message = commit_message(run);
    if let Some(commit) = worktree.commit_by(&tree, &message, run.job.publish.author.as_deref()).await? {
        run.report.branch = Some(commit.branch);
        run.report.commit = Some(commit.id);
    }
    Ok(())
}

/// The job file's own message, else a subject from the job and its description or the first line of its prompt. Below it,
/// where it came from.
fn commit_message(run: &JobRun<'_>) -> String {
    let job = run.job;
    let made = || {
        let about =
            if job.description.is_empty() { job.prompt.lines().next().unwrap_or_default() } else { &job.description };
        // What a prompt happens to say neither calls people nor closes issues.
        format!("{}: {}", job.id, inert(&marked_head(about.trim(), 72)))
    };
    let message = job.publish.commit_message.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let message = message.map_or_else(made, str::to_owned);
    format!("{message}\n\nRunner-Run: {}\nRunner-Model: {}\n", run.context.run, job.model.name)
}

async fn warn(run: &JobRun<'_>, problem: &str) {
    run.reporter.tell(RunEventKind::Warning(problem.to_owned())).await;
}
