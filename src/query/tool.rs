//! What the model is told about a tool.

use serde_json::Value;

/// A tool as it is declared to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// The name that calls use.
    pub name: &'static str,
    /// What it does and what its limits are, for the model.
    pub description: &'static str,
    /// The JSON Schema of its input; its type is `object`.
    pub input_schema: Value,
}
