//! Quantities as types: turns, tokens, money, time since the run began, names.
//!
//! No bare integer crosses a module boundary, so a token can never be added to a turn. All arithmetic saturates:
//! a provider that reports nonsense must not be able to panic a job.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// A number of model turns: responses that the loop accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Turns(pub u32);

impl Turns {
    /// One turn more.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tokens(pub u64);

impl Tokens {
    /// What is left when `other` is taken away; never below zero.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Tokens {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Tokens {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self(0), Add::add)
    }
}

impl fmt::Display for Tokens {
    /// `950`, `12.3k`, `4.56M`: three significant digits, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            n @ 0..1_000 => n.to_string(),
            n @ 1_000..1_000_000 => format!("{:.1}k", n as f64 / 1e3),
            n => format!("{:.2}M", n as f64 / 1e6),
        };
        f.pad(&text)
    }
}

/// An amount of money in pico-dollars (10⁻¹² USD), held as an integer.
///
/// The finest list price is $0.01 for a million tokens, 10,000 pico-dollars a token, so every product of a price
/// and a token count is exact. The range ends at about 18 million dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Usd(u64);

impl Usd {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    const PER_DOLLAR: f64 = 1e12;

    /// From dollars; negative, infinite and undefined amounts become zero.
    #[must_use]
    pub fn from_dollars(dollars: f64) -> Self {
        if dollars.is_finite() && dollars > 0.0 {
            Self((dollars * Self::PER_DOLLAR).round() as u64)
        } else {
            Self::ZERO
        }
    }

    /// From a list price in dollars for a million tokens to the price of one token.
    #[must_use]
    pub fn per_token(dollars_per_million: f64) -> Self {
        Self::from_dollars(dollars_per_million / 1e6)
    }

    /// This price of one token, times a number of tokens.
    #[must_use]
    pub const fn times(self, tokens: Tokens) -> Self {
        Self(self.0.saturating_mul(tokens.0))
    }

    /// How many tokens at this price fit into `amount`; `u64::MAX` when they cost nothing.
    #[must_use]
    pub const fn tokens_within(self, amount: Self) -> Tokens {
        match amount.0.checked_div(self.0) {
            Some(count) => Tokens(count),
            None => Tokens(u64::MAX),
        }
    }

    /// What is left when `other` is taken away; never below zero.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// In dollars, rounded to the micro-dollar: the form that reports carry.
    #[must_use]
    pub fn dollars(self) -> f64 {
        ((self.0 as f64) / 1e6).round() / 1e6
    }
}

impl Add for Usd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Usd {
    /// `$0.0123`: four decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("${:.4}", self.dollars()))
    }
}

/// Time since the run began. Unlike an instant it can be written down in a test or a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Elapsed(pub Duration);

impl Elapsed {
    /// From whole milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// This moment plus a span.
    #[must_use]
    pub const fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// The span from `earlier` to this moment; zero when it lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&show_duration(self.0))
    }
}

/// A span for people: `0.4s`, `12.3s`, `3m04s`, `2h05m`.
#[must_use]
pub fn show_duration(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{:.1}s", span.as_secs_f64().min(59.9)),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// The name of a job, unique in a run: 1 to 100 of `[A-Za-z0-9._-]`, fit for a folder and a branch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(String);

impl JobId {
    /// The longest name, in bytes: it becomes part of file names, whose limit is 255.
    pub const MAX: usize = 100;

    /// Checks a name.
    ///
    /// # Errors
    /// Says in words which rule the name breaks.
    pub fn new(name: &str) -> Result<Self, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() {
            Err("a job name must not be empty".into())
        } else if name.len() > Self::MAX {
            Err(format!("a job name has at most {} characters, this one has {}", Self::MAX, name.len()))
        } else if let Some(bad) = name.chars().find(|c| !allowed(*c)) {
            Err(format!("a job name is made of letters, digits, `.`, `_` and `-`, not {bad:?}"))
        } else if name.starts_with(['.', '-']) {
            Err("a job name starts with a letter, a digit or `_`".into())
        } else if name.ends_with('.') || name.ends_with(".lock") || name.contains("..") {
            Err("a job name becomes part of a branch: git allows no `..`, no final `.` and no final `.lock`".into())
        } else {
            Ok(Self(name.to_owned()))
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The name of a run. Names sort by the time at which their runs began: `20261130-235522-3f2a9c`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub String);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Token counts of one model call or of many, as the provider bills them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input that was neither read from nor written to a cache.
    pub input: Tokens,
    /// Input read from a cache.
    pub cache_read: Tokens,
    /// Input written to a cache.
    pub cache_write: Tokens,
    /// Output, hidden thinking included.
    pub output: Tokens,
}

impl Usage {
    /// The whole prompt: every kind of input together.
    #[must_use]
    pub fn prompt(&self) -> Tokens {
        self.input + self.cache_read + self.cache_write
    }

    /// What `token_budget` counts: input that was not read from a cache, plus output.
    #[must_use]
    pub fn counted(&self) -> Tokens {
        self.input + self.cache_write + self.output
    }
}

impl Add for Usage {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            input: self.input + other.input,
            cache_read: self.cache_read + other.cache_read,
            cache_write: self.cache_write + other.cache_write,
            output: self.output + other.output,
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Prices of one token by kind, and of one whole call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// The prices for prompts up to the first tier's border.
    pub base: TokenPrices,
    /// Dearer prices for large prompts, by rising border: a prompt larger than the border pays them for all its tokens.
    pub tiers: Vec<(Tokens, TokenPrices)>,
}

/// What one token costs, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenPrices {
    /// Plain input.
    pub input: Usd,
    /// Input read from a cache.
    pub cache_read: Usd,
    /// Input written to a cache (the 5-minute kind).
    pub cache_write: Usd,
    /// Output.
    pub output: Usd,
}

impl TokenPrices {
    /// The most that one token of input can cost: what a reservation assumes.
    #[must_use]
    pub fn dearest_input(&self) -> Usd {
        self.input.max(self.cache_write).max(self.cache_read)
    }
}

impl Prices {
    /// The prices that hold for a prompt of this size.
    #[must_use]
    pub fn for_prompt(&self, prompt: Tokens) -> TokenPrices {
        self.tiers.iter().rev().find(|(border, _)| prompt > *border).map_or(self.base, |(_, prices)| *prices)
    }

    /// What a call with this usage costs.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Usd {
        let prices = self.for_prompt(usage.prompt());
        prices.input.times(usage.input)
            + prices.cache_read.times(usage.cache_read)
            + prices.cache_write.times(usage.cache_write)
            + prices.output.times(usage.output)
    }
}

/// The FNV-1a hash of a text: the same on every machine and for ever, and no secret.
#[must_use]
pub fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_exact_at_the_finest_price() {
        let price = Usd::per_token(0.01);
        assert_eq!(price.times(Tokens(1_000_000)), Usd::from_dollars(0.01));
        assert_eq!(price.times(Tokens(3)).dollars(), 0.0);
        assert_eq!(Usd::from_dollars(0.1) + Usd::from_dollars(0.2), Usd::from_dollars(0.3));
        assert_eq!(Usd::from_dollars(f64::NAN), Usd::ZERO);
        assert_eq!(Usd::from_dollars(-1.0), Usd::ZERO);
    }

    #[test]
    fn a_large_prompt_pays_its_tier_for_all_tokens() {
        let cheap = TokenPrices { input: Usd::per_token(0.10), ..TokenPrices::default() };
        let dear = TokenPrices { input: Usd::per_token(0.50), ..TokenPrices::default() };
        let prices = Prices { base: cheap, tiers: vec![(Tokens(100_000), dear)] };
        let usage = |input| Usage { input: Tokens(input), ..Usage::default() };
        assert_eq!(prices.cost(&usage(100_000)), Usd::from_dollars(0.01));
        assert_eq!(prices.cost(&usage(200_000)), Usd::from_dollars(0.10));
    }

    #[test]
    fn names_that_would_break_a_folder_or_a_branch_are_refused() {
        for good in ["a", "fix-parse-empty", "_x", "a.b", "A9"] {
            assert!(JobId::new(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", ".a", "-a", "a.", "a..b", "a.lock", "a/b", "a b", "é", &"x".repeat(101)] {
            assert!(JobId::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_and_tokens_are_short() {
        assert_eq!(show_duration(Duration::from_millis(400)), "0.4s");
        assert_eq!(show_duration(Duration::from_millis(59_990)), "59.9s");
        assert_eq!(show_duration(Duration::from_secs(184)), "3m04s");
        assert_eq!(show_duration(Duration::from_mins(125)), "2h05m");
        assert_eq!(Tokens(950).to_string(), "950");
        assert_eq!(Tokens(12_345).to_string(), "12.3k");
        assert_eq!(Tokens(4_560_000).to_string(), "4.56M");
    }
}
