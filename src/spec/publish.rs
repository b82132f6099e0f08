//! Reads `[publish]`.

use super::job::{PassWord, PublishSpec};
use super::keys::Table;
use super::read::{Field, Reader, Value};

pub(super) fn publish(reader: &mut Reader, field: Field<'_>, value: &Value<'_>) -> Option<PublishSpec> {
    let table = Table::Publish;
    let Some(from) = value.get_ref().as_table() else {
        return reader.wrong_type(field, value, "a table");
    };
    reader.refuse_unknown(table, from);
    Some(PublishSpec {
        on_pass: reader.key(table, from, "on_pass", |reader, field, value| {
            let words = [
                ("none", PassWord::None),
                ("branch", PassWord::Branch),
                ("push", PassWord::Push),
                ("pull-request", PassWord::PullRequest),
            ];
            reader.choice(field, value, &words)
        }),
        commit_message: reader.key(table, from, "commit_message", Reader::words),
        author: reader.key(table, from, "author", Reader::words),
    })
}
