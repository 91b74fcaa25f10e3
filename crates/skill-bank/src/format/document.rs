//! What the files of other systems have in common.

use super::{ActiveSkill, Original};
use crate::error::BankError;
use crate::skill::{Content, Tier};
use serde_json::{Map, Value};
use skill_core::SkillPartId;
use std::collections::{BTreeMap, BTreeSet};

/// A skill of a file.
pub(super) struct Entry {
    /// Where it is, such as `general_skills[3]`.
    pub(super) place: String,
    /// Its id; empty until [`give_ids`] if the file has none.
    pub(super) id: SkillPartId,
    /// Whether the file has none.
    pub(super) is_id_given: bool,
    pub(super) tier: Tier,
    pub(super) content: Content,
}

/// Gives ids to the entries that have none: the next number of their tier that no other entry has.
pub(super) fn give_ids(entries: &mut [Entry]) {
    let mut taken: BTreeSet<String> =
        entries.iter().filter(|entry| !entry.is_id_given).map(|entry| entry.id.as_str().to_owned()).collect();
    // Where the search for a free number begins, so that it never looks at a number twice.
    let mut next: BTreeMap<String, u32> = BTreeMap::new();
    for entry in entries.iter_mut().filter(|entry| entry.is_id_given) {
        let prefix = entry.tier.id_prefix();
        let number = next.entry(prefix.clone()).or_insert(1);
        let mut free = (*number..).map(|number| (number, format!("{prefix}_{number:03}")));
        if let Some((found, id)) = free.find(|(_, id)| !taken.contains(id)) {
            *number = found.saturating_add(1);
            taken.insert(id.clone());
            entry.id = SkillPartId::new(id);
        }
    }
}

/// An object of a file, behind its place.
pub(super) type PlacedObject<'value> = (String, &'value Map<String, Value>);

/// The objects of a list of skills, each with its place.
pub(super) fn objects<'value>(
    list: &'value Value,
    name: &str,
) -> Result<Vec<PlacedObject<'value>>, BankError> {
    let Some(elements) = list.as_array() else {
        return Err(BankError::BadSkill {
            place: name.to_owned(),
            message: format!("{} where a list of skills was expected", kind(list)),
        });
    };
    let object = |(element_idx, element): (usize, &'value Value)| {
        let place = format!("{name}[{element_idx}]");
        match element.as_object() {
            Some(object) => Ok((place, object)),
            None => Err(BankError::BadSkill {
                place,
                message: format!("{} where a skill was expected", kind(element)),
            }),
        }
    };
    elements.iter().enumerate().map(object).collect()
}

/// A text of a skill; an empty one where the key is missing or null.
pub(super) fn text(place: &str, object: &Map<String, Value>, key: &str) -> Result<String, BankError> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(BankError::BadSkill {
            place: place.to_owned(),
            message: format!("`{key}` is {} where a text was expected", kind(other)),
        }),
    }
}

/// A text of a skill that has to be there.
pub(super) fn required(place: &str, object: &Map<String, Value>, key: &str) -> Result<String, BankError> {
    let found = text(place, object, key)?;
    if found.trim().is_empty() {
        return Err(BankError::BadSkill { place: place.to_owned(), message: format!("`{key}` is missing") });
    }
    Ok(found)
}

/// The id of a skill, and whether there is none.
pub(super) fn id(
    place: &str,
    object: &Map<String, Value>,
    key: &str,
) -> Result<(SkillPartId, bool), BankError> {
    let found = text(place, object, key)?;
    let is_missing = found.trim().is_empty();
    if let Some((_, version)) = found.rsplit_once('@')
        && version.parse::<u32>().is_ok()
    {
        return Err(BankError::BadSkill {
            place: place.to_owned(),
            message: format!("the id `{found}` ends like the version of a skill; take out its `@{version}`"),
        });
    }
    Ok((SkillPartId::new(if is_missing { String::new() } else { found }), is_missing))
}

/// Sets the texts of a content under these names, leaving out empty ones that the object does not have.
pub(super) fn set_texts(object: &mut Map<String, Value>, names: [&str; 3], content: &Content) {
    for (name, text) in names.into_iter().zip(content.texts()) {
        let is_there = object.get(name).is_some_and(|value| !value.is_null());
        if is_there || !text.is_empty() {
            object.insert(name.to_owned(), Value::from(text));
        }
    }
}

/// The objects of a file's skills by their tiers and ids: those of `lists`, and of the lists by type under `by_type`.
pub(super) fn original_objects(
    original: Option<&Original<'_>>,
    lists: &[&str],
    by_type: &[&str],
) -> BTreeMap<(Tier, SkillPartId), Value> {
    let Some(original) = original else { return BTreeMap::new() };
    let mut objects: Vec<&Value> = Vec::new();
    for (key, value) in original.value.as_object().into_iter().flatten() {
        if lists.contains(&key.as_str()) {
            objects.extend(value.as_array().into_iter().flatten());
        } else if by_type.contains(&key.as_str()) {
            let of_types = value.as_object().into_iter().flat_map(Map::values);
            objects.extend(of_types.filter_map(Value::as_array).flatten());
        }
    }
    // The entries were read in the order of the file, as these objects are.
    let skills = original.entries.iter().map(|entry| (entry.tier.clone(), entry.id.clone()));
    skills.zip(objects.into_iter().cloned()).collect()
}

/// Puts a list of skills under its key; an empty one only into a new file, or where the file has one.
pub(super) fn set_list(root: &mut Map<String, Value>, key: &str, list: Vec<Value>, is_new: bool) {
    if is_new || root.contains_key(key) || !list.is_empty() {
        root.insert(key.to_owned(), Value::Array(list));
    }
}

/// As [`set_list`] for the lists by type, under those of these keys that the file has, else under the first one. Types
/// that the file does not have come behind the others of the first key.
pub(super) fn set_lists_by_type(
    root: &mut Map<String, Value>,
    keys: &[&str],
    skills: &[ActiveSkill<'_>],
    list: impl Fn(&Tier) -> Vec<Value>,
    is_new: bool,
) {
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut by_key: Vec<(&str, Vec<String>)> = Vec::new();
    for (key, value) in keys.iter().filter_map(|key| Some((*key, root.get(*key)?))) {
        let types: Vec<String> = value.as_object().into_iter().flat_map(Map::keys).cloned().collect();
        known.extend(types.iter().cloned());
        by_key.push((key, types));
    }
    if by_key.is_empty() {
        by_key.extend(keys.first().map(|key| (*key, Vec::new())));
    }
    if let Some((_, first)) = by_key.first_mut() {
        for task_type in skills.iter().filter_map(|skill| skill.tier.task_type()) {
            if known.insert(task_type.to_owned()) {
                first.push(task_type.to_owned());
            }
        }
    }
    for (key, types) in by_key {
        let lists: Map<String, Value> = types
            .into_iter()
            .map(|task_type| {
                let skills = list(&Tier::of_type(&task_type));
                (task_type, Value::Array(skills))
            })
            .collect();
        if is_new || root.contains_key(key) || !lists.is_empty() {
            root.insert(key.to_owned(), Value::Object(lists));
        }
    }
}

/// Whether a value under an unknown key holds what looks like skills or mistakes: reading on would lose them without a
/// word.
pub(super) fn holds_skills(value: &Value) -> bool {
    let is_skill = |value: &Value| {
        ["title", "principle", "why_it_happens", "how_to_avoid"].iter().any(|key| value.get(key).is_some())
    };
    match value {
        Value::Array(elements) => elements.iter().any(is_skill),
        Value::Object(lists) => {
            lists.values().any(|list| list.as_array().is_some_and(|list| list.iter().any(is_skill)))
        }
        _ => false,
    }
}

/// What a value is, for messages.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
