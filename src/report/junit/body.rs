//! Bodies of failures: what a reader needs first comes first, since many show only the first lines.

use crate::clean::clean;
use crate::event::{GateReport, GateStatus, JobInfo, JobReport};
use crate::report::cut;

/// How many of a gate's last lines stand at the top.
const LAST_LINES: usize = 3;
/// The longest line at the top, in bytes.
const LINE_MAX: usize = 500;

/// Why a job did not pass.
pub(super) fn of_job(folder: &str, report: &JobReport, limit: usize) -> String {
    let outcome = &report.outcome;
    let mut top = vec![
        format!("{}: {}", outcome.reason.code(), cut::one_line(&outcome.message, LINE_MAX)),
        format!("job file: {}", cut::one_line(&report.info.file, LINE_MAX)),
    ];
    let culprit = report.gates.iter().find(|gate| matches!(gate.after, Some(GateStatus::Fail | GateStatus::Error)));
    let evidence = culprit.map_or(outcome.detail.as_str(), |gate| &gate.tail);
    top.extend(cut::last_lines(evidence, LAST_LINES, LINE_MAX));
    top.extend(culprit.and_then(|gate| log(folder, gate)));
    top.push(format!("patch and transcript: {folder}/jobs/{}", report.info.id));
    if let Some(worktree) = &report.worktree {
        top.push(format!("worktree: {}", worktree.display()));
    }
    let output = culprit.map_or("", |gate| &gate.tail);
    // The outcome's detail is often this very output.
    let detail = if outcome.detail.trim() == output.trim() { "" } else { &outcome.detail };
    assemble(&top, &[detail, output], limit)
}

/// Why a gate is not green.
pub(super) fn of_gate(folder: &str, job: &JobInfo, gate: &GateReport, limit: usize) -> String {
    let code = gate.exit_code.map_or_else(|| "no exit code".to_owned(), |code| format!("exit code {code}"));
    let mut top = vec![
        format!("{}: {code}", cut::one_line(&gate.command, LINE_MAX)),
        format!("job file: {}", cut::one_line(&job.file, LINE_MAX)),
    ];
    top.extend(cut::last_lines(&gate.tail, LAST_LINES, LINE_MAX));
    top.extend(log(folder, gate));
    assemble(&top, &[&gate.tail], limit)
}

/// Cleaned, at most `limit` bytes of its end, fit for a CDATA section.
pub(super) fn text(text: &str, limit: usize) -> String {
    cdata(&cut::clean_tail(text, limit))
}

fn log(folder: &str, gate: &GateReport) -> Option<String> {
    gate.log.as_ref().map(|log| format!("whole output: {folder}/{log}"))
}

fn assemble(top: &[String], long: &[&str], limit: usize) -> String {
    let mut body = clean(&top.join("\n"));
    for part in long {
        let part = cut::clean_tail(part, limit.saturating_sub(body.len() + 2));
        if !part.trim().is_empty() {
            body.push_str("\n\n");
            body.push_str(&part);
        }
    }
    cdata(cut::head(&body, limit))
}

/// `]]>` would end the section that `junit-report` puts the text in: it is spread over two sections, which every XML
/// reader joins again.
fn cdata(text: &str) -> String {
    text.replace("]]>", "]]]]><![CDATA[>")
}
