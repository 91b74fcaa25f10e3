//! A player that does chores as well as its skill makes it: the [`Expert`] with the habits that the skill asks for.

use crate::agent::{Move, Player, Situation};
use crate::habits::ConductReader;
use skill_core::random::Dice;
use skill_envs::alfworld::{Expert, HouseholdHabit, INSTRUCTIONS};
use std::collections::BTreeSet;

/// How often the player goes to some other place than it wanted to, in each turn.
const SLIP_RATE: f64 = 0.03;
/// What the world says of a command that does nothing.
const NOTHING: &str = "Nothing happens.";
/// How often it has a habit in a game of which the skill says nothing.
const BY_NATURE: f64 = 0.3;

/// A player of households for a [`crate::SimulatedAgent`].
///
/// It opens what is closed, searches every place, heats, cools and cleans, uses the lamp and fetches the second of
/// two objects where its skill says so; what the skill says nothing about it does now and then.
#[derive(Debug, Default)]
pub struct SimulatedHousehold {
    skills: ConductReader<HouseholdHabit>,
}

impl Player for SimulatedHousehold {
    fn name(&self) -> &'static str {
        "simulated-household"
    }

    fn instructions(&self) -> Vec<&'static str> {
        instructions()
    }

    fn decide(&self, situation: &Situation, dice: Dice) -> Move {
        let conduct = self.skills.read(&situation.skill);
        let has = |habit: &HouseholdHabit| {
            conduct.says(*habit).unwrap_or_else(|| dice.chance(&format!("{habit:?}"), BY_NATURE))
        };
        let habits: BTreeSet<HouseholdHabit> = HouseholdHabit::ALL.iter().copied().filter(has).collect();
        let action = next_action(situation, habits);
        let turn = format!("slip {} {action}", situation.past.len());
        if dice.chance(&turn, SLIP_RATE) {
            let ways = situation.admissible.iter().flatten().filter(|command| command.starts_with("go to "));
            if let Some(other) = dice.pick(&turn, &ways.collect::<Vec<_>>()) {
                return Move { thought: "Where was I? I try this.".to_owned(), action: (*other).clone() };
            }
        }
        Move { thought: thought(&action), action }
    }
}

/// A player of households that has every habit and makes no slip, whatever its skill says: the [`Expert`].
///
/// Its episodes are demonstrations that cost no model calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct HouseholdExpert {
    mistakes: f64,
}

impl HouseholdExpert {
    /// The same with mistakes: in a turn it tries something that cannot be done, with this probability, and then goes on
    /// as it would have. Who learns from walks without any never sees how to go on after one.
    #[must_use]
    pub fn with_mistakes(self, probability: f64) -> Self {
        Self { mistakes: probability }
    }

    /// A command that does nothing here: well formed, with names that were seen.
    fn mistake(&self, situation: &Situation, dice: Dice) -> Option<String> {
        let turn = format!("mistake {}", situation.past.len());
        if !dice.chance(&turn, self.mistakes) {
            return None;
        }
        let receptacles: BTreeSet<String> = names(situation.opening()).collect();
        let past = situation.past.iter().map(|turn| turn.observation.as_str());
        let seen = past.chain([situation.observation.as_str()]).flat_map(names);
        let seen: Vec<String> = seen.collect::<BTreeSet<_>>().into_iter().collect();
        let at = effective(situation).filter_map(|action| action?.strip_prefix("go to ")).last();
        let pick = |what: &str, is_wanted: &dyn Fn(&str) -> bool| {
            let names: Vec<&String> = seen.iter().filter(|name| is_wanted(name)).collect();
            dice.pick(&format!("{turn} {what}"), &names).map(|name| (**name).clone())
        };
        let is_elsewhere = |name: &str| receptacles.contains(name) && Some(name) != at;
        let mistake = match *dice.pick(&format!("{turn} verb"), &["take", "move", "go", "use"])? {
            "take" => format!("take {} from {}", pick("what", &|_| true)?, pick("where", &is_elsewhere)?),
            "move" => format!("move {} to {}", pick("what", &|_| true)?, pick("where", &is_elsewhere)?),
            "go" => format!("go to {}", pick("where", &|name| !receptacles.contains(name))?),
            _ => format!("use {}", pick("what", &|name| !name.contains("lamp"))?),
        };
        let is_possible = situation.admissible.iter().flatten().any(|command| *command == mistake);
        (!is_possible).then_some(mistake)
    }
}

/// The names with a number (`desk 2`) in a text, in order.
fn names(text: &str) -> impl Iterator<Item = String> {
    let words: Vec<&str> = text.split(|character: char| !character.is_ascii_alphanumeric()).collect();
    let is_noun = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let pairs = words.windows(2).filter_map(|pair| <[&str; 2]>::try_from(pair).ok());
    let names: Vec<String> = pairs
        .filter(|[noun, number]| is_noun(noun) && number.parse::<u32>().is_ok())
        .map(|[noun, number]| format!("{noun} {number}"))
        .collect();
    names.into_iter()
}

impl Player for HouseholdExpert {
    fn name(&self) -> &'static str {
        "household-expert"
    }

    fn instructions(&self) -> Vec<&'static str> {
        instructions()
    }

    fn decide(&self, situation: &Situation, dice: Dice) -> Move {
        if let Some(action) = self.mistake(situation, dice) {
            return Move { thought: "I try this.".to_owned(), action };
        }
        let action = next_action(situation, HouseholdHabit::ALL.iter().copied().collect());
        Move { thought: thought(&action), action }
    }
}

fn instructions() -> Vec<&'static str> {
    Vec::from([
        INSTRUCTIONS,
        #[cfg(feature = "live")]
        skill_envs::live::LiveKind::Alfworld.instructions(),
    ])
}

/// The action of each past turn; `None` for one that did nothing, as what is seen next says.
fn effective(situation: &Situation) -> impl Iterator<Item = Option<&str>> {
    let next = situation.past.iter().skip(1).map(|turn| turn.observation.as_str());
    let next = next.chain([situation.observation.as_str()]);
    situation
        .past
        .iter()
        .zip(next)
        .map(|(turn, next)| turn.action.as_deref().filter(|_| !next.starts_with(NOTHING)))
}

/// What an expert with these habits does next.
fn next_action(situation: &Situation, habits: BTreeSet<HouseholdHabit>) -> String {
    let mut expert = Expert::with_habits(situation.opening(), habits);
    for (turn, action) in situation.past.iter().zip(effective(situation)) {
        expert.remember(&turn.observation, action);
    }
    match &situation.admissible {
        Some(admissible) => expert.act(&situation.observation, admissible),
        None => expert.act_unaided(&situation.observation),
    }
}

fn thought(action: &str) -> String {
    let (verb, rest) = action.split_once(' ').unwrap_or((action, ""));
    match verb {
        "go" => format!("What I need may be at the {}.", rest.trim_start_matches("to ")),
        "open" => format!("The {rest} is closed, so I open it and look inside."),
        "take" => "This is what the task is about, so I take it.".to_owned(),
        "move" | "put" => "It belongs here, so I put it down.".to_owned(),
        "heat" | "cool" | "clean" => format!("The task wants it so, so I {verb} it first."),
        "use" => "With the object in my hand I use the lamp.".to_owned(),
        _ => "I think that there is nothing more to do.".to_owned(),
    }
}
