//! An environment: hidden rules, tasks that need them, and what a skill is worth.

use super::parameters::{Parameters, Variant};
use super::stream::Stream;
use super::text::{Entry, HOPELESS, Line, field_name, kind_name, written};
use serde_json::{Value, json};
use skill_core::random::Dice;
use std::collections::BTreeSet;

/// Unseen tasks that a skill's score is the expectation over.
const N_MEASURED: usize = 400;
/// Different values of a field.
const N_VALUES: usize = 8;
/// How task ids of the training split begin.
pub(super) const TRAIN: char = 't';
/// Idle lines below this number have an effect in diffuse environments.
pub(super) const N_EFFECTS: usize = 60;
/// The most that the length of a skill costs.
const MOST_LENGTH_COST: f64 = 0.5;

/// What becomes of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Nothing solves it.
    Never,
    /// It needs no rule.
    Always,
    /// It needs its rules.
    Normal,
}

/// A task.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its id, unique over all splits.
    pub id: String,
    pub(super) kind: usize,
    /// Fields that are due.
    pub(super) needs: Vec<usize>,
    /// Fields that the target gets right without a rule.
    pub(super) unaided: BTreeSet<usize>,
    pub(super) class: Class,
    pub(super) noise: f64,
    pub(super) luck: f64,
}

/// What a skill makes of a task, but for noise.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct State {
    /// The values that the target writes where it is right or believes to be.
    pub(super) values: Vec<String>,
    /// Which of them are wrong.
    pub(super) is_wrong: Vec<bool>,
    /// Habits that spoil it.
    pub(super) harms: Vec<usize>,
}

impl State {
    pub(super) fn n_right(&self) -> usize {
        self.is_wrong.iter().filter(|is_wrong| !**is_wrong).count()
    }

    pub(super) fn is_sound(&self) -> bool {
        self.harms.is_empty() && self.n_right() == self.is_wrong.len()
    }
}

/// Hidden rules and tasks.
#[derive(Debug)]
pub struct Environment {
    /// What it was sampled from.
    pub parameters: Parameters,
    /// Decides on everything that happens in it.
    pub seed: u64,
    /// The right value of each field, for each kind.
    values: Vec<Vec<String>>,
    pub(super) is_typed: Vec<bool>,
    pub(super) prerequisites: Vec<Option<usize>>,
    /// Training, validation and test tasks, and the unseen tasks of [`Self::expected`].
    splits: [Vec<Task>; 4],
}

impl Environment {
    /// The environment of a seed; further repetitions have the same parameters, and other rules and tasks.
    pub fn sample(seed: u64, variant: Variant, repetition: u64) -> Self {
        let parameters = Parameters::sample(seed, variant);
        let own = Dice::new(seed, &["environment", &repetition.to_string()]);
        Self::new(parameters, (own.unit("seed") * f64::from(u32::MAX)) as u64)
    }

    fn new(parameters: Parameters, seed: u64) -> Self {
        let mut stream = Stream::new(Dice::new(seed, &["rules"]));
        let n_rules = parameters.weights.len();
        let is_typed: Vec<bool> =
            (0..n_rules).map(|_| parameters.n_kinds > 1 && stream.chance(parameters.typed)).collect();
        let mut value = || format!("v{}", stream.below(N_VALUES));
        let values = is_typed.iter().map(|is_typed| {
            let of_all = value();
            (0..parameters.n_kinds).map(|_| if *is_typed { value() } else { of_all.clone() }).collect()
        });
        let values = values.collect();
        let prerequisites = (0..n_rules).map(|rule| {
            let other = stream.chance(parameters.prerequisites).then(|| stream.below(n_rules));
            other.filter(|other| *other != rule)
        });
        let prerequisites = prerequisites.collect();
        let sizes = [parameters.n_train, parameters.n_val, parameters.n_test(), N_MEASURED];
        let mut environment =
            Self { parameters, seed, values, is_typed, prerequisites, splits: Default::default() };
        let tasks = |(split, n): (char, usize)| {
            (0..n).map(|idx| environment.new_task(format!("{split}{idx:03}"))).collect::<Vec<_>>()
        };
        let [train, val, test, measured] = [TRAIN, 'v', 'e', 'm'];
        let [n_train, n_val, n_test, n_measured] = sizes;
        environment.splits =
            [(train, n_train), (val, n_val), (test, n_test), (measured, n_measured)].map(tasks);
        environment
    }

    fn new_task(&self, id: String) -> Task {
        let parameters = &self.parameters;
        let mut stream = Stream::new(Dice::new(self.seed, &["task", &id]));
        let kind = stream.below(parameters.n_kinds);
        let first = stream.weighted(&parameters.weights);
        let mut needs = vec![first];
        if stream.chance(parameters.pairs) {
            needs.extend(Some(first ^ 1).filter(|partner| *partner < parameters.weights.len()));
        } else {
            for probability in parameters.more_needs {
                let further = stream.weighted(&parameters.weights);
                if stream.chance(probability) && !needs.contains(&further) {
                    needs.push(further);
                }
            }
        }
        let unaided = needs.iter().copied().filter(|_| stream.chance(parameters.unaided)).collect();
        let class = match (stream.chance(parameters.never), stream.chance(parameters.always)) {
            (true, _) => Class::Never,
            (false, true) => Class::Always,
            (false, false) => Class::Normal,
        };
        let share = stream.range([0.3, 1.7]);
        let [noise, luck] = [parameters.noise, parameters.luck].map(|rate| (rate * share).min(0.5));
        Task { id, kind, needs, unaided, class, noise, luck }
    }

    /// Training, validation and test tasks.
    pub fn splits(&self) -> [(&'static str, &[Task]); 3] {
        let [train, val, test, _] = &self.splits;
        [("train", train), ("val", val), ("test", test)]
    }

    /// The task of this id; not one of those that a score is the expectation over.
    pub(super) fn task(&self, id: &str) -> Option<&Task> {
        self.splits.iter().take(3).flatten().find(|task| task.id == id)
    }

    /// The right value of a field in tasks of a kind.
    pub(super) fn value(&self, field: usize, kind: usize) -> &str {
        let of_field = self.values.get(field);
        of_field.and_then(|kinds| kinds.get(kind)).map_or("", String::as_str)
    }

    /// What a skill says about a field in tasks of this kind; one of several by the task.
    pub(super) fn known(&self, skill: &[Line], task: &Task, field: usize) -> Option<String> {
        let said = |of: Option<usize>| -> BTreeSet<&String> {
            let rules = skill.iter().filter_map(|line| match line {
                Line::Rule { field: said, kind, value } if *said == field && *kind == of => Some(value),
                Line::Rule { .. } | Line::Harm(_) | Line::Idle(_) | Line::Answer(_) => None,
            });
            rules.collect()
        };
        let special = said(Some(task.kind));
        let said: Vec<&String> = if special.is_empty() { said(None) } else { special }.into_iter().collect();
        let dice = Dice::new(self.seed, &["known", &task.id]);
        dice.pick(&field_name(field), &said).map(|value| (*value).clone())
    }

    fn is_right(&self, skill: &[Line], task: &Task, field: usize, known: Option<&str>) -> bool {
        let Some(known) = known else { return task.unaided.contains(&field) };
        let has_prerequisite = |other: usize| {
            self.known(skill, task, other).is_some_and(|known| known == self.value(other, task.kind))
        };
        let prerequisite = self.prerequisites.get(field).copied().flatten();
        known == self.value(field, task.kind) && prerequisite.is_none_or(has_prerequisite)
    }

    pub(super) fn state(&self, skill: &[Line], task: &Task) -> State {
        let spoils = |harm: &usize| {
            Dice::new(self.seed, &["spoils", &task.id]).chance(&harm.to_string(), self.parameters.spoils)
        };
        let harms: BTreeSet<usize> = skill
            .iter()
            .filter_map(|line| match line {
                Line::Harm(harm) => Some(*harm),
                Line::Rule { .. } | Line::Idle(_) | Line::Answer(_) => None,
            })
            .filter(spoils)
            .collect();
        let is_told = skill.iter().any(|line| matches!(line, Line::Answer(id) if *id == task.id));
        let needs_nothing = task.class == Class::Always || is_told;
        let (mut values, mut is_wrong) = (Vec::new(), Vec::new());
        for field in &task.needs {
            let known = self.known(skill, task, *field);
            let right = self.value(*field, task.kind);
            let is_right = needs_nothing || self.is_right(skill, task, *field, known.as_deref());
            values.push(if is_right { Some(right.to_owned()) } else { known.filter(|known| known != right) });
            is_wrong.push(!is_right);
        }
        let values = values.into_iter().map(|value| value.unwrap_or_else(|| super::text::UNKNOWN.to_owned()));
        State { values: values.collect(), is_wrong, harms: harms.into_iter().collect() }
    }

    /// How much the length of a skill costs every task.
    pub(super) fn length_cost(&self, skill: &[Line]) -> f64 {
        let beyond = (skill.len() as f64 - self.parameters.free_lines).max(0.0);
        (beyond * self.parameters.line_cost).min(MOST_LENGTH_COST)
    }

    /// In diffuse environments, how probably a skill solves a task.
    pub(super) fn chance(&self, skill: &[Line], task: &Task) -> f64 {
        let size = self.parameters.diffuse;
        let of_task = |name: &str| normal(Dice::new(self.seed, &["effect", name, &task.id]));
        let effect = |line: &Line| {
            let mean = match line {
                Line::Harm(harm) => -0.5 - 0.1 * *harm as f64,
                Line::Idle(number) if *number < N_EFFECTS => {
                    size * (0.1 + 0.5 * normal(Dice::new(self.seed, &["effect", &number.to_string()])))
                }
                Line::Idle(_) => 0.0,
                Line::Rule { .. } => 0.6 * size,
                Line::Answer(id) => {
                    if *id == task.id {
                        4.0
                    } else {
                        0.0
                    }
                }
            };
            mean + 0.5 * size * of_task(&line.to_string())
        };
        let distinct: BTreeSet<&Line> = skill.iter().collect();
        let logit = 1.8 * of_task("difficulty") - 0.5 + distinct.into_iter().map(effect).sum::<f64>();
        1.0 / (1.0 + (-logit).exp())
    }

    /// The expected score of a skill over 400 tasks that no search sees.
    pub fn expected(&self, skill: &str) -> f64 {
        let skill = Line::all_in(skill);
        let [.., measured] = &self.splits;
        let scores = measured.iter().map(|task| self.expected_on(&skill, task));
        scores.sum::<f64>() / N_MEASURED as f64
    }

    pub(super) fn expected_on(&self, skill: &[Line], task: &Task) -> f64 {
        if self.parameters.diffuse > 0.0 {
            return self.chance(skill, task);
        }
        let state = self.state(skill, task);
        let n_needs = task.needs.len() as f64;
        let share = state.n_right() as f64 / n_needs;
        let graded = |score: f64| if self.parameters.is_graded { score } else { 0.0 };
        if task.class == Class::Never {
            let is_spoiled = !state.harms.is_empty();
            return graded(if is_spoiled { 0.0 } else { 0.5 * share });
        }
        if state.is_sound() {
            let lost = (task.noise + self.length_cost(skill)).min(1.0);
            return 1.0 - lost + graded(lost * (n_needs - 1.0) / n_needs);
        }
        let rest = if state.harms.is_empty() { graded(share) } else { 0.0 };
        task.luck + (1.0 - task.luck) * rest
    }

    /// A skill with every rule that the training tasks show.
    pub fn knowable_skill(&self) -> String {
        let [train, ..] = &self.splits;
        let mut lines: BTreeSet<Line> = BTreeSet::new();
        for task in train.iter().filter(|task| task.class == Class::Normal) {
            for field in &task.needs {
                let kind = self.is_typed.get(*field).copied().unwrap_or_default().then_some(task.kind);
                let value = self.value(*field, task.kind).to_owned();
                lines.insert(Line::Rule { field: *field, kind, value });
            }
        }
        lines.iter().map(|line| line.text("") + "\n").collect()
    }

    /// The skill that a search begins with.
    pub fn initial_skill(&self) -> String {
        let parameters = &self.parameters;
        let mut stream = Stream::new(Dice::new(self.seed, &["initial skill"]));
        let mut lines = Vec::new();
        for (field, is_typed) in self.is_typed.iter().enumerate() {
            let kind = stream.below(parameters.n_kinds);
            if stream.chance(parameters.initial_rules) {
                let value = self.value(field, kind).to_owned();
                lines.push(Line::Rule { field, kind: is_typed.then_some(kind), value });
            }
        }
        lines.extend((0..parameters.initial_harms).map(Line::Harm));
        lines.extend((0..parameters.initial_idle).map(|number| Line::Idle(60_000 + number)));
        let lines: String = lines.iter().map(|line| line.text("") + "\n").collect();
        format!("# How to fill in forms\n\n- Fill in every field that is due.\n{lines}")
    }

    /// What the target is asked.
    pub fn question(&self, task: &Task) -> String {
        let fields: Vec<String> = task.needs.iter().map(|field| field_name(*field)).collect();
        let kind = if self.parameters.has_labels && self.parameters.n_kinds > 1 {
            format!(" of kind {}", kind_name(task.kind))
        } else {
            String::new()
        };
        format!("Task {}{kind}: fill in {}.", task.id, fields.join(", "))
    }

    /// The right answer.
    pub fn reference(&self, task: &Task) -> String {
        let entry = |field: String, value: &str| Entry {
            task: task.id.clone(),
            field,
            value: value.to_owned(),
            harms: Vec::new(),
        };
        let needs = task.needs.iter().map(|field| entry(field_name(*field), self.value(*field, task.kind)));
        let hopeless =
            task.needs.iter().enumerate().map(|(idx, _)| entry(format!("{HOPELESS}{idx}"), "secret"));
        let n_hopeless = if task.class == Class::Never { task.needs.len() } else { 0 };
        written(&needs.chain(hopeless.take(n_hopeless)).collect::<Vec<_>>())
    }

    /// A task as a row of data.
    pub fn row(&self, task: &Task) -> Value {
        let mut row = json!({
            "id": task.id, "question": self.question(task), "answer": self.reference(task),
        });
        if let (true, Some(row)) = (self.parameters.has_labels, row.as_object_mut()) {
            let first = task.needs.first().copied().unwrap_or_default();
            let label = if self.parameters.n_kinds > 1 { kind_name(task.kind) } else { kind_name(first % 6) };
            row.insert("task_type".to_owned(), json!(label.to_string()));
        }
        row
    }
}

/// A standard normal number (G. E. P. Box and M. E. Muller, 1958).
fn normal(dice: Dice) -> f64 {
    let (radius, angle) = (dice.unit("radius").max(1e-9), dice.unit("angle"));
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(score: impl Fn(&Environment) -> f64) -> f64 {
        let n = 40;
        (0..n).map(|seed| score(&Environment::sample(seed, Variant::Base, 0))).sum::<f64>() / n as f64
    }

    #[test]
    fn a_seed_gives_the_same_environment() {
        let [one, same, other] =
            [(5, 0), (5, 0), (5, 1)].map(|(seed, n)| Environment::sample(seed, Variant::Base, n));
        let rows = |of: &Environment| {
            of.splits().map(|(_, tasks)| tasks.iter().map(|task| of.row(task)).collect::<Vec<_>>())
        };
        assert_eq!((rows(&one), one.initial_skill()), (rows(&same), same.initial_skill()));
        assert_ne!(rows(&one), rows(&other));
        assert_eq!(one.parameters, other.parameters);
    }

    #[test]
    fn there_is_much_to_gain_and_every_rule_is_not_everything() {
        let initial = mean(|environment| environment.expected(&environment.initial_skill()));
        let knowable = mean(|environment| environment.expected(&environment.knowable_skill()));
        assert!((0.12..0.30).contains(&initial), "{initial}");
        assert!((0.65..0.85).contains(&knowable), "{knowable}");
    }

    #[test]
    fn harmful_lines_and_rules_for_too_many_kinds_cost_points() {
        let with = |line: Line| {
            mean(move |environment| environment.expected(&(environment.knowable_skill() + &line.text(""))))
        };
        let knowable = mean(|environment| environment.expected(&environment.knowable_skill()));
        assert!(with(Line::Harm(0)) < knowable - 0.1);
        assert!((with(Line::Idle(70_000)) - knowable).abs() < 0.01);
    }
}
