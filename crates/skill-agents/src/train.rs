//! Training a description: the only text that decides whether a skill is loaded.
//!
//! With several skills the others stay as they are, and the gate holds their queries to what they were.
//!
//! A step shows the optimizer the failures of training queries, measures its proposal on them, and, if it does better
//! there, compares it with the current description on held-out queries ([`crate::gate`]). The body does not change.

mod prompt;

pub use prompt::draft_prompt;

use crate::gate::{Comparison, Room, compare, values};
use crate::listed::{DescriptionVisibility, listed};
use crate::measure::{Caps, Launcher, Measured, Notice, Setup, Stop, Store, StoreError, measure};
use crate::query::{Half, Query, halves};
use crate::report::answered_without;
use crate::skill::{Skill, Texts};
use async_trait::async_trait;
use prompt::{Failure, Improvement};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The most characters of a description, by the Agent Skills specification.
pub const MAX_DESCRIPTION_CHARS: usize = 1024;
/// Proposals without a better one on training queries after which training ends.
const PATIENCE: usize = 4;

/// A model that writes descriptions or drafts queries.
#[async_trait]
pub trait Writer: Send + Sync {
    /// The reply to a prompt.
    ///
    /// # Errors
    ///
    /// A directory that cannot be used.
    async fn write(&self, prompt: &str) -> Result<Result<String, Stop>, StoreError>;
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
    pub texts: Texts,
    /// What became of it.
    pub fate: Fate,
    /// Why it is invalid.
    pub why: Option<String>,
    /// Its mean value on training queries.
    pub train: Option<f64>,
    /// The comparison on held-out queries.
    pub gate: Option<Comparison>,
}

/// A training of descriptions on the disk, of one skill after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainingRecord {
    /// The agent.
    pub agent: String,
    /// The skills whose training has begun, in order.
    pub skills: Vec<TrainedSkill>,
    /// All of them are trained, and nothing stopped it.
    pub is_finished: bool,
}

/// How far the training of a skill's description is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainedSkill {
    /// The name by which the agent lists it.
    pub name: String,
    /// The texts before it.
    pub initial: Texts,
    /// The accepted ones.
    pub best: Texts,
    /// Steps, in order.
    pub steps: Vec<Step>,
    /// Queries that the model answered at once, without any tool, under every description: none helps there.
    pub answered_without_any_skill: Vec<String>,
}

/// A training that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingResult {
    /// The skill with the best description.
    pub skill: Skill,
    /// Steps, in order.
    pub steps: Vec<Step>,
    /// The initial description on held-out queries.
    pub initial: Measured,
    /// The best one on the same.
    pub best: Measured,
    /// Queries for this skill that the model answered at once, without any tool, under every description: none helps
    /// there.
    pub answered_without: Vec<String>,
    /// Why it ended before the optimizer had nothing better to propose.
    pub stop: Option<Stop>,
}

/// What a training needs.
pub struct Training<'a> {
    /// The setup.
    pub setup: &'a Setup,
    /// The place of the trained skill among its skills.
    pub skill_idx: usize,
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
    /// Trains the description of the skill at `skill_idx`, or returns `None` if that index is out of range.
    ///
    /// # Errors
    ///
    /// A directory that cannot be used.
    pub async fn run(&self) -> Result<Option<TrainingResult>, StoreError> {
        let Some(first) = self.setup.skills.get(self.skill_idx) else { return Ok(None) };
        let halves = halves(self.queries, self.seed);
        let half = |wanted: Half| -> Vec<Query> {
            let is_in = |query: &&Query| query.reviewed && halves.get(&query.id) == Some(&wanted);
            self.queries.iter().filter(is_in).cloned().collect()
        };
        let (train, heldout) = (half(Half::Train), half(Half::Heldout));
        let mut current = Candidate::new(first.clone());
        (self.notify)(&Notice::Of("the current description, held-out queries"));
        current.heldout = self.measured(&current.skill, &heldout).await?;
        let initial = current.heldout.clone();
        let mut trained = TrainingResult {
            skill: first.clone(),
            steps: Vec::new(),
            best: initial.clone(),
            initial,
            answered_without: Vec::new(),
            stop: None,
        };
        if let Some(stop) = current.heldout.stop.clone() {
            trained.stop = Some(stop);
            return Ok(Some(trained));
        }
        let name = first.listed_name(self.setup.agent);
        let room = Room::of(&heldout, name, &self.values(&heldout, &current.heldout));
        if room.is_too_small() {
            let Room { n_wrong, n_measured } = room;
            let n_to_add = room.n_to_add();
            trained.stop = Some(Stop::NoRoom { skill: name.to_owned(), n_wrong, n_measured, n_to_add });
            return Ok(Some(trained));
        }
        if room.n_wrong == 0 && room.n_measured > 0 {
            return Ok(Some(trained));
        }
        (self.notify)(&Notice::Of("the current description, training queries"));
        current.train = self.measured(&current.skill, &train).await?;
        let mut answered = Answered { name, ids: BTreeSet::new() };
        answered.ids.extend(answered_without(name, &heldout, &trained.initial));
        answered.ids.extend(answered_without(name, &train, &current.train));
        let mut n_idle = 0;
        while trained.steps.len() < self.max_steps && n_idle < PATIENCE && trained.stop.is_none() {
            if let Some(stop) = current.train.stop.clone() {
                trained.stop = Some(stop);
                break;
            }
            if !has_failures(&train, &self.values(&train, &current.train)) {
                break;
            }
            let step = self.step(&mut current, &train, &heldout, &trained, &mut answered).await?;
            match step {
                Ok(step) => {
                    n_idle = match step.fate {
                        Fate::Accepted => 0,
                        Fate::NotBetter | Fate::Rejected | Fate::Repeated => n_idle + 1,
                        // The next prompt says why.
                        Fate::Invalid => n_idle,
                    };
                    (self.on_step)(&step);
                    trained.steps.push(step);
                }
                Err(stop) => trained.stop = Some(stop),
            }
        }
        trained.answered_without = answered.ids.into_iter().collect();
        (trained.skill, trained.best) = (current.skill, current.heldout);
        Ok(Some(trained))
    }

    async fn measured(&self, skill: &Skill, queries: &[Query]) -> Result<Measured, StoreError> {
        let mut setup = self.setup.clone();
        if let Some(trained) = setup.skills.get_mut(self.skill_idx) {
            *trained = skill.clone();
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
        trained: &TrainingResult,
        answered: &mut Answered<'_>,
    ) -> Result<Result<Step, Stop>, StoreError> {
        let before = self.values(train, &current.train);
        let prompt = Improvement {
            setup: self.setup,
            skill: &current.skill,
            skill_idx: self.skill_idx,
            failures: failures(train, &before, &current.train),
            steps: &trained.steps,
        };
        let prompt = prompt.prompt();
        let reply = match self.writer.write(&prompt).await? {
            Ok(reply) => reply,
            Err(stop) => return Ok(Err(stop)),
        };
        let known = current.skill.texts(self.setup.agent);
        let texts = proposal(&reply, &known);
        let mut step = Step {
            step: trained.steps.len() + 1,
            texts: texts.clone(),
            fate: Fate::Invalid,
            why: None,
            train: None,
            gate: None,
        };
        if texts == known || trained.steps.iter().any(|step| step.texts == texts) {
            step.fate = Fate::Repeated;
            return Ok(Ok(step));
        }
        let candidate = match self.checked(&current.skill, &texts) {
            Ok(skill) => skill,
            Err(why) => {
                step.why = Some(why);
                return Ok(Ok(step));
            }
        };
        (self.notify)(&Notice::Of("a proposal, training queries"));
        let on_train = self.measured(&candidate, train).await?;
        if let Some(stop) = on_train.stop.clone() {
            return Ok(Err(stop));
        }
        answered.keep(train, &on_train);
        let after = self.values(train, &on_train);
        step.train = Some(mean(&after));
        if mean(&after) <= mean(&before) {
            step.fate = Fate::NotBetter;
            return Ok(Ok(step));
        }
        (self.notify)(&Notice::Of("a proposal, held-out queries"));
        let on_heldout = self.measured(&candidate, heldout).await?;
        if let Some(stop) = on_heldout.stop.clone() {
            return Ok(Err(stop));
        }
        answered.keep(heldout, &on_heldout);
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
    fn checked(&self, skill: &Skill, texts: &Texts) -> Result<Skill, String> {
        let n_chars = texts.description.chars().count();
        if n_chars == 0 {
            return Err("the reply has no description".to_owned());
        }
        if n_chars > MAX_DESCRIPTION_CHARS {
            return Err(format!(
                "it has {n_chars} characters, and at most {MAX_DESCRIPTION_CHARS} are allowed"
            ));
        }
        let all = [Some(&texts.description), texts.when_to_use.as_ref()];
        if all.into_iter().flatten().any(|text| text.contains(['<', '>'])) {
            return Err("it has an angle bracket, which some agents refuse".to_owned());
        }
        let candidate = skill.with_texts(texts).map_err(|fault| fault.to_string())?;
        if candidate.package.body() != skill.package.body() {
            return Err("it would change the body of the skill".to_owned());
        }
        let mut all: Vec<&Skill> = self.setup.skills.iter().chain(&self.setup.competitors).collect();
        let before = listed(self.setup.agent, &all, false, self.setup.window());
        if let Some(trained) = all.get_mut(self.skill_idx) {
            *trained = &candidate;
        }
        let rows = listed(self.setup.agent, &all, false, self.setup.window());
        // What was not listed whole before is not the proposal's fault, unless it is this skill.
        let is_lost = |idx: usize, shown: DescriptionVisibility| {
            let was_whole = before.get(idx).is_some_and(|row| row.shown.is_whole());
            !shown.is_whole() && (was_whole || idx == self.skill_idx)
        };
        match rows.iter().enumerate().find(|(idx, row)| is_lost(*idx, row.shown)) {
            Some((_, row)) => Err(format!(
                "with it {} lists {:?} without its whole description",
                self.setup.agent.title, row.name
            )),
            None => Ok(candidate),
        }
    }
}

/// Queries that are answered at once and without any tool.
struct Answered<'a> {
    name: &'a str,
    ids: BTreeSet<String>,
}

impl Answered<'_> {
    /// Keeps those of the queries that are answered so under another description too.
    fn keep(&mut self, queries: &[Query], measured: &Measured) {
        let still = answered_without(self.name, queries, measured);
        self.ids.retain(|id| still.contains(id) || !queries.iter().any(|query| query.id == *id));
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

/// The training queries that came out wrong, the worst first.
fn failures<'a>(
    queries: &'a [Query],
    values: &BTreeMap<String, f64>,
    measured: &Measured,
) -> Vec<Failure<'a>> {
    let failure = |query: &'a Query| {
        let value = *values.get(&query.id)?;
        let records = measured.records.iter().filter(|((id, _), _)| *id == query.id);
        let loaded: BTreeSet<String> =
            records.flat_map(|(_, record)| record.loaded.keys().cloned()).collect();
        (value < 1.0).then_some(Failure { query, value, loaded })
    };
    let mut failures: Vec<Failure<'a>> = queries.iter().filter_map(failure).collect();
    failures.sort_by(|one, other| {
        one.value.total_cmp(&other.value).then_with(|| one.query.id.cmp(&other.query.id))
    });
    failures
}

fn has_failures(queries: &[Query], values: &BTreeMap<String, f64>) -> bool {
    queries.iter().filter_map(|query| values.get(&query.id)).any(|value| *value < 1.0)
}

fn mean(values: &BTreeMap<String, f64>) -> f64 {
    if values.is_empty() { 0.0 } else { values.values().sum::<f64>() / values.len() as f64 }
}

/// The texts in a reply: between their tags, and without tags all of it is the description; each on one line. Where the
/// reply has no `when_to_use`, the current one stays.
fn proposal(reply: &str, known: &Texts) -> Texts {
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let inner = |tag: &str| {
        let (_, rest) = reply.rsplit_once(&format!("<{tag}>"))?;
        Some(line(rest.split_once(&format!("</{tag}>")).map_or(rest, |(inner, _)| inner)))
    };
    let when = known
        .when_to_use
        .as_ref()
        .map(|known| inner("when_to_use").filter(|when| !when.is_empty()).unwrap_or_else(|| known.clone()));
    let whole = reply.split_once("</description>").map_or(reply, |(whole, _)| whole);
    Texts { description: inner("description").unwrap_or_else(|| line(whole)), when_to_use: when }
}

#[cfg(test)]
mod tests {
    use super::{Texts, proposal};

    #[track_caller]
    fn check(reply: &str, when: Option<&str>, description: &str, expect_when: Option<&str>) {
        let known = Texts { description: "Old.".to_owned(), when_to_use: when.map(str::to_owned) };
        let found = proposal(reply, &known);
        assert_eq!(
            (found.description.as_str(), found.when_to_use.as_deref()),
            (description, expect_when),
            "{reply}"
        );
    }

    #[test]
    fn the_texts_of_a_reply_are_between_their_tags() {
        check("<description>Does a.</description>", None, "Does a.", None);
        check("Here:\n<description>\nDoes a.\nUse it.\n</description>\nDone.", None, "Does a. Use it.", None);
        check("Does a.", None, "Does a.", None);
        check("I think <description> helps: <description>Does b.", None, "Does b.", None);
        check("", None, "", None);
        let both = "<description>Does a.</description>\n<when_to_use>For a.</when_to_use>";
        check(both, Some("Then."), "Does a.", Some("For a."));
        check(both, None, "Does a.", None);
        check("<description>Does a.</description>", Some("Then."), "Does a.", Some("Then."));
    }
}
