//! Replies of a teacher: lists of objects, however they are wrapped, and what each object says.

use super::proposal::LeftOutReason;
use crate::skill::{Content, Tier};
use serde_json::Value;
use skill_core::json::{Repair, extract, whole_json};
use skill_core::thought;

/// Keys under which a list may lie.
const LIST_KEYS: [&str; 6] =
    ["skills", "mistakes", "proposals", "changes", "general_skills", "common_mistakes"];
/// Keys of which an element of a list has at least one.
const ENTRY_KEYS: [&str; 8] =
    ["title", "principle", "description", "how_to_avoid", "skill_id", "mistake_id", "op", "when_to_apply"];

/// The elements of a reply's list.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Entries {
    /// The elements, objects or not.
    pub(crate) values: Vec<Value>,
    /// What had to be repaired, one sentence each.
    pub(crate) notes: Vec<String>,
}

/// The list in a reply; `None` if there is none.
///
/// A single object is a list of one, and objects on lines of their own are a list.
pub(crate) fn entries(reply: &str) -> Option<Entries> {
    let answer = thought::answer(reply);
    // A closing tag alone may end all that there is.
    let reply = if answer.contains(['{', '[']) { &*answer } else { reply };
    strict_list(reply)
        .or_else(|| list_in(reply, |value| list_of(value).is_some_and(|list| list.iter().any(is_entry))))
        .or_else(|| objects_in_lines(reply))
        .or_else(|| list_in(reply, is_entry))
        .or_else(|| list_in(reply, |value| list_of(value).is_some_and(Vec::is_empty)))
}

/// The text from the first `[` to the last `]`, if that is a list to the letter.
fn strict_list(reply: &str) -> Option<Entries> {
    let (start, end) = (reply.find('[')?, reply.rfind(']')?);
    if reply.find('{').is_some_and(|brace| brace < start) {
        return None;
    }
    let Value::Array(values) = whole_json(reply.get(start..=end)?)? else { return None };
    values.iter().any(is_entry).then(|| Entries { values, notes: Vec::new() })
}

fn list_in(reply: &str, accept: impl Fn(&Value) -> bool) -> Option<Entries> {
    let found = extract(reply, accept)?;
    let mut notes: Vec<String> = found.repairs.iter().map(|repair| repaired(*repair)).collect();
    if found.truncated {
        notes.push("the reply was cut off; what was whole of it is used".to_owned());
    }
    let values = match list_of(&found.value) {
        Some(list) => list.clone(),
        None => vec![found.value],
    };
    Some(Entries { values, notes })
}

/// Objects that begin lines, where there are several.
fn objects_in_lines(reply: &str) -> Option<Entries> {
    let lines = reply.lines().filter(|line| line.trim_start().starts_with('{'));
    let found: Vec<Entries> = lines.filter_map(|line| list_in(line, is_entry)).collect();
    (found.len() > 1).then(|| {
        let mut entries = Entries::default();
        for one in found {
            entries.values.extend(one.values);
            entries.notes.extend(one.notes);
        }
        entries
    })
}

fn list_of(value: &Value) -> Option<&Vec<Value>> {
    value.as_array().or_else(|| LIST_KEYS.iter().find_map(|key| value.get(*key)?.as_array()))
}

fn is_entry(value: &Value) -> bool {
    value.is_object() && ENTRY_KEYS.iter().any(|key| value.get(*key).is_some())
}

fn repaired(repair: Repair) -> String {
    format!("the reply's JSON was repaired ({})", repair.as_str())
}

/// The content of an element, for a skill of this tier; ids and unknown fields are not looked at.
pub(crate) fn content(tier: &Tier, entry: &Value) -> Result<Content, LeftOutReason> {
    if !entry.is_object() {
        return Err(LeftOutReason::NotAnObject);
    }
    let optional = |field: &'static str| match entry.get(field) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.trim().to_owned()),
        Some(_) => Err(LeftOutReason::NotText { field }),
    };
    let required = |field: &'static str| {
        let text = optional(field)?;
        if text.is_empty() { Err(LeftOutReason::MissingField { field }) } else { Ok(text) }
    };
    match tier {
        Tier::General | Tier::TaskType(_) => Ok(Content::Principle {
            title: required("title")?,
            principle: required("principle")?,
            when_to_apply: optional("when_to_apply")?,
        }),
        Tier::Mistakes => Ok(Content::Mistake {
            description: required("description")?,
            why_it_happens: optional("why_it_happens")?,
            how_to_avoid: required("how_to_avoid")?,
        }),
    }
}

/// The name by which a person knows an element: its title or its description, or the beginning of its JSON.
pub(crate) fn name_of(entry: &Value) -> String {
    let named = ["title", "description", "id", "skill_id"].iter().find_map(|key| entry.get(*key)?.as_str());
    let text = named.map_or_else(|| entry.to_string(), str::to_owned);
    text.chars().take(80).collect()
}
