//! The limits of a whole run, from flags.

use crate::cli::RunArgs;
use crate::error::{Error, Result};
use crate::plan::RunLimits;
use crate::spec::parse_duration;
use crate::units::Usd;

/// The limits that flags ask for.
///
/// # Errors
/// Says what is wrong with a value.
pub(super) fn of(args: &RunArgs) -> Result<RunLimits> {
    let wrong = |flag: &str, value: &str, why: &str| Error::usage(format!("--{flag} `{value}`: {why}"));
    let timeout = args.timeout.as_deref().map(|text| parse_duration(text).map_err(|why| wrong("timeout", text, &why)));
    let max_cost = args.max_cost_usd.as_deref().map(|text| {
        let dollars =
            text.trim_start_matches('$').parse::<f64>().ok().filter(|dollars| *dollars > 0.0 && *dollars <= 1e6);
        let dollars = dollars
            .ok_or_else(|| wrong("max-cost-usd", text, "it has to be a number of dollars above 0, such as 12.50"));
        dollars.map(Usd::from_dollars)
    });
    Ok(RunLimits {
        max_failures: if args.fail_fast { Some(1) } else { args.max_failures },
        timeout: timeout.transpose()?,
        max_cost: max_cost.transpose()?,
    })
}
