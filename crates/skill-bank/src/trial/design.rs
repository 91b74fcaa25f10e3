//! The design of a trial: what is run, how chance splits it in halves, and when it is decided.

use super::error::TrialError;
use super::groups::{TrialGroup, TrialOutcome, TrialResult};
use super::items::TriedItems;
use crate::skill::{Evidence, SkillRef};
use serde::{Deserialize, Serialize};
use skill_core::ItemId;
use skill_core::canonical::{canonical_json, hex_sha256};
use skill_core::random::Dice;
use skill_core::stats::stratified::{Arm, GroupShape, ScoreGroup, TaskStratum, TrialRule};

/// Groups of the fresh measurement of an admitted skill, at least: with fewer nothing is known of its interval.
pub const GROUPS_PER_INTERVAL: u64 = 8;

/// How trials are made, whatever their candidates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrialSettings {
    /// Tasks at most; each is one group in each pass.
    pub max_items: usize,
    /// Rollouts of a group, in halves with and without the candidate.
    pub rollouts_per_group: u32,
    /// Rollouts of the trial at most.
    pub max_rollouts: u64,
    /// The trial ends after so many groups that say something; `None` for no such limit.
    pub max_informative_groups: Option<u64>,
    /// When the candidate is admitted.
    pub rule: TrialRule,
    /// What is compared.
    pub outcome: TrialOutcome,
}

impl Default for TrialSettings {
    /// Successes on 16 tasks with 8 rollouts each, up to 640 rollouts, an e-value of 20 at the end of each pass.
    fn default() -> Self {
        Self {
            max_items: 16,
            rollouts_per_group: 8,
            max_rollouts: 640,
            max_informative_groups: None,
            rule: TrialRule::AnyTime { threshold: 20.0, groups_per_look: 16 },
            outcome: TrialOutcome::Success,
        }
    }
}

/// The half of a group that a rollout is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Half {
    /// Its agent may be shown the candidate.
    With,
    /// Its agent is shown the bank as it is.
    Without,
}

/// The rollouts of one task in one pass of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedGroup {
    /// Its place in the order of the trial, from 0.
    pub place: u64,
    /// The task.
    pub item: ItemId,
    /// The pass over the tasks, from 0: a policy step where the policy is trained.
    pub pass: u32,
    /// The half of each sample.
    pub halves: Vec<Half>,
}

impl PlannedGroup {
    /// The group of these results, one for each sample; `None` for a rollout that could not be made, which is left out.
    ///
    /// # Errors
    ///
    /// [`TrialError::WrongRollouts`] if there is not one result for each sample.
    pub fn of_results(&self, successes: &[Option<bool>]) -> Result<TaskStratum, TrialError> {
        if successes.len() != self.halves.len() {
            return Err(TrialError::WrongRollouts {
                group: self.place,
                found: successes.len() as u64,
                planned: self.halves.len() as u64,
            });
        }
        let (mut new, mut old) = (Arm::default(), Arm::default());
        for (half, is_success) in self.halves.iter().zip(successes) {
            match (half, is_success) {
                (Half::With, Some(is_success)) => new.add(*is_success),
                (Half::Without, Some(is_success)) => old.add(*is_success),
                (Half::With | Half::Without, None) => {}
            }
        }
        Ok(TaskStratum { new, old })
    }
}

impl PlannedGroup {
    /// The group of these rollouts, one for each sample; `None` for a rollout that could not be made, which is left out.
    ///
    /// # Errors
    ///
    /// [`TrialError::WrongRollouts`] if there is not one result for each sample.
    pub fn of_rollouts(&self, results: &[Option<TrialResult>]) -> Result<TrialGroup, TrialError> {
        let successes: Vec<Option<bool>> =
            results.iter().map(|result| result.map(|result| result.is_success)).collect();
        let successes = self.of_results(&successes)?;
        let scores_of = |wanted: Half| -> Vec<f64> {
            let of_half = self.halves.iter().zip(results).filter(|(half, _)| **half == wanted);
            of_half.filter_map(|(_, result)| result.map(|result| result.score)).collect()
        };
        let scores = ScoreGroup { new: scores_of(Half::With), old: scores_of(Half::Without) };
        Ok(TrialGroup::new(successes, scores))
    }
}

/// The halves of the samples of one task in one pass, decided by chance from what names them and before any is made.
///
/// The rollouts are judged by the half that they were given, whatever their agents were shown in the end (intention to
/// treat). Two candidates that meet in one task are split independently of each other.
pub fn halves(seed: u64, candidate: &SkillRef, item: &ItemId, pass: u32, shape: GroupShape) -> Vec<Half> {
    let dice = Dice::new(seed, &["trial", &candidate.to_string(), item.as_str(), &pass.to_string()]);
    let n_samples = shape.new.saturating_add(shape.old);
    let mut lots: Vec<(u64, u32)> =
        (0..n_samples).map(|sample| (dice.unit(&sample.to_string()).to_bits(), sample)).collect();
    lots.sort_unstable();
    let mut halves: Vec<(u32, Half)> = (0..)
        .zip(lots)
        .map(|(rank, (_, sample))| (sample, if rank < shape.new { Half::With } else { Half::Without }))
        .collect();
    halves.sort_unstable_by_key(|(sample, _)| *sample);
    halves.into_iter().map(|(_, half)| half).collect()
}

/// The design of one trial. It is decided before the first rollout and never changed.
///
/// The trial makes passes over its tasks; in each, a task is one group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialDesign {
    candidate: SkillRef,
    items: TriedItems,
    shape: GroupShape,
    max_rollouts: u64,
    max_informative_groups: Option<u64>,
    rule: TrialRule,
    /// Left out for successes, as in all designs before scores could be compared.
    #[serde(skip_serializing_if = "TrialOutcome::is_success")]
    outcome: TrialOutcome,
    seed: u64,
}

/// A design in a file, of which nothing is known to hold.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenDesign {
    candidate: SkillRef,
    items: Vec<ItemId>,
    shape: GroupShape,
    max_rollouts: u64,
    max_informative_groups: Option<u64>,
    rule: TrialRule,
    #[serde(default)]
    outcome: TrialOutcome,
    seed: u64,
}

impl TrialDesign {
    /// The design of a trial of this candidate on these tasks.
    ///
    /// # Errors
    ///
    /// [`TrialError::EmptyHalf`], [`TrialError::TooFewRollouts`] and [`TrialError::BadRule`].
    pub fn new(
        candidate: SkillRef,
        items: TriedItems,
        settings: &TrialSettings,
        seed: u64,
    ) -> Result<Self, TrialError> {
        let shape = GroupShape::halves(settings.rollouts_per_group);
        let TrialSettings { max_rollouts, max_informative_groups, rule, outcome, .. } = *settings;
        Self { candidate, items, shape, max_rollouts, max_informative_groups, rule, outcome, seed }.checked()
    }

    /// The design of a text that [`to_json`](Self::to_json) wrote, checked against the candidate's evidence.
    ///
    /// # Errors
    ///
    /// The error of the JSON, or that of the design.
    pub fn from_json(text: &str, evidence: &Evidence) -> Result<Result<Self, TrialError>, serde_json::Error> {
        let written: WrittenDesign = serde_json::from_str(text)?;
        let WrittenDesign {
            candidate,
            items,
            shape,
            max_rollouts,
            max_informative_groups,
            rule,
            outcome,
            seed,
        } = written;
        Ok(TriedItems::these(&candidate, evidence, items).and_then(|items| {
            Self { candidate, items, shape, max_rollouts, max_informative_groups, rule, outcome, seed }
                .checked()
        }))
    }

    /// The design as canonical JSON.
    pub fn to_json(&self) -> String {
        canonical_json(&serde_json::to_value(self).expect("a design serializes"))
    }

    /// The SHA-256 of [`to_json`](Self::to_json), in 64 hexadecimal digits.
    pub fn sha256(&self) -> String {
        hex_sha256(self.to_json().as_bytes())
    }

    fn checked(self) -> Result<Self, TrialError> {
        if self.shape.new == 0 || self.shape.old == 0 {
            return Err(TrialError::EmptyHalf { rollouts: self.shape.rollouts() });
        }
        if self.max_rollouts < u64::from(self.shape.rollouts()) {
            let group = self.shape.rollouts();
            return Err(TrialError::TooFewRollouts { max_rollouts: self.max_rollouts, group });
        }
        let bad = |name, value: f64, low, high| {
            Err(TrialError::BadRule { name, value: value.to_string(), low, high })
        };
        match self.rule {
            TrialRule::FixedEnd { alpha } if !(alpha > 0.0 && alpha < 1.0) => bad("alpha", alpha, "0", "1"),
            TrialRule::AnyTime { threshold, .. } if !(threshold > 1.0 && threshold.is_finite()) => {
                bad("threshold", threshold, "1", "infinity")
            }
            _ => Ok(self),
        }
    }

    /// The candidate.
    pub fn candidate(&self) -> &SkillRef {
        &self.candidate
    }

    /// The tasks, in the order of a pass.
    pub fn items(&self) -> &[ItemId] {
        self.items.as_slice()
    }

    /// The halves of a group.
    pub fn shape(&self) -> GroupShape {
        self.shape
    }

    /// When the candidate is admitted.
    pub fn rule(&self) -> TrialRule {
        self.rule
    }

    /// What is compared.
    pub fn outcome(&self) -> TrialOutcome {
        self.outcome
    }

    /// The seed that names the chance which splits groups, and relabels scores.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The trial ends after so many groups that say something.
    pub fn max_informative_groups(&self) -> Option<u64> {
        self.max_informative_groups
    }

    /// Groups at most.
    pub fn n_groups(&self) -> u64 {
        self.max_rollouts / u64::from(self.shape.rollouts().max(1))
    }

    /// Rollouts at most: whole groups.
    pub fn n_rollouts(&self) -> u64 {
        self.n_groups() * u64::from(self.shape.rollouts())
    }

    /// The group at this place of the order, from 0.
    ///
    /// # Errors
    ///
    /// [`TrialError::UnknownGroup`].
    pub fn group(&self, place: u64) -> Result<PlannedGroup, TrialError> {
        let unknown = || TrialError::UnknownGroup { group: place, n_groups: self.n_groups() };
        let n_items = self.items().len() as u64;
        let item_idx = place.checked_rem(n_items).and_then(|idx| usize::try_from(idx).ok());
        let item = item_idx.and_then(|idx| self.items().get(idx)).ok_or_else(unknown)?;
        let pass =
            place.checked_div(n_items).and_then(|pass| u32::try_from(pass).ok()).ok_or_else(unknown)?;
        if place >= self.n_groups() {
            return Err(unknown());
        }
        let halves = halves(self.seed, &self.candidate, item, pass, self.shape);
        Ok(PlannedGroup { place, item: item.clone(), pass, halves })
    }

    /// The group at this place with these results, one for each sample.
    ///
    /// # Errors
    ///
    /// [`TrialError::UnknownGroup`] and [`TrialError::WrongRollouts`].
    pub fn group_of(&self, place: u64, results: &[TrialResult]) -> Result<TrialGroup, TrialError> {
        let results: Vec<Option<TrialResult>> = results.iter().copied().map(Some).collect();
        self.group(place)?.of_rollouts(&results)
    }

    /// The design with so many more groups, on which the skill is measured once the trial has admitted it: the places
    /// after the last one of the trial have samples of their own.
    ///
    /// # Errors
    ///
    /// As for [`TrialDesign::new`].
    pub fn longer(&self, n_groups: u64) -> Result<Self, TrialError> {
        let more = n_groups.saturating_mul(u64::from(self.shape.rollouts()));
        let max_rollouts = self.n_rollouts().saturating_add(more);
        Self { max_rollouts, max_informative_groups: None, ..self.clone() }.checked()
    }
}
