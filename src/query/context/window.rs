//! The thresholds of context management, in tokens, from what a model can take.

use crate::units::Tokens;

/// Room that is kept for an answer, and so for the summary of a compaction.
const OUTPUT_RESERVE: Tokens = Tokens(20_000);
/// So far below the effective window a conversation is compacted.
const AUTO_COMPACT_MARGIN: Tokens = Tokens(13_000);
/// So far below the effective window no request is sent any more.
const BLOCKING_MARGIN: Tokens = Tokens(3_000);

/// What the sizes of a conversation are compared with.
///
/// For windows of 40,000 tokens and more these are the specified constants. Below that the constants would leave nothing, so they
/// shrink in proportion: half of the window for the answer, and of the rest 65 % and 15 % as margins.
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
        let reserve = max_output.min(OUTPUT_RESERVE).min(Tokens(context_window.0 / 2));
        let effective = context_window.minus(reserve);
        let margin = |most: Tokens, twentieths: u64| most.min(Tokens(effective.0.saturating_mul(twentieths) / 20));
        Self {
            effective,
            auto_compact_at: effective.minus(margin(AUTO_COMPACT_MARGIN, 13)),
            blocking_limit: effective.minus(margin(BLOCKING_MARGIN, 3)),
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
            assert!(window < 1_000 || thresholds.auto_compact_at.0 > window / 8);
        }
    }
}
