//! The optimizer's view of worlds with several turns: from what an agent did there to edits of its skill.

use crate::habits::{Conduct, Habit, habits_of_line};
use crate::prompts::Trajectory;
use crate::shop::ShopHabit;
use serde_json::{Value, json};
use skill_core::random::Dice;
use skill_core::{Edit, EditOp};
use skill_envs::alfworld::HouseholdHabit;

/// What can be learned in a world.
pub(super) trait Lessons: Habit {
    /// Rules that sound sensible and do harm.
    const HARMFUL: &'static [&'static str];

    /// The name of the failure that comes of not having the habit.
    fn name(self) -> &'static str;

    /// What went wrong, in a sentence.
    fn description(self) -> &'static str;

    /// Rules that ask for the habit; one is enough.
    fn phrasings(self) -> &'static [&'static str];

    /// Whether an episode was played in this world.
    fn is_in(played: &Played) -> bool;

    /// The habits that would have repaired a failed episode.
    fn diagnose(played: &Played) -> Vec<Self>;

    /// The habits that an episode shows at work.
    fn practised(played: &Played) -> Vec<Self>;
}

/// One action with what was seen then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) action: String,
    pub(super) seen: String,
}

impl Step {
    /// Whether the action begins so.
    pub(super) fn did(&self, verb: &str) -> bool {
        self.action.starts_with(verb)
    }

    /// Whether something was taken whose name is among these words.
    pub(super) fn is_taking(&self, words: &std::collections::BTreeSet<&str>) -> bool {
        let class = self.action.strip_prefix("take ").and_then(|rest| rest.split(' ').next());
        class.is_some_and(|class| words.contains(class))
    }
}

/// An episode as a trajectory tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Played {
    /// What was seen first.
    pub(super) opening: String,
    pub(super) steps: Vec<Step>,
}

impl Played {
    /// Reads the conversation of a trajectory.
    pub(super) fn read(conversation: &str) -> Self {
        let mut played = Self::default();
        let mut turns: Vec<(&str, String)> = Vec::new();
        for line in conversation.lines() {
            let roles = ["[system] ", "[user] ", "[assistant] ", "[tool] "];
            match roles.into_iter().find_map(|role| Some((role, line.strip_prefix(role)?))) {
                Some((role, text)) => turns.push((role, text.to_owned())),
                None => {
                    if let Some((_, text)) = turns.last_mut() {
                        text.push('\n');
                        text.push_str(line);
                    }
                }
            }
        }
        for (role, text) in turns {
            match (role, played.steps.last_mut()) {
                ("[assistant] ", _) => {
                    played.steps.push(Step { action: action_of(&text), seen: String::new() });
                }
                ("[system] ", _) => {}
                (_, Some(step)) => step.seen = text,
                (_, None) => played.opening.push_str(&text),
            }
        }
        played
    }
}

/// The action of a reply: between its tags, or of a call of a tool.
fn action_of(reply: &str) -> String {
    if let Some((_, rest)) = reply.rsplit_once("<action>") {
        return rest.split("</action>").next().unwrap_or_default().trim().to_owned();
    }
    let called = reply.lines().filter_map(|line| line.split_once("] ")).find_map(|(_, arguments)| {
        let arguments: Value = serde_json::from_str(arguments).ok()?;
        Some(arguments.get("action")?.as_str()?.to_owned())
    });
    called.unwrap_or_default()
}

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
    }
}

/// What a text says about habits; `true` where it asks for one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SaidAboutWorlds {
    household: Vec<(HouseholdHabit, bool)>,
    shop: Vec<(ShopHabit, bool)>,
}
