//! Which habits a skill asks an agent for that acts in a world, in whatever words it does so.
//!
//! As with the conventions about answers, a skill is read clause by clause, and where two clauses contradict each
//! other, the last one holds.

use crate::clause::{Clause, NEGATIONS, Segment, clauses, mistake_of_line};
use parking_lot::Mutex;
use std::sync::Arc;

/// Something that an agent may make a habit of, and that a skill can ask for or speak against.
pub(crate) trait Habit: Copy + PartialEq + 'static {
    /// All of them.
    const ALL: &'static [Self];

    /// How a skill speaks of it.
    fn patterns(self) -> &'static [Pattern];
}

/// A way to speak of a habit; words are given by their beginnings, in lower case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pattern {
    /// What is to be done or left: one of these is in a part of the clause.
    pub(crate) deeds: &'static [&'static str],
    /// What the clause is about: one of each of these is somewhere in it.
    pub(crate) about: &'static [&'static [&'static str]],
    pub(crate) sense: Sense,
}

/// What it means that a part of a clause speaks of a deed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sense {
    /// Asked for if it is told, spoken against if it is forbidden.
    For,
    /// Spoken against if it is told, and nothing if it is forbidden.
    Against,
    /// Spoken against if it is told, asked for if it is forbidden.
    Contrary,
    /// Asked for if it is forbidden, and nothing if it is told.
    ForWhereForbidden,
}

impl Pattern {
    /// Whether a clause begins with the deed, such as `Opens drawers`.
    fn begins(&self, clause: &Clause) -> bool {
        let deed = clause.words.iter().find(|word| !OPENING_WORDS.contains(word));
        deed.is_some_and(|deed| self.deeds.iter().any(|stem| deed.starts_with(stem.trim())))
    }

    fn read(&self, clause: &Clause) -> Option<bool> {
        if !self.about.iter().all(|words| clause.words.has_stem(words)) {
            return None;
        }
        let mut is_list_forbidden = false;
        let mut refused = false;
        for segment in &clause.segments {
            // `Never heat, cool or clean`: the list goes on.
            let goes_on = is_list_forbidden && segment.has(&["or", "nor"]);
            is_list_forbidden = segment.negated || goes_on;
            if !segment.has_stem(self.deeds) {
                continue;
            }
            let is_forbidden = is_list_forbidden && !is_asked_for_all_the_same(segment, self.deeds);
            match (self.sense, is_forbidden) {
                (Sense::For, false) | (Sense::Contrary | Sense::ForWhereForbidden, true) => {
                    return Some(true);
                }
                (Sense::For, true) | (Sense::Against | Sense::Contrary, false) => refused = true,
                (Sense::Against, true) | (Sense::ForWhereForbidden, false) => {}
            }
        }
        refused.then_some(false)
    }
}

/// Words before the verb of a description.
const OPENING_WORDS: [&str; 5] = ["the", "an", "a", "agent", "it"];

/// Whether a deed comes after the turn of a sentence such as `never buy before you have checked the price`.
fn is_asked_for_all_the_same(segment: &Segment, deeds: &[&str]) -> bool {
    const TURNS: [&str; 5] = [" before ", " until ", " unless ", " without ", " till "];
    let text = segment.words().as_str();
    let Some(negation) = NEGATIONS.iter().filter_map(|word| text.find(&format!(" {word} "))).min() else {
        return false;
    };
    let turn = TURNS.iter().filter_map(|turn| text.find(turn)).filter(|turn| *turn > negation).min();
    let deed = deeds.iter().filter_map(|deed| text.find(&format!(" {deed}"))).min();
    turn.zip(deed).is_some_and(|(turn, deed)| deed >= turn)
}

/// What a skill says about habits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conduct<H> {
    said: Vec<(H, bool)>,
}

impl<H: Habit> Conduct<H> {
    /// Reads a skill.
    pub(crate) fn read(skill: &str) -> Self {
        let mut conduct = Self { said: Vec::new() };
        for (habit, is_wanted) in skill.lines().flat_map(habits_of_line::<H>) {
            conduct.said.retain(|(known, _)| *known != habit);
            conduct.said.push((habit, is_wanted));
        }
        conduct
    }

    /// Whether the skill asks for this habit or speaks against it; `None` if it says nothing about it.
    pub(crate) fn says(&self, habit: H) -> Option<bool> {
        self.said.iter().find(|(known, _)| *known == habit).map(|(_, is_wanted)| *is_wanted)
    }
}

/// Reads skills, and remembers the last one: most calls come with the same.
#[derive(Debug)]
pub(crate) struct ConductReader<H> {
    last: Mutex<(String, Arc<Conduct<H>>)>,
}

impl<H: Habit> Default for ConductReader<H> {
    fn default() -> Self {
        Self { last: Mutex::new((String::new(), Arc::new(Conduct { said: Vec::new() }))) }
    }
}

impl<H: Habit> ConductReader<H> {
    /// What a skill says.
    pub(crate) fn read(&self, skill: &str) -> Arc<Conduct<H>> {
        let mut last = self.last.lock();
        if last.0 != skill {
            *last = (skill.to_owned(), Arc::new(Conduct::read(skill)));
        }
        Arc::clone(&last.1)
    }
}

/// What one line says about habits, in order; `true` where it asks for one.
pub(super) fn habits_of_line<H: Habit>(line: &str) -> Vec<(H, bool)> {
    if let Some(mistake) = mistake_of_line(line) {
        return habits_of_mistake(line, mistake);
    }
    let mut said = Vec::new();
    for clause in clauses(line) {
        for habit in H::ALL {
            said.extend(wanted_in(*habit, &clause).map(|is_wanted| (*habit, is_wanted)));
        }
    }
    said
}

/// Whether a clause asks for a habit or speaks against it.
fn wanted_in<H: Habit>(habit: H, clause: &Clause) -> Option<bool> {
    let read = habit.patterns().iter().filter_map(|pattern| pattern.read(clause));
    // What speaks for a habit outweighs what speaks against it in the same breath.
    read.fold(None, |so_far, wanted| Some(so_far.unwrap_or(false) || wanted))
}

/// What the description of a mistake says about habits: one that lacks a habit asks for it.
///
/// Descriptions name a habit in passing, as in `puts down what must be hot while it is cold`, so they speak against a
/// habit only where it is what they begin with, as in `opens every drawer`.
fn habits_of_mistake<H: Habit>(line: &str, mistake: &str) -> Vec<(H, bool)> {
    let (forbidden, told) = (clauses(line), clauses(mistake));
    let of_habit = |habit: &H| {
        let says = |clauses: &[Clause], wanted: bool| {
            clauses.iter().any(|clause| wanted_in(*habit, clause) == Some(wanted))
        };
        let begins = || {
            let clause = told.first();
            clause.is_some_and(|clause| habit.patterns().iter().any(|pattern| pattern.begins(clause)))
        };
        if says(&forbidden, true) || says(&told, false) {
            Some((*habit, true))
        } else {
            (says(&forbidden, false) && begins()).then_some((*habit, false))
        }
    };
    H::ALL.iter().filter_map(of_habit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop::ShopHabit as S;
    use skill_envs::alfworld::HouseholdHabit as H;
    use std::fmt::Debug;

    #[track_caller]
    fn check<A: Habit + Debug>(line: &str, expect: &[(A, bool)]) {
        assert_eq!(habits_of_line::<A>(line), expect, "{line}");
    }

    #[test]
    fn people_say_it_in_their_own_words() {
        check("- If a drawer is shut, open it and look inside.", &[(H::OpenClosed, true)]);
        check("Do not open anything that is closed.", &[(H::OpenClosed, false)]);
        check("Never leave a container before you have opened it.", &[(H::OpenClosed, true)]);
        check("Visit each receptacle once, and go on to the next one.", &[(H::SearchEverywhere, true)]);
        check("Never heat, cool or clean things.", &[(H::Heat, false), (H::Cool, false), (H::Clean, false)]);
        check("Use the microwave when it must be hot.", &[(H::Heat, true)]);
        check("Rinse it in the sink instead of putting it down dirty.", &[(H::Clean, true)]);
        check("Turn the lamp on while you hold the object.", &[(H::UseLamp, true)]);
        check("Don't touch lamps.", &[(H::UseLamp, false)]);
        check("Two things are asked for? Bring both, one by one.", &[(H::FetchBoth, true)]);
        check::<H>("Be a good helper.", &[]);
        check::<H>("", &[]);
        check("Never buy without choosing the size and the colour.", &[(S::ChooseOptions, true)]);
        check("Do not waste clicks on options.", &[(S::ChooseOptions, false)]);
        check("Never pay more than the price limit.", &[(S::CheckPrice, true)]);
        check("The price does not matter: ignore it.", &[(S::CheckPrice, false)]);
        check("Don't just take the first result.", &[(S::CompareNames, true)]);
        check("Read the features before you buy.", &[(S::ReadFeatures, true)]);
        check("Be quick.", &[] as &[(S, bool)]);
    }

    #[test]
    fn a_bank_shows_mistakes_and_occasions() {
        check("- **Don't**: leaves closed drawers closed", &[(H::OpenClosed, true)]);
        check("- **Don't**: The agent leaves closed drawers closed.", &[(H::OpenClosed, true)]);
        check("- **Don't**: went on without a look inside the closed drawer", &[(H::OpenClosed, true)]);
        check("- **Don't**: puts the object down before it is hot", &[(H::Heat, true)]);
        check::<H>("- **Don't**: puts down what must be hot while it is cold", &[]);
        check("- **Don't**: searches the same place twice", &[(H::SearchEverywhere, true)]);
        check("- **Don't**: never used the lamp", &[(H::UseLamp, true)]);
        check("- **Don't**: Open closed drawers", &[(H::OpenClosed, false)]);
        check("- **Don't**: The agent heats things", &[(H::Heat, false)]);
        check("  **Instead**: Open them and look inside.", &[(H::OpenClosed, true)]);
        check::<H>("  _Apply when: the task asks for something hot_", &[]);
        check::<H>("No relevant skills found for this task.", &[]);
        check::<H>("### Pick Two Obj And Place Skills", &[]);
        check::<H>("### Look At Obj In Light Skills", &[]);
        check("### Heat what must be hot", &[(H::Heat, true)]);
        check("- **Don't**: buys without choosing the size", &[(S::ChooseOptions, true)]);
    }

    #[test]
    fn the_last_word_counts() {
        let conduct = Conduct::read("Open closed drawers.\nHeat what must be hot.\nDo not open drawers.");
        assert_eq!(conduct.says(H::OpenClosed), Some(false));
        assert_eq!(conduct.says(H::Heat), Some(true));
        assert_eq!(conduct.says(H::Cool), None);
    }
}
