//! Where in a value a patch stands: under other names, in what a tool call or a polite model puts around it.

use super::decode;
use super::edit::{has_known_op, is_edit};
use serde_json::{Map, Value, json};

/// How many objects may be around a patch.
const MAX_DEPTH: usize = 6;

/// How many members are looked at for one whose name is written in another way.
const MAX_MEMBERS: usize = 32;

/// Names that models give to the list of edits, after `edits` itself.
const LIST_NAMES: [&str; 9] = [
    "proposed_edits",
    "skill_edits",
    "suggested_edits",
    "changes",
    "operations",
    "modifications",
    "edit",
    "patch",
    "updates",
];

/// Names of what is around a patch.
const WRAPPER_NAMES: [&str; 14] = [
    "patch",
    "patches",
    "response",
    "result",
    "output",
    "answer",
    "data",
    "json",
    "arguments",
    "input",
    "parameters",
    "function",
    "tool_calls",
    "final",
];

/// A name in lower case, with underscores between its words and no white space at its ends.
pub(super) fn plain_name(given: &str) -> String {
    let mut plain = String::with_capacity(given.len());
    let mut was_lower = false;
    for char in given.trim().chars() {
        if char.is_uppercase() && was_lower {
            plain.push('_');
        }
        was_lower = char.is_lowercase() || char.is_ascii_digit();
        match char {
            '-' | ' ' => plain.push('_'),
            _ => plain.extend(char.to_lowercase()),
        }
    }
    plain
}

/// The member of an object with this name, or with one that differs only in how it is written.
///
/// An object of very many members is not an edit or a patch: in one only the name itself is looked for.
pub(super) fn named<'v>(object: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let is_alike = |key: &str| key.len() <= 2 * name.len() + 2 && plain_name(key) == name;
    object.get(name).or_else(|| {
        let mut members = object.iter().take(MAX_MEMBERS);
        members.find(|(key, _)| is_alike(key)).map(|(_, value)| value)
    })
}

/// The same of a value that is an object.
pub(super) fn member<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    named(value.as_object()?, name)
}

/// Whether an object has a member with one of these names.
pub(super) fn has(object: &Map<String, Value>, names: &[&str]) -> bool {
    names.iter().any(|name| named(object, name).is_some())
}

/// A patch with the names that the prompts ask for, made of a value that has it under other names or inside something
/// else; `None` if there is none.
pub(super) fn unwrapped(value: &Value) -> Option<Value> {
    inside(value, MAX_DEPTH)
}

fn inside(value: &Value, depth: usize) -> Option<Value> {
    match value {
        Value::Object(object) => {
            if let Some(edits) = edits_in(object) {
                let reasoning = named(object, "reasoning").cloned().unwrap_or_default();
                return Some(json!({"reasoning": reasoning, "edits": edits}));
            }
            let depth = depth.checked_sub(1)?;
            WRAPPER_NAMES.iter().find_map(|name| inside(named(object, name)?, depth))
        }
        Value::Array(parts) => {
            let depth = depth.checked_sub(1)?;
            let patches: Option<Vec<Value>> = parts.iter().map(|part| inside(part, depth)).collect();
            joined(patches.filter(|patches| !patches.is_empty())?)
        }
        Value::String(encoded) if encoded.contains('{') => {
            let depth = depth.checked_sub(1)?;
            inside(&decode(encoded)?, depth)
        }
        _ => None,
    }
}

/// The edits that an object holds itself.
fn edits_in(object: &Map<String, Value>) -> Option<Value> {
    if let Some(edits @ (Value::Null | Value::Array(_) | Value::Object(_) | Value::String(_))) =
        named(object, "edits")
    {
        return Some(edits.clone());
    }
    LIST_NAMES.iter().find_map(|name| match named(object, name)? {
        Value::Array(edits)
            if !edits.is_empty() && edits.iter().all(|edit| is_edit(edit) || has_known_op(edit)) =>
        {
            Some(Value::Array(edits.clone()))
        }
        edit @ Value::Object(_) if is_edit(edit) => Some(Value::Array(vec![edit.clone()])),
        _ => None,
    })
}

/// One patch with the edits of all.
fn joined(patches: Vec<Value>) -> Option<Value> {
    let mut reasoning = Vec::new();
    let mut edits = Vec::new();
    for patch in patches {
        reasoning.extend(patch.get("reasoning").and_then(Value::as_str).map(str::to_owned));
        match patch.get("edits")? {
            Value::Array(list) => edits.extend(list.iter().cloned()),
            Value::Null => {}
            other => edits.push(other.clone()),
        }
    }
    Some(json!({"reasoning": reasoning.join("\n"), "edits": edits}))
}
