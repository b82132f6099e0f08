//! JSON as models and gateways write it: what the strict reader refuses for the sake of one character is mended first.

use serde_json::Value;

/// Reads JSON. Escapes of half a surrogate pair become U+FFFD: models do write them, and text that holds one cannot be
/// sent back as UTF-8.
///
/// # Errors
/// The reader's own error for the text as it came.
pub(super) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| {
        mend_surrogates(text).ok_or(()).and_then(|text| serde_json::from_str(&text).map_err(drop)).map_err(|()| error)
    })
}

/// The text with each `\uD800` to `\uDFFF` that has no partner replaced; `None` when there is nothing to replace.
fn mend_surrogates(text: &str) -> Option<String> {
    let mut mended = String::with_capacity(text.len());
    let mut changed = false;
    let mut rest = text;
    while let Some(start) = rest.find('\\') {
        let (plain, escape) = rest.split_at(start);
        mended.push_str(plain);
        let length = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                mended.push_str("\\ufffd");
                changed = true;
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            // A backslash and the character that it escapes, so that `\\u` is not read as an escape.
            _ => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        let (kept, after) = escape.split_at(length.min(escape.len()));
        mended.push_str(kept);
        rest = after;
    }
    mended.push_str(rest);
    changed.then_some(mended)
}

/// The code unit of the `\uXXXX` that the text begins with.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn b040_half_a_surrogate_pair_is_replaced() {
        assert_eq!(parse(r#"{"a":"x\ud83d"}"#).unwrap(), json!({"a": "x\u{fffd}"}));
        assert_eq!(parse(r#"{"a":"\udc00\ud83d\ud83d\ude80"}"#).unwrap(), json!({"a": "\u{fffd}\u{fffd}🚀"}));
        assert_eq!(parse(r#"{"a":"\ud83d é \ud83dx"}"#).unwrap(), json!({"a": "\u{fffd} é \u{fffd}x"}));
    }

    #[test]
    fn an_escaped_backslash_is_no_escape() {
        assert_eq!(parse(r#"{"a":"\\ud83d \ud83d"}"#).unwrap(), json!({"a": "\\ud83d \u{fffd}"}));
    }

    #[test]
    fn other_faults_stay_faults() {
        for text in ["", "{", r#"{"a":"\ud83d"#, r#"{"a":1}}"#, "\\", "\\é", r"\u12"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
