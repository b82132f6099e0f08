//! The most model calls that a query can make: a formula of its limits, proved by the simulation.

use super::params::Params;

/// The most model calls that a query with these parameters can make, whatever happens to it.
///
/// With `T` turns and `R` retries, and as many sub-agents as turns at most:
///
/// - one request is sent `2 (R + 1) + 3` times at most: `R + 1` to each of two models, and 3 answers that made no sense or thinking
///   that was refused;
/// - every accepted turn has one request, and one more that a drain of digests repeats (a digest needs turns to be made of);
/// - each agent has 4 requests that bring no turn: a raised output cap, a reactive compaction's repeat, the last one that fails, and
///   one that was given up at a limit;
/// - compactions: one for every second turn, and 5 an agent (3 failures in a row, the reactive one, the first), each asked for 4
///   times at most, as it shrinks;
/// - a summary for each turn.
#[must_use]
pub fn most_calls(params: &Params) -> u64 {
    let turns = u64::from(params.max_turns.0);
    let agents = turns + 1;
    let tries = 2 * (u64::from(params.patience.retries) + 1) + 3;
    let requests = 2 * turns + 4 * agents;
    let compactions = (turns / 2 + 5 * agents) * 4;
    (requests + compactions) * tries + turns
}
