//! Notices a model that goes round in circles: the same call with the same result, again and again.

use super::transcript::{ToolInput, ToolResult, ToolUse};
use serde_json::{Map, Value};

/// After so many in a row the model is told, and again after each further so many.
const NOTICE: u32 = 3;

/// The last call, its result, and how often both have come in a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Repetition {
    last: Option<Done>,
    count: u32,
}

/// A call with its result, as far as they can be the same as others: without their ids.
#[derive(Clone, Debug, PartialEq)]
struct Done {
    name: String,
    input: Input,
    content: String,
    is_error: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Input {
    Object(Map<String, Value>),
    Invalid(String),
}

/// What follows from more calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Fine,
    /// The model is told how often it was.
    Notice(u32),
    /// The query ends; the text says what was called, how often, and what came of it.
    Stop(String),
}

impl Repetition {
    /// Takes the calls of a response that have ended, in order; `limit` is how many equal ones in a row end the query.
    pub(super) fn add_all<'a>(
        &mut self,
        ended: impl Iterator<Item = (&'a ToolUse, &'a ToolResult)>,
        limit: u32,
    ) -> Verdict {
        let mut verdict = Verdict::Fine;
        for (call, result) in ended {
            match self.add(call, result) {
                count if count >= limit => return Verdict::Stop(evidence(call, result, count)),
                count if count >= NOTICE && count.is_multiple_of(NOTICE) => verdict = Verdict::Notice(count),
                _ => {}
            }
        }
        verdict
    }

    /// Takes one; gives back how often it has come in a row.
    fn add(&mut self, call: &ToolUse, result: &ToolResult) -> u32 {
        let input = match &call.input {
            ToolInput::Object(map) => Input::Object(map.clone()),
            ToolInput::Invalid { raw, .. } => Input::Invalid(raw.clone()),
        };
        let (content, is_error) = (result.content.clone(), result.is_error);
        let done = Done { name: call.name.clone(), input, content, is_error };
        if self.last.as_ref() == Some(&done) {
            self.count = self.count.saturating_add(1);
        } else {
            (self.last, self.count) = (Some(done), 1);
        }
        self.count
    }
}

fn evidence(call: &ToolUse, result: &ToolResult, count: u32) -> String {
    const MOST: usize = 200;
    let shown = |text: &str| {
        let end = text.floor_char_boundary(MOST.min(text.len()));
        let line = text[..end].split_whitespace().collect::<Vec<_>>().join(" ");
        if end < text.len() { format!("{line}...") } else { line }
    };
    let input = match &call.input {
        ToolInput::Object(map) => serde_json::to_string(map).unwrap_or_default(),
        ToolInput::Invalid { raw, .. } => raw.clone(),
    };
    let name = &call.name;
    format!(
        "the same call of {name} with the same result came {count} times in a row: {} gave: {}",
        shown(&input),
        shown(&result.content)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn done(repetition: &mut Repetition, id: &str, pattern: &str, content: &str) -> Verdict {
        let Value::Object(input) = json!({ "pattern": pattern }) else { unreachable!() };
        let call = ToolUse { id: id.into(), name: "Grep".into(), input: ToolInput::Object(input) };
        repetition.add_all([(&call, &ToolResult::new(id.into(), content, false))].into_iter(), 5)
    }

    #[test]
    fn only_the_same_call_with_the_same_result_counts() {
        let mut repetition = Repetition::default();
        assert_eq!(done(&mut repetition, "a", "x", "none"), Verdict::Fine);
        assert_eq!(done(&mut repetition, "b", "x", "none"), Verdict::Fine);
        assert_eq!(done(&mut repetition, "c", "x", "one"), Verdict::Fine);
        assert_eq!(done(&mut repetition, "d", "x", "one"), Verdict::Fine);
        assert_eq!(done(&mut repetition, "e", "x", "one"), Verdict::Notice(3));
        assert_eq!(done(&mut repetition, "f", "y", "one"), Verdict::Fine);
        for _ in 0..2 {
            done(&mut repetition, "g", "x", "none");
        }
        assert_eq!(done(&mut repetition, "h", "x", "none"), Verdict::Notice(3));
        assert_eq!(done(&mut repetition, "i", "x", "none"), Verdict::Fine);
        let evidence =
            "the same call of Grep with the same result came 5 times in a row: {\"pattern\":\"x\"} gave: none";
        assert_eq!(done(&mut repetition, "j", "x", "none"), Verdict::Stop(evidence.into()));
    }
}
