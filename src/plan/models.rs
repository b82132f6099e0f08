//! What is known about models: window, output limit, prices, accepted forms of thinking. The table is `models.toml`.

use crate::spec::Thinking;
use crate::units::{Prices, TokenPrices, Tokens, Usd};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The context window that is assumed of a model that the table does not know, in tokens: the smallest in the table.
pub const ASSUMED_WINDOW: Tokens = Tokens(200_000);

/// What is known about one model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFacts {
    /// The whole window, input and output together.
    pub context_window: Tokens,
    /// The most that one answer can have.
    pub max_output: Tokens,
    /// List prices.
    pub prices: Prices,
    /// Its thinking is bound to the exact conversation before it.
    pub binds_thinking: bool,
    accepts: Vec<Form>,
}

impl ModelFacts {
    /// What is known about a model, by its name or an alias.
    pub fn of(name: &str) -> Option<&'static Self> {
        TABLE.get(name)
    }

    /// Whether the model takes this form of thinking.
    pub fn accepts(&self, thinking: Thinking) -> bool {
        self.accepts.contains(&Form::of(thinking))
    }

    /// The forms of thinking that the model takes, as they are written in a job file.
    pub fn accepted(&self) -> Vec<&'static str> {
        self.accepts.iter().map(|form| form.written()).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    Off,
    Adaptive,
    Budget,
}

impl Form {
    const fn of(thinking: Thinking) -> Self {
        match thinking {
            Thinking::Off => Self::Off,
            Thinking::Adaptive => Self::Adaptive,
            Thinking::Budget(_) => Self::Budget,
        }
    }

    const fn written(self) -> &'static str {
        match self {
            Self::Off => "\"off\"",
            Self::Adaptive => "\"adaptive\"",
            Self::Budget => "{ budget_tokens = N }",
        }
    }
}

/// Parsed once. The test below holds that the embedded table can be read, so the fallback is never used.
static TABLE: LazyLock<BTreeMap<String, ModelFacts>> =
    LazyLock::new(|| read(include_str!("models.toml")).unwrap_or_default());

fn read(text: &str) -> Result<BTreeMap<String, ModelFacts>, toml::de::Error> {
    let rows: BTreeMap<String, Row> = toml::from_str(text)?;
    let mut table = BTreeMap::new();
    for (name, row) in rows {
        let tiers = row.tiers.iter().map(|tier| (Tokens(tier.above), tier.prices.for_one_token())).collect();
        let facts = ModelFacts {
            context_window: Tokens(row.context_window),
            max_output: Tokens(row.max_output),
            prices: Prices { base: row.prices.for_one_token(), tiers },
            binds_thinking: row.binds_thinking,
            accepts: row.thinking,
        };
        table.extend(row.aliases.into_iter().map(|alias| (alias, facts.clone())));
        table.insert(name, facts);
    }
    Ok(table)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// For readers of the table.
    #[serde(rename = "source")]
    _source: String,
    #[serde(default)]
    aliases: Vec<String>,
    context_window: u64,
    max_output: u64,
    thinking: Vec<Form>,
    #[serde(default)]
    binds_thinking: bool,
    prices: PriceRow,
    #[serde(default)]
    tiers: Vec<TierRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TierRow {
    above: u64,
    prices: PriceRow,
}

/// US dollars for a million tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceRow {
    input: f64,
    output: f64,
    cache_write: f64,
    cache_read: f64,
}

impl PriceRow {
    fn for_one_token(&self) -> TokenPrices {
        TokenPrices {
            input: Usd::per_token(self.input),
            cache_read: Usd::per_token(self.cache_read),
            cache_write: Usd::per_token(self.cache_write),
            output: Usd::per_token(self.output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_table_can_be_read_and_makes_sense() {
        let table = read(include_str!("models.toml")).unwrap();
        assert_eq!(table.len(), 18 + 3, "models and aliases");
        for (name, facts) in &table {
            let TokenPrices { input, cache_read, cache_write, output } = facts.prices.base;
            assert!(
                Usd::ZERO < cache_read && cache_read < input && input < cache_write && cache_write < output,
                "{name}"
            );
            assert!(facts.max_output < facts.context_window && !facts.accepts.is_empty(), "{name}");
        }
    }

    #[test]
    fn facts_are_found_by_name_and_alias() {
        let facts = ModelFacts::of("claude-haiku-5-5").unwrap();
        assert_eq!(facts.prices.for_prompt(Tokens(100_001)).output, Usd::per_token(2.5));
        assert!(facts.accepts(Thinking::Off) && !facts.accepts(Thinking::Budget(Tokens(2_000))));
        assert_eq!(ModelFacts::of("claude-opus-4-5-20251101"), ModelFacts::of("claude-opus-4-5"));
        assert_eq!(ModelFacts::of("deepseek-v4-flash"), None);
    }

    #[test]
    fn thinking_is_bound_from_the_5_1_line_on() {
        let table = read(include_str!("models.toml")).unwrap();
        let bound: Vec<_> =
            table.iter().filter(|(_, facts)| facts.binds_thinking).map(|(name, _)| &name[7..]).collect();
        let expected = ["fable-5-1", "fable-5-2", "haiku-5-5", "mythos-5-1", "mythos-5-2", "opus-5-5", "sonnet-5-5"];
        assert_eq!(bound, expected);
    }
}
