//! Tokens and money: reserve before a call, settle after it. A cap is never overshot while the provider's numbers are
//! honest, for a call that could pass it is not sent.

use crate::units::{Prices, Tokens, Usage, Usd};

/// The least output cap that makes a call worth sending: below it an answer would be cut before it says anything.
pub const MIN_OUTPUT: Tokens = Tokens(1_024);

/// The caps of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Caps {
    /// Input that was not read from a cache, plus output.
    pub tokens: Tokens,
    /// Money; `None`: no cap.
    pub cost: Option<Usd>,
    /// The model's prices; all zero where they are not known.
    pub prices: Prices,
}

/// Which cap stands in the way of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapReached {
    /// The token budget.
    Tokens,
    /// The spending cap.
    Cost,
}

/// What one call may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The estimated prompt; the estimate errs high.
    pub prompt: Tokens,
    /// The output cap that the call is sent with.
    pub output: Tokens,
}

impl Reservation {
    /// Everything together.
    #[must_use]
    pub fn total(&self) -> Tokens {
        self.prompt + self.output
    }
}

/// What a query has used so far, and what it may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    caps: Caps,
    used: Usage,
    spent: Usd,
}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub const fn new(caps: Caps) -> Self {
        let none = Tokens(0);
        let used = Usage { input: none, cache_read: none, cache_write: none, output: none };
        Self { caps, used, spent: Usd::ZERO }
    }

    /// Sets a call's worst case aside: the whole prompt as dearest input, and the whole output cap.
    ///
    /// Where the wanted output cap does not fit, a smaller one is granted, down to [`MIN_OUTPUT`].
    ///
    /// # Errors
    /// Names the cap that the call could pass.
    pub fn reserve(&self, prompt: Tokens, wanted: Tokens) -> Result<Reservation, CapReached> {
        let least = wanted.min(MIN_OUTPUT);
        let by_tokens = self.caps.tokens.minus(self.used.counted()).minus(prompt);
        if by_tokens < least {
            return Err(CapReached::Tokens);
        }
        let by_cost = self.caps.cost.map_or(Tokens(u64::MAX), |cap| {
            let prices = self.caps.prices.for_prompt(prompt);
            let input = prices.dearest_input().times(prompt);
            let left = cap.minus(self.spent);
            if left < input { Tokens(0) } else { prices.output.tokens_within(left.minus(input)) }
        });
        if by_cost < least {
            return Err(CapReached::Cost);
        }
        Ok(Reservation { prompt, output: wanted.min(by_tokens).min(by_cost) })
    }

    /// Books what a call really used, and returns what it cost.
    pub fn settle(&mut self, usage: &Usage) -> Usd {
        let cost = self.caps.prices.cost(usage);
        self.used += *usage;
        self.spent += cost;
        cost
    }

    /// What was used so far.
    #[must_use]
    pub const fn used(&self) -> &Usage {
        &self.used
    }

    /// What was spent so far.
    #[must_use]
    pub const fn spent(&self) -> Usd {
        self.spent
    }

    /// The caps.
    #[must_use]
    pub const fn caps(&self) -> &Caps {
        &self.caps
    }
}

/// Tokens that so many bytes of a request are, erring high.
///
/// Plain English has about 3.5 bytes a token on older Claude tokenizers and a third more tokens on those since Opus 4.7
/// (provider's documents, 2026), which makes 2.7; 2.5 leaves a margin for code and numbers.
#[must_use]
pub const fn estimate(bytes: usize) -> Tokens {
    Tokens((bytes as u64).saturating_mul(2).div_ceil(5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::TokenPrices;
    use proptest::prelude::*;

    fn prices(input: f64, output: f64) -> Prices {
        let base = TokenPrices {
            input: Usd::per_token(input),
            cache_write: Usd::per_token(input * 1.25),
            cache_read: Usd::per_token(input * 0.1),
            output: Usd::per_token(output),
        };
        Prices { base, tiers: Vec::new() }
    }

    #[test]
    fn the_output_cap_shrinks_to_what_fits_and_then_the_call_is_refused() {
        let ledger = Ledger::new(Caps { tokens: Tokens(5_000), cost: None, prices: Prices::default() });
        assert_eq!(ledger.reserve(Tokens(1_000), Tokens(8_192)).map(|r| r.output), Ok(Tokens(4_000)));
        assert_eq!(ledger.reserve(Tokens(3_976), Tokens(8_192)).map(|r| r.output), Ok(Tokens(1_024)));
        assert_eq!(ledger.reserve(Tokens(3_977), Tokens(8_192)), Err(CapReached::Tokens));
        assert_eq!(ledger.reserve(Tokens(4_900), Tokens(100)).map(|r| r.output), Ok(Tokens(100)));
    }

    #[test]
    fn money_is_reserved_at_the_dearest_input_price() {
        let caps = Caps { tokens: Tokens(u64::MAX), cost: Some(Usd::from_dollars(0.05)), prices: prices(2.0, 10.0) };
        let ledger = Ledger::new(caps);
        // 10,000 tokens of input at the cache-write price of $2.50 are $0.025; the rest buys 2,500 tokens of output.
        assert_eq!(ledger.reserve(Tokens(10_000), Tokens(8_192)).map(|r| r.output), Ok(Tokens(2_500)));
        assert_eq!(ledger.reserve(Tokens(20_000), Tokens(8_192)), Err(CapReached::Cost));
    }

    proptest! {
        #[test]
        fn honest_usage_never_passes_a_cap(
            cap in 2_000_u64..200_000,
            dollars in 0.001_f64..0.5,
            calls in proptest::collection::vec((0_u64..20_000, 0.0_f64..=1.0, 0.0_f64..=1.0, 1_u64..20_000), 1..40),
        ) {
            let cost = Usd::from_dollars(dollars);
            let mut ledger = Ledger::new(Caps { tokens: Tokens(cap), cost: Some(cost), prices: prices(2.0, 10.0) });
            for (prompt, cached, answered, wanted) in calls {
                if let Ok(reserved) = ledger.reserve(Tokens(prompt), Tokens(wanted)) {
                    let read = (prompt as f64 * cached) as u64;
                    let usage = Usage {
                        input: Tokens(0),
                        cache_read: Tokens(read),
                        cache_write: Tokens(prompt - read),
                        output: Tokens((reserved.output.0 as f64 * answered) as u64),
                    };
                    ledger.settle(&usage);
                }
            }
            prop_assert!(ledger.used().counted() <= Tokens(cap));
            prop_assert!(ledger.spent() <= cost);
        }
    }
}
