//! Reads `[model]` and `model = "name"`.

use super::diagnostic::{Code, Diagnostic};
use super::job::{ModelSpec, ProviderName, Thinking, Written};
use super::keys::Table;
use super::read::{Field, Reader, Value};
use crate::units::Tokens;
use toml::de::DeValue;

pub(super) fn model(reader: &mut Reader, field: Field<'_>, value: &Value<'_>) -> Option<ModelSpec> {
    let table = Table::Model;
    let from = match value.get_ref() {
        DeValue::String(_) => {
            let name = reader.words(field, value)?;
            let name = Some(Written::new(name, reader.place(value.span())));
            return Some(ModelSpec { name, ..ModelSpec::default() });
        }
        DeValue::Table(from) => from,
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) => {
            return reader.wrong_type(field, value, "a string or a table");
        }
    };
    reader.refuse_unknown(table, from);
    Some(ModelSpec {
        provider: reader.key(table, from, "provider", |reader, field, value| {
            reader.choice(field, value, &[("anthropic", ProviderName::Anthropic), ("replay", ProviderName::Replay)])
        }),
        name: reader.key(table, from, "name", Reader::words),
        fallback: reader.key(table, from, "fallback", Reader::words),
        small: reader.key(table, from, "small", Reader::words),
        base_url: reader.key(table, from, "base_url", Reader::words),
        api_key_env: reader.key(table, from, "api_key_env", Reader::words),
        max_output_tokens: reader.key(table, from, "max_output_tokens", |reader, field, value| {
            reader.whole(field, value, 1..=1_000_000).map(Tokens)
        }),
        thinking: reader.key(table, from, "thinking", thinking),
        context_window: reader.key(table, from, "context_window", |reader, field, value| {
            reader.whole(field, value, 1_000..=1_000_000_000).map(Tokens)
        }),
        headers: reader.key(table, from, "headers", Reader::entries).map(|map| map.value).unwrap_or_default(),
        cassette: reader.key(table, from, "cassette", Reader::words),
    })
}

fn thinking(reader: &mut Reader, field: Field<'_>, value: &Value<'_>) -> Option<Thinking> {
    match value.get_ref() {
        DeValue::String(_) => reader.choice_or(
            field,
            value,
            &[("off", Thinking::Off), ("adaptive", Thinking::Adaptive)],
            Some("{ budget_tokens = N }"),
        ),
        DeValue::Table(from) => {
            let table = Table::Thinking;
            reader.refuse_unknown(table, from);
            if !from.contains_key("budget_tokens") {
                let report = Diagnostic::error(Code::MissingKey, "`thinking` needs `budget_tokens`")
                    .help("for example: thinking = { budget_tokens = 4096 }");
                reader.refuse(report, value.span(), "no budget here");
            }
            let budget = reader.key(table, from, "budget_tokens", |reader, field, value| {
                // 1,024 is the least that the Messages API accepts.
                reader.whole(field, value, 1_024..=1_000_000).map(Tokens)
            });
            budget.map(|budget| Thinking::Budget(budget.value))
        }
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) => {
            reader.wrong_type(field, value, "\"off\", \"adaptive\" or { budget_tokens = N }")
        }
    }
}
