//! Evolution: from the failures of weak types and their skills to changes.

use super::Pen;
use super::prompts::{EpisodeText, ExistingSkill, SkillText, World};
use super::topic::{Topic, count};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// How often a harmful skill is retired where it could be revised.
const RETIRED_PART: f64 = 0.5;

impl Pen {
    /// For each weak type: harmful skills are revised or retired, and what no skill teaches is added.
    pub(super) fn changes(
        self,
        weak: &[String],
        limit: usize,
        skills: &[ExistingSkill],
        episodes: &[EpisodeText],
    ) -> Value {
        let mut titles: BTreeSet<String> =
            skills.iter().map(|skill| skill.text.title().to_lowercase()).collect();
        let mut changed: BTreeSet<&str> = BTreeSet::new();
        let mut changes = Vec::new();
        for task_type in weak {
            let shown: Vec<&ExistingSkill> =
                skills.iter().filter(|skill| skill.tier == *task_type || skill.tier == "general").collect();
            let own =
                episodes.iter().filter(|episode| episode.task_type == *task_type && !episode.is_success);
            for counted in count(own) {
                if changes.len() >= limit {
                    break;
                }
                let change = self.change(&counted.topic, task_type, &shown, &changed, &titles);
                let Some(Change { value, of, title }) = change else { continue };
                changed.extend(of);
                titles.extend(title.map(|title| title.to_lowercase()));
                changes.push(value);
            }
        }
        self.spoil(&mut changes, weak, World::of(episodes), &titles);
        json!({ "changes": changes })
    }

    /// The change that a topic needs; `None` if the skills teach it.
    fn change<'s>(
        self,
        topic: &Topic,
        task_type: &str,
        shown: &[&'s ExistingSkill],
        changed: &BTreeSet<&str>,
        titles: &BTreeSet<String>,
    ) -> Option<Change<'s>> {
        let taught = |skill: &ExistingSkill| topic.is_taught_by(&skill.text.shown());
        let label = format!("{task_type} {}", topic.name());
        let overlooks = self.dice.chance(&format!("overlook {label}"), self.flaw_rate);
        let contrary = shown.iter().find(|skill| {
            !skill.is_fixed && !changed.contains(skill.id.as_str()) && taught(skill) == Some(false)
        });
        let is_taught = shown.iter().any(|skill| taught(skill) == Some(true));
        if let Some(skill) = contrary.filter(|_| !overlooks) {
            let of = Some(skill.id.as_str());
            if is_taught || self.dice.chance(&format!("retire {label}"), RETIRED_PART) {
                let value = json!({ "op": "retire", "id": skill.id });
                return Some(Change { value, of, title: None });
            }
            let revised = self.taught(topic, false, titles)?;
            let value = with_op(&revised, "revise", "id", &skill.id);
            return Some(Change { value, of, title: Some(revised.title().to_owned()) });
        }
        if is_taught {
            return None;
        }
        if let Some((skill, codes)) = more_codes(topic, shown, changed) {
            let mut revised = self.taught(&codes, false, titles)?;
            skill.text.title().clone_into(revised.fields.first_mut()?);
            let value = with_op(&revised, "revise", "id", &skill.id);
            return Some(Change { value, of: Some(skill.id.as_str()), title: None });
        }
        let added = self.taught(topic, false, titles)?;
        let title = Some(added.title().to_owned());
        Some(Change { value: with_op(&added, "add", "task_type", task_type), of: None, title })
    }

    /// Replaces changes by additions that are bad.
    fn spoil(self, changes: &mut [Value], weak: &[String], world: World, titles: &BTreeSet<String>) {
        let mut titles = titles.clone();
        for (place, change) in changes.iter_mut().enumerate() {
            let label = format!("change {place}");
            let Some(flaw) = self.flaw(&label) else { continue };
            let own = change.get("task_type").and_then(Value::as_str).map(str::to_owned);
            let task_type = own.or_else(|| weak.first().cloned()).unwrap_or_default();
            let bad = self.flawed(flaw, &label, world, false, &titles);
            if let Some(bad) = bad {
                titles.insert(bad.title().to_lowercase());
                *change = with_op(&bad, "add", "task_type", &task_type);
            }
        }
    }
}

/// One change, with the skill that it changes and the title that it uses.
struct Change<'s> {
    value: Value,
    of: Option<&'s str>,
    title: Option<String>,
}

/// A skill with some of the codes of a field, and all codes that are known then.
fn more_codes<'s>(
    topic: &Topic,
    shown: &[&'s ExistingSkill],
    changed: &BTreeSet<&str>,
) -> Option<(&'s ExistingSkill, Topic)> {
    let Topic::Codes { field, .. } = topic else { return None };
    let skill = shown.iter().find(|skill| {
        let text = skill.text.shown();
        let is_open = !skill.is_fixed && !changed.contains(skill.id.as_str());
        is_open && text.contains(&format!("the {field}")) && !crate::conventions::glossary(&text).is_empty()
    })?;
    let pairs = skill.text.shown().lines().flat_map(crate::conventions::glossary).collect();
    let mut all = Topic::Codes { field: field.clone(), pairs };
    all.join(topic).then_some((*skill, all))
}

fn with_op(skill: &SkillText, op: &str, key: &str, value: &str) -> Value {
    let mut entry = skill.entry();
    if let Some(fields) = entry.as_object_mut() {
        fields.insert("op".to_owned(), json!(op));
        fields.insert(key.to_owned(), json!(value));
    }
    entry
}
