//! The caps on tokens and money, in the loop: no call is sent that could pass one.

use super::*;
use crate::units::{TokenPrices, Usd};

#[test]
fn b085_the_token_budget_stops_before_the_call_that_could_pass_it() {
    let caps = Caps { tokens: Tokens(4_000), cost: None };
    let trace = check(
        Params { caps, ..params(&[], &[]) },
        "> start\n> answer end Read:a\n> tool a ok\n> answer end Read:b\n> tool b ok",
    );
    assert!(trace.contains("finish completed: the token budget is used up: 2200 of 4000 tokens"), "{trace}");
    assert_eq!(trace.matches("call-model").count(), 2);
}

#[test]
fn b086_the_spending_cap_stops_before_the_call_that_could_pass_it() {
    let base = TokenPrices { input: Usd::per_token(2.0), output: Usd::per_token(10.0), ..TokenPrices::default() };
    let caps = Caps { tokens: Tokens(u64::MAX), cost: Some(Usd::from_dollars(0.02)) };
    let main = ModelLimits { prices: Prices { base, tiers: Vec::new() }, ..model("main") };
    let models = Models { main, fallback: None, small: None };
    let trace = check(
        Params { caps, models, ..params(&[], &[]) },
        "> start\n> answer end Read:a\n> tool a ok\n> answer end Read:b\n> tool b ok\n> answer end Read:c\n> tool c ok",
    );
    let last = trace.trim_end().lines().last().unwrap();
    assert!(last.contains("aborted_streaming (cost_limit)"), "{trace}");
}
