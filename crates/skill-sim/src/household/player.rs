//! A player that does chores as well as its skill makes it: the [`Expert`] with the habits that the skill asks for.

use crate::agent::{Move, Player, Situation};
use crate::habits::ConductReader;
use skill_core::random::Dice;
use skill_envs::alfworld::{Expert, HouseholdHabit, INSTRUCTIONS};
use std::collections::BTreeSet;

/// How often the player goes to some other place than it wanted to, in each turn.
const SLIP_RATE: f64 = 0.03;
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
pub struct HouseholdExpert;

impl Player for HouseholdExpert {
    fn name(&self) -> &'static str {
        "household-expert"
    }

    fn instructions(&self) -> Vec<&'static str> {
        instructions()
    }

    fn decide(&self, situation: &Situation, _: Dice) -> Move {
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

/// What an expert with these habits does next.
fn next_action(situation: &Situation, habits: BTreeSet<HouseholdHabit>) -> String {
    let mut expert = Expert::with_habits(situation.opening(), habits);
    for turn in &situation.past {
        expert.remember(&turn.observation, turn.action.as_deref());
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
