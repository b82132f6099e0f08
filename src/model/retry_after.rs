//! How long a provider wants to be left alone: `retry-after-ms` and `retry-after` in all their forms.

use super::Headers;
use jiff::civil::DateTime;
use std::time::Duration;

/// The wait that the headers ask for: milliseconds first, then seconds, then a date counted from the answer's own `date`
/// header, so that no clock of ours is needed. A date that has passed is zero; what cannot be read is `None`.
pub(crate) fn retry_after(headers: &Headers) -> Option<Duration> {
    let wish = headers.get("retry-after").map(String::as_str);
    number(headers.get("retry-after-ms").map(String::as_str), 1e-3).or_else(|| number(wish, 1.0)).or_else(|| {
        let until = http_date(wish?, headers.get("date").map(String::as_str))?;
        let now = http_date(headers.get("date")?, None)?;
        Some(Duration::try_from(until.duration_since(now)).unwrap_or_default())
    })
}

/// An integer or a fraction; not negative, not infinite.
fn number(text: Option<&str>, seconds: f64) -> Option<Duration> {
    let text = text?.trim();
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value: f64 = text.parse().ok().filter(|_| plain)?;
    Duration::try_from_secs_f64(value * seconds).ok()
}

/// A moment in UTC, in one of the three forms that RFC 9110 names: `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` and
/// `Sun Nov  6 08:49:37 1994`. A year of two digits lies less than 51 years after `now`, else in the past.
fn http_date(text: &str, now: Option<&str>) -> Option<DateTime> {
    let parts: Vec<&str> = text.split([' ', ',', '-', ':']).filter(|part| !part.is_empty()).collect();
    let ([_, day, month, year, hour, minute, second, "GMT" | "UTC"] | [_, month, day, hour, minute, second, year]) =
        *parts.as_slice()
    else {
        return None;
    };
    let [hour, minute, second] = [hour, minute, second].map(|part| part.parse::<i8>().ok());
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))?;
    let mut full_year: i16 = year.parse().ok().filter(|_| !year.starts_with(['+', '-']))?;
    if year.len() == 2 {
        let this_year = now.and_then(|now| http_date(now, None)).map(DateTime::year)?;
        full_year = full_year.checked_add(this_year - this_year.rem_euclid(100))?;
        if full_year > this_year.checked_add(50)? {
            full_year -= 100;
        }
    }
    let second = second?.min(59); // A leap second.
    DateTime::new(full_year, i8::try_from(month).ok()? + 1, day.parse().ok()?, hour?, minute?, second, 0).ok()
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "Tue, 01 Dec 2026 00:00:00 GMT";

    fn wait(pairs: &[(&str, &str)]) -> Option<Duration> {
        retry_after(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn b064_every_form_is_read() {
        assert_eq!(wait(&[("retry-after", "2")]), Some(Duration::from_secs(2)));
        assert_eq!(wait(&[("retry-after", " 1.152 ")]), Some(Duration::from_millis(1152)));
        assert_eq!(wait(&[("retry-after", "9"), ("retry-after-ms", "250")]), Some(Duration::from_millis(250)));
        assert_eq!(wait(&[("retry-after-ms", "1.5")]), Some(Duration::from_micros(1500)));
        let date = |text| wait(&[("retry-after", text), ("date", NOW)]);
        assert_eq!(date("Tue, 01 Dec 2026 00:01:30 GMT"), Some(Duration::from_secs(90)));
        assert_eq!(date("Tuesday, 01-Dec-26 00:01:30 GMT"), Some(Duration::from_secs(90)));
        assert_eq!(date("Tue Dec  1 00:01:30 2026"), Some(Duration::from_secs(90)));
        assert_eq!(date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(date("Sunday, 06-Nov-94 08:49:37 GMT"), Some(Duration::ZERO), "94 is in the past century");
        assert!(date("Friday, 06-Nov-70 08:49:37 GMT").unwrap() > Duration::from_hours(365 * 24), "70 lies ahead");
    }

    #[test]
    fn what_cannot_be_read_is_nothing() {
        for text in [
            "",
            "-1",
            "+1",
            "NaN",
            "inf",
            "1e9",
            "soon",
            "1,5",
            "Tue, 31 Feb 2026 00:00:00 GMT",
            "Tue, 01 Dez 2026 0:0:0 GMT",
        ] {
            assert_eq!(wait(&[("retry-after", text), ("date", NOW)]), None, "{text}");
        }
        assert_eq!(wait(&[("retry-after", "Tue, 01 Dec 2026 00:01:30 GMT")]), None, "no date to count from");
        assert_eq!(wait(&[("retry-after", "99999999999999999999999999")]), None);
        assert_eq!(wait(&[]), None);
        assert_eq!(wait(&[("retry-after-ms", "x"), ("retry-after", "3")]), Some(Duration::from_secs(3)));
    }
}
