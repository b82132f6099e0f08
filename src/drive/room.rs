//! Whether a job's task and tools leave room to work in its model's window: said before any money is spent.

use super::clients::Toolsets;
use crate::plan::PlannedJob;
use crate::query::auto_compact_at;
use crate::spec::grouped;
use crate::units::Tokens;

/// No text has more bytes a token than this for long, so a smaller estimate than with it would be a guess.
const BYTES_A_TOKEN: u64 = 4;

/// A sentence for each job that could only compact.
pub(super) fn problems(jobs: &[PlannedJob]) -> Vec<String> {
    let fixed = Toolsets::all().job_bytes();
    jobs.iter()
        .filter_map(|job| {
            let model = &job.model;
            let most = model.escalated_output.unwrap_or(model.max_output).max(model.max_output);
            let room = auto_compact_at(model.context_window, most);
            let needed = Tokens((fixed + job.prompt.len()) as u64 / BYTES_A_TOKEN);
            (needed >= room).then(|| {
                format!(
                    "job {}: its task and tools need at least {} tokens in every request, and in a context window of {} the \
                     conversation has to be summarised from {} on: raise context_window, or shorten the prompt",
                    job.id,
                    grouped(needed.0),
                    grouped(model.context_window.0),
                    grouped(room.0)
                )
            })
        })
        .collect()
}
