//! `docs/loop.md` is made from the two catalogues of the loop, and each entry names a test that reaches it through the binary.
//!
//! `RUNNER_BLESS=1 cargo test --test it catalogue` writes the file.
#![expect(clippy::disallowed_methods, reason = "the doors are the runner's; a test stands outside")]

use runner::explain::{self, Explanation};
use runner::outcome::{TerminalReason, Transition};
use std::path::{Path, PathBuf};

const HEAD: &str = "# How a loop ends, and why it goes on\n
Every job is one loop: the model is asked, its tools run, it is asked again. The loop ends with one of ten *terminals*; each time it
goes on instead, it does so by one of seven *transitions*. `result.json` has them as `terminal` and `transitions`, `events.jsonl` has
each transition as it happens. The codes are stable: some may be added, none is renamed.

A terminal is not the verdict: that is made from it, from the gates and from the changes.

This file is made from the code by `tests/it/catalogue.rs`. The last column names the test that gets there through the binary.\n
| Code | Kind | When | Guard | Test |
| --- | --- | --- | --- | --- |
";

const fn test_of_terminal(reason: TerminalReason) -> &'static str {
    match reason {
        TerminalReason::Completed => "completed_after_next_turn",
        TerminalReason::MaxTurns => "b014_max_turns_says_its_numbers",
        TerminalReason::BlockingLimit => "blocking_limit_of_a_task_that_fills_the_window",
        TerminalReason::PromptTooLong => "prompt_too_long_when_the_compaction_is_too_long_as_well",
        TerminalReason::ImageError => "image_error_when_it_is_refused_without_images_too",
        TerminalReason::ModelError => "model_error_is_never_a_pass_and_never_waits",
        TerminalReason::AbortedStreaming => "aborted_streaming_by_a_signal_keeps_what_has_ended",
        TerminalReason::AbortedTools => "aborted_tools_by_a_signal_gives_every_call_a_result",
        TerminalReason::StopHookPrevented => "stop_hook_prevented_after_max_blocks",
        TerminalReason::HookStopped => "hook_stopped_ends_the_job_with_the_hooks_words",
    }
}

const fn test_of_transition(transition: Transition) -> &'static str {
    match transition {
        Transition::NextTurn => "completed_after_next_turn",
        Transition::CollapseDrainRetry => "collapse_drain_retry_shows_digests_before_anything_is_summarised",
        Transition::ReactiveCompactRetry => "reactive_compact_retry_goes_on_from_the_summary",
        Transition::MaxOutputTokensEscalate | Transition::MaxOutputTokensRecovery => {
            "max_output_tokens_escalate_then_recovery_then_the_error"
        }
        Transition::StopHookBlocking => "stop_hook_blocking_gives_the_gates_output_to_the_model",
        Transition::TokenBudgetContinuation => "token_budget_continuation_goes_on_until_little_comes",
    }
}

fn document() -> String {
    let row = |code: &str, kind: &str, Explanation { when, guard }: Explanation, test: &str| {
        format!("| `{code}` | {kind} | {when} | {guard} | `{test}` |\n")
    };
    let ends = TerminalReason::ALL
        .map(|reason| row(reason.code(), "terminal", explain::terminal(reason), test_of_terminal(reason)));
    let continuations =
        Transition::ALL.map(|each| row(each.code(), "transition", explain::transition(each), test_of_transition(each)));
    format!("{HEAD}{}{}", ends.concat(), continuations.concat())
}

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// All of the tests' code.
fn tests(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| if path.is_dir() { tests(&path) } else { std::fs::read_to_string(path).unwrap() })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_document_is_what_the_code_says() {
    let (path, expected) = (package().join("docs/loop.md"), document());
    let bless = std::env::var_os("RUNNER_BLESS").is_some();
    if bless {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &expected).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written.replace("\r\n", "\n"), expected, "RUNNER_BLESS=1 writes docs/loop.md anew");
}

#[test]
fn every_entry_has_a_test_that_exists() {
    let code = tests(&package().join("tests/it"));
    let named = TerminalReason::ALL.map(test_of_terminal).into_iter().chain(Transition::ALL.map(test_of_transition));
    let is_missing = |name: &&str| !code.contains(&format!("#[test]\nfn {name}()"));
    assert_eq!(named.filter(is_missing).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn no_text_breaks_the_table() {
    for Explanation { when, guard } in
        TerminalReason::ALL.map(explain::terminal).into_iter().chain(Transition::ALL.map(explain::transition))
    {
        for text in [when, guard] {
            assert!(text.ends_with('.') && !text.contains(['|', '\n']), "{text}");
        }
    }
}
