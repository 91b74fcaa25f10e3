//! What an agent shows its model of skills: which are listed, and how much of each description.
//!
//! The numbers of a [`Budget`] are measured with a context window of [`crate::MEASURED_WINDOW`]; of some agents they grow
//! with the window of the model.

use crate::skill::Skill;
use crate::table::{Agent, Budget, OverBudget};
use serde::Serialize;

/// What an agent shows of one skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The name of the skill's folder.
    pub folder: String,
    /// The name in the listing.
    pub name: String,
    /// How much of the description.
    pub shown: DescriptionVisibility,
    /// Characters that it has in the listing.
    pub chars: usize,
}

/// How much of a description a model is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DescriptionVisibility {
    /// All of it.
    Whole,
    /// So many characters of it.
    Cut(usize),
    /// Nothing: the skill is listed by its name only.
    NameOnly,
    /// The skill is not listed, since its description is too long.
    TooLong,
    /// The skill is not listed, since it asks for that.
    ForPeople,
}

impl DescriptionVisibility {
    /// True if a run tests the whole description.
    pub const fn is_whole(self) -> bool {
        matches!(self, Self::Whole)
    }
}

/// What an agent lists of these skills to a model with a context window of so many tokens, beside its own skills if they
/// are not switched off.
pub fn listed(agent: &Agent, skills: &[&Skill], with_bundled: bool, window: u64) -> Vec<Listed> {
    let mut rows: Vec<Listed> = skills.iter().map(|skill| alone(agent, skill)).collect();
    let Some(budget) = agent.budget else { return rows };
    let own = if with_bundled { budget.own_chars } else { 0 };
    let room = budget.chars_at(window).saturating_sub(own);
    match budget.over {
        OverBudget::Cut => cut(&mut rows, budget, room),
        OverBudget::NameOnly | OverBudget::NotListed => drop_last(&mut rows, budget, room),
    }
    rows
}

/// A skill that is the only one.
fn alone(agent: &Agent, skill: &Skill) -> Listed {
    let n_chars = skill.listed_text(agent).chars().count();
    let is_for_people = (agent.honours_disable && skill.is_for_people)
        || (agent.honours_openai_file && skill.is_for_people_in_codex);
    let shown = match agent.budget {
        _ if is_for_people => DescriptionVisibility::ForPeople,
        Some(budget) if n_chars > budget.description_chars => match budget.too_long {
            Some(_) => DescriptionVisibility::TooLong,
            None => DescriptionVisibility::Cut(budget.description_chars),
        },
        Some(_) | None => DescriptionVisibility::Whole,
    };
    let chars = match shown {
        DescriptionVisibility::Whole => n_chars,
        DescriptionVisibility::Cut(n_chars) => n_chars,
        DescriptionVisibility::NameOnly
        | DescriptionVisibility::TooLong
        | DescriptionVisibility::ForPeople => 0,
    };
    Listed { folder: skill.folder.clone(), name: skill.listed_name(agent).to_owned(), shown, chars }
}

fn size(row: &Listed, budget: Budget) -> usize {
    match row.shown {
        DescriptionVisibility::TooLong | DescriptionVisibility::ForPeople => 0,
        DescriptionVisibility::Whole | DescriptionVisibility::Cut(_) | DescriptionVisibility::NameOnly => {
            row.name.chars().count() + row.chars + budget.entry_chars
        }
    }
}

/// All descriptions are cut to one length, the longest with which all fit.
fn cut(rows: &mut [Listed], budget: Budget, room: usize) {
    let sum = |rows: &[Listed], most: usize| -> usize {
        rows.iter()
            .filter(|row| size(row, budget) > 0)
            .map(|row| row.name.chars().count() + row.chars.min(most) + budget.entry_chars)
            .sum()
    };
    let longest = rows.iter().map(|row| row.chars).max().unwrap_or(0);
    // Where not even the names fit, no description is shown.
    let most = (0..=longest).rev().find(|most| sum(rows, *most) <= room).unwrap_or(0);
    if most >= longest {
        return;
    }
    for row in rows.iter_mut().filter(|row| row.chars > most) {
        row.shown =
            if most == 0 { DescriptionVisibility::NameOnly } else { DescriptionVisibility::Cut(most) };
        row.chars = most;
    }
}

/// In order: descriptions that do not fit any more are left out.
fn drop_last(rows: &mut [Listed], budget: Budget, room: usize) {
    let names: usize = rows
        .iter()
        .filter(|row| size(row, budget) > 0)
        .map(|row| row.name.chars().count() + budget.entry_chars)
        .sum();
    let mut left = room.saturating_sub(names);
    for row in rows.iter_mut().filter(|row| row.chars > 0) {
        match left.checked_sub(row.chars) {
            Some(rest) => left = rest,
            None => (row.shown, row.chars) = (DescriptionVisibility::NameOnly, 0),
        }
    }
}
