//! Rules that several formats share.

use super::{ExportError, FieldFault};
use serde_json::{Map, Value};

const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];
/// The roles that may end a prompt.
pub(super) const ENDS_OF_PROMPT: Ending =
    Ending { roles: &["user", "tool", "system"], names: "user, tool or system" };
/// The role that ends a reply.
pub(super) const END_OF_REPLY: Ending = Ending { roles: &["assistant"], names: "assistant" };

/// The roles that the last message may have.
#[derive(Clone, Copy)]
pub(super) struct Ending {
    pub(super) roles: &'static [&'static str],
    pub(super) names: &'static str,
}

/// A row, for errors that name it.
#[derive(Clone, Copy)]
pub(super) struct Row(pub(super) usize);

impl Row {
    pub(super) fn fault(self, field: impl Into<String>, fault: FieldFault) -> ExportError {
        ExportError::Row { row: self.0, field: field.into(), fault }
    }

    /// The row as an object.
    pub(super) fn object(self, row: &Value) -> Result<&Map<String, Value>, ExportError> {
        row.as_object().ok_or_else(|| self.fault("the row", FieldFault::NotA("an object")))
    }

    /// A field of an object; `place` is the path of the object, empty for the row.
    pub(super) fn field<'a>(
        self,
        object: &'a Map<String, Value>,
        place: &str,
        name: &str,
    ) -> Result<&'a Value, ExportError> {
        let found = object.get(name).filter(|value| !value.is_null());
        found.ok_or_else(|| self.fault(path(place, name), FieldFault::Missing))
    }

    /// A text of an object.
    pub(super) fn text<'a>(
        self,
        object: &'a Map<String, Value>,
        place: &str,
        name: &str,
    ) -> Result<&'a str, ExportError> {
        let value = self.field(object, place, name)?;
        value.as_str().ok_or_else(|| self.fault(path(place, name), FieldFault::NotA("a text")))
    }

    /// A list of messages, which is not empty, has known roles and texts, a system message only at its beginning, and
    /// this end. Gives role and content of each.
    pub(super) fn messages<'a>(
        self,
        field: &str,
        value: &'a Value,
        ending: Ending,
    ) -> Result<Vec<(&'a str, &'a str)>, ExportError> {
        let list =
            value.as_array().ok_or_else(|| self.fault(field, FieldFault::NotA("a list of messages")))?;
        let messages: Vec<(&str, &str)> = list
            .iter()
            .enumerate()
            .map(|(place, message)| self.message(&format!("{field}[{place}]"), place, message))
            .collect::<Result<_, _>>()?;
        let Some((last, _)) = messages.last() else { return Err(self.fault(field, FieldFault::Empty)) };
        if !ending.roles.contains(last) {
            let fault = FieldFault::MisplacedRole { role: (*last).to_owned(), expected: ending.names };
            return Err(self.fault(format!("{field}[{}].role", messages.len() - 1), fault));
        }
        Ok(messages)
    }

    fn message<'a>(
        self,
        path: &str,
        place: usize,
        message: &'a Value,
    ) -> Result<(&'a str, &'a str), ExportError> {
        let object = message.as_object().ok_or_else(|| self.fault(path, FieldFault::NotA("an object")))?;
        let role = self.text(object, path, "role")?;
        if !ROLES.contains(&role) {
            return Err(self.fault(format!("{path}.role"), FieldFault::UnknownRole(role.to_owned())));
        }
        if role == "system" && place > 0 {
            let expected = "a system message only at the beginning";
            let fault = FieldFault::MisplacedRole { role: role.to_owned(), expected };
            return Err(self.fault(format!("{path}.role"), fault));
        }
        Ok((role, self.text(object, path, "content")?))
    }

    /// At least one message of the agent says something.
    pub(super) fn something_to_learn(
        self,
        field: &str,
        messages: &[(&str, &str)],
    ) -> Result<(), ExportError> {
        let says = messages.iter().any(|(role, content)| *role == "assistant" && !content.trim().is_empty());
        if says { Ok(()) } else { Err(self.fault(field, FieldFault::NothingToLearn)) }
    }
}

pub(super) fn path(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}

/// Columns besides those of a format: every row has those of the first one, with the same types.
pub(super) fn same_columns(rows: &[&Map<String, Value>], own: &[&str]) -> Result<Vec<String>, ExportError> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let columns: Vec<&String> = first.keys().filter(|name| !own.contains(&name.as_str())).collect();
    for (place, row) in rows.iter().enumerate().skip(1) {
        for name in &columns {
            let value = row.get(*name).ok_or_else(|| Row(place).fault(*name, FieldFault::Missing))?;
            let same = first.get(*name).is_some_and(|of_first| type_of(of_first) == type_of(value));
            if !same {
                return Err(Row(place).fault(*name, FieldFault::OtherType));
            }
        }
        let extra = row.keys().find(|name| !own.contains(&name.as_str()) && !columns.contains(name));
        if let Some(extra) = extra {
            return Err(Row(place).fault(extra, FieldFault::ExtraColumn));
        }
    }
    Ok(columns.into_iter().cloned().collect())
}

/// The type as the datasets library sees it; numbers may be whole in one row and not in another.
fn type_of(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}
