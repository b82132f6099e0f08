//! After the loop: the gates once more, run by the runner on the final tree, with protected paths restored.

use super::changes::Changes;
use super::gates::{self, Gates};
use super::job::JobRun;
use super::workspace::Workspace;
use crate::event::{GateMoment, Phase, RunEventKind};
use crate::judge::{FinalGate, Work, judge_work};
use crate::outcome::{AbortReason, Outcome, Reason, Terminal, TerminalReason};
use crate::plan::PlannedJob;
use crate::query::describe;
use crate::tools::Protected;
use crate::worktree::TreeId;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Judges the work and says how the job ended.
pub(super) async fn judge(
    run: &mut JobRun<'_>,
    workspace: &Workspace,
    gates: &Gates,
    made: &Changes,
    terminal: Terminal,
) -> Outcome {
    match restored(run, workspace, made).await {
        Ok(changed) => {
            let gates = final_gates(run, workspace, gates, &terminal, changed).await;
            // A signal while the gates ran: what they said is not a judgement.
            if run.hurried() && terminal.abort.is_none() {
                return Outcome { terminal: Some(terminal), ..run.stopped() };
            }
            let green_with_protected_changes =
                terminal.reason == TerminalReason::Completed && !terminal.budget_exhausted;
            judge_work(&Work {
                terminal,
                gates,
                changed,
                require_changes: run.job.require_changes,
                protected_changes: run.report.protected_changes.clone(),
                green_with_protected_changes,
            })
        }
        Err(problem) => Outcome { terminal: Some(terminal), ..Outcome::without_loop(Reason::WorktreeFailed, problem) },
    }
}

/// Undoes changes to protected paths; says whether anything else was changed.
async fn restored(run: &mut JobRun<'_>, workspace: &Workspace, made: &Changes) -> Result<bool, String> {
    let worktree = workspace.worktree();
    let tree = worktree.snapshot().await?;
    let by_agent = made.by_agent(&tree);
    let changes = worktree.changed_paths(made.start(), &tree).await?;
    if run.job.protect.is_empty() {
        run.judged = Some(tree);
        return Ok(by_agent);
    }
    remove_hidden(run, workspace, made, &tree).await?;
    let protect = Protected::new(&run.job.protect)?;
    let (protected, free): (Vec<String>, Vec<String>) = changes.into_iter().partition(|path| protect.covers(path));
    if protected.is_empty() {
        run.judged = Some(tree);
    } else {
        let note = format!("changes to protected paths were undone: {}", protected.join(", "));
        run.reporter.tell(RunEventKind::Warning(note)).await;
        worktree.restore(made.start(), &protected).await?;
        run.report.protected_changes = protected;
        run.judged = Some(worktree.snapshot().await?);
    }
    Ok(by_agent && !free.is_empty())
}

/// The files at protected places that git ignores, so that no snapshot holds them.
pub(super) async fn ignored_at_protected(
    job: &PlannedJob,
    workspace: &Workspace,
    tree: &TreeId,
) -> Result<BTreeSet<PathBuf>, String> {
    if job.protect.is_empty() {
        return Ok(BTreeSet::new());
    }
    let protect = Protected::new(&job.protect)?;
    workspace.worktree().unseen_files(tree, move |path| protect.covers(path)).await
}

/// Removes what came to protected places since the agent began and is ignored by git: it would change what the gates see, but not
/// what is committed. Caches that test programs leave there go too; they make them anew.
async fn remove_hidden(run: &JobRun<'_>, workspace: &Workspace, made: &Changes, tree: &TreeId) -> Result<(), String> {
    const NAMED: usize = 5;
    let now = ignored_at_protected(run.job, workspace, tree).await?;
    let hidden: BTreeSet<PathBuf> = now.difference(made.ignored()).cloned().collect();
    if hidden.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = hidden.iter().take(NAMED).map(|path| path.display().to_string()).collect();
    let more = hidden.len().checked_sub(NAMED).filter(|more| *more > 0);
    let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
    let note = format!("ignored files at protected places were removed: {}{more}", names.join(", "));
    run.reporter.tell(RunEventKind::Note(note)).await;
    workspace.worktree().delete_files(hidden).await
}

/// Runs the gates, unless nobody would read the result: the job was stopped from outside, or a model error left the tree
/// as it was.
async fn final_gates(
    run: &JobRun<'_>,
    workspace: &Workspace,
    gates: &Gates,
    terminal: &Terminal,
    changed: bool,
) -> Vec<FinalGate> {
    let stopped = matches!(terminal.abort, Some(AbortReason::Interrupt | AbortReason::FailFast));
    let is_error = match terminal.reason {
        TerminalReason::ModelError
        | TerminalReason::PromptTooLong
        | TerminalReason::ImageError
        | TerminalReason::BlockingLimit => true,
        TerminalReason::Completed
        | TerminalReason::MaxTurns
        | TerminalReason::AbortedStreaming
        | TerminalReason::AbortedTools
        | TerminalReason::StopHookPrevented
        | TerminalReason::HookStopped => false,
    };
    let nothing_tried = is_error && !changed;
    if stopped || nothing_tried || gates.plans().is_empty() {
        return Vec::new();
    }
    run.phase(Phase::Judging).await;
    let mut judged = Vec::new();
    for (index, plan) in gates.plans().iter().enumerate() {
        let result = run.run_gate(gates, index, GateMoment::Final).await;
        judged.push(FinalGate {
            name: plan.name.clone(),
            proved_red: gates.proved_red(index),
            status: gates::status(&result.status),
            how: describe(&result),
            tail: result.tail,
        });
        put_right(run, workspace, &plan.name).await;
    }
    judged
}

/// Undoes what a gate changed in the tree that is judged, so that the next one judges what is committed. What it added stays:
/// gates may build on each other.
async fn put_right(run: &JobRun<'_>, workspace: &Workspace, gate: &str) {
    let Some(tree) = &run.judged else { return };
    let worktree = workspace.worktree();
    let undone = async {
        let altered = worktree.altered_paths(tree, &worktree.snapshot().await?).await?;
        if !altered.is_empty() {
            worktree.restore(tree, &altered).await?;
        }
        Ok::<_, String>(altered)
    };
    let note = match undone.await {
        Ok(altered) if altered.is_empty() => return,
        Ok(altered) => {
            format!("gate `{gate}` changed files of the tree that it judged; undone: {}", altered.join(", "))
        }
        Err(problem) => format!("what gate `{gate}` did to the tree is not known: {problem}"),
    };
    run.reporter.tell(RunEventKind::Warning(note)).await;
}
