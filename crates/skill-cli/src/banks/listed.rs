//! The skills of a bank by tier, and the texts of one.

use super::{state_name, tier_name, title_line, utility_name};
use crate::table::{Column, counted, harmless, table, terminal_width};
use skillrl::bank::{Bank, Content, Skill, Tier};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The skills of each tier: general, the types in alphabetical order, mistakes.
pub(crate) fn by_tier(bank: &Bank) -> BTreeMap<&Tier, Vec<&Skill>> {
    let mut tiers: BTreeMap<&Tier, Vec<&Skill>> = BTreeMap::new();
    for skill in bank.skills() {
        tiers.entry(&skill.tier).or_default().push(skill);
    }
    tiers
}

/// The skills of a bank by tier.
pub(crate) fn listed(bank: &Bank) -> String {
    let columns =
        [Column::name("id"), Column::name("state"), Column::name("utility at 95 %"), Column::text("title")];
    let mut text = String::new();
    for (tier, skills) in by_tier(bank) {
        if !text.is_empty() {
            text.push('\n');
        }
        let is_episode = |skill: &&Skill| skill.current().is_some_and(|version| version.content.is_episode());
        let noun = if skills.iter().all(is_episode) { "episode" } else { "skill" };
        let _ = writeln!(text, "{}: {}", tier_name(tier), counted(skills.len() as u64, noun));
        let row = |skill: &&Skill| {
            let current = skill.current();
            let utility = current.and_then(|version| version.utility.as_ref());
            let title = current.map(|version| title_line(version.content.title())).unwrap_or_default();
            vec![harmless(skill.id.as_str()), state_name(skill), utility_name(utility), title]
        };
        let rows: Vec<Vec<String>> = skills.iter().map(row).collect();
        text.push_str(&table(&columns, &rows, terminal_width()));
    }
    if text.is_empty() {
        text.push_str("the bank has no skills\n");
    }
    text
}

/// Each text of a content with its name; empty texts are left out.
pub(crate) fn content_lines(text: &mut String, content: &Content) {
    let names = match content {
        Content::Principle { .. } => ["title", "principle", "when to apply"],
        Content::Mistake { .. } => ["description", "why it happens", "how to avoid"],
        Content::Episode { .. } => ["task", "outcome", "steps"],
    };
    for (name, value) in names.into_iter().zip(content.texts()).filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(text, "  {name}: {}", harmless(value).replace('\n', "\n    "));
    }
}
