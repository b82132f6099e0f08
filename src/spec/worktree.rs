//! Reads `[worktree]`.

use super::hook::command;
use super::job::{Keep, WorktreeSpec, Written};
use super::keys::Table;
use super::read::{Field, Reader, Value};

pub(super) fn worktree(reader: &mut Reader, field: Field<'_>, value: &Value<'_>) -> Option<WorktreeSpec> {
    let table = Table::Worktree;
    let Some(from) = value.get_ref().as_table() else {
        return reader.wrong_type(field, value, "a table");
    };
    reader.refuse_unknown(table, from);
    Some(WorktreeSpec {
        base: reader.key(table, from, "base", Reader::words),
        branch: reader.key(table, from, "branch", Reader::words),
        setup: reader.key(table, from, "setup", |reader, field, value| {
            let Some(array) = value.get_ref().as_array() else {
                return reader.wrong_type(field, value, "an array of commands");
            };
            let commands: Vec<_> = array
                .iter()
                .map(|item| command(reader, field, item).map(|run| Written::new(run, reader.place(item.span()))))
                .collect();
            commands.into_iter().collect()
        }),
        env: reader.key(table, from, "env", Reader::entries).map(|map| map.value).unwrap_or_default(),
        pass_env: reader.key(table, from, "pass_env", Reader::list),
        keep: reader.key(table, from, "keep", |reader, field, value| {
            let words = [("never", Keep::Never), ("on_failure", Keep::OnFailure), ("always", Keep::Always)];
            reader.choice(field, value, &words)
        }),
        fixture: reader.key(table, from, "fixture", Reader::words),
    })
}
