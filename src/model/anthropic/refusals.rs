//! What is wrong with a request that was refused, by the words of providers and gateways. Pure.

use crate::outcome::ModelErrorKind as Kind;
use crate::query::Remedy;

/// Thinking that the API does not take back, or misses.
const THINKING: &[&str] = &[
    "invalid signature in thinking",
    "thinking or redacted_thinking blocks in the latest assistant message cannot be modified",
    "expected thinking or redacted_thinking, but found",
    "final block in an assistant message cannot be thinking",
];

/// An image, or all of them together.
const MEDIA: &[&str] = &[
    "image exceeds",
    "image dimensions exceed",
    "image size exceeds",
    "image too large",
    "image is too large",
    "images are too large",
    "could not process image",
    "unable to process image",
    "too many images",
    "too much media",
    "many-image request",
    "image does not match the provided media type",
    "but the image appears to be",
    "image.source.",
    "invalid image",
    "unsupported image",
    "image input is not supported",
    "does not support image",
];

/// A prompt that does not fit.
const OVERFLOW: &[&str] = &[
    "prompt is too long",
    "prompt_too_long",
    "prompt too long",
    "exceed context limit",
    "exceeds context limit",
    "input is too long",
    "request_too_large",
    "request exceeds the maximum size",
    "exceeds the context window",
    "maximum context length",
    "exceeded max context length",
    "input token count exceeds the maximum",
    "input token count (#) exceeds the maximum",
    "maximum prompt length is",
    "reduce the length of the messages",
    "exceeds the available context size",
    "greater than the context length",
    "context window exceeds",
    "exceeded model token limit",
    "input (# tokens) is longer than the model's context length",
    "requested # output tokens",
    "prompt contains at least # input tokens",
    "context_length_exceeded",
    "model_context_window_exceeded",
];

/// Words about something else, whatever else is said.
const HURRY: &[&str] = &["rate limit", "rate_limit", "ratelimit", "too many requests", "throttling", "throttled"];

/// What a refused request is to be cured of; `None` for what its words do not tell.
pub(super) fn cure(message: &str) -> Option<(Kind, Remedy)> {
    let message = plain(message);
    let says = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    if says(THINKING) {
        return Some((Kind::InvalidRequest, Remedy::StripThinking));
    }
    if says(HURRY) {
        return None;
    }
    if says(MEDIA) {
        return Some((Kind::Media, Remedy::StripMedia));
    }
    says(OVERFLOW).then_some((Kind::ContextExhausted, Remedy::Shrink))
}

/// A message in the form of the lists: lower case, no backticks, `#` for every number.
fn plain(message: &str) -> String {
    let mut plain = String::with_capacity(message.len());
    for c in message.chars().flat_map(char::to_lowercase).filter(|c| *c != '`') {
        match c {
            '0'..='9' if plain.ends_with('#') => {}
            '0'..='9' => plain.push('#'),
            _ => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: Option<(Kind, Remedy)>, texts: &[&str]) {
        for text in texts {
            for text in [(*text).to_owned(), text.to_uppercase(), format!("messages: {text} (request 1)")] {
                assert_eq!(cure(&text), expected, "{text}");
            }
        }
    }

    #[test]
    fn every_text_of_an_overflow_is_known() {
        check(
            Some((Kind::ContextExhausted, Remedy::Shrink)),
            &[
                "prompt is too long: 211180 tokens > 200000 maximum",
                "input length and `max_tokens` exceed context limit: 189136 + 20000 > 204648, decrease input length or `max_tokens` and try again",
                "Input is too long for requested model.",
                "capability_rejected: prompt_too_long",
                "Request exceeds the maximum size",
                "request_too_large",
                "Your input exceeds the context window of this model.",
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
                "The input exceeds the model's maximum context length of 131072 tokens",
                "The prompt exceeds maximum context length",
                "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
                "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
                "Please reduce the length of the messages or completion.",
                "the request exceeds the available context size, try increasing it",
                "The number of tokens to keep from the initial prompt is greater than the context length.",
                "invalid params, context window exceeds limit",
                "Invalid request: Your request exceeded model token limit: 262144",
                "Prompt contains 40000 tokens: too large for model with 32768 maximum context length",
                "The input (280000 tokens) is longer than the model's context length (262144 tokens).",
                "prompt too long; exceeded max context length by 4 tokens",
                "You requested 4096 output tokens and your prompt does not leave room for them",
                "your prompt contains at least 30000 input tokens",
                "context_length_exceeded",
                "model_context_window_exceeded",
            ],
        );
    }

    #[test]
    fn words_about_haste_are_no_overflow() {
        check(
            None,
            &[
                "Rate limit reached: the input token count per minute exceeds the maximum",
                "Too many requests, please reduce the length of the messages",
                "ThrottlingException: input is too long for this minute",
                "rate_limit_exceeded: prompt is too long",
            ],
        );
    }

    #[test]
    fn every_text_about_images_is_known() {
        check(
            Some((Kind::Media, Remedy::StripMedia)),
            &[
                "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes",
                "The image exceeds 10 MB maximum",
                "image dimensions exceed max allowed size: 8000 pixels",
                "At least one of the image dimensions exceed max allowed size: 8000 pixels",
                "At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
                "An image in a many-image request is too large",
                "Could not process image",
                "Unable to process image",
                "Image is too large",
                "image too large to be resized",
                "Too many images in the request: 101 > 100",
                "too much media: 0 document pages + 101 images > 100",
                "Image does not match the provided media type image/jpeg",
                "The image was specified using the image/jpeg media type, but the image appears to be a image/png image",
                "messages.2.content.0.tool_result.content.1.image.source.base64.data: Input should be a valid string",
                "Invalid image data",
                "You uploaded an unsupported image.",
                "image input is not supported",
                "this model does not support image inputs",
            ],
        );
    }

    #[test]
    fn b032_every_refusal_of_thinking_is_known() {
        check(
            Some((Kind::InvalidRequest, Remedy::StripThinking)),
            &[
                "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".",
                "messages.1.content.0: Invalid signature in thinking block",
                "messages.3.content.1: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.",
                "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
                "messages.5: The final block in an assistant message cannot be `thinking`.",
            ],
        );
    }

    #[test]
    fn other_refusals_have_no_cure() {
        check(
            None,
            &[
                "max_tokens: Field required",
                "\"thinking.type.enabled\" is not supported for this model.",
                "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1",
                "the prompt that was long is too short",
                "",
            ],
        );
    }
}
