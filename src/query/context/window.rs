//! The thresholds of context management, in tokens, from what a model can take.

use crate::units::Tokens;

/// Room that is kept for an answer, and so for the summary of a compaction.
const OUTPUT_RESERVE: Tokens = Tokens(20_000);
/// So far below the effective window a conversation is compacted.
const AUTO_COMPACT_MARGIN: Tokens = Tokens(13_000);
/// So far below the effective window no request is sent any more.
const BLOCKING_MARGIN: Tokens = Tokens(3_000);

/// From this window on the constants hold as they are.
const ROOMY: Tokens = Tokens(40_000);
/// Where compaction begins in a window of [`ROOMY`] tokens with the largest reserve: the most that it is below that.
const SMALL_COMPACT_AT: Tokens = Tokens(7_000);

/// What the sizes of a conversation are compared with.
///
/// For windows of 40,000 tokens and more these are the specified constants. Below that the constants would leave nothing: there a third of
/// the window is kept for the answer, and half of the rest (7,000 at most) may fill before a compaction, 85 % before nothing is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::query) struct Window {
    /// The window less the room for an answer.
    pub(in crate::query) effective: Tokens,
    /// From here on the conversation is summarised.
    pub(in crate::query) auto_compact_at: Tokens,
    /// From here on nothing is sent.
    pub(in crate::query) blocking_limit: Tokens,
}

impl Window {
    /// For a model with this window and this largest answer.
    pub(in crate::query) fn new(context_window: Tokens, max_output: Tokens) -> Self {
        let share = if context_window >= ROOMY { 2 } else { 3 };
        let reserve = max_output.min(OUTPUT_RESERVE).min(Tokens(context_window.0 / share));
        let effective = context_window.minus(reserve);
        let least_compact = SMALL_COMPACT_AT.min(Tokens(effective.0 / 2));
        let least_blocking = Tokens(effective.0.saturating_mul(17) / 20).min(OUTPUT_RESERVE);
        let auto_compact_at = effective.minus(AUTO_COMPACT_MARGIN).max(least_compact);
        Self {
            effective,
            auto_compact_at,
            blocking_limit: effective.minus(BLOCKING_MARGIN).max(least_blocking).max(auto_compact_at),
        }
    }

    /// From here on old results are cleared and spent turns snipped. While half of the room is free, nothing is gained by it: it would
    /// only break the provider's cache.
    pub(in crate::query) const fn relief_at(self) -> Tokens {
        Tokens(self.auto_compact_at.0 / 2)
    }

    /// From here on spans of old turns are staged for a collapse.
    pub(in crate::query) const fn stage_at(self) -> Tokens {
        Tokens(self.auto_compact_at.0.saturating_mul(7) / 10)
    }

    /// From here on staged spans are shown as their digests.
    pub(in crate::query) const fn collapse_at(self) -> Tokens {
        Tokens(self.auto_compact_at.0.saturating_mul(85) / 100)
    }

    /// The most that one tool result may be, in bytes: a quarter of the room at the densest text.
    pub(in crate::query) const fn result_bytes(self) -> usize {
        let quarter = self.auto_compact_at.0 / 4;
        (if quarter < 400 { 400 } else { quarter } * 5 / 2) as usize
    }

    /// The most that the verbatim tail after a compaction may be.
    pub(in crate::query) const fn tail(self) -> Tokens {
        Tokens(self.auto_compact_at.0 / 4)
    }
}

/// From which size on a conversation with such a model is compacted, in tokens: what is the same in every request has to be well below.
#[must_use]
pub fn auto_compact_at(context_window: Tokens, max_output: Tokens) -> Tokens {
    Window::new(context_window, max_output).auto_compact_at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specified_constants_hold_from_40_000_tokens_on() {
        for (window, output) in [(200_000, 64_000), (1_000_000, 128_000), (40_000, 64_000), (64_000, 8_192)] {
            let effective = window - output.min(20_000);
            let thresholds = Window::new(Tokens(window), Tokens(output));
            assert_eq!(thresholds.effective, Tokens(effective));
            assert_eq!(thresholds.auto_compact_at, Tokens(effective - 13_000));
            assert_eq!(thresholds.blocking_limit, Tokens(effective - 3_000));
        }
    }

    #[test]
    fn small_windows_keep_every_threshold_in_order() {
        for window in [0, 1, 1_000, 8_000, 16_384, 32_768, 39_999] {
            let thresholds = Window::new(Tokens(window), Tokens(8_192));
            assert!(thresholds.relief_at() <= thresholds.stage_at());
            assert!(thresholds.stage_at() <= thresholds.collapse_at());
            assert!(thresholds.collapse_at() <= thresholds.auto_compact_at);
            assert!(thresholds.auto_compact_at <= thresholds.blocking_limit);
            assert!(thresholds.blocking_limit <= thresholds.effective);
            assert!(window < 1_000 || thresholds.auto_compact_at.0 >= window / 4);
        }
    }
}
