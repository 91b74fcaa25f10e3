//! The table of keys as a JSON schema for editors, and in [`pages`] as Markdown for people.

pub mod pages;

use super::key::{KeyDefault, KeySpec, ValueType};
use super::keys::{SectionSpec, sections};
use serde_json::{Map, Value, json};
use skill_core::SplitRatio;

/// Which JSON schema this is.
const DIALECT: &str = "http://json-schema.org/draft-07/schema#";

/// The JSON schema (draft 7) of a configuration file, as editors use it for TOML: every key with its sentence, its
/// type, its bounds and its default, and which keys a `kind` has.
pub fn json_schema() -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for section in sections() {
        let schema = section_schema(section);
        match section.path.split_once('.') {
            None => {
                if has_required(section) {
                    required.push(section.path);
                }
                properties.insert(section.path.to_owned(), schema);
            }
            Some((parent, name)) => {
                let parent = properties.entry(parent).or_insert_with(
                    || json!({ "type": "object", "properties": {}, "additionalProperties": false }),
                );
                if let Some(children) = parent.get_mut("properties").and_then(Value::as_object_mut) {
                    children.insert(name.to_owned(), schema);
                }
            }
        }
    }
    if let Some(models) = properties.get_mut("models").and_then(|models| models.get_mut("properties"))
        && let Some(models) = models.as_object_mut()
    {
        let description =
            "Further models that may do the tasks, by name, each with all keys of [models.target].";
        let named = json!({
            "type": "object",
            "description": description,
            "additionalProperties": { "$ref": "#/properties/models/properties/target" },
        });
        models.insert("targets".to_owned(), named);
    }
    json!({
        "$schema": DIALECT,
        "title": "Configuration of skillrl",
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn has_required(section: &SectionSpec) -> bool {
    !section.is_optional && section.keys().any(|key| matches!(key.default, KeyDefault::Required { .. }))
}

fn section_schema(section: &SectionSpec) -> Value {
    let properties: Map<String, Value> =
        section.keys().map(|key| (key.name.to_owned(), key_schema(key))).collect();
    let required: Vec<&str> = section
        .keys()
        .filter(|key| matches!(key.default, KeyDefault::Required { .. }) && key.kinds.names().is_empty())
        .map(|key| key.name)
        .collect();
    let mut schema = json!({
        "type": "object",
        "description": section.doc,
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    let by_kind = kinds(section).into_iter().map(|kind| of_kind(section, kind)).collect::<Vec<_>>();
    if !by_kind.is_empty()
        && let Some(fields) = schema.as_object_mut()
    {
        fields.insert("allOf".to_owned(), Value::Array(by_kind));
    }
    schema
}

/// The kinds of a section that has several.
fn kinds(section: &SectionSpec) -> Vec<&'static str> {
    match section.key("kind").map(|key| key.value) {
        Some(ValueType::Choice(kinds)) => kinds.to_vec(),
        _ => Vec::new(),
    }
}

/// What holds for one kind: which keys it must have, and which it has not.
fn of_kind(section: &SectionSpec, kind: &str) -> Value {
    let others: Map<String, Value> = section
        .keys()
        .filter(|key| !key.kinds.has(kind))
        .map(|key| (key.name.to_owned(), Value::Bool(false)))
        .collect();
    let required: Vec<&str> = section
        .keys()
        .filter(|key| matches!(key.default, KeyDefault::Required { .. }))
        .filter(|key| key.kinds.has(kind))
        .map(|key| key.name)
        .collect();
    json!({
        "if": { "properties": { "kind": { "const": kind } }, "required": ["kind"] },
        "then": { "properties": others, "required": required },
    })
}

fn key_schema(key: &KeySpec) -> Value {
    let mut schema = type_schema(key.value);
    if let Some(fields) = schema.as_object_mut() {
        fields.insert("description".to_owned(), Value::String(sentences(&key.doc())));
        if let KeyDefault::Value(default) = key.default
            && let Some(default) = json_of_toml(default)
        {
            fields.insert("default".to_owned(), default);
        } else if let Some(example) = json_of_toml(key.default.toml()) {
            fields.insert("examples".to_owned(), json!([example]));
        }
    }
    schema
}

fn type_schema(value: ValueType) -> Value {
    match value {
        ValueType::Text | ValueType::Path(_) => json!({ "type": "string", "minLength": 1 }),
        ValueType::Variable => json!({ "type": "string" }),
        ValueType::Url => json!({ "type": "string", "pattern": "^https?://" }),
        ValueType::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        ValueType::Number { min, max } if max.is_infinite() => json!({ "type": "number", "minimum": min }),
        ValueType::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        ValueType::Flag => json!({ "type": "boolean" }),
        ValueType::Choice(words) => json!({ "enum": words }),
        ValueType::Texts => {
            json!({ "type": "array", "items": { "type": "string", "minLength": 1 }, "minItems": 1 })
        }
        ValueType::Rules => json!({
            "type": "array",
            "items": { "type": "object", "minProperties": 1, "maxProperties": 1 },
            "minItems": 1,
        }),
        ValueType::Ratio => json!({ "anyOf": [
            { "const": SplitRatio::AUTO },
            { "type": "array", "items": { "type": "integer", "minimum": 0 }, "minItems": 3, "maxItems": 3 },
        ] }),
        ValueType::Headers => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        ValueType::Body => json!({ "type": "object" }),
    }
}

/// A value as TOML has it, for JSON.
fn json_of_toml(text: &str) -> Option<Value> {
    let table: toml::Table = toml::from_str(&format!("value = {text}")).ok()?;
    serde_json::to_value(table.get("value")?).ok()
}

/// Lines of the default file as one text.
fn sentences(doc: &str) -> String {
    doc.replace('\n', " ")
}
