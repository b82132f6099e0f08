//! Reads one value of the spanned TOML tree: the right type, within its range, or a finding that says what is right.

use super::diagnostic::{Code, Diagnostic};
use super::duration::parse_duration;
use super::job::{Entry, Written};
use super::keys::{Meant, Table, meant, nearest_word};
use super::source::{Place, SourceFile};
use crate::units::Usd;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value of the tree with its span.
pub(super) type Value<'a> = Spanned<DeValue<'a>>;

/// The key whose value is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) table: Table,
    pub(super) name: &'a str,
}

/// Reads values of one file and gathers what is wrong with them.
#[derive(Debug)]
pub(super) struct Reader {
    file: Arc<SourceFile>,
    pub(super) found: Vec<Diagnostic>,
    pub(super) broken: BTreeSet<String>,
}

impl Reader {
    pub(super) fn new(file: &Arc<SourceFile>) -> Self {
        Self { file: Arc::clone(file), found: Vec::new(), broken: BTreeSet::new() }
    }

    pub(super) fn place(&self, span: Range<usize>) -> Place {
        Place::new(&self.file, span)
    }

    /// Reads the value of a key with `read`, when the key is there.
    pub(super) fn key<T>(
        &mut self,
        table: Table,
        from: &DeTable<'_>,
        name: &'static str,
        read: impl FnOnce(&mut Self, Field<'_>, &Value<'_>) -> Option<T>,
    ) -> Option<Written<T>> {
        let value = from.get(name)?;
        let read = read(self, Field { table, name }, value);
        if read.is_none() {
            self.broken.insert(format!("{}{name}", table.prefix()));
        }
        read.map(|read| Written::new(read, self.place(value.span())))
    }

    /// Reports every key that the table does not have.
    pub(super) fn refuse_unknown(&mut self, table: Table, from: &DeTable<'_>) {
        for key in from.keys() {
            let name: &str = key.get_ref();
            if table.keys().iter().any(|known| known.name == name) {
                continue;
            }
            let report = Diagnostic::error(Code::UnknownKey, format!("unknown key `{name}`"))
                .at(self.place(key.span()), format!("{} has no such key", table.shown()));
            let report = match meant(table, name) {
                Meant::Similar(near) => {
                    self.broken.insert(format!("{}{near}", table.prefix()));
                    report.help(format!("there is a key with a similar name: `{near}`"))
                }
                Meant::Elsewhere(other) => {
                    self.broken.insert(format!("{}{name}", other.prefix()));
                    report.help(format!("`{name}` belongs to {}", other.shown()))
                }
                Meant::SimilarElsewhere(near, other) => {
                    report.help(format!("there is a key with a similar name in {}: `{near}`", other.shown()))
                }
                Meant::UnderDefaults => report.help(format!("`{name}` belongs to [defaults]")),
                Meant::Unknown => {
                    let known: Vec<_> = table.keys().iter().map(|key| format!("`{}`", key.name)).collect();
                    report.note(format!("the keys are {}", known.join(", ")))
                }
            };
            self.found.push(report);
        }
    }

    /// Reports a finding about a value.
    pub(super) fn refuse(&mut self, report: Diagnostic, span: Range<usize>, label: impl Into<String>) {
        let place = self.place(span);
        self.found.push(report.at(place, label));
    }

    pub(super) fn wrong_type<T>(&mut self, field: Field<'_>, value: &Value<'_>, expected: &str) -> Option<T> {
        let Field { table, name } = field;
        let report = Diagnostic::error(Code::WrongType, format!("`{name}` must be {expected}"));
        let example = table.example(name);
        let report = if example.is_empty() { report } else { report.help(format!("for example: {example}")) };
        self.refuse(report, value.span(), format!("this is {}", type_of(value)));
        None
    }

    pub(super) fn out_of_range<T>(&mut self, field: Field<'_>, value: &Value<'_>, allowed: &str) -> Option<T> {
        let report = Diagnostic::error(Code::OutOfRange, format!("`{}` is out of range", field.name));
        self.refuse(report, value.span(), format!("must be {allowed}"));
        None
    }

    /// A text without NUL. The line ends of a file from Windows become plain ones: a shell would trip over the others.
    pub(super) fn text(&mut self, field: Field<'_>, value: &Value<'_>) -> Option<String> {
        self.text_of(field, value, "a string")
    }

    fn text_of(&mut self, field: Field<'_>, value: &Value<'_>, expected: &str) -> Option<String> {
        let Some(text) = value.get_ref().as_str() else {
            return self.wrong_type(field, value, expected);
        };
        if text.contains('\0') {
            let report = Diagnostic::error(Code::BadValue, format!("`{}` contains a NUL character", field.name));
            self.refuse(report, value.span(), "no program and no file name can take it");
            return None;
        }
        let written_so = self.place(value.span()).text().contains("\r\n");
        Some(if written_so { text.replace("\r\n", "\n") } else { text.to_owned() })
    }

    /// A text that says something: not blank.
    pub(super) fn words(&mut self, field: Field<'_>, value: &Value<'_>) -> Option<String> {
        self.words_of(field, value, "a string")
    }

    fn words_of(&mut self, field: Field<'_>, value: &Value<'_>, expected: &str) -> Option<String> {
        let text = self.text_of(field, value, expected)?;
        if text.trim().is_empty() {
            let report = Diagnostic::error(Code::OutOfRange, format!("`{}` is blank", field.name));
            self.refuse(report, value.span(), "must not be blank");
            return None;
        }
        Some(text)
    }

    /// A list of texts, none of them blank.
    pub(super) fn list(&mut self, field: Field<'_>, value: &Value<'_>) -> Option<Vec<Written<String>>> {
        let expected = "an array of strings";
        let Some(array) = value.get_ref().as_array() else {
            return self.wrong_type(field, value, expected);
        };
        let items: Vec<_> = array
            .iter()
            .map(|item| self.words_of(field, item, expected).map(|text| Written::new(text, self.place(item.span()))))
            .collect();
        items.into_iter().collect()
    }

    /// A table of texts whose keys the author chose.
    pub(super) fn entries(&mut self, field: Field<'_>, value: &Value<'_>) -> Option<BTreeMap<String, Entry>> {
        let Some(table) = value.get_ref().as_table() else {
            return self.wrong_type(field, value, "a table of strings");
        };
        let entries: Vec<_> = table
            .iter()
            .map(|(key, value)| {
                let name: &str = key.get_ref();
                let text = self.text(Field { name, ..field }, value)?;
                let value = Written::new(text, self.place(value.span()));
                Some((name.to_owned(), Entry { key: self.place(key.span()), value }))
            })
            .collect();
        entries.into_iter().collect()
    }

    pub(super) fn boolean(&mut self, field: Field<'_>, value: &Value<'_>) -> Option<bool> {
        match value.get_ref().as_bool() {
            Some(found) => Some(found),
            None => self.wrong_type(field, value, "`true` or `false`"),
        }
    }

    /// A whole number within a range.
    pub(super) fn whole(&mut self, field: Field<'_>, value: &Value<'_>, range: RangeInclusive<u64>) -> Option<u64> {
        let Some(integer) = value.get_ref().as_integer() else {
            return self.wrong_type(field, value, "an integer");
        };
        let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok();
        let number = number.and_then(|number| u64::try_from(number).ok()).filter(|number| range.contains(number));
        if number.is_none() {
            let allowed = format!("{} to {}", grouped(*range.start()), grouped(*range.end()));
            return self.out_of_range(field, value, &allowed);
        }
        number
    }

    /// An amount in US dollars: above zero, at most a million.
    pub(super) fn usd(&mut self, field: Field<'_>, value: &Value<'_>) -> Option<Usd> {
        let (DeValue::Integer(_) | DeValue::Float(_)) = value.get_ref() else {
            return self.wrong_type(field, value, "a number of US dollars");
        };
        let plain = |float: &toml::de::DeFloat<'_>| float.as_str().parse::<f64>().ok();
        let integer = |integer: &toml::de::DeInteger<'_>| {
            i128::from_str_radix(integer.as_str(), integer.radix()).ok().map(|whole| whole as f64)
        };
        let number = value.get_ref();
        let number = number.as_float().and_then(plain).or_else(|| number.as_integer().and_then(integer));
        match number.filter(|number| *number > 0.0 && *number <= 1e6).map(Usd::from_dollars) {
            Some(amount) if amount > Usd::ZERO => Some(amount),
            Some(_) | None => self.out_of_range(field, value, "above 0 and at most 1,000,000"),
        }
    }

    /// A span of time with its unit.
    pub(super) fn duration(&mut self, field: Field<'_>, value: &Value<'_>) -> Option<Duration> {
        if let Some(integer) = value.get_ref().as_integer() {
            let report = Diagnostic::error(Code::WrongType, format!("`{}` needs a unit", field.name))
                .help(format!("write \"{0}s\" for seconds or \"{0}m\" for minutes", integer.as_str()));
            self.refuse(report, value.span(), "this is a number without a unit");
            return None;
        }
        let Some(text) = value.get_ref().as_str() else {
            return self.wrong_type(field, value, "a duration in a string");
        };
        match parse_duration(text) {
            Ok(span) => Some(span),
            Err(why) => {
                let report = Diagnostic::error(Code::BadDuration, format!("the duration {why}"))
                    .help("durations are written like \"90s\", \"10m\", \"1h30m\" or \"500ms\"");
                self.refuse(report, value.span(), "not a duration");
                None
            }
        }
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&mut self, field: Field<'_>, value: &Value<'_>, words: &[(&str, T)]) -> Option<T> {
        self.choice_or(field, value, words, None)
    }

    /// One of a few words; `other` is what else there could be.
    pub(super) fn choice_or<T: Copy>(
        &mut self,
        field: Field<'_>,
        value: &Value<'_>,
        words: &[(&str, T)],
        other: Option<&str>,
    ) -> Option<T> {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let quoted = names.iter().map(|name| format!("\"{name}\"")).chain(other.map(str::to_owned));
        let quoted: Vec<String> = quoted.collect();
        let Some(text) = value.get_ref().as_str() else {
            return self.wrong_type(field, value, &any_of(&quoted));
        };
        let found = words.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice);
        if found.is_none() {
            let mut report = Diagnostic::error(Code::BadChoice, format!("`{}` cannot be {text:?}", field.name));
            if let Some(near) = nearest_word(&names, text) {
                report = report.help(format!("there is a similar word: \"{near}\""));
            }
            self.refuse(report, value.span(), format!("must be {}", any_of(&quoted)));
        }
        found
    }
}

/// A type with its article.
fn type_of(value: &Value<'_>) -> &'static str {
    match value.get_ref() {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// `a`, `a or b`, `a, b or c`.
fn any_of(words: &[String]) -> String {
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}

/// A number with commas between its thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
