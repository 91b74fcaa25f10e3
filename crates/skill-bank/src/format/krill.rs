//! The JSON of krill's banks.
//!
//! `general_skills` and `task_specific_skills` as in the paper's, with other names in a skill (`id`, `name`,
//! `category`, `embedding`), a `history` with an entry for each skill, and `current_cycle`. There are no mistakes.

use super::document::{self, Entry};
use super::{ActiveSkill, Original, by_tier};
use crate::error::BankError;
use crate::skill::{Content, Tier};
use serde_json::{Map, Value, json};
use skill_core::SkillPartId;
use std::collections::BTreeSet;

const GENERAL: &str = "general_skills";
const BY_TYPE: &str = "task_specific_skills";
const HISTORY: &str = "history";
const CYCLE: &str = "current_cycle";
const TEXTS: [&str; 3] = ["name", "principle", "when_to_apply"];

/// Whether a file is of this format: it has a key of its own, or skills with a `name`.
pub(super) fn is_one(object: &Map<String, Value>) -> bool {
    let has_name = |value: &Value| value.get("name").is_some() && value.get("title").is_none();
    let lists = object
        .get(GENERAL)
        .into_iter()
        .chain(object.get(BY_TYPE).and_then(Value::as_object).into_iter().flat_map(Map::values));
    object.contains_key(CYCLE)
        || lists.filter_map(Value::as_array).any(|list| list.first().is_some_and(has_name))
}

/// The skills of a file, in its order.
pub(super) fn entries(object: &Map<String, Value>) -> Result<Vec<Entry>, BankError> {
    let mut found = Vec::new();
    for (key, value) in object {
        match key.as_str() {
            GENERAL => found.extend(list(value, key, &Tier::General)?),
            HISTORY | CYCLE => {}
            BY_TYPE => {
                let Some(types) = value.as_object() else {
                    let message = format!("{} where lists by type were expected", document::kind(value));
                    return Err(BankError::BadSkill { place: key.clone(), message });
                };
                for (task_type, skills) in types {
                    found.extend(list(skills, &format!("{key}.{task_type}"), &Tier::of_type(task_type))?);
                }
            }
            _ if document::holds_skills(value) => {
                let message = format!(
                    "`{key}` holds skills, and a bank of krill has them under `{GENERAL}` and `{BY_TYPE}`"
                );
                return Err(BankError::NotABank { message });
            }
            _ => {}
        }
    }
    Ok(found)
}

fn list(value: &Value, name: &str, tier: &Tier) -> Result<Vec<Entry>, BankError> {
    let entry = |(place, object): (String, &Map<String, Value>)| {
        let (id, is_id_given) = document::id(&place, object, "id")?;
        let place = if is_id_given { place } else { format!("{place} ({id})") };
        let [title, principle, when_to_apply] = TEXTS;
        let content = Content::Principle {
            title: document::required(&place, object, title)?,
            principle: document::required(&place, object, principle)?,
            when_to_apply: document::text(&place, object, when_to_apply)?,
        };
        Ok(Entry { place, id, is_id_given, tier: tier.clone(), content })
    };
    document::objects(value, name)?.into_iter().map(entry).collect()
}

/// The active skills as such a file, and those that it has no place for.
pub(super) fn write(
    original: Option<&Original<'_>>,
    skills: &[ActiveSkill<'_>],
    now: &str,
) -> (Value, Vec<SkillPartId>) {
    let mut root = original.and_then(|original| original.value.as_object()).cloned().unwrap_or_default();
    let before = document::original_objects(original, &[GENERAL], &[BY_TYPE]);
    let fits = |skill: &&ActiveSkill<'_>| matches!(skill.content, Content::Principle { .. });
    let tiers = by_tier(skills);
    let list = |tier: &Tier| -> Vec<Value> {
        let of_tier = tiers.get(tier).into_iter().flatten().copied().filter(fits);
        of_tier.map(|skill| object_of(skill, before.get(&(tier.clone(), skill.id.clone())))).collect()
    };
    let is_new = original.is_none();
    document::set_list(&mut root, GENERAL, list(&Tier::General), is_new);
    document::set_lists_by_type(&mut root, &[BY_TYPE], skills, list, is_new);
    let added = skills.iter().filter(fits);
    let added = added.filter(|skill| !before.contains_key(&(skill.tier.clone(), skill.id.clone())));
    let added: Vec<&SkillPartId> = added.map(|skill| skill.id).collect();
    if is_new || !added.is_empty() {
        add_history(&mut root, &added, now);
    }
    let left_out = skills.iter().filter(|skill| !fits(skill)).map(|skill| skill.id.clone()).collect();
    (Value::Object(root), left_out)
}

/// An entry for each of these skills that the history does not have, with the cycle that the file is in.
fn add_history(root: &mut Map<String, Value>, added: &[&SkillPartId], now: &str) {
    let cycle = root.get(CYCLE).cloned().unwrap_or_else(|| json!(0));
    let mut history = root.get(HISTORY).and_then(Value::as_array).cloned().unwrap_or_default();
    let known: BTreeSet<String> =
        history.iter().filter_map(|entry| Some(entry.get("skill_id")?.as_str()?.to_owned())).collect();
    for id in added.iter().filter(|id| !known.contains(id.as_str())) {
        history.push(json!({"skill_id": id.as_str(), "added_at": now, "evolution_cycle": cycle}));
    }
    root.insert(HISTORY.to_owned(), Value::Array(history));
    root.insert(CYCLE.to_owned(), cycle);
}

fn object_of(skill: &ActiveSkill<'_>, before: Option<&Value>) -> Value {
    let mut object = before.and_then(Value::as_object).cloned().unwrap_or_default();
    let is_changed = before.is_none() || {
        let texts = TEXTS.map(|name| object.get(name).and_then(Value::as_str).unwrap_or_default());
        texts != skill.content.texts()
    };
    let had_id = object.get("id").is_some_and(|value| !value.is_null());
    if before.is_none() || had_id {
        object.insert("id".to_owned(), Value::from(skill.id.as_str()));
    }
    if before.is_none() {
        // krill writes all texts of a skill.
        object.extend(TEXTS.map(|name| (name.to_owned(), Value::from(""))));
    }
    document::set_texts(&mut object, TEXTS, skill.content);
    if is_changed {
        let category = match skill.tier.task_type() {
            Some(task_type) => json!({"TaskSpecific": task_type}),
            None => json!("General"),
        };
        object.insert("category".to_owned(), category);
        // The vector of another text is of no use.
        object.insert("embedding".to_owned(), Value::Null);
    }
    Value::Object(object)
}
