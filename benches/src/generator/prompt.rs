//! A prompt of an optimizer, as that model reads it: which system's, what it asks for, and what it shows.
//!
//! The prompts of skillrl, of SkillOpt and of GEPA are told apart by their headings.

use super::environment::{Environment, TRAIN};
use super::text::{Entry, HOPELESS, Line, SLIP, field_name};
use std::collections::{BTreeMap, BTreeSet};

/// How often an edit that failed together with others is taken for a failed one.
const BLAMES_BUNDLES: f64 = 0.35;

/// The form of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Edits as JSON.
    Edits,
    /// The whole new text.
    Text,
}

/// A training task that a prompt shows.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    /// Positions of the fields that were wrong, in the order of the task.
    pub(super) wrong: Vec<usize>,
    /// Habits that spoiled it.
    pub(super) harms: BTreeSet<usize>,
    /// True if it failed in a way that no rule prevents.
    pub(super) is_lapse: bool,
}

impl Shown {
    pub(super) fn has_failed(&self) -> bool {
        !self.wrong.is_empty() || !self.harms.is_empty() || self.is_lapse
    }
}

/// What a request for edits shows.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) form: Form,
    /// What the skill states, with the text of the line.
    pub(super) skill: Vec<(Line, String)>,
    /// The text of the skill.
    pub(super) text: String,
    /// What failed before, with how much it is blamed.
    pub(super) memory: BTreeMap<Line, f64>,
    pub(super) shown: BTreeMap<String, Shown>,
    /// The most edits.
    pub(super) most: usize,
}

impl Prompt {
    pub(super) fn read(environment: &Environment, user: &str) -> Self {
        let parts = Parts::read(user);
        let lines = parts.skill.lines();
        let skill =
            lines.flat_map(|line| Line::all_in(line).into_iter().map(|said| (said, line.trim().to_owned())));
        Self {
            form: parts.form,
            skill: skill.collect(),
            text: parts.skill.to_owned(),
            memory: remembered(parts.memory),
            shown: shown(environment, &parts.body),
            most: parts.most_edits(),
        }
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        self.skill.iter().map(|(line, _)| line.clone()).collect()
    }

    pub(super) fn says(&self, line: &Line) -> bool {
        self.skill.iter().any(|(said, _)| said == line)
    }

    pub(super) fn failures(&self) -> impl Iterator<Item = (&String, &Shown)> {
        self.shown.iter().filter(|(_, shown)| shown.has_failed())
    }
}

/// True if this is GEPA's prompt for a new text.
pub(super) fn is_gepa(user: &str) -> bool {
    user.contains("Your task is to write a new instruction")
}

/// The parts of a prompt.
pub(crate) struct Parts<'a> {
    pub(crate) form: Form,
    pub(crate) skill: &'a str,
    pub(crate) memory: &'a str,
    pub(crate) body: String,
}

impl<'a> Parts<'a> {
    pub(crate) fn read(user: &'a str) -> Self {
        if is_gepa(user) {
            Self::of_gepa(user)
        } else if user.contains("## Current Skill\n") {
            Self::of_skillopt(user)
        } else {
            Self::of_skillrl(user)
        }
    }

    /// How many edits it asks for at most.
    pub(crate) fn most_edits(&self) -> usize {
        budget_in(&self.body)
    }

    fn of_skillrl(user: &'a str) -> Self {
        let (before, skill, after) = cut(user, "<skill>\n", "\n</skill>");
        let (rest, memory, body) = cut(after, "\n<memory>\n", "\n</memory>");
        // Without a memory all of it is in `rest`.
        Self { form: Form::Edits, skill, memory, body: [before, rest, body].concat() }
    }

    fn of_skillopt(user: &'a str) -> Self {
        let (before, skill, after) = cut(user, "## Current Skill\n", "\n## ");
        let (rest, memory, body) = cut(after, "Previous Steps in This Epoch\n", "\n## ");
        Self { form: Form::Edits, skill, memory, body: [before, rest, body].concat() }
    }

    fn of_gepa(user: &'a str) -> Self {
        let (_, skill, body) = cut(user, "```\n", "\n```");
        Self { form: Form::Text, skill, memory: "", body: body.to_owned() }
    }
}

/// The text before a mark, between two marks, and after the second one.
fn cut<'a>(text: &'a str, open: &str, close: &str) -> (&'a str, &'a str, &'a str) {
    let Some((before, rest)) = text.split_once(open) else { return (text, "", "") };
    let (inner, after) = rest.split_once(close).unwrap_or((rest, ""));
    (before, inner, after)
}

/// Edits that failed. What SkillOpt says of rejected edits does not tell them apart.
fn remembered(memory: &str) -> BTreeMap<Line, f64> {
    let mut remembered = BTreeMap::new();
    for line in memory.lines().filter(|line| !Line::all_in(line).is_empty()) {
        let is_alone = line.starts_with("- Tried") && !line.starts_with("- Tried with");
        let blame = if is_alone { 1.0 } else { BLAMES_BUNDLES };
        for said in Line::all_in(line) {
            let known = remembered.entry(said).or_insert(blame);
            *known = blame.max(*known);
        }
    }
    remembered
}

fn shown(environment: &Environment, body: &str) -> BTreeMap<String, Shown> {
    let mut shown: BTreeMap<String, Shown> = BTreeMap::new();
    for Entry { task: id, field, value, harms } in Entry::all_in(body) {
        let Some(task) = environment.task(&id).filter(|_| id.starts_with(TRAIN)) else { continue };
        let seen = shown.entry(id).or_default();
        seen.harms.extend(harms);
        if field.starts_with(HOPELESS) || value == SLIP {
            seen.is_lapse = true;
            continue;
        }
        let Some(at) = task.needs.iter().position(|need| field_name(*need) == field) else { continue };
        let is_wrong = task.needs.get(at).is_some_and(|need| environment.value(*need, task.kind) != value);
        if is_wrong && !seen.wrong.contains(&at) {
            seen.wrong.push(at);
        }
    }
    shown.values_mut().for_each(|seen| seen.wrong.sort_unstable());
    shown
}

/// `At most 4 edits`, and SkillOpt's `at most L=4 edits`.
fn budget_in(body: &str) -> usize {
    let lower = body.to_lowercase();
    let number = lower.split("at most ").skip(1).find_map(|rest| {
        let (number, rest) = rest.trim_start_matches("l=").split_once(' ')?;
        rest.starts_with("edit").then(|| number.parse().ok()).flatten()
    });
    number.unwrap_or(usize::MAX)
}

/// Ids of validation and test tasks in a prompt: no search may show them to its optimizer.
pub fn leaks(environment: &Environment, user: &str) -> usize {
    let is_hidden = |entry: &Entry| !entry.task.starts_with(TRAIN) && environment.task(&entry.task).is_some();
    Entry::all_in(user).iter().filter(|entry| is_hidden(entry)).count()
}
