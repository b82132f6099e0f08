//! What each tool takes: one table from which the model's JSON Schema is made and by which its input is checked.

use super::limit::one_line;
use crate::query::ToolDefinition;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A tool as it is declared.
pub(super) struct Declaration {
    /// The name that calls use.
    pub(super) name: &'static str,
    /// What it does and what its limits are, for the model.
    pub(super) description: &'static str,
    /// Its fields.
    pub(super) fields: &'static [Field],
}

/// A field of a tool's input.
pub(super) struct Field {
    /// Its name.
    pub(super) name: &'static str,
    /// What it holds.
    pub(super) kind: Kind,
    /// Whether it must be there.
    pub(super) need: Need,
    /// What it means, for the model; may be empty where the name says it all.
    pub(super) about: &'static str,
}

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A string.
    Text,
    /// A whole number. Models also send it as a string or with a fraction of zero; both are taken.
    Integer,
    /// `true` or `false`. Models also send it as a string; that is taken.
    Flag,
    /// One of these strings.
    Choice(&'static [&'static str]),
}

/// Whether a field must be there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// It must.
    Required,
    /// It may.
    Optional,
    /// It is not shown to the model, but accepted from one that knows it from elsewhere.
    Tolerated,
    /// Likewise, and stands for the field of this name.
    Alias(&'static str),
}

/// Input that was checked against a declaration.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Arguments {
    values: BTreeMap<&'static str, Argument>,
}

#[derive(Debug, PartialEq)]
enum Argument {
    Text(String),
    Integer(i64),
    Flag(bool),
}

impl Declaration {
    /// What the model is told.
    pub(super) fn definition(&self) -> ToolDefinition {
        let mut properties = Map::new();
        for field in self.shown() {
            properties.insert(field.name.into(), field.schema());
        }
        let required: Vec<&str> =
            self.fields.iter().filter(|field| field.need == Need::Required).map(|field| field.name).collect();
        ToolDefinition {
            name: self.name,
            description: self.description,
            input_schema: json!({
                "type": "object", "properties": properties, "required": required, "additionalProperties": false,
            }),
        }
    }

    /// Checks an input.
    ///
    /// `null` stands for an absent field, and so does an empty string where a field is optional.
    ///
    /// # Errors
    /// Lists everything that is wrong with it, and the fields that there are.
    pub(super) fn check(&self, input: &Map<String, Value>) -> Result<Arguments, String> {
        let mut problems = Vec::new();
        let mut values = BTreeMap::new();
        for (name, value) in input.iter().filter(|(_, value)| !value.is_null()) {
            let Some(field) = self.field(name) else {
                problems.push(self.unknown(name, input));
                continue;
            };
            match field.take(value) {
                Ok(Some(argument)) => {
                    values.insert(field.name, argument);
                }
                Ok(None) => {}
                Err(problem) => problems.push(problem),
            }
        }
        for field in self.fields.iter().filter(|field| field.need == Need::Required) {
            let is_it = |name: &str| self.field(name).is_some_and(|found| found.name == field.name);
            if !input.iter().any(|(name, value)| !value.is_null() && is_it(name)) {
                problems.push(format!("the required field `{}` ({}) is missing", field.name, field.kind.noun()));
            }
        }
        if problems.is_empty() {
            return Ok(Arguments { values });
        }
        let fields: Vec<String> = self
            .shown()
            .map(|field| {
                let optional = if field.need == Need::Required { "" } else { ", optional" };
                format!("`{}` ({}{optional})", field.name, field.kind.noun())
            })
            .collect();
        let name = self.name;
        let problems = problems.join("; ");
        Err(format!("Nothing was run: {problems}. The fields of {name} are: {}.", fields.join(", ")))
    }

    fn shown(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().filter(|field| matches!(field.need, Need::Required | Need::Optional))
    }

    /// The field that a name stands for.
    fn field(&self, name: &str) -> Option<&'static Field> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        if let Need::Alias(of) = field.need { self.field(of) } else { Some(field) }
    }

    fn unknown(&self, name: &str, input: &Map<String, Value>) -> String {
        let free: Vec<&str> = self.shown().map(|field| field.name).filter(|name| !input.contains_key(*name)).collect();
        let hint = nearest(name, &free).map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
        format!("there is no field `{}`{hint}", one_line(name))
    }
}

impl Field {
    fn schema(&self) -> Value {
        let mut schema = Map::new();
        let name = match self.kind {
            Kind::Text | Kind::Choice(_) => "string",
            Kind::Integer => "integer",
            Kind::Flag => "boolean",
        };
        schema.insert("type".into(), name.into());
        if let Kind::Choice(choices) = self.kind {
            schema.insert("enum".into(), choices.into());
        }
        if !self.about.is_empty() {
            schema.insert("description".into(), self.about.into());
        }
        Value::Object(schema)
    }

    /// The value as an argument; `None` stands for an absent one.
    fn take(&self, value: &Value) -> Result<Option<Argument>, String> {
        let text = value.as_str();
        if text == Some("") && self.need != Need::Required {
            return Ok(None);
        }
        let argument = match self.kind {
            Kind::Text => text.map(|text| Argument::Text(text.to_owned())),
            Kind::Choice(choices) => {
                text.filter(|text| choices.contains(text)).map(|text| Argument::Text(text.to_owned()))
            }
            Kind::Integer => {
                let number = value.as_number().and_then(whole);
                number.or_else(|| text?.trim().parse().ok()).map(Argument::Integer)
            }
            Kind::Flag => value.as_bool().or_else(|| text?.trim().parse().ok()).map(Argument::Flag),
        };
        if argument.is_some() {
            return Ok(argument);
        }
        let got = match value {
            Value::Null => "null".into(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => one_line(&value.to_string()),
            Value::Array(_) => "an array".into(),
            Value::Object(_) => "an object".into(),
        };
        Err(format!("`{}` must be {}, not {got}", self.name, self.kind.noun()))
    }
}

impl Kind {
    fn noun(self) -> String {
        match self {
            Self::Text => "a string".into(),
            Self::Integer => "a whole number".into(),
            Self::Flag => "true or false".into(),
            Self::Choice(choices) => {
                let quoted: Vec<String> = choices.iter().map(|choice| format!("\"{choice}\"")).collect();
                format!("one of {}", quoted.join(", "))
            }
        }
    }
}

impl Arguments {
    /// The text of a field, where it was given.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.values.get(name) {
            Some(Argument::Text(text)) => Some(text),
            Some(Argument::Integer(_) | Argument::Flag(_)) | None => None,
        }
    }

    /// The text of a required field.
    pub(super) fn required(&self, name: &str) -> &str {
        self.text(name).unwrap_or_default()
    }

    /// The number of a field, where it was given.
    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        match self.values.get(name) {
            Some(Argument::Integer(number)) => Some(*number),
            Some(Argument::Text(_) | Argument::Flag(_)) | None => None,
        }
    }

    /// A number that cannot be negative; what is below counts as zero.
    pub(super) fn size(&self, name: &str) -> Option<usize> {
        self.integer(name).map(|number| usize::try_from(number.max(0)).unwrap_or(usize::MAX))
    }

    /// The flag of a field, where it was given.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        match self.values.get(name) {
            Some(Argument::Flag(flag)) => Some(*flag),
            Some(Argument::Text(_) | Argument::Integer(_)) | None => None,
        }
    }
}

/// The candidate that is most like a word, if any is like it.
pub(super) fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    const ALIKE: f32 = 0.5; // `path` still finds `file_path`, `cmd` still finds `command`.
    similar::get_close_matches(word, candidates, 1, ALIKE).into_iter().next()
}

/// A JSON number as a whole one; what is too large is cut to the range.
fn whole(number: &serde_json::Number) -> Option<i64> {
    if let Some(number) = number.as_i64() {
        return Some(number);
    }
    let float = number.as_f64()?;
    (float.fract() == 0.0).then_some(float as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: Declaration = Declaration {
        name: "Demo",
        description: "Does nothing.",
        fields: &[
            Field { name: "file_path", kind: Kind::Text, need: Need::Required, about: "A path." },
            Field { name: "limit", kind: Kind::Integer, need: Need::Optional, about: "" },
            Field { name: "all", kind: Kind::Flag, need: Need::Optional, about: "" },
            Field { name: "mode", kind: Kind::Choice(&["fast", "slow"]), need: Need::Optional, about: "" },
            Field { name: "hidden", kind: Kind::Flag, need: Need::Tolerated, about: "" },
            Field { name: "old_path", kind: Kind::Text, need: Need::Alias("file_path"), about: "" },
        ],
    };

    fn check(input: Value) -> Result<Arguments, String> {
        let Value::Object(map) = input else { panic!("not an object") };
        TOOL.check(&map)
    }

    #[test]
    fn the_schema_shows_what_is_checked() {
        let definition = TOOL.definition();
        assert_eq!(
            definition.input_schema,
            json!({
                "type": "object",
                "properties": {
                    "file_path": { "type": "string", "description": "A path." },
                    "limit": { "type": "integer" },
                    "all": { "type": "boolean" },
                    "mode": { "type": "string", "enum": ["fast", "slow"] },
                },
                "required": ["file_path"],
                "additionalProperties": false,
            })
        );
    }

    #[test]
    fn good_input_is_typed() {
        let arguments = check(json!({ "file_path": "a", "limit": 3, "all": true, "mode": "slow" })).unwrap();
        assert_eq!(arguments.required("file_path"), "a");
        assert_eq!(arguments.integer("limit"), Some(3));
        assert_eq!(arguments.flag("all"), Some(true));
        assert_eq!(arguments.text("mode"), Some("slow"));
        assert_eq!(arguments.text("nothing"), None);
    }

    #[test]
    fn what_models_send_by_habit_is_taken() {
        let arguments = check(json!({ "file_path": "a", "limit": "10", "all": "false", "mode": "" })).unwrap();
        assert_eq!((arguments.integer("limit"), arguments.flag("all")), (Some(10), Some(false)));
        assert_eq!(arguments.text("mode"), None);
        let arguments = check(json!({ "file_path": "a", "limit": 10.0, "all": null, "other": null, "hidden": true }));
        assert_eq!(arguments.unwrap().integer("limit"), Some(10));
        let arguments = check(json!({ "file_path": "", "limit": 1e30 })).unwrap();
        assert_eq!((arguments.required("file_path"), arguments.size("limit")), ("", Some(i64::MAX as usize)));
        assert_eq!(check(json!({ "file_path": "a", "limit": -1 })).unwrap().size("limit"), Some(0));
    }

    #[test]
    fn an_older_name_stands_for_the_field() {
        assert_eq!(check(json!({ "old_path": "a" })).unwrap().required("file_path"), "a");
        assert!(check(json!({ "old_path": 1 })).unwrap_err().starts_with("Nothing was run: `file_path` must be"));
        assert!(check(json!({ "old_path": null })).unwrap_err().contains("`file_path` (a string) is missing"));
    }

    #[test]
    fn every_mistake_is_named_at_once() {
        insta::assert_snapshot!(
            check(json!({ "path": "a", "limit": 1.5, "all": "yes", "mode": "quick", "zzz": {} })).unwrap_err(),
            @r#"Nothing was run: there is no field `path`, did you mean `file_path`?; `limit` must be a whole number, not 1.5; `all` must be true or false, not "yes"; `mode` must be one of "fast", "slow", not "quick"; there is no field `zzz`; the required field `file_path` (a string) is missing. The fields of Demo are: `file_path` (a string), `limit` (a whole number, optional), `all` (true or false, optional), `mode` (one of "fast", "slow", optional)."#
        );
        assert!(check(json!({ "file_path": ["a"] })).unwrap_err().contains("must be a string, not an array"));
    }
}
