//! Reads `token_budget` and `task_budget`.

use super::diagnostic::{Code, Diagnostic};
use super::job::TokenBudget;
use super::keys::Table;
use super::read::{Field, Reader, Value};
use crate::units::Tokens;
use toml::de::DeValue;

/// The most that any budget can be, in tokens.
const MOST: u64 = 1_000_000_000_000;

pub(super) fn token_budget(reader: &mut Reader, field: Field<'_>, value: &Value<'_>) -> Option<TokenBudget> {
    match value.get_ref() {
        DeValue::Integer(_) => {
            let total = total(reader, field, value)?;
            Some(TokenBudget { total, keep_working: false })
        }
        DeValue::Table(from) => {
            let table = Table::TokenBudget;
            reader.refuse_unknown(table, from);
            let total = reader.key(table, from, "total", total);
            let keep_working = reader.key(table, from, "keep_working", Reader::boolean);
            if total.is_none() && !reader.broken.contains("token_budget.total") {
                let report = Diagnostic::error(Code::MissingKey, "`token_budget` needs `total`")
                    .help("for example: token_budget = { total = 400_000, keep_working = true }");
                reader.refuse(report, value.span(), "no budget here");
            }
            Some(TokenBudget { total: total?.value, keep_working: keep_working.is_some_and(|keep| keep.value) })
        }
        DeValue::String(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) => {
            reader.wrong_type(field, value, "an integer or a table")
        }
    }
}

fn total(reader: &mut Reader, field: Field<'_>, value: &Value<'_>) -> Option<Tokens> {
    reader.whole(field, value, 1..=MOST).map(Tokens)
}

pub(super) fn task_budget(reader: &mut Reader, field: Field<'_>, value: &Value<'_>) -> Option<Tokens> {
    let read = reader.whole(field, value, 20_000..=MOST).map(Tokens);
    if read.is_none()
        && let Some(report) = reader.found.last_mut().filter(|report| report.code == Code::OutOfRange)
    {
        report.notes.push("20,000 tokens is the least that the Messages API takes".into());
    }
    read
}
