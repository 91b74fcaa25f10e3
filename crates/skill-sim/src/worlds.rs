//! The optimizer's view of worlds with several turns: from what an agent did there to edits of its skill.

use crate::habits::{Conduct, habits_of_line};
use crate::played::{Lessons, Played};
use crate::prompts::Trajectory;
use crate::search::SearchHabit;
use crate::shop::ShopHabit;
use serde_json::{Value, json};
use skill_core::random::Dice;
use skill_core::{Edit, EditOp};
use skill_envs::alfworld::HouseholdHabit;

/// What the optimizer makes of trajectories from a world.
#[derive(Debug)]
pub(super) struct Analysis {
    /// The failures by name, with how many episodes have them and what they are; the commonest first.
    pub(super) failures: Vec<(&'static str, u32, &'static str)>,
    /// What would repair them.
    pub(super) edits: Vec<Edit>,
    /// Rules that would do harm there.
    pub(super) harmful: &'static [&'static str],
}

impl Analysis {
    /// Looks at trajectories; `None` if they are of no world that it knows.
    pub(super) fn of(skill: &str, successes: bool, trajectories: &[Trajectory], dice: Dice) -> Option<Self> {
        let played: Vec<Played> =
            trajectories.iter().map(|trajectory| Played::read(&trajectory.conversation)).collect();
        let first = played.first()?;
        if ShopHabit::is_in(first) {
            Some(Self::in_world::<ShopHabit>(skill, successes, &played, dice))
        } else if HouseholdHabit::is_in(first) {
            Some(Self::in_world::<HouseholdHabit>(skill, successes, &played, dice))
        } else if SearchHabit::is_in(first) {
            Some(Self::in_world::<SearchHabit>(skill, successes, &played, dice))
        } else {
            None
        }
    }

    fn in_world<L: Lessons>(skill: &str, successes: bool, played: &[Played], dice: Dice) -> Self {
        let mut counted: Vec<(L, u32)> = Vec::new();
        for habit in played.iter().filter(|_| !successes).flat_map(L::diagnose) {
            match counted.iter_mut().find(|(known, _)| *known == habit) {
                Some((_, count)) => *count += 1,
                None => counted.push((habit, 1)),
            }
        }
        counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let failures =
            counted.iter().map(|(habit, count)| (habit.name(), *count, habit.description())).collect();
        Self { failures, edits: propose(skill, &counted, dice), harmful: L::HARMFUL }
    }

    /// As a model sums it up.
    pub(super) fn summary(&self) -> Vec<Value> {
        let failures = self.failures.iter();
        failures
            .map(|(name, count, description)| {
                json!({ "failure_type": name, "count": count, "description": description })
            })
            .collect()
    }

    /// Why these edits.
    pub(super) fn reasoning(&self, successes: bool) -> String {
        match self.failures.as_slice() {
            _ if successes => "These went well; the skill needs no new rule to keep them so.".to_owned(),
            [] => "What went wrong here was a slip that no general rule would mend.".to_owned(),
            [..] if self.edits.is_empty() => "What went wrong is already covered by the skill.".to_owned(),
            [(name, count, _), ..] => {
                format!(
                    "The commonest failure is \"{name}\" ({count}): the agent lacks a habit, so a rule will do."
                )
            }
        }
    }
}

/// Edits that would make these habits, the best supported first; none for a habit that the skill asks for.
fn propose<L: Lessons>(skill: &str, counted: &[(L, u32)], dice: Dice) -> Vec<Edit> {
    let conduct: Conduct<L> = Conduct::read(skill);
    let mut edits: Vec<Edit> = Vec::new();
    for (habit, count) in counted {
        let mut add = |mut edit: Edit| {
            if !edits.iter().any(|known| known.target == edit.target && known.content == edit.content) {
                edit.support_count = Some(*count);
                edits.push(edit);
            }
        };
        if conduct.says(*habit) == Some(true) {
            continue;
        }
        let speaks_against = |line: &&str| {
            habits_of_line::<L>(line).contains(&(*habit, false)) && skill.matches(*line).count() == 1
        };
        if let Some(line) = skill.lines().rev().find(speaks_against) {
            add(Edit::new(EditOp::Delete, line, ""));
        }
        if !skill.lines().any(|line| habits_of_line::<L>(line).contains(&(*habit, true))) {
            let rule = dice.pick(habit.name(), habit.phrasings()).copied().unwrap_or_default();
            add(Edit::append(format!("- {rule}")));
        }
    }
    edits
}

/// What an edit's text says about the habits of any world: two edits that say the same are one.
pub(super) fn said_about_worlds(text: &str) -> SaidAboutWorlds {
    SaidAboutWorlds {
        household: text.lines().flat_map(habits_of_line).collect(),
        shop: text.lines().flat_map(habits_of_line).collect(),
        search: text.lines().flat_map(habits_of_line).collect(),
    }
}

/// What a text says about habits; `true` where it asks for one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SaidAboutWorlds {
    household: Vec<(HouseholdHabit, bool)>,
    shop: Vec<(ShopHabit, bool)>,
    search: Vec<(SearchHabit, bool)>,
}
