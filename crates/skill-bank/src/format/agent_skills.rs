//! A bank as folders of the Agent Skills specification: one `SKILL.md` for each active skill.

use super::active;
use crate::bank::Bank;
use crate::skill::{Content, Tier};
use std::collections::BTreeSet;

/// The longest name of a skill.
const MAX_NAME: usize = 64;
/// The longest description of a skill, in characters.
const MAX_DESCRIPTION: usize = 1_024;

/// A skill as a folder with one file, `SKILL.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentSkill {
    /// The name of the folder, which is the skill's name too: lower-case letters, digits and hyphens.
    pub name: String,
    /// The content of `SKILL.md`.
    pub text: String,
}

/// The active skills as folders, in the order of the bank; episodes are not skills and are left out.
pub fn agent_skills(bank: &Bank) -> Vec<AgentSkill> {
    let mut names = BTreeSet::new();
    let mut skills = Vec::new();
    for skill in active(bank) {
        let (description, body) = match skill.content {
            Content::Principle { title, principle, when_to_apply } => {
                let when = if when_to_apply.is_empty() { principle } else { when_to_apply };
                (when.clone(), format!("# {title}\n\n{principle}\n"))
            }
            Content::Mistake { description, why_it_happens, how_to_avoid } => {
                let mut body = format!("# Mistake to avoid\n\n{description}\n");
                for (label, text) in [("Why it happens", why_it_happens), ("Instead", how_to_avoid)] {
                    if !text.is_empty() {
                        body.push_str(&format!("\n{label}: {text}\n"));
                    }
                }
                (format!("Avoid this: {description}"), body)
            }
            Content::Episode { .. } => continue,
        };
        let name = free_name(skill.content.title(), skill.id.as_str(), &names);
        names.insert(name.clone());
        let of_tier = match skill.tier {
            Tier::General | Tier::Mistakes => String::new(),
            Tier::TaskType(task_type) => format!("Tasks of the type {task_type}. "),
        };
        let description: String = format!("{of_tier}{description}").chars().take(MAX_DESCRIPTION).collect();
        let description = serde_json::Value::from(description.replace('\n', " "));
        let quoted = |text: String| serde_json::Value::from(text);
        let (id, tier) = (quoted(skill.id.to_string()), quoted(skill.tier.to_string()));
        let metadata = format!("metadata:\n  id: {id}\n  tier: {tier}\n");
        skills.push(AgentSkill {
            text: format!("---\nname: {name}\ndescription: {description}\n{metadata}---\n\n{body}"),
            name,
        });
    }
    skills
}

/// A name that no other skill has: from the title, then from id and title, then with a number.
fn free_name(title: &str, id: &str, names: &BTreeSet<String>) -> String {
    let is_free = |name: &String| !name.is_empty() && !names.contains(name);
    let own = name_of(title);
    if is_free(&own) {
        return own;
    }
    let with_id = name_of(&format!("{id} {own}"));
    if is_free(&with_id) {
        return with_id;
    }
    let numbered = (2_u64..).map(|number| name_of(&format!("skill {number} {id} {own}"))).find(is_free);
    numbered.unwrap_or(with_id)
}

/// Lower-case letters and digits, words joined by single hyphens.
fn name_of(title: &str) -> String {
    let mut name = String::new();
    for character in title.chars().take(MAX_NAME) {
        if character.is_ascii_alphanumeric() {
            name.push(character.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    name.trim_end_matches('-').to_owned()
}
