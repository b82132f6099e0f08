//! The rules for the blocks of a tool result.

use super::rules::check_keys;
use serde_json::Value;

/// The most that an image may have, encoded.
const LARGEST: usize = 5 << 20;

/// Checks text and images of a result. Whether it says anything.
pub(super) fn check(place: &str, blocks: &[Value], is_error: bool) -> Result<bool, String> {
    for (at, block) in blocks.iter().enumerate() {
        let place = format!("{place}.tool_result.content.{at}");
        match block["type"].as_str() {
            Some("text") => {
                check_keys(&place, block, &["type", "text"])?;
                if block["text"].as_str().is_none_or(|text| text.trim().is_empty()) {
                    return Err(format!("{place}: text content blocks must contain non-whitespace text"));
                }
            }
            Some("image") if is_error => {
                return Err(format!("{place}: all content must be type \"text\" if `is_error` is true"));
            }
            Some("image") => check_image(&place, block)?,
            kind => return Err(format!("{place}.type: a tool result has no {kind:?}")),
        }
    }
    Ok(!blocks.is_empty())
}

fn check_image(place: &str, block: &Value) -> Result<(), String> {
    check_keys(&format!("{place}.image"), block, &["type", "source"])?;
    let source = &block["source"];
    check_keys(&format!("{place}.image.source"), source, &["type", "media_type", "data"])?;
    if source["type"] != "base64" {
        return Err(format!("{place}.image.source.type: Input should be 'base64'"));
    }
    let media_type = source["media_type"].as_str();
    if !matches!(media_type, Some("image/jpeg" | "image/png" | "image/gif" | "image/webp")) {
        return Err(format!(
            "{place}.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
        ));
    }
    let data = source["data"].as_str().unwrap_or_default();
    if data.len() > LARGEST {
        return Err(format!(
            "{place}.image.source.base64: image exceeds 5 MB maximum: {} bytes > {LARGEST} bytes",
            data.len()
        ));
    }
    if !is_base64(data) {
        return Err(format!("{place}.image.source.base64.data: Invalid base64 data"));
    }
    Ok(())
}

fn is_base64(data: &str) -> bool {
    let digits = data.strip_suffix("==").or_else(|| data.strip_suffix('=')).unwrap_or(data);
    let digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !data.is_empty() && data.len().is_multiple_of(4) && digits.bytes().all(digit)
}
