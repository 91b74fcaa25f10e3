//! What changed between two banks, or between two versions of a skill.

use super::{skill_and_version, state_name, tier_name, title_line, utility_name};
use crate::output::print_pretty_json;
use crate::skill_diff::skill_diff;
use crate::table::harmless;
use serde_json::{Value, json};
use skillrl::bank::{Bank, BankDiff, Content, Skill, SkillChange, Version};
use skillrl::core::SkillPartId;
use std::fmt::Write as _;
use std::path::Path;

/// What changed between two versions of a skill.
pub(crate) fn of_versions(bank: &Bank, path: &Path, [from, to]: [&str; 2], is_json: bool) -> crate::Result {
    let (from, from_version) = named_version(bank, path, from)?;
    let (to, to_version) = named_version(bank, path, to)?;
    if is_json {
        let side = |name: &str, version: &Version| json!({"version": name, "content": version.content});
        let value = json!({"from": side(&from, from_version), "to": side(&to, to_version)});
        return print_pretty_json(&value);
    }
    let diff = content_diff(Some(&from_version.content), Some(&to_version.content), (&from, &to));
    if diff.is_empty() {
        return crate::output::print(&format!("{from} and {to} say the same\n"));
    }
    crate::output::print(&diff)
}

/// A version by its name on the command line; a skill without a number is its current version.
fn named_version<'bank>(
    bank: &'bank Bank,
    path: &Path,
    text: &str,
) -> crate::Result<(String, &'bank Version)> {
    let (skill, number) = skill_and_version(bank, path, text)?;
    let version = number.map_or_else(|| skill.current(), |number| skill.version(number));
    let version = version.ok_or_else(|| super::unknown_skill(bank, path, text))?;
    Ok((format!("{}@{}", harmless(skill.id.as_str()), version.number), version))
}

/// What changed between two banks.
pub(crate) fn of_banks(before: &Bank, after: &Bank, is_json: bool) -> crate::Result {
    let diff = BankDiff::between(before, after);
    if is_json {
        return print_pretty_json(&banks_value(before, after, &diff));
    }
    if diff.is_empty() {
        return crate::output::print("the banks have the same skills in the same states\n");
    }
    crate::output::print(&described(before, after, &diff))
}

fn banks_value(before: &Bank, after: &Bank, diff: &BankDiff) -> Value {
    let listed = |bank: &Bank, ids: &[SkillPartId]| -> Vec<Value> {
        let skills = ids.iter().filter_map(|id| bank.skill(id));
        let value = |skill: &Skill| {
            let content = skill.current().map(|version| &version.content);
            json!({"id": skill.id, "tier": skill.tier, "state": skill.state(), "content": content})
        };
        skills.map(value).collect()
    };
    json!({
        "added": listed(after, &diff.added),
        "removed": listed(before, &diff.removed),
        "changed": diff.changed,
    })
}

fn described(before: &Bank, after: &Bank, diff: &BankDiff) -> String {
    let mut text = String::new();
    for (what, bank, ids) in [("added", after, &diff.added), ("removed", before, &diff.removed)] {
        for skill in ids.iter().filter_map(|id| bank.skill(id)) {
            let title = skill.current().map(|version| title_line(version.content.title()));
            let _ = writeln!(
                text,
                "{what} {} ({}, {}): {}",
                harmless(skill.id.as_str()),
                tier_name(&skill.tier),
                state_name(skill),
                title.unwrap_or_default()
            );
        }
    }
    for change in &diff.changed {
        change_lines(&mut text, change);
    }
    text
}

fn change_lines(text: &mut String, change: &SkillChange) {
    let mut parts = Vec::new();
    if let Some(tier) = &change.tier {
        parts.push(format!("{} → {}", tier_name(&tier.before), tier_name(&tier.after)));
    }
    if let Some(state) = change.state {
        parts.push(format!("{} → {}", state.before.as_str(), state.after.as_str()));
    }
    if let Some(pinned) = change.pinned {
        parts.push(if pinned.after { "pinned" } else { "unpinned" }.to_owned());
    }
    if let Some(version) = change.version {
        parts.push(format!("version {} → {}", version.before, version.after));
    }
    if let Some(utility) = &change.utility {
        let [before, after] = [&utility.before, &utility.after].map(|utility| utility_name(utility.as_ref()));
        parts.push(format!("utility {before} → {after}"));
    }
    if parts.is_empty() {
        parts.push("other text".to_owned());
    }
    let id = harmless(change.id.as_str());
    let _ = writeln!(text, "changed {id}: {}", parts.join(", "));
    if let Some(content) = &change.content {
        let [before, after] = match change.version {
            Some(version) => [version.before, version.after].map(|number| format!("{id}@{number}")),
            None => [id.clone(), id.clone()],
        };
        text.push_str(&content_diff(content.before.as_ref(), content.after.as_ref(), (&before, &after)));
    }
}

/// The difference between two contents, as `skillrl diff` shows that of documents.
fn content_diff(before: Option<&Content>, after: Option<&Content>, names: (&str, &str)) -> String {
    let lines = |content: Option<&Content>| {
        let mut text = String::new();
        if let Some(content) = content {
            super::listed::content_lines(&mut text, content);
        }
        text.lines().map(|line| line.strip_prefix("  ").unwrap_or(line).to_owned() + "\n").collect::<String>()
    };
    skill_diff(&lines(before), &lines(after), names)
}
