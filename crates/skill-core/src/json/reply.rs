//! Replies of the optimizer model, read leniently: what is usable is taken, and what is not is said.

use super::{Extracted, extract};
use crate::edit::{Edit, EditOp, Patch, SourceType};
use serde_json::{Map, Value};

/// Other names that models give to `content`, in order of preference.
const CONTENT_NAMES: [&str; 3] = ["content", "text", "new_text"];

/// Other names that models give to `target`, in order of preference.
const TARGET_NAMES: [&str; 4] = ["target", "anchor", "old_text", "find"];

/// Other names that models give to `file`, in order of preference.
const FILE_NAMES: [&str; 3] = ["file", "path", "filename"];

/// Other names that models give to `op`; all but the first must hold the name of a known operation.
const OP_NAMES: [&str; 4] = ["op", "operation", "action", "type"];

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
/// [`EditOp::Unknown`]. What cannot be used is left out with a note.
///
/// ```
/// use skill_core::{Edit, json::read_patch};
///
/// let reply = read_patch(r#"{"edits": [{"op": "add", "target": null, "content": "Be "brief"."}]}"#);
/// assert_eq!(reply.patch.map(|patch| patch.edits), Some(vec![Edit::append("Be \"brief\".")]));
/// assert_eq!(reply.notes.len(), 2);
/// ```
pub fn read_patch(text: &str) -> PatchReply {
    let Some(Extracted { value, repairs, truncated }) = extract(text, holds_patch) else {
        return PatchReply {
            notes: vec!["the reply holds no object with edits".to_owned()],
            ..PatchReply::default()
        };
    };
    let mut notes: Vec<String> = repairs.iter().map(ToString::to_string).collect();
    let patch = patch_of(&value, truncated, &mut notes);
    PatchReply { patch, notes, truncated, value: Some(value) }
}

/// Reads a reply that is an object with this key, such as `selected_indices`.
pub fn read_object(text: &str, required_key: &str) -> Option<Extracted> {
    extract(text, |value| value.get(required_key).is_some())
}

/// Whether a value has the shape of a patch, so that nothing else in the text is taken for one.
fn holds_patch(value: &Value) -> bool {
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
    edits
        .iter()
        .all(|edit| edit.as_object().is_some_and(|edit| OP_NAMES.iter().any(|name| edit.contains_key(*name))))
}

/// Decodes JSON that stands in a string.
fn decode(encoded: &str) -> Option<Value> {
    extract(encoded, |value| value.is_array() || value.is_object()).map(|found| found.value)
}

fn patch_of(value: &Value, truncated: bool, notes: &mut Vec<String>) -> Option<Patch> {
    let decoded;
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
            (value.get("reasoning"), Some(holder))
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
        Value::Array(edits) => edits
            .iter()
            .enumerate()
            .filter_map(|(edit_idx, edit)| edit_of(edit, edit_idx + 1, notes))
            .collect(),
        Value::Object(object) => {
            if let Some(inner @ Value::Array(_)) = object.get("edits") {
                return edits_of(inner, notes);
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

/// One edit; `number` counts from 1, for the notes.
fn edit_of(edit: &Value, number: usize, notes: &mut Vec<String>) -> Option<Edit> {
    let Some(object) = edit.as_object() else {
        notes.push(format!("edit {number} was dropped: it is not an object"));
        return None;
    };
    let Some(op) = op_of(object, number, notes) else {
        notes.push(format!("edit {number} was dropped: it has no op"));
        return None;
    };
    let content = field(object, &CONTENT_NAMES, number, notes)?;
    let target = field(object, &TARGET_NAMES, number, notes)?;
    let mut result = Edit::new(op, target, content);
    let file = field(object, &FILE_NAMES, number, notes)?;
    result.file = Some(file).filter(|file| !file.trim().is_empty());
    result.support_count = count(object, "support_count", number, notes);
    result.merge_level = count(object, "merge_level", number, notes);
    result.source_type = match object.get("source_type").and_then(Value::as_str).map(str::trim) {
        Some(name) if name.eq_ignore_ascii_case("failure") => Some(SourceType::Failure),
        Some(name) if name.eq_ignore_ascii_case("success") => Some(SourceType::Success),
        _ => None,
    };
    Some(result)
}

fn op_of(object: &Map<String, Value>, number: usize, notes: &mut Vec<String>) -> Option<EditOp> {
    let named =
        |name: &str| object.get(name).and_then(Value::as_str).map(str::trim).filter(|op| !op.is_empty());
    for name in OP_NAMES {
        let Some(given) = named(name) else { continue };
        let op = known_op(given);
        if matches!(op, EditOp::Unknown(_)) && name != "op" {
            continue;
        }
        if name != "op" {
            notes.push(format!("edit {number}: {name} was read as op"));
        }
        if !matches!(op, EditOp::Unknown(_)) && op.as_str() != plain_name(given) {
            notes.push(format!("edit {number}: the op {given:?} was read as {}", op.as_str()));
        }
        return Some(op);
    }
    None
}

/// The name in lower case, with underscores between its words.
fn plain_name(given: &str) -> String {
    given.to_lowercase().replace(['-', ' '], "_")
}

fn known_op(given: &str) -> EditOp {
    match plain_name(given).as_str() {
        "append" | "add" => EditOp::Append,
        "insert_after" | "insert" | "insertafter" => EditOp::InsertAfter,
        "replace" | "update" | "modify" => EditOp::Replace,
        "delete" | "remove" => EditOp::Delete,
        _ => EditOp::Unknown(given.to_owned()),
    }
}

/// The text of the first of these keys that is there; empty if none is; `None` if it is not text.
fn field(
    object: &Map<String, Value>,
    names: &[&str],
    number: usize,
    notes: &mut Vec<String>,
) -> Option<String> {
    let proper = names.first().copied().unwrap_or_default();
    let Some((name, value)) = names
        .iter()
        .find_map(|name| object.get(*name).filter(|value| !value.is_null()).map(|value| (*name, value)))
    else {
        return Some(String::new());
    };
    if name != proper {
        notes.push(format!("edit {number}: {name} was read as {proper}"));
    }
    match text_of(value) {
        Ok(text) => {
            if !value.is_string() {
                notes.push(format!("edit {number}: the {name} was not a string, and was read as text"));
            }
            Some(text)
        }
        Err(NotText) => {
            notes.push(format!("edit {number} was dropped: its {name} is not text"));
            None
        }
    }
}

/// A value that is no text: an object, or a list with something else than strings in it.
struct NotText;

/// Text as it is, numbers and booleans as JSON writes them, a list of strings as lines, null as nothing.
fn text_of(value: &Value) -> Result<String, NotText> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Null => Ok(String::new()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Array(lines) => {
            let lines: Option<Vec<&str>> = lines.iter().map(Value::as_str).collect();
            lines.map(|lines| lines.join("\n")).ok_or(NotText)
        }
        Value::Object(_) => Err(NotText),
    }
}

/// A count that is an integer, an integral number or a string of digits; anything else is ignored with a note.
fn count(object: &Map<String, Value>, name: &str, number: usize, notes: &mut Vec<String>) -> Option<u32> {
    let value = object.get(name).filter(|value| !value.is_null())?;
    let read = match value {
        Value::Number(given) => given.as_u64().or_else(|| given.as_f64().and_then(integral)),
        Value::String(given) => {
            let given = given.trim();
            given.bytes().all(|byte| byte.is_ascii_digit()).then(|| given.parse().ok()).flatten()
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let read = read.and_then(|read: u64| u32::try_from(read).ok());
    if read.is_none() {
        notes.push(format!("edit {number}: its {name} is not a count, and was ignored"));
    }
    read
}

/// The integer that a number stands for, within what a `u32` holds.
fn integral(number: f64) -> Option<u64> {
    if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) {
        // The text of an integral double in this range is its digits.
        format!("{number:.0}").parse().ok()
    } else {
        None
    }
}
