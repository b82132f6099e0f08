//! Spans of time as people write them: `90s`, `10m`, `1h30m`, `500ms`.

use std::time::Duration;

/// The longest span that a job file can name: 30 days, far past any job and far below every timer's range.
pub const MAX_DURATION: Duration = Duration::from_hours(720);

/// The units from large to small, in milliseconds.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a span: whole numbers with the units `h`, `m`, `s`, `ms`, from large to small, each at most once.
///
/// # Errors
/// Says what is wrong, as a fragment that fits behind "the duration".
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let unreadable = || format!("{text:?} cannot be read");
    let mut units = UNITS.iter();
    let mut millis: u64 = 0;
    let mut rest = text;
    if rest.is_empty() {
        return Err("is empty".into());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let letters = rest[digits..].find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len() - digits);
        let (number, unit) = (&rest[..digits], &rest[digits..digits + letters]);
        if number.is_empty() {
            return Err(unreadable());
        }
        if unit.is_empty() {
            let missing = rest.len() == digits;
            return Err(if missing { format!("{text:?} has no unit behind {number}") } else { unreadable() });
        }
        let Some((_, factor)) = units.find(|(name, _)| *name == unit) else {
            let known = UNITS.iter().any(|(name, _)| *name == unit);
            return Err(if known {
                format!("{text:?} must go from large units to small ones, each once")
            } else {
                format!("{text:?} has the unknown unit `{unit}`")
            });
        };
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor));
        let Some(sum) = part.and_then(|part| millis.checked_add(part)) else {
            return Err(format!("{text:?} is too long: at most 720h"));
        };
        millis = sum;
        rest = &rest[digits + letters..];
    }
    match Duration::from_millis(millis) {
        Duration::ZERO => Err(format!("{text:?} is zero: nothing could happen in it")),
        span if span > MAX_DURATION => Err(format!("{text:?} is too long: at most 720h")),
        span => Ok(span),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_people_write() {
        for (text, millis) in
            [("90s", 90_000), ("10m", 600_000), ("1h30m", 5_400_000), ("500ms", 500), ("1m1ms", 60_001)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse_duration("720h"), Ok(MAX_DURATION));
    }

    #[test]
    fn b186_what_is_no_span_is_refused_in_words() {
        let shown = |text: &str| parse_duration(text).expect_err(text);
        assert_eq!(shown("banana"), "\"banana\" cannot be read");
        assert_eq!(shown(""), "is empty");
        assert_eq!(shown("90"), "\"90\" has no unit behind 90");
        assert_eq!(shown("10 min"), "\"10 min\" cannot be read");
        assert_eq!(shown("10min"), "\"10min\" has the unknown unit `min`");
        assert_eq!(shown("5m1h"), "\"5m1h\" must go from large units to small ones, each once");
        assert_eq!(shown("-5m"), "\"-5m\" cannot be read");
        assert_eq!(shown("1.5h"), "\"1.5h\" cannot be read");
        assert_eq!(shown("0s"), "\"0s\" is zero: nothing could happen in it");
        assert_eq!(shown("721h"), "\"721h\" is too long: at most 720h");
        assert_eq!(shown("99999999999999999999h"), "\"99999999999999999999h\" is too long: at most 720h");
        assert_eq!(shown("é"), "\"é\" cannot be read");
    }
}
