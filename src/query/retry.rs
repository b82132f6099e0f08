//! How long to wait before a failed call is sent again: exponential backoff with jitter, the provider's wish honoured.
//!
//! Chance comes from outside as a seed, so a recorded history plays back to the same waits.

use std::time::Duration;

/// How patient a query is with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How often a failed call is sent again; default 10, as unattended runs can wait out a busy hour.
    pub retries: u32,
    /// The wait before the first retry, doubled for each further one; default 1 s.
    pub base: Duration,
    /// The longest wait of our own making; default 60 s. The provider's wish may be longer.
    pub cap: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { retries: 10, base: Duration::from_secs(1), cap: Duration::from_mins(1) }
    }
}

impl Patience {
    /// The wait before retry number `retry` (from 1).
    ///
    /// With a wish of the provider's: never less than it, and up to a tenth more, at most 5 s, so that many jobs do not come
    /// back at the same moment. Without: the doubled base, less up to a quarter.
    #[must_use]
    pub fn wait(&self, retry: u32, wish: Option<Duration>, seed: u64) -> Duration {
        let chance = unit(seed ^ u64::from(retry).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if let Some(wish) = wish {
            return wish.saturating_add(wish.div_f64(10.0).min(Duration::from_secs(5)).mul_f64(chance));
        }
        let doubled = self.base.saturating_mul(2_u32.saturating_pow(retry.saturating_sub(1).min(20)));
        doubled.min(self.cap).mul_f64(1.0 - chance / 4.0)
    }
}

/// Spreads a seed over 0 to 1 (the `SplitMix64` finaliser).
fn unit(seed: u64) -> f64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_wish_is_never_undercut_and_backoff_stays_within_its_cap(retry in 1_u32..30, wish in 0_u64..7_200, seed: u64) {
            let patience = Patience::default();
            let wish = Duration::from_secs(wish);
            let honoured = patience.wait(retry, Some(wish), seed);
            prop_assert!(honoured >= wish && honoured <= wish + Duration::from_secs(5));
            let own = patience.wait(retry, None, seed);
            prop_assert!(own <= patience.cap && own >= patience.base.mul_f64(0.75));
        }
    }

    #[test]
    fn waits_double_and_differ_between_seeds() {
        let patience = Patience::default();
        let waits: Vec<_> = (1..=4).map(|retry| patience.wait(retry, None, 7).as_secs_f64()).collect();
        assert!(waits.windows(2).all(|pair| pair[1] > pair[0]), "{waits:?}");
        assert_ne!(patience.wait(1, None, 1), patience.wait(1, None, 2));
        assert_eq!(patience.wait(3, None, 5), patience.wait(3, None, 5));
    }
}
