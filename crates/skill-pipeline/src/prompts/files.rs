//! Where a skill is a folder, the optimizer's edits name their file.

use serde_json::{Value, json};
use skill_core::SkillDoc;
use skill_core::package::tree;
use skill_llm::ResponseSchema;

/// The schema of a reply with edits, each of which names its file if the skill is a folder.
///
/// The schema of a skill that is a single document stays as it is.
pub(crate) fn naming_files(schema: ResponseSchema, skill: &SkillDoc) -> ResponseSchema {
    if tree(skill).is_empty() {
        return schema;
    }
    let mut changed = schema.schema.clone();
    name_files(&mut changed);
    ResponseSchema { schema: changed, ..schema }
}

/// Gives a `file` to every object that has an `op`.
fn name_files(value: &mut Value) {
    if let Some(properties) = value.get_mut("properties").and_then(Value::as_object_mut)
        && properties.contains_key("op")
    {
        properties.insert("file".to_owned(), json!({"type": "string"}));
        if let Some(required) = value.get_mut("required").and_then(Value::as_array_mut) {
            required.push(json!("file"));
        }
        return;
    }
    let parts: Vec<&mut Value> = match value {
        Value::Object(members) => members.values_mut().collect(),
        Value::Array(elements) => elements.iter_mut().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    parts.into_iter().for_each(name_files);
}
