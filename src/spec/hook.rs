//! Reads `[[stop_hooks]]` and `[[tool_hooks]]`, and the commands that stand there and elsewhere.

use super::diagnostic::{Code, Diagnostic};
use super::job::{Before, CommandSpec, OnFail, StopHookKind, StopHookSpec, ToolHookEvent, ToolHookSpec, Written};
use super::keys::Table;
use super::read::{Field, Reader, Value};
use super::source::Place;
use toml::de::{DeTable, DeValue};

pub(super) fn command(reader: &mut Reader, field: Field<'_>, value: &Value<'_>) -> Option<CommandSpec> {
    let expected = "a shell line or an array of arguments";
    match value.get_ref() {
        DeValue::String(_) => reader.words(field, value).map(CommandSpec::Shell),
        DeValue::Array(array) => {
            if array.is_empty() {
                let report = Diagnostic::error(Code::OutOfRange, format!("`{}` is an empty command", field.name));
                reader.refuse(report, value.span(), "the program is missing");
                return None;
            }
            let words: Vec<_> = array
                .iter()
                .enumerate()
                .map(|(at, item)| {
                    let word = if at == 0 { reader.words(field, item) } else { reader.text(field, item) };
                    word.map(|word| Written::new(word, reader.place(item.span())))
                })
                .collect();
            words.into_iter().collect::<Option<_>>().map(CommandSpec::Argv)
        }
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Table(_) => {
            reader.wrong_type(field, value, expected)
        }
    }
}

pub(super) fn stop_hooks(reader: &mut Reader, field: Field<'_>, value: &Value<'_>) -> Option<Vec<StopHookSpec>> {
    tables(reader, field, value, stop_hook)
}

pub(super) fn tool_hooks(reader: &mut Reader, field: Field<'_>, value: &Value<'_>) -> Option<Vec<ToolHookSpec>> {
    tables(reader, field, value, tool_hook)
}

fn tables<T>(
    reader: &mut Reader,
    field: Field<'_>,
    value: &Value<'_>,
    read: fn(&mut Reader, &DeTable<'_>, &Place) -> Option<T>,
) -> Option<Vec<T>> {
    let expected = format!("an array of tables, each headed [[{}]]", field.name);
    let Some(array) = value.get_ref().as_array() else {
        return reader.wrong_type(field, value, &expected);
    };
    let read: Vec<_> = array
        .iter()
        .map(|item| match item.get_ref().as_table() {
            Some(table) => {
                let place = reader.place(item.span());
                read(reader, table, &place)
            }
            None => reader.wrong_type(field, item, &expected),
        })
        .collect();
    read.into_iter().collect()
}

fn stop_hook(reader: &mut Reader, from: &DeTable<'_>, place: &Place) -> Option<StopHookSpec> {
    let table = Table::StopHook;
    // Whether `run` is missing is a matter of this hook alone, so it starts with no broken keys.
    let outer = std::mem::take(&mut reader.broken);
    reader.refuse_unknown(table, from);
    let kind = reader.key(table, from, "kind", |reader, field, value| {
        reader.choice(field, value, &[("gate", StopHookKind::Gate), ("hook", StopHookKind::Hook)])
    });
    let name = reader.key(table, from, "name", Reader::text);
    let run = reader.key(table, from, "run", command);
    let timeout = reader.key(table, from, "timeout", Reader::duration);
    let max_blocks = reader.key(table, from, "max_blocks", |reader, field, value| {
        reader.whole(field, value, 1..=1_000).map(|count| count as u32)
    });
    let on_fail = reader.key(table, from, "on_fail", |reader, field, value| {
        reader.choice(field, value, &[("block", OnFail::Block), ("stop", OnFail::Stop)])
    });
    let before = reader.key(table, from, "before", |reader, field, value| {
        let words = [("any", Before::Any), ("fail", Before::Fail), ("pass", Before::Pass)];
        reader.choice(field, value, &words)
    });
    let retries = reader.key(table, from, "retries", |reader, field, value| {
        reader.whole(field, value, 0..=5).map(|count| count as u32)
    });
    let broken = std::mem::replace(&mut reader.broken, outer);
    if run.is_none() && !broken.contains("stop_hooks.run") {
        let report = Diagnostic::error(Code::MissingKey, "a stop hook needs `run`")
            .help(format!("for example: {}", table.example("run")));
        reader.refuse(report, place.span.clone(), "this one has no command");
    }
    if let Some(kind) = kind.as_ref().filter(|kind| kind.value == StopHookKind::Hook) {
        let before = before.as_ref().map(|before| ("before", &before.place));
        let retries = retries.as_ref().map(|retries| ("retries", &retries.place));
        for (name, place) in before.into_iter().chain(retries) {
            let report = Diagnostic::error(Code::Conflict, format!("`{name}` is for gates only"))
                .also(kind.place.clone(), "a hook judges nothing")
                .help(format!("leave `{name}` out, or make it a gate: kind = \"gate\""));
            reader.refuse(report, place.span.clone(), "");
        }
    }
    Some(StopHookSpec { name, kind, run: run?, timeout, max_blocks, on_fail, before, retries })
}

fn tool_hook(reader: &mut Reader, from: &DeTable<'_>, place: &Place) -> Option<ToolHookSpec> {
    let table = Table::ToolHook;
    let outer = std::mem::take(&mut reader.broken);
    reader.refuse_unknown(table, from);
    let event = reader.key(table, from, "event", |reader, field, value| {
        reader.choice(field, value, &[("pre", ToolHookEvent::Pre), ("post", ToolHookEvent::Post)])
    });
    let matches = reader.key(table, from, "match", Reader::text);
    let run = reader.key(table, from, "run", command);
    let timeout = reader.key(table, from, "timeout", Reader::duration);
    let broken = std::mem::replace(&mut reader.broken, outer);
    let needed = [
        ("event", event.is_none(), "this one does not say when it runs"),
        ("run", run.is_none(), "this one has no command"),
    ];
    for (name, absent, label) in needed {
        if absent && !broken.contains(&format!("{}{name}", table.prefix())) {
            let report = Diagnostic::error(Code::MissingKey, format!("a tool hook needs `{name}`"))
                .help(format!("for example: {}", table.example(name)));
            reader.refuse(report, place.span.clone(), label);
        }
    }
    Some(ToolHookSpec { event: event?, matches, run: run?, timeout })
}
