//! Replies of the optimizer model, read leniently: what is usable is taken, and what is not is said.

mod edit;
mod mend;
mod shape;

use super::{Extracted, extract, extract_all};
use crate::edit::{Edit, Patch};
use edit::{edit_of, is_edit, text_of};
use serde_json::{Map, Value};
use shape::{has, member, unwrapped};

/// The reply of an analyst or merge call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PatchReply {
    /// The edits and their argument; `None` if the text holds nothing of that shape.
    pub patch: Option<Patch>,
    /// What was wrong with the reply and how it was read, one sentence each.
    pub notes: Vec<String>,
    /// The reply was cut off: the edit that was being written is not among the edits.
    pub truncated: bool,
    /// The whole value that the patch was read from, with what else the reply says.
    pub value: Option<Value>,
}

/// Reads an analyst's or merger's reply: `{"patch": {"reasoning", "edits"}, ..}` or `{"reasoning", "edits"}`.
///
/// A bare list of edits counts too. In an edit, null is the same as missing, and missing text is empty;
/// common other names of operations and keys are understood; a name that no operation has becomes
/// [`EditOp::Unknown`](crate::edit::EditOp::Unknown). What cannot be used is left out with a note.
///
/// ```
/// use skill_core::{Edit, json::read_patch};
///
/// let reply = read_patch(r#"{"edits": [{"op": "add", "target": null, "content": "Be "brief"."}]}"#);
/// assert_eq!(reply.patch.map(|patch| patch.edits), Some(vec![Edit::append("Be \"brief\".")]));
/// assert_eq!(reply.notes.len(), 2);
/// ```
pub fn read_patch(text: &str) -> PatchReply {
    if let Some(reply) = read_values(text) {
        return reply;
    }
    for (mended, note) in mend::mended(text) {
        if let Some(mut reply) = read_values(&mended) {
            reply.notes.insert(0, note.to_owned());
            return reply;
        }
    }
    PatchReply { notes: vec!["the reply holds no object with edits".to_owned()], ..PatchReply::default() }
}

/// Reads the value that holds a patch, or else the edits that are in the text one by one.
fn read_values(text: &str) -> Option<PatchReply> {
    if let Some(Extracted { value, repairs, truncated }) = extract(text, holds_patch) {
        let mut notes: Vec<String> = repairs.iter().map(ToString::to_string).collect();
        let patch = patch_of(&value, truncated, &mut notes);
        return Some(PatchReply { patch, notes, truncated, value: Some(value) });
    }
    let mut notes = vec!["the edits stood one by one without an object around them".to_owned()];
    let mut edits: Vec<Value> = Vec::new();
    for Extracted { value, repairs, .. } in extract_all(text, is_edit) {
        notes.extend(repairs.iter().map(ToString::to_string));
        if !edits.contains(&value) {
            edits.push(value);
        }
    }
    if edits.is_empty() {
        return None;
    }
    let value = Value::Array(edits);
    let edits = edits_of(&value, &mut notes);
    let patch = Some(Patch { reasoning: String::new(), edits, ranking_details: None });
    Some(PatchReply { patch, notes, truncated: false, value: Some(value) })
}

/// Reads a reply that is an object with this key, such as `selected_indices`.
pub fn read_object(text: &str, required_key: &str) -> Option<Extracted> {
    extract(text, |value| value.get(required_key).is_some())
}

/// Whether a value has the shape of a patch, so that nothing else in the text is taken for one.
fn holds_patch(value: &Value) -> bool {
    is_plain(value) || unwrapped(value).is_some()
}

/// Whether a patch stands where the prompts ask for it, under its own names.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Object(object) => match object.get("patch") {
            Some(Value::Object(patch)) => has_edits(patch) || patch.contains_key("reasoning"),
            Some(Value::Array(edits)) => is_list_of_edits(edits),
            Some(Value::String(encoded)) => decode(encoded).is_some(),
            _ => has_edits(object),
        },
        Value::Array(edits) => !edits.is_empty() && is_list_of_edits(edits),
        _ => false,
    }
}

fn has_edits(object: &Map<String, Value>) -> bool {
    matches!(object.get("edits"), Some(Value::Null | Value::Array(_) | Value::Object(_) | Value::String(_)))
}

fn is_list_of_edits(edits: &[Value]) -> bool {
    edits.iter().all(|edit| edit.as_object().is_some_and(|edit| has(edit, &edit::OP_NAMES)))
}

/// Decodes JSON that is in a string.
fn decode(encoded: &str) -> Option<Value> {
    extract(encoded, |value| value.is_array() || value.is_object()).map(|found| found.value)
}

fn patch_of(value: &Value, truncated: bool, notes: &mut Vec<String>) -> Option<Patch> {
    let decoded;
    let unwrapped = if is_plain(value) { None } else { unwrapped(value) };
    if unwrapped.is_some() {
        notes.push("the patch stood inside something else, or under other names".to_owned());
    }
    let value = unwrapped.as_ref().unwrap_or(value);
    let holder = match value.get("patch") {
        Some(Value::String(encoded)) => {
            notes.push("the patch was JSON in a string and was decoded".to_owned());
            decoded = decode(encoded)?;
            &decoded
        }
        Some(patch @ (Value::Object(_) | Value::Array(_))) => patch,
        _ => value,
    };
    let (reasoning, edits) = match holder {
        Value::Array(_) => {
            notes.push("the edits came as a list without an object around it".to_owned());
            (member(value, "reasoning"), Some(holder))
        }
        _ => (holder.get("reasoning").or_else(|| value.get("reasoning")), holder.get("edits")),
    };
    let edits = match edits {
        Some(edits) => edits_of(edits, notes),
        None if truncated => {
            notes.push("the reply was cut off before its edits".to_owned());
            return None;
        }
        None => {
            notes.push("the patch has no edits".to_owned());
            Vec::new()
        }
    };
    let reasoning = reasoning.and_then(|reasoning| text_of(reasoning).ok()).unwrap_or_default();
    Some(Patch { reasoning, edits, ranking_details: None })
}

fn edits_of(edits: &Value, notes: &mut Vec<String>) -> Vec<Edit> {
    match edits {
        Value::Array(edits) => list_of(edits, notes),
        Value::Object(object) => {
            if let Some(inner @ Value::Array(_)) = object.get("edits") {
                return edits_of(inner, notes);
            }
            if object.is_empty() {
                return Vec::new();
            }
            if object.values().all(is_edit) {
                notes.push("the edits were the members of an object instead of a list".to_owned());
                let members = object.values().zip(1..);
                return members.filter_map(|(edit, number)| edit_of(edit, number, notes)).collect();
            }
            notes.push("the edits were one object instead of a list".to_owned());
            edit_of(edits, 1, notes).into_iter().collect()
        }
        Value::String(encoded) => match decode(encoded) {
            // A string within the string is not decoded again: one level is a mistake, two are hostile.
            Some(decoded @ (Value::Array(_) | Value::Object(_))) => {
                notes.push("the edits were JSON in a string and were decoded".to_owned());
                edits_of(&decoded, notes)
            }
            _ => {
                notes.push("the edits were text instead of a list, and were ignored".to_owned());
                Vec::new()
            }
        },
        Value::Null => {
            notes.push("the edits were null instead of a list".to_owned());
            Vec::new()
        }
        Value::Bool(_) | Value::Number(_) => {
            notes.push("the edits were not a list, and were ignored".to_owned());
            Vec::new()
        }
    }
}

/// The edits of a list; one that is a JSON string is decoded, and a list in the list is as if its edits stood there.
fn list_of(edits: &[Value], notes: &mut Vec<String>) -> Vec<Edit> {
    let mut read = Vec::new();
    let mut number = 0;
    let mut one = |edit: &Value, notes: &mut Vec<String>| {
        number += 1;
        let decoded = edit.as_str().and_then(decode).filter(is_edit);
        if decoded.is_some() {
            notes.push(format!("edit {number} was JSON in a string and was decoded"));
        }
        read.extend(edit_of(decoded.as_ref().unwrap_or(edit), number, notes));
    };
    for edit in edits {
        match edit {
            Value::Array(inner) if inner.iter().all(is_edit) => {
                inner.iter().for_each(|edit| one(edit, notes));
            }
            _ => one(edit, notes),
        }
    }
    read
}
