//! `runner matrix`: the parts of a batch, for a CI that fans out.

use super::say;
use super::select::select;
use crate::cli::{JobArgs, MatrixArgs};
use crate::error::Result;
use crate::exit::ExitStatus;
use crate::load::{self, Snapshot};
use crate::plan::Purpose;
use crate::plan::select::Shard;
use crate::units::RunId;
use serde_json::{Value, json};

/// Prints `{"include":[{"shard":"1/4","jobs":3},…]}`: what a matrix of GitHub Actions takes. Parts without a job are left out, since
/// each would cost a machine.
///
/// # Errors
/// Whatever is wrong with the jobs; that none is chosen.
pub(super) fn matrix(args: &MatrixArgs, snapshot: &Snapshot) -> Result<ExitStatus> {
    let which = JobArgs { shard: Some("1/1".into()), ..args.which.clone() };
    let mut plan = match load::plan(&which, snapshot, &RunId("RUN".into()), Purpose::Check) {
        Ok(plan) => plan,
        Err(failure) => return Ok(say::failure(&failure, args.color, snapshot)),
    };
    if let Err(error) = select(&which, snapshot, &mut plan) {
        // A step that reads it gets something to read in any case.
        say::result("{\"include\":[]}\n");
        return Err(error);
    }
    let shards = (1..=args.shards).map(|index| Shard { index, count: args.shards });
    let parts = shards.map(|shard| (shard, shard.takes(&plan.jobs, None).into_iter().filter(|taken| *taken).count()));
    let include: Vec<Value> = parts
        .filter(|(_, jobs)| *jobs > 0)
        .map(|(shard, jobs)| json!({ "shard": shard.to_string(), "jobs": jobs }))
        .collect();
    say::result(&format!("{}\n", json!({ "include": include })));
    Ok(ExitStatus::Passed)
}
