//! The JSON of the SkillRL paper's banks.
//!
//! `general_skills` is a list, `task_specific_skills` (or `query_type_skills`) has a list for each type of task, and
//! `common_mistakes` is a list of another shape; everything else is kept as it is.

use super::document::{self, Entry};
use super::{ActiveSkill, Original, by_tier};
use crate::error::BankError;
use crate::skill::{Content, Tier};
use serde_json::{Map, Value};

const GENERAL: &str = "general_skills";
const BY_TYPE: [&str; 2] = ["task_specific_skills", "query_type_skills"];
const MISTAKES: &str = "common_mistakes";
const METADATA: &str = "metadata";
const SKILL_ID: &str = "skill_id";
const MISTAKE_ID: &str = "mistake_id";
const SKILL_TEXTS: [&str; 3] = ["title", "principle", "when_to_apply"];
const MISTAKE_TEXTS: [&str; 3] = ["description", "why_it_happens", "how_to_avoid"];

/// The skills of a file, in its order.
pub(super) fn entries(object: &Map<String, Value>) -> Result<Vec<Entry>, BankError> {
    let mut found = Vec::new();
    let mut n_known = 0;
    for (key, value) in object {
        match key.as_str() {
            GENERAL => found.extend(list(value, key, &Tier::General)?),
            MISTAKES => found.extend(list(value, key, &Tier::Mistakes)?),
            METADATA => {}
            name if BY_TYPE.contains(&name) => {
                let Some(types) = value.as_object() else {
                    let message = format!("{} where lists by type were expected", document::kind(value));
                    return Err(BankError::BadSkill { place: key.clone(), message });
                };
                for (task_type, skills) in types {
                    found.extend(list(skills, &format!("{key}.{task_type}"), &Tier::of_type(task_type))?);
                }
            }
            _ if document::holds_skills(value) => {
                let message = format!("`{key}` holds skills, and {}", known_keys());
                return Err(BankError::NotABank { message });
            }
            _ => continue,
        }
        n_known += 1;
    }
    if n_known == 0 && !object.is_empty() {
        let keys: Vec<String> = object.keys().map(|key| format!("`{key}`")).collect();
        let message = format!("it has the keys {}, and {}", keys.join(", "), known_keys());
        return Err(BankError::NotABank { message });
    }
    Ok(found)
}

fn known_keys() -> String {
    format!("a bank has them under `{GENERAL}`, `{}` (or `{}`) and `{MISTAKES}`", BY_TYPE[0], BY_TYPE[1])
}

fn list(value: &Value, name: &str, tier: &Tier) -> Result<Vec<Entry>, BankError> {
    let entry = |(place, object): (String, &Map<String, Value>)| {
        let is_mistake = *tier == Tier::Mistakes;
        let (id, is_id_given) = document::id(&place, object, if is_mistake { MISTAKE_ID } else { SKILL_ID })?;
        let place = if is_id_given { place } else { format!("{place} ({id})") };
        let [first, second, third] = if is_mistake { MISTAKE_TEXTS } else { SKILL_TEXTS };
        let content = if is_mistake {
            Content::Mistake {
                description: document::text(&place, object, first)?,
                why_it_happens: document::text(&place, object, second)?,
                how_to_avoid: document::text(&place, object, third)?,
            }
        } else {
            Content::Principle {
                title: document::required(&place, object, first)?,
                principle: document::required(&place, object, second)?,
                when_to_apply: document::text(&place, object, third)?,
            }
        };
        if content.texts().iter().all(|text| text.trim().is_empty()) {
            return Err(BankError::BadSkill { place, message: "all of its texts are empty".to_owned() });
        }
        Ok(Entry { place, id, is_id_given, tier: tier.clone(), content })
    };
    document::objects(value, name)?.into_iter().map(entry).collect()
}

/// The active skills as such a file: like the original where there is one, else with the keys of the paper.
pub(super) fn write(original: Option<&Original<'_>>, skills: &[ActiveSkill<'_>]) -> Value {
    let mut root = original.and_then(|original| original.value.as_object()).cloned().unwrap_or_default();
    let before = document::original_objects(original, &[GENERAL, MISTAKES], &BY_TYPE);
    let tiers = by_tier(skills);
    let list = |tier: &Tier| -> Vec<Value> {
        let of_tier = tiers.get(tier).into_iter().flatten();
        of_tier.map(|skill| object_of(skill, before.get(&(tier.clone(), skill.id.clone())))).collect()
    };
    let is_new = original.is_none();
    document::set_list(&mut root, GENERAL, list(&Tier::General), is_new);
    document::set_lists_by_type(&mut root, &BY_TYPE, skills, list, is_new);
    document::set_list(&mut root, MISTAKES, list(&Tier::Mistakes), is_new);
    Value::Object(root)
}

fn object_of(skill: &ActiveSkill<'_>, before: Option<&Value>) -> Value {
    let is_mistake = matches!(skill.content, Content::Mistake { .. });
    let (id, names) = if is_mistake { (MISTAKE_ID, MISTAKE_TEXTS) } else { (SKILL_ID, SKILL_TEXTS) };
    let mut object = before.and_then(Value::as_object).cloned().unwrap_or_default();
    let had_id = object.get(id).is_some_and(|value| !value.is_null());
    if before.is_none() || had_id {
        object.insert(id.to_owned(), Value::from(skill.id.as_str()));
    }
    document::set_texts(&mut object, names, skill.content);
    Value::Object(object)
}
