//! What hooks answer, in the words of Claude Code's. Pure; what an answer means for an event is in [`stop`](super::stop)
//! and [`tool`](super::tool).

use crate::clean::clean;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The most characters of one text of a hook that are handed on, the note about a cut included.
const LONGEST: usize = 10_000;

/// What a hook said, beside its exit code.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Answer {
    /// `continue: false`, with its `stopReason` or words in its place: wins over all else.
    pub(super) stop: Option<String>,
    /// `decision: block`, with its reason, which may be empty.
    pub(super) block: Option<String>,
    /// A permission that is not given, and why; may be empty.
    pub(super) deny: Option<String>,
    /// What the model should also know.
    pub(super) context: Option<String>,
    /// A new input for the call.
    pub(super) input: Option<Map<String, Value>>,
    /// A new result of the call.
    pub(super) output: Option<String>,
    /// What a person should know.
    pub(super) notes: Vec<String>,
    /// What it wrote to stderr, cleaned.
    pub(super) stderr: String,
}

/// The JSON output, as far as it has a meaning for the events that we know. A key that we do not know says nothing.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Reply {
    r#continue: Option<bool>,
    stop_reason: Option<String>,
    system_message: Option<String>,
    decision: Option<Decision>,
    reason: Option<String>,
    hook_specific_output: Option<Specific>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Approve,
    Block,
}

/// `hookEventName` is not looked at: a guard with a wrong name in its answer is still heard.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Specific {
    permission_decision: Option<Permission>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Map<String, Value>>,
    updated_tool_output: Option<Value>,
    additional_context: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Permission {
    Allow,
    Deny,
    Ask,
    Defer,
}

impl Answer {
    /// Reads what a hook wrote. Only a stdout that begins with `{` says anything; `whole` is whether it is all there.
    pub(super) fn read(stdout: &str, whole: bool, stderr: &str) -> Self {
        let mut answer = Self { stderr: clean(stderr), ..Self::default() };
        let json = stdout.trim();
        if !json.starts_with('{') {
            return answer;
        }
        if !whole {
            answer.notes.push("its JSON is too long to be kept, so it was not read".to_owned());
            return answer;
        }
        match serde_json::from_str(json) {
            Ok(reply) => answer.take(reply),
            Err(error) => answer.notes.push(format!("its JSON was not understood: {error}")),
        }
        answer
    }

    fn take(&mut self, reply: Reply) {
        let specific = reply.hook_specific_output.unwrap_or_default();
        let reason = reply.reason.unwrap_or_default();
        let permission_reason = specific.permission_decision_reason.unwrap_or_default();
        if reply.r#continue == Some(false) {
            let reason = reply.stop_reason.map(|text| handed_on(&text)).filter(|text| !text.is_empty());
            self.stop = Some(reason.unwrap_or_else(|| "it gave no reason".to_owned()));
        }
        self.block = (reply.decision == Some(Decision::Block)).then_some(reason);
        self.deny = match specific.permission_decision {
            Some(Permission::Deny) => Some(permission_reason),
            Some(Permission::Ask) => Some(unattended("asks for a person's permission", &permission_reason)),
            Some(Permission::Defer) => Some(unattended("defers the decision", &permission_reason)),
            Some(Permission::Allow) | None => None,
        };
        self.context = specific.additional_context.map(|text| handed_on(&text)).filter(|text| !text.is_empty());
        self.input = specific.updated_input;
        self.output = specific.updated_tool_output.map(|value| match value.as_str() {
            Some(text) => capped(&clean(text)),
            None => capped(&value.to_string()),
        });
        self.notes.extend(reply.system_message.map(|text| handed_on(&text)).filter(|text| !text.is_empty()));
    }

    /// What a person should know of an exit code that has no meaning for hooks, with the first line of stderr.
    pub(super) fn complaint(&self, code: i32) -> Option<String> {
        if matches!(code, 0 | 2) {
            return None;
        }
        let first = self.stderr.lines().map(str::trim).find(|line| !line.is_empty());
        let said = first.map(|line| format!(": {}", capped(line))).unwrap_or_default();
        Some(format!("it ended with exit code {code}{said}"))
    }

    /// Why it objects: the first of its words that says something, stderr at last, or else `silent`; then its context.
    pub(super) fn objection(&self, words: &[&Option<String>], silent: &str) -> String {
        let reasons = words.iter().filter_map(|reason| reason.as_deref()).chain([self.stderr.as_str()]);
        let reason = reasons.map(handed_on).find(|reason| !reason.is_empty());
        let reason = reason.unwrap_or_else(|| silent.to_owned());
        match &self.context {
            Some(context) => format!("{reason}\n{context}"),
            None => reason,
        }
    }

    /// All that a person should know, `last` included.
    pub(super) fn warning(&self, last: Option<String>) -> Option<String> {
        let notes: Vec<_> = self.notes.iter().cloned().chain(last).collect();
        (!notes.is_empty()).then(|| notes.join("\n"))
    }
}

/// The reason for which a call is denied when a hook wants a person.
fn unattended(what: &str, reason: &str) -> String {
    let refusal = format!("the hook {what}, and nobody is there in an unattended run, so the call is denied");
    if reason.trim().is_empty() { refusal } else { format!("{refusal}: {reason}") }
}

/// A text as it is handed on.
fn handed_on(text: &str) -> String {
    capped(clean(text).trim())
}

/// Beginning and end of a text that is longer than [`LONGEST`]: what it is about, and the errors that come last.
fn capped(text: &str) -> String {
    const NOTE: usize = 100; // More than the note ever takes.
    const HALF: usize = (LONGEST - NOTE) / 2;
    let count = text.chars().count();
    if count <= LONGEST {
        return text.to_owned();
    }
    let place = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(place, _)| place);
    let (head, tail) = (&text[..place(HALF)], &text[place(count - HALF)..]);
    format!("{head}\n[{} of {count} characters left out]\n{tail}", count - 2 * HALF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn only_an_object_says_anything() {
        for stdout in ["", "fine", "[1]", "\"{}\"", "done {\"decision\":\"block\"}", "{}", " \n{ }\n"] {
            assert_eq!(Answer::read(stdout, true, ""), Answer::default(), "{stdout}");
        }
    }

    #[test]
    fn json_that_is_not_understood_is_a_note_and_nothing_else() {
        for stdout in [
            "{",
            "{not json}",
            "{\"decision\":\"block\"} and more",
            "{\"decision\":\"perhaps\"}",
            "{\"continue\":\"no\"}",
            "{\"hookSpecificOutput\":{\"permissionDecision\":\"never\"}}",
            "{\"hookSpecificOutput\":{\"updatedInput\":[1]}}",
        ] {
            let answer = Answer::read(stdout, true, "");
            let [note] = answer.notes.as_slice() else { panic!("{answer:?}") };
            assert!(note.starts_with("its JSON was not understood: "), "{note}");
            assert_eq!(Answer { notes: Vec::new(), ..answer }, Answer::default());
        }
        assert_eq!(Answer::read("{}", false, "").notes, ["its JSON is too long to be kept, so it was not read"]);
    }

    #[test]
    fn every_field_is_read() {
        let read = |value: Value| Answer::read(&value.to_string(), true, "");
        let text = |text: &str| Some(text.to_owned());
        let specific = |value: Value| read(json!({ "hookSpecificOutput": value }));
        let none = Answer::default();
        assert_eq!(
            read(json!({"continue": false, "stopReason": "enough"})),
            Answer { stop: text("enough"), ..none.clone() }
        );
        assert_eq!(read(json!({"continue": false})), Answer { stop: text("it gave no reason"), ..none.clone() });
        assert_eq!(read(json!({"continue": true, "stopReason": "x", "suppressOutput": true, "new": 1})), none);
        assert_eq!(read(json!({"decision": "block", "reason": "red"})), Answer { block: text("red"), ..none.clone() });
        assert_eq!(read(json!({"decision": "approve", "reason": "x"})), none);
        assert_eq!(read(json!({"decision": null, "hookSpecificOutput": null})), none);
        assert_eq!(read(json!({"systemMessage": "look\u{7}"})), Answer { notes: vec!["look".into()], ..none.clone() });
        assert_eq!(specific(json!({"additionalContext": "note"})), Answer { context: text("note"), ..none.clone() });
        assert_eq!(specific(json!({"additionalContext": " "})), none);
        assert_eq!(specific(json!({"permissionDecision": "allow"})), none);
        assert_eq!(
            specific(json!({"permissionDecision": "deny", "permissionDecisionReason": "no rm"})),
            Answer { deny: text("no rm"), ..none.clone() }
        );
        for (decision, words) in [
            (
                "ask",
                "the hook asks for a person's permission, and nobody is there in an unattended run, so the call is denied",
            ),
            ("defer", "the hook defers the decision, and nobody is there in an unattended run, so the call is denied"),
        ] {
            assert_eq!(specific(json!({ "permissionDecision": decision })).deny.as_deref(), Some(words));
            let answer = specific(json!({"permissionDecision": decision, "permissionDecisionReason": "rm"}));
            assert_eq!(answer.deny, Some(format!("{words}: rm")));
        }
        let Value::Object(input) = json!({"command": "ls"}) else { panic!() };
        assert_eq!(specific(json!({"updatedInput": {"command": "ls"}})), Answer { input: Some(input), ..none.clone() });
        assert_eq!(specific(json!({"updatedToolOutput": " a\u{1b}[1m"})).output.as_deref(), Some(" a"));
        assert_eq!(specific(json!({"updatedToolOutput": {"a": 1}})).output.as_deref(), Some("{\"a\":1}"));
    }

    #[test]
    fn an_objection_is_the_first_word_that_says_something() {
        let answer = Answer { stderr: " error\n".into(), block: Some("red".into()), ..Answer::default() };
        assert_eq!(answer.objection(&[&answer.block], "silent"), "red");
        let blank = Answer { block: Some(" \n".into()), ..answer };
        assert_eq!(blank.objection(&[&blank.block], "silent"), "error");
        let with_context = Answer { context: Some("note".into()), ..blank };
        assert_eq!(with_context.objection(&[], "silent"), "error\nnote");
        assert_eq!(Answer::default().objection(&[&None], "silent"), "silent");
    }

    #[test]
    fn a_long_text_keeps_its_beginning_and_its_end_and_says_what_is_missing() {
        assert_eq!(capped(&"é".repeat(LONGEST)), "é".repeat(LONGEST));
        let text = format!("first {} last", "é".repeat(20_000));
        let short = capped(&text);
        assert!(short.starts_with("first é") && short.ends_with("é last"));
        assert!(short.contains("é\n[10111 of 20011 characters left out]\né"), "{short}");
    }

    proptest! {
        #[test]
        fn no_text_is_longer_than_the_limit(unit in "[aé\n😀]{1,9}", times in 0_usize..5_000) {
            prop_assert!(capped(&unit.repeat(times)).chars().count() <= LONGEST);
        }

        #[test]
        fn no_output_is_too_wild(stdout in "(\\{)?\\PC{0,60}", stderr in "\\PC{0,20}") {
            Answer::read(&stdout, true, &stderr);
        }
    }
}
