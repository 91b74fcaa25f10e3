//! Training a description: the only text that decides whether a skill is loaded.
//!
//! A step shows the optimizer the failures of training queries, measures its proposal on them, and, if it does better
//! there, compares it with the current description on held-out queries ([`crate::gate`]). The body does not change.

use crate::gate::{Comparison, compare, values};
use crate::listed::{Shown, listed};
use crate::measure::{Caps, Launcher, Measured, Notice, Setup, Stop, Store, StoreError, measure};
use crate::query::{Half, Query, halves};
use crate::skill::Skill;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The most characters of a description, by the Agent Skills specification.
pub const MAX_DESCRIPTION_CHARS: usize = 1024;
/// Failures that the optimizer is shown.
const MAX_SHOWN: usize = 12;
/// Proposals without a better one on training queries after which training ends.
const PATIENCE: usize = 4;

/// A model that writes descriptions or drafts queries.
#[async_trait]
pub trait Writer: Send + Sync {
    /// The reply to a prompt.
    async fn write(&self, prompt: &str) -> Result<String, Stop>;
}

/// What became of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It breaks a constraint.
    Invalid,
    /// It was tried before.
    Repeated,
    /// It is not better on training queries.
    NotBetter,
    /// The gate rejected it.
    Rejected,
    /// It is the current description now.
    Accepted,
}

/// A step of a training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its number, from 1.
    pub step: usize,
    /// The proposal.
    pub description: String,
    /// What became of it.
    pub fate: Fate,
    /// Why it is invalid.
    pub why: Option<String>,
    /// Its mean value on training queries.
    pub train: Option<f64>,
    /// The comparison on held-out queries.
    pub gate: Option<Comparison>,
}

/// A training that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Trained {
    /// The skill with the best description.
    pub skill: Skill,
    /// Steps, in order.
    pub steps: Vec<Step>,
    /// The initial description on held-out queries.
    pub initial: Measured,
    /// The best one on the same.
    pub best: Measured,
    /// Why it ended before the optimizer had nothing better to propose.
    pub stop: Option<Stop>,
}

/// What a training needs.
pub struct Training<'a> {
    /// The setup; the trained skill is the first of its skills.
    pub setup: &'a Setup,
    /// All queries.
    pub queries: &'a [Query],
    /// Repetitions of each query.
    pub repetitions: usize,
    /// The seed of halves and of the test.
    pub seed: u64,
    /// The most steps.
    pub max_steps: usize,
    /// The runs.
    pub store: &'a Store,
    /// Starts the agent.
    pub launcher: &'a dyn Launcher,
    /// The optimizer.
    pub writer: &'a dyn Writer,
    /// What may be spent.
    pub caps: Caps,
    /// Told of runs.
    pub notify: &'a (dyn Fn(&Notice<'_>) + Sync),
    /// Told of steps.
    pub on_step: &'a (dyn Fn(&Step) + Sync),
}

impl Training<'_> {
    /// Trains the description of the first skill.
    ///
    /// # Errors
    ///
    /// A directory that cannot be used.
    pub async fn run(&self) -> Result<Option<Trained>, StoreError> {
        let Some(first) = self.setup.skills.first() else { return Ok(None) };
        let halves = halves(self.queries, self.seed);
        let half = |wanted: Half| -> Vec<Query> {
            let is_in = |query: &&Query| query.reviewed && halves.get(&query.id) == Some(&wanted);
            self.queries.iter().filter(is_in).cloned().collect()
        };
        let (train, heldout) = (half(Half::Train), half(Half::Heldout));
        let mut current = Candidate::new(first.clone());
        current.heldout = self.measured(&current.skill, &heldout).await?;
        let initial = current.heldout.clone();
        let mut trained =
            Trained { skill: first.clone(), steps: Vec::new(), best: initial.clone(), initial, stop: None };
        if let Some(stop) = current.heldout.stop.clone() {
            trained.stop = Some(stop);
            return Ok(Some(trained));
        }
        current.train = self.measured(&current.skill, &train).await?;
        let mut n_idle = 0;
        while trained.steps.len() < self.max_steps && n_idle < PATIENCE && trained.stop.is_none() {
            if let Some(stop) = current.train.stop.clone() {
                trained.stop = Some(stop);
                break;
            }
            if !has_failures(&train, &self.values(&train, &current.train)) {
                break;
            }
            let step = self.step(&mut current, &train, &heldout, &trained).await?;
            match step {
                Ok(step) => {
                    n_idle = match step.fate {
                        Fate::Accepted => 0,
                        Fate::NotBetter | Fate::Rejected => n_idle + 1,
                        // Nothing was measured.
                        Fate::Invalid | Fate::Repeated => n_idle,
                    };
                    (self.on_step)(&step);
                    trained.steps.push(step);
                }
                Err(stop) => trained.stop = Some(stop),
            }
        }
        (trained.skill, trained.best) = (current.skill, current.heldout);
        Ok(Some(trained))
    }

    async fn measured(&self, skill: &Skill, queries: &[Query]) -> Result<Measured, StoreError> {
        let mut setup = self.setup.clone();
        if let Some(first) = setup.skills.first_mut() {
            *first = skill.clone();
        }
        measure(&setup, queries, self.repetitions, self.store, self.launcher, &self.caps, self.notify).await
    }

    fn values(&self, queries: &[Query], measured: &Measured) -> BTreeMap<String, f64> {
        let agent = self.setup.agent;
        let names: Vec<&str> = self.setup.skills.iter().map(|skill| skill.listed_name(agent)).collect();
        values(queries, &names, measured)
    }

    async fn step(
        &self,
        current: &mut Candidate,
        train: &[Query],
        heldout: &[Query],
        trained: &Trained,
    ) -> Result<Result<Step, Stop>, StoreError> {
        let before = self.values(train, &current.train);
        let prompt = self.prompt(&current.skill, train, &before, &current.train, &trained.steps);
        let reply = match self.writer.write(&prompt).await {
            Ok(reply) => reply,
            Err(stop) => return Ok(Err(stop)),
        };
        let description = proposal(&reply);
        let mut step = Step {
            step: trained.steps.len() + 1,
            description: description.clone(),
            fate: Fate::Invalid,
            why: None,
            train: None,
            gate: None,
        };
        let tried = trained.steps.iter().any(|step| step.description == description);
        if tried || description == current.skill.description {
            step.fate = Fate::Repeated;
            return Ok(Ok(step));
        }
        let candidate = match self.checked(&current.skill, &description) {
            Ok(skill) => skill,
            Err(why) => {
                step.why = Some(why);
                return Ok(Ok(step));
            }
        };
        let on_train = self.measured(&candidate, train).await?;
        if let Some(stop) = on_train.stop.clone() {
            return Ok(Err(stop));
        }
        let after = self.values(train, &on_train);
        step.train = Some(mean(&after));
        if mean(&after) <= mean(&before) {
            step.fate = Fate::NotBetter;
            return Ok(Ok(step));
        }
        let on_heldout = self.measured(&candidate, heldout).await?;
        if let Some(stop) = on_heldout.stop.clone() {
            return Ok(Err(stop));
        }
        let (old, new) = (self.values(heldout, &current.heldout), self.values(heldout, &on_heldout));
        let name = candidate.listed_name(self.setup.agent).to_owned();
        let comparison = compare(heldout, &name, &old, &new, self.seed);
        step.gate = Some(comparison);
        step.fate = if comparison.is_accepted { Fate::Accepted } else { Fate::Rejected };
        if comparison.is_accepted {
            *current = Candidate { skill: candidate, train: on_train, heldout: on_heldout };
        }
        Ok(Ok(step))
    }

    /// The skill with a proposal, if that keeps to the constraints.
    fn checked(&self, skill: &Skill, description: &str) -> Result<Skill, String> {
        let n_chars = description.chars().count();
        if n_chars == 0 {
            return Err("the reply has no description".to_owned());
        }
        if n_chars > MAX_DESCRIPTION_CHARS {
            return Err(format!(
                "it has {n_chars} characters, and at most {MAX_DESCRIPTION_CHARS} are allowed"
            ));
        }
        if description.contains(['<', '>']) {
            return Err("it has an angle bracket, which some agents refuse".to_owned());
        }
        let candidate = skill.with_description(description).map_err(|fault| fault.to_string())?;
        if candidate.package.body() != skill.package.body() {
            return Err("it would change the body of the skill".to_owned());
        }
        let others = self.setup.skills.iter().skip(1).chain(&self.setup.competitors);
        let all: Vec<&Skill> = std::iter::once(&candidate).chain(others).collect();
        let rows = listed(self.setup.agent, &all, false);
        match rows.iter().find(|row| !matches!(row.shown, Shown::Whole | Shown::ForPeople)) {
            Some(row) => Err(format!(
                "with it {} lists {:?} without its whole description",
                self.setup.agent.title, row.name
            )),
            None => Ok(candidate),
        }
    }

    /// What the optimizer is asked: the description, failures of training queries, what was tried.
    fn prompt(
        &self,
        skill: &Skill,
        train: &[Query],
        values: &BTreeMap<String, f64>,
        measured: &Measured,
        steps: &[Step],
    ) -> String {
        let mut text = format!(
            "You improve the description of a skill of the coding agent {}. The agent's model sees only the name and \
             this description, and decides by them whether to load the skill.\n\nName: {}\n\nCurrent description:\n{}\n\n\
             The skill itself begins:\n{}\n\n",
            self.setup.agent.title,
            skill.listed_name(self.setup.agent),
            skill.description,
            skill.package.body().chars().take(1500).collect::<String>(),
        );
        let others = self.setup.skills.iter().skip(1).chain(&self.setup.competitors);
        for other in others {
            let _ = writeln!(
                text,
                "Beside it lies the skill {}: {}",
                other.listed_name(self.setup.agent),
                other.description
            );
        }
        text.push_str("\nQueries that came out wrong:\n");
        let mut failures: Vec<(&Query, f64)> = train
            .iter()
            .filter_map(|query| Some((query, *values.get(&query.id)?)))
            .filter(|(_, value)| *value < 1.0)
            .collect();
        failures.sort_by(|one, other| one.1.total_cmp(&other.1).then_with(|| one.0.id.cmp(&other.0.id)));
        for (query, value) in failures.into_iter().take(MAX_SHOWN) {
            let wanted = match &query.skill {
                Some(name) => format!("{name} should be loaded"),
                None => "no skill should be loaded".to_owned(),
            };
            let loaded: Vec<&str> = measured
                .records
                .iter()
                .filter(|((id, _), _)| *id == query.id)
                .flat_map(|(_, record)| record.loaded.keys().map(String::as_str))
                .collect();
            let loaded = if loaded.is_empty() {
                "nothing was loaded".to_owned()
            } else {
                format!("loaded: {}", loaded.join(", "))
            };
            let _ = writeln!(
                text,
                "- {:?}: {wanted}; right in {:.0} % of runs, {loaded}",
                query.query,
                value * 100.0
            );
        }
        if !steps.is_empty() {
            text.push_str("\nTried before, with the share of training queries that came out right:\n");
            for step in steps.iter().rev().take(6) {
                let share = step
                    .train
                    .map_or_else(|| "not measured".to_owned(), |train| format!("{:.0} %", train * 100.0));
                let _ = writeln!(text, "- {share}: {}", step.description);
            }
        }
        let _ = write!(
            text,
            "\nWrite one better description. Say what the skill does and when to use it, in words that people use in \
             such requests; do not copy the queries. At most {MAX_DESCRIPTION_CHARS} characters, one paragraph, no angle \
             brackets. Reply with the description between <description> and </description>, and nothing else.\n"
        );
        text
    }
}

/// A description with its measurements.
struct Candidate {
    skill: Skill,
    train: Measured,
    heldout: Measured,
}

impl Candidate {
    fn new(skill: Skill) -> Self {
        Self { skill, train: Measured::default(), heldout: Measured::default() }
    }
}

fn has_failures(queries: &[Query], values: &BTreeMap<String, f64>) -> bool {
    queries.iter().filter_map(|query| values.get(&query.id)).any(|value| *value < 1.0)
}

fn mean(values: &BTreeMap<String, f64>) -> f64 {
    if values.is_empty() { 0.0 } else { values.values().sum::<f64>() / values.len() as f64 }
}

/// The description in a reply: between the tags, or all of it if there are none; on one line.
fn proposal(reply: &str) -> String {
    let inner = reply.rsplit_once("<description>").map_or(reply, |(_, rest)| rest);
    let inner = inner.split_once("</description>").map_or(inner, |(inner, _)| inner);
    inner.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::proposal;

    #[test]
    fn the_description_of_a_reply_is_between_its_tags() {
        for (reply, expect) in [
            ("<description>Does a.</description>", "Does a."),
            ("Here:\n<description>\nDoes a.\nUse it.\n</description>\nDone.", "Does a. Use it."),
            ("Does a.", "Does a."),
            ("I think <description> helps: <description>Does b.", "Does b."),
            ("", ""),
        ] {
            assert_eq!(proposal(reply), expect, "{reply}");
        }
    }
}
