//! Reads what says when a job runs and how often it is tried: `retries`, `retry_on`, `attempts`, `needs`, `priority`, `group`.

use super::diagnostic::{Code, Diagnostic};
use super::job::{CourseSpec, GroupSpec, Written};
use super::keys::{Table, nearest_word};
use super::read::{Field, Reader, Value};
use crate::outcome::Reason;
use toml::de::DeTable;

/// The most that `priority` may be, either way.
const MOST_PRIORITY: i64 = 1_000;

pub(super) fn course(reader: &mut Reader, from: &DeTable<'_>) -> CourseSpec {
    let table = Table::Job;
    CourseSpec {
        retries: reader.key(table, from, "retries", |reader, field, value| {
            reader.whole(field, value, 0..=20).map(|count| count as u32)
        }),
        retry_on: reader.key(table, from, "retry_on", reasons),
        attempts: reader.key(table, from, "attempts", |reader, field, value| {
            reader.whole(field, value, 1..=16).map(|count| count as u32)
        }),
        needs: reader.key(table, from, "needs", Reader::list),
        priority: reader.key(table, from, "priority", priority),
        group: reader.key(table, from, "group", group),
    }
}

fn reasons(reader: &mut Reader, field: Field<'_>, value: &Value<'_>) -> Option<Vec<Reason>> {
    let words = reader.list(field, value)?;
    let read: Vec<_> = words.iter().map(|word| reason(reader, word)).collect();
    read.into_iter().collect()
}

fn reason(reader: &mut Reader, word: &Written<String>) -> Option<Reason> {
    let known = Reason::ALL.iter().copied().find(|reason| reason.code() == word.value);
    let Some(reason) = known else {
        let codes: Vec<&str> = Reason::ALL.iter().map(|reason| reason.code()).collect();
        let report = Diagnostic::error(Code::BadChoice, format!("`{}` is not a reason", word.value));
        let report = match nearest_word(&codes, &word.value) {
            Some(near) => report.help(format!("you may have meant \"{near}\"")),
            None => report.help("for example: retry_on = [\"rate_limited\", \"stream\"]"),
        };
        reader.refuse(report, word.place.span.clone(), "no job ends so");
        return None;
    };
    if !reason.retryable() {
        let report = Diagnostic::error(Code::BadChoice, format!("no other try can change `{}`", reason.code()));
        reader.refuse(report, word.place.span.clone(), "it would end the same way, or has to be mended first");
        return None;
    }
    Some(reason)
}

fn priority(reader: &mut Reader, field: Field<'_>, value: &Value<'_>) -> Option<i32> {
    let Some(integer) = value.get_ref().as_integer() else {
        return reader.wrong_type(field, value, "an integer");
    };
    let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
    let number = number.filter(|number| (-MOST_PRIORITY..=MOST_PRIORITY).contains(number));
    match number.and_then(|number| i32::try_from(number).ok()) {
        Some(number) => Some(number),
        None => reader.out_of_range(field, value, "-1,000 to 1,000"),
    }
}

fn group(reader: &mut Reader, field: Field<'_>, value: &Value<'_>) -> Option<GroupSpec> {
    let table = Table::Group;
    let Some(from) = value.get_ref().as_table() else {
        return reader.wrong_type(field, value, "a table");
    };
    reader.refuse_unknown(table, from);
    let name = reader.key(table, from, "name", Reader::words);
    let max = reader.key(table, from, "max", |reader, field, value| {
        reader.whole(field, value, 1..=1_024).map(|count| count as u32)
    });
    if name.is_none() && !reader.broken.contains("group.name") {
        let report = Diagnostic::error(Code::MissingKey, "`group` needs `name`")
            .help(format!("for example: {}", Table::Job.example("group")));
        reader.refuse(report, value.span(), "no name here");
    }
    let broken = reader.broken.contains("group.max");
    Some(GroupSpec { name: name?.value, max: max.map_or(1, |max| max.value) }).filter(|_| !broken)
}
