//! Reads `matrix`: keys with their values, in the order as written.

use super::diagnostic::{Code, Diagnostic};
use super::job::{MatrixAxis, Written};
use super::read::{Field, Reader, Value};
use toml::de::DeValue;

pub(super) fn matrix(reader: &mut Reader, field: Field<'_>, value: &Value<'_>) -> Option<Vec<MatrixAxis>> {
    let Some(table) = value.get_ref().as_table() else {
        return reader.wrong_type(field, value, "a table of arrays");
    };
    if table.is_empty() {
        let report = Diagnostic::error(Code::OutOfRange, "`matrix` is empty").help("leave it out to have one job");
        reader.refuse(report, value.span(), "no job would come of it");
        return None;
    }
    let mut axes: Vec<Option<MatrixAxis>> = Vec::new();
    for (key, value) in table {
        let name: &str = key.get_ref();
        if !is_matrix_key(name) {
            let report =
                Diagnostic::error(Code::BadName, format!("the matrix key {name:?} cannot stand in a template"));
            reader.refuse(report, key.span(), "letters, digits, `_` and `-`, a letter or `_` first");
            axes.push(None);
            continue;
        }
        let field = Field { name, ..field };
        let key = Written::new(name.to_owned(), reader.place(key.span()));
        axes.push(axis_values(reader, field, value).map(|values| MatrixAxis { key, values }));
    }
    let mut axes = axes.into_iter().collect::<Option<Vec<_>>>()?;
    axes.sort_by_key(|axis| axis.key.place.span.start);
    Some(axes)
}

fn is_matrix_key(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

fn axis_values(reader: &mut Reader, field: Field<'_>, value: &Value<'_>) -> Option<Vec<Written<String>>> {
    let expected = "an array of strings, numbers or booleans";
    let Some(array) = value.get_ref().as_array() else {
        return reader.wrong_type(field, value, expected);
    };
    if array.is_empty() {
        let report = Diagnostic::error(Code::OutOfRange, format!("the matrix key `{}` has no values", field.name));
        reader.refuse(report, value.span(), "no job would come of it");
        return None;
    }
    let mut values: Vec<Written<String>> = Vec::new();
    let mut whole = true;
    for item in array {
        let text = match item.get_ref() {
            DeValue::String(_) => reader.text(field, item),
            DeValue::Integer(number) => Some(number.to_string()),
            DeValue::Float(number) => Some(number.to_string()),
            DeValue::Boolean(truth) => Some(truth.to_string()),
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => reader.wrong_type(field, item, expected),
        };
        let place = reader.place(item.span());
        match text {
            Some(text) => match values.iter().find(|before| before.value == text) {
                Some(before) => {
                    let report =
                        Diagnostic::error(Code::DuplicateName, format!("the matrix value {text:?} is there twice"))
                            .also(before.place.clone(), "first here");
                    reader.refuse(report, item.span(), "again here");
                    whole = false;
                }
                None => values.push(Written::new(text, place)),
            },
            None => whole = false,
        }
    }
    whole.then_some(values)
}
