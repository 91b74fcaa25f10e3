//! The groups of a trial: what their rollouts came to, and what they say together.

use super::HARM_THRESHOLD;
use super::design::TrialDesign;
use super::error::TrialError;
use super::numbers::TrialNumbers;
use serde::{Deserialize, Serialize};
use skill_core::stats::stratified::{
    GroupShape, OddsEProcess, ScoreGroup, Stratified, StratifiedScores, TaskStratum, TrialRule, has_reached,
    is_at_most,
};
use std::collections::BTreeMap;

/// With a rule that may be looked at at any time, the level that a reported p-value can be compared with.
const REPORTED_LEVEL: f64 = 0.05;

/// What of a rollout a trial compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialOutcome {
    /// Whether it succeeded.
    #[default]
    Success,
    /// Its score between 0 and 1, for tasks that can be solved in part.
    Score,
}

impl TrialOutcome {
    /// True for the outcome of designs that do not name one.
    pub(super) fn is_success(&self) -> bool {
        *self == Self::Success
    }

    /// What a trial compares where rollouts had these scores: the scores if one lies between 0 and 1, else successes.
    pub fn of_scores(scores: impl IntoIterator<Item = f64>) -> Self {
        let is_partial = |score: f64| score > 0.0 && score < 1.0;
        if scores.into_iter().any(is_partial) { Self::Score } else { Self::Success }
    }
}

/// What one rollout came to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialResult {
    /// Whether it succeeded.
    pub is_success: bool,
    /// Its score. One outside of 0 to 1 counts as the nearest of both, and one that is not a number as 0.
    pub score: f64,
}

/// The results of one group, see [`PlannedGroup::of_rollouts`](super::PlannedGroup::of_rollouts).
///
/// Made of a [`TaskStratum`], it has no scores and fits trials of successes only.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialGroup {
    successes: TaskStratum,
    /// As many scores in each half as it has rollouts.
    scores: Option<ScoreGroup>,
}

impl TrialGroup {
    pub(super) fn new(successes: TaskStratum, scores: ScoreGroup) -> Self {
        Self { successes, scores: Some(scores) }
    }

    /// The sizes of its halves.
    pub fn shape(&self) -> GroupShape {
        self.successes.shape()
    }

    /// Checks that the group says what a trial of this outcome compares.
    pub(super) fn check(&self, place: u64, outcome: TrialOutcome) -> Result<(), TrialError> {
        match (outcome, &self.scores) {
            (TrialOutcome::Score, None) => Err(TrialError::MissingScores { group: place }),
            (TrialOutcome::Success, _) | (TrialOutcome::Score, Some(_)) => Ok(()),
        }
    }
}

impl From<TaskStratum> for TrialGroup {
    fn from(successes: TaskStratum) -> Self {
        Self { successes, scores: None }
    }
}

/// Groups of a trial, compared by what its design says.
#[derive(Debug, Clone)]
pub struct TrialGroups {
    successes: Stratified,
    compared: Compared,
}

#[derive(Debug, Clone)]
enum Compared {
    Success { process: OddsEProcess },
    Score { scores: StratifiedScores, seed: u64, level: f64 },
}

impl TrialGroups {
    /// No groups yet of trials of this design.
    pub fn new(design: &TrialDesign) -> Self {
        let compared = match design.outcome() {
            TrialOutcome::Success => Compared::Success { process: OddsEProcess::default() },
            TrialOutcome::Score => {
                let level = match design.rule() {
                    TrialRule::FixedEnd { alpha } => alpha,
                    _ => REPORTED_LEVEL,
                };
                Compared::Score { scores: StratifiedScores::default(), seed: design.seed(), level }
            }
        };
        Self { successes: Stratified::default(), compared }
    }

    /// Takes the next group; of one without scores, a trial of scores takes nothing.
    pub fn push(&mut self, group: TrialGroup) {
        match &mut self.compared {
            Compared::Success { process } => process.push(group.successes),
            Compared::Score { scores, .. } => match group.scores {
                Some(group) => scores.push(group),
                None => return,
            },
        }
        self.successes.push(group.successes);
    }

    /// Groups that say something: those in which not all rollouts came to the same.
    pub fn n_informative(&self) -> u64 {
        match &self.compared {
            Compared::Success { .. } => self.successes.n_informative(),
            Compared::Score { scores, .. } => scores.n_informative(),
        }
    }

    /// The mean difference of what is compared, in [-1, 1].
    pub(super) fn difference(&self) -> f64 {
        match &self.compared {
            Compared::Success { .. } => self.successes.difference(),
            Compared::Score { scores, .. } => scores.difference(),
        }
    }

    /// Their numbers.
    pub fn numbers(&self) -> TrialNumbers {
        let numbers = TrialNumbers::of(&self.successes);
        match &self.compared {
            Compared::Success { .. } => numbers,
            Compared::Score { scores, seed, level } => numbers.with_scores(scores, *seed, *level),
        }
    }

    /// True if the candidate is shown to help.
    pub fn is_better(&self, rule: TrialRule) -> bool {
        match (rule, &self.compared) {
            (TrialRule::FixedEnd { alpha }, Compared::Success { .. }) => {
                is_at_most(self.successes.p_better(), alpha)
            }
            (TrialRule::FixedEnd { alpha }, Compared::Score { scores, seed, .. }) => {
                is_at_most(scores.p_better(*seed, alpha), alpha)
            }
            (TrialRule::AnyTime { threshold, .. }, Compared::Success { process }) => {
                has_reached(process.ln_better(), threshold)
            }
            (TrialRule::AnyTime { threshold, .. }, Compared::Score { scores, .. }) => {
                has_reached(scores.ln_better(), threshold)
            }
            // A rule that is not known admits nothing.
            _ => false,
        }
    }

    /// True if the candidate is shown to harm.
    pub fn is_worse(&self) -> bool {
        match &self.compared {
            Compared::Success { process } => has_reached(process.ln_worse(), HARM_THRESHOLD),
            Compared::Score { scores, .. } => scores.is_worse(HARM_THRESHOLD),
        }
    }

    /// True if so many groups of this shape could still show that the candidate helps.
    ///
    /// For scores at a fixed end this is always so: two groups that differ much can outweigh any number that do not.
    pub(super) fn can_be_better(&self, rule: TrialRule, shape: GroupShape, n_left: u64) -> bool {
        let planned = BTreeMap::from([(shape, n_left)]);
        match (rule, &self.compared) {
            (TrialRule::FixedEnd { alpha }, Compared::Success { .. }) => {
                is_at_most(self.successes.least_reachable_p(&planned), alpha)
            }
            (TrialRule::FixedEnd { .. }, Compared::Score { .. }) => true,
            (TrialRule::AnyTime { threshold, .. }, Compared::Success { process }) => {
                has_reached(process.ln_reachable_better(&planned), threshold)
            }
            (TrialRule::AnyTime { threshold, .. }, Compared::Score { scores, .. }) => {
                scores.can_be_better(n_left, threshold)
            }
            _ => false,
        }
    }
}
