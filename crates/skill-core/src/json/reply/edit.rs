//! One edit of a reply, under whatever names a model gave to its parts.

use super::shape::{self, has, member, plain_name};
use crate::edit::{Edit, EditOp, SourceType};
use crate::ids::ItemId;
use serde_json::{Map, Value};

/// Names that models give to `op`; all but the first must hold the name of a known operation.
pub(super) const OP_NAMES: [&str; 8] =
    ["op", "operation", "action", "type", "edit_type", "op_type", "operation_type", "edit_op"];

/// Names that models give to `content`, in order of preference.
const CONTENT_NAMES: [&str; 14] = [
    "content",
    "text",
    "new_text",
    "new_content",
    "new_string",
    "new_str",
    "new",
    "replacement",
    "replace_with",
    "replace",
    "with",
    "value",
    "insert_text",
    "rule",
];

/// Names that models give to `target`, in order of preference.
const TARGET_NAMES: [&str; 14] = [
    "target",
    "anchor",
    "old_text",
    "find",
    "target_text",
    "anchor_text",
    "old_string",
    "old_str",
    "old_content",
    "old",
    "search",
    "original",
    "after",
    "insert_after",
];

/// Names that models give to `file`, in order of preference.
const FILE_NAMES: [&str; 3] = ["file", "path", "filename"];

/// The name of the tasks that an edit is for.
const TASKS_NAME: &str = "for";
/// The most tasks that an edit names; what comes after them is not read.
const MOST_TASKS: usize = 64;

/// The ids of a list, or of one text with commas between them; what is neither text nor number is passed over.
fn tasks_of(value: &Value) -> Vec<ItemId> {
    let ids: Vec<String> = match value {
        Value::Array(ids) => ids.iter().filter_map(|id| text_of(id).ok()).collect(),
        Value::String(ids) => ids.split(',').map(str::to_owned).collect(),
        Value::Number(id) => vec![id.to_string()],
        Value::Null | Value::Bool(_) | Value::Object(_) => Vec::new(),
    };
    let mut tasks: Vec<ItemId> = Vec::new();
    for id in ids.iter().map(|id| id.trim()).filter(|id| !id.is_empty()).take(MOST_TASKS) {
        let id = ItemId::new(id);
        if !tasks.contains(&id) {
            tasks.push(id);
        }
    }
    tasks
}

/// Whether an object names a known operation, under whatever name.
pub(super) fn has_known_op(value: &Value) -> bool {
    let op_of = |name: &&str| member(value, name).and_then(Value::as_str).map(known_op);
    OP_NAMES.iter().filter_map(op_of).any(|op| !matches!(op, EditOp::Unknown(_)))
}

/// Whether a value can only be an edit: an object with a known operation under its own name, and a text for it.
pub(super) fn is_edit(value: &Value) -> bool {
    let Some(object) = value.as_object() else { return false };
    if let Some((name, _)) = sole_member(object) {
        return matches!(
            known_op(name),
            EditOp::Append | EditOp::InsertAfter | EditOp::Replace | EditOp::Delete
        ) && from_sole_member(object).is_some();
    }
    let op = member(value, "op").and_then(Value::as_str).map(known_op);
    op.is_some_and(|op| !matches!(op, EditOp::Unknown(_)))
        && (has(object, &CONTENT_NAMES) || has(object, &TARGET_NAMES))
}

/// One edit; `number` counts from 1, for the notes.
pub(super) fn edit_of(edit: &Value, number: usize, notes: &mut Vec<String>) -> Option<Edit> {
    let Some(object) = edit.as_object() else {
        notes.push(format!("edit {number} was dropped: it is not an object"));
        return None;
    };
    if let Some((op, target, content)) = from_sole_member(object) {
        notes.push(format!("edit {number}: its operation was the name of its member"));
        return Some(Edit::new(op, target, content));
    }
    let Some(op) = op_of(edit, number, notes) else {
        notes.push(format!("edit {number} was dropped: it has no op"));
        return None;
    };
    let content = field(object, &CONTENT_NAMES, number, notes)?;
    let target = field(object, &TARGET_NAMES, number, notes)?;
    let is_empty_form = matches!(&op, EditOp::Unknown(name) if name.contains('|'))
        || (if op == EditOp::Delete { is_dots(&target) } else { is_dots(&content) });
    if is_empty_form {
        notes.push(format!("edit {number} was dropped: it is the form of an edit, not an edit"));
        return None;
    }
    let mut result = Edit::new(op, target, content);
    let file = field(object, &FILE_NAMES, number, notes)?;
    result.file = Some(file).filter(|file| !file.trim().is_empty());
    result.tasks = member(edit, TASKS_NAME).map(tasks_of).unwrap_or_default();
    result.support_count = count(edit, "support_count", number, notes);
    result.merge_level = count(edit, "merge_level", number, notes);
    let word = |name: &str| member(edit, name).and_then(Value::as_str).unwrap_or_default().to_owned();
    (result.update_origin, result.update_target) = (word("update_origin"), word("update_target"));
    result.source_type = match member(edit, "source_type").and_then(Value::as_str).map(str::trim) {
        Some(name) if name.eq_ignore_ascii_case("failure") => Some(SourceType::Failure),
        Some(name) if name.eq_ignore_ascii_case("success") => Some(SourceType::Success),
        _ => None,
    };
    Some(result)
}

/// Whether a text stands for one that is yet to be written.
fn is_dots(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && text.chars().all(|char| matches!(char, '.' | '…'))
}

/// The only member of an object.
fn sole_member(object: &Map<String, Value>) -> Option<(&str, &Value)> {
    let mut members = object.iter();
    let (name, value) = members.next()?;
    members.next().is_none().then_some((name, value))
}

/// An edit like `{"append": "text"}` or `{"replace": {"target": .., "content": ..}}`.
fn from_sole_member(object: &Map<String, Value>) -> Option<(EditOp, String, String)> {
    let (name, value) = sole_member(object)?;
    let op = known_op(name);
    match (&op, value) {
        (EditOp::Unknown(_), _) => None,
        (EditOp::Append, Value::String(content)) => Some((op, String::new(), content.clone())),
        (EditOp::Delete, Value::String(target)) => Some((op, target.clone(), String::new())),
        (_, Value::Object(parts)) => {
            let content = field(parts, &CONTENT_NAMES, 0, &mut Vec::new())?;
            let target = field(parts, &TARGET_NAMES, 0, &mut Vec::new())?;
            (!content.is_empty() || !target.is_empty()).then_some((op, target, content))
        }
        _ => None,
    }
}

fn op_of(edit: &Value, number: usize, notes: &mut Vec<String>) -> Option<EditOp> {
    let named =
        |name: &str| member(edit, name).and_then(Value::as_str).map(str::trim).filter(|op| !op.is_empty());
    for name in OP_NAMES {
        let Some(given) = named(name) else { continue };
        let op = known_op(given);
        if matches!(op, EditOp::Unknown(_)) && name != "op" {
            continue;
        }
        if name != "op" {
            notes.push(format!("edit {number}: {name} was read as op"));
        }
        if !matches!(op, EditOp::Unknown(_)) && op.as_str() != given.to_lowercase().replace(['-', ' '], "_") {
            notes.push(format!("edit {number}: the op {given:?} was read as {}", op.as_str()));
        }
        return Some(op);
    }
    // What is named and empty is an operation that nobody knows, and has a row as all of these.
    let is_empty = member(edit, "op").and_then(Value::as_str).is_some_and(|op| op.trim().is_empty());
    is_empty.then(|| EditOp::Unknown(String::new()))
}

fn known_op(given: &str) -> EditOp {
    let name = plain_name(given);
    match name.trim_matches(|char: char| !char.is_alphanumeric()) {
        "append" | "add" | "append_to_end" | "add_to_end" | "append_rule" | "add_rule" | "append_line"
        | "add_line" => EditOp::Append,
        "insert_after" | "insert" | "insertafter" | "insert_below" | "add_after" | "insert_line_after" => {
            EditOp::InsertAfter
        }
        "replace" | "update" | "modify" | "rewrite" | "edit" | "substitute" | "change" | "replace_text"
        | "replace_line" | "str_replace" => EditOp::Replace,
        "delete" | "remove" | "drop" | "delete_rule" | "remove_rule" | "delete_line" | "remove_line" => {
            EditOp::Delete
        }
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
    // What is under another name counts only if it can be meant: `"after": true` is not an anchor.
    let found = names.iter().find_map(|name| {
        let value = shape::named(object, name).filter(|value| !value.is_null())?;
        (*name == proper || value.is_string() || value.is_array()).then_some((*name, value))
    });
    let Some((name, value)) = found else { return Some(String::new()) };
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
pub(super) struct NotText;

/// Text as it is, numbers and booleans as JSON writes them, a list of strings as lines, null as nothing.
pub(super) fn text_of(value: &Value) -> Result<String, NotText> {
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
fn count(edit: &Value, name: &str, number: usize, notes: &mut Vec<String>) -> Option<u32> {
    let value = member(edit, name).filter(|value| !value.is_null())?;
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
