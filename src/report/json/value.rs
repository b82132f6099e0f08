//! Values that several of the files carry.

use crate::units::{Elapsed, Tokens, Usage, Usd};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The version of all JSON that the runner writes.
pub const SCHEMA: u32 = 1;

/// Token counts, as all files carry them.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(in crate::report) struct UsageValue {
    #[serde(rename = "input_tokens")]
    input: u64,
    #[serde(rename = "cache_read_tokens")]
    cache_read: u64,
    #[serde(rename = "cache_write_tokens")]
    cache_write: u64,
    #[serde(rename = "output_tokens")]
    output: u64,
}

impl From<&Usage> for UsageValue {
    fn from(usage: &Usage) -> Self {
        Self {
            input: usage.input.0,
            cache_read: usage.cache_read.0,
            cache_write: usage.cache_write.0,
            output: usage.output.0,
        }
    }
}

impl From<UsageValue> for Usage {
    fn from(value: UsageValue) -> Self {
        Self {
            input: Tokens(value.input),
            cache_read: Tokens(value.cache_read),
            cache_write: Tokens(value.cache_write),
            output: Tokens(value.output),
        }
    }
}

/// Seconds, rounded to milliseconds.
pub(super) fn seconds(span: Duration) -> f64 {
    span.as_millis() as f64 / 1e3
}

/// Seconds since the run began.
pub(super) fn at(moment: Elapsed) -> f64 {
    seconds(moment.0)
}

/// Dollars.
pub(super) fn dollars(cost: Option<Usd>) -> Option<f64> {
    cost.map(Usd::dollars)
}

/// A file's text: indented, with a final newline.
pub(super) fn file(value: &impl Serialize) -> String {
    // These types hold nothing that JSON cannot say; a fault would be ours and must show.
    let mut text = serde_json::to_string_pretty(value).unwrap_or_else(|error| format!("\"{error}\""));
    text.push('\n');
    text
}

/// One line, without its newline.
pub(super) fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!("\"{error}\""))
}
