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
    /// The price of all of it.
    pub cost: Usd,
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
    /// Set aside for calls that are under way.
    held: (Tokens, Usd),
}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub const fn new(caps: Caps) -> Self {
        let none = Tokens(0);
        let used = Usage { input: none, cache_read: none, cache_write: none, output: none };
        Self { caps, used, spent: Usd::ZERO, held: (Tokens(0), Usd::ZERO) }
    }

    /// A ledger that goes on where another one has ended.
    #[must_use]
    pub const fn going_on(caps: Caps, used: Usage, spent: Usd) -> Self {
        Self { caps, used, spent, held: (Tokens(0), Usd::ZERO) }
    }

    /// Sets a call's worst case aside: the whole prompt as dearest input, and the whole output cap. It stays set aside until
    /// [`release`](Self::release).
    ///
    /// Where the wanted output cap does not fit, a smaller one is granted, down to [`MIN_OUTPUT`].
    ///
    /// # Errors
    /// Names the cap that the call could pass.
    pub fn reserve(&mut self, prompt: Tokens, wanted: Tokens, prices: &Prices) -> Result<Reservation, CapReached> {
        let least = wanted.min(MIN_OUTPUT);
        let (held_tokens, held_cost) = self.held;
        let by_tokens = self.caps.tokens.minus(self.used.counted()).minus(held_tokens).minus(prompt);
        if by_tokens < least {
            return Err(CapReached::Tokens);
        }
        let prices = prices.for_prompt(prompt);
        let input = prices.dearest_input().times(prompt);
        let by_cost = self.caps.cost.map_or(Tokens(u64::MAX), |cap| {
            let left = cap.minus(self.spent).minus(held_cost);
            if left < input { Tokens(0) } else { prices.output.tokens_within(left.minus(input)) }
        });
        if by_cost < least {
            return Err(CapReached::Cost);
        }
        let output = wanted.min(by_tokens).min(by_cost);
        let mut cost = input;
        cost += prices.output.times(output);
        let reservation = Reservation { prompt, output, cost };
        self.held.0 += reservation.total();
        self.held.1 += cost;
        Ok(reservation)
    }

    /// Gives back what was set aside for a call that has ended.
    pub fn release(&mut self, reservation: &Reservation) {
        self.held = (self.held.0.minus(reservation.total()), self.held.1.minus(reservation.cost));
    }

    /// Whether something is set aside for a call that is under way.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        self.held.0 > Tokens(0)
    }

    /// Books what a call really used, and returns what it cost.
    pub fn settle(&mut self, usage: &Usage, prices: &Prices) -> Usd {
        let cost = prices.cost(usage);
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

    fn output(caps: &Caps, prompt: u64, wanted: u64, prices: &Prices) -> Result<u64, CapReached> {
        Ledger::new(caps.clone()).reserve(Tokens(prompt), Tokens(wanted), prices).map(|r| r.output.0)
    }

    #[test]
    fn the_output_cap_shrinks_to_what_fits_and_then_the_call_is_refused() {
        let (caps, free) = (Caps { tokens: Tokens(5_000), cost: None }, Prices::default());
        assert_eq!(output(&caps, 1_000, 8_192, &free), Ok(4_000));
        assert_eq!(output(&caps, 3_976, 8_192, &free), Ok(1_024));
        assert_eq!(output(&caps, 3_977, 8_192, &free), Err(CapReached::Tokens));
        assert_eq!(output(&caps, 4_900, 100, &free), Ok(100));
    }

    #[test]
    fn money_is_reserved_at_the_dearest_input_price() {
        let caps = Caps { tokens: Tokens(u64::MAX), cost: Some(Usd::from_dollars(0.05)) };
        // 10,000 tokens of input at the cache-write price of $2.50 are $0.025; the rest buys 2,500 tokens of output.
        assert_eq!(output(&caps, 10_000, 8_192, &prices(2.0, 10.0)), Ok(2_500));
        assert_eq!(output(&caps, 20_000, 8_192, &prices(2.0, 10.0)), Err(CapReached::Cost));
    }

    #[test]
    fn what_is_set_aside_for_one_call_is_not_there_for_another() {
        let mut ledger = Ledger::new(Caps { tokens: Tokens(10_000), cost: None });
        let first = ledger.reserve(Tokens(2_000), Tokens(4_000), &Prices::default()).unwrap();
        assert_eq!(
            ledger.reserve(Tokens(2_000), Tokens(4_000), &Prices::default()).map(|r| r.output),
            Ok(Tokens(2_000))
        );
        assert_eq!(ledger.reserve(Tokens(1), Tokens(1_024), &Prices::default()), Err(CapReached::Tokens));
        ledger.release(&first);
        assert!(ledger.is_holding() && ledger.reserve(Tokens(1), Tokens(1_024), &Prices::default()).is_ok());
    }

    proptest! {
        #[test]
        fn honest_usage_never_passes_a_cap(
            cap in 2_000_u64..200_000,
            dollars in 0.001_f64..0.5,
            calls in proptest::collection::vec((0_u64..20_000, 0.0_f64..=1.0, 0.0_f64..=1.0, 1_u64..20_000, any::<bool>()), 1..40),
        ) {
            let cost = Usd::from_dollars(dollars);
            let prices = prices(2.0, 10.0);
            let mut ledger = Ledger::new(Caps { tokens: Tokens(cap), cost: Some(cost) });
            let mut open = Vec::new();
            for (prompt, cached, answered, wanted, waits) in calls {
                if let Ok(reserved) = ledger.reserve(Tokens(prompt), Tokens(wanted), &prices) {
                    open.push((prompt, cached, answered, reserved));
                }
                if waits {
                    continue;
                }
                for (prompt, cached, answered, reserved) in open.drain(..) {
                    let read = (prompt as f64 * cached) as u64;
                    let usage = Usage {
                        input: Tokens(0),
                        cache_read: Tokens(read),
                        cache_write: Tokens(prompt - read),
                        output: Tokens((reserved.output.0 as f64 * answered) as u64),
                    };
                    ledger.release(&reserved);
                    ledger.settle(&usage, &prices);
                }
            }
            prop_assert!(ledger.used().counted() <= Tokens(cap));
            prop_assert!(ledger.spent() <= cost);
        }
    }
}
