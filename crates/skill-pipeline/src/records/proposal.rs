//! What a step of a planned search tried.

use serde::{Deserialize, Serialize};
use skill_core::{ItemId, StepIdx};

/// A proposal: the failures that the analyst read, and every play until it was dropped or taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProposalRecord {
    /// The first step of its round: all proposals of a round were made from one working skill.
    pub round: StepIdx,
    /// The tasks whose failures the analyst read; empty where no task was left to read, which ends the search.
    pub group: Vec<ItemId>,
    /// Solved tasks that were shown beside them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown_solved: Vec<ItemId>,
    /// Proposals that a task may have had to be read, after the choice of the group.
    pub most_tries: u32,
    /// Every play of the step in order, as `plays.json` has the results.
    pub plays: Vec<PlayRecord>,
}

/// One play of a training task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlayRecord {
    /// The task.
    pub item: ItemId,
    /// What it was played for.
    pub purpose: PlayPurpose,
    /// Its score by the metric of the gate.
    pub score: f64,
    /// Its kind, where the environment names kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The odds after it, as a natural logarithm: in the screening that the proposal solves its tasks, in the regression
    /// check that it spoils others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub odds: Option<f64>,
}

skill_core::named_enum! {
    /// What a training task is played for.
    pub enum PlayPurpose {
        /// The working skill, to choose the failures that an analyst reads.
        Group = "group",
        /// The proposal on the tasks that it was made from.
        Screening = "screening",
        /// The proposal on tasks that the working skill solves.
        Regression = "regression",
    }
}

impl ProposalRecord {
    /// The plays for one purpose.
    pub fn plays_for(&self, purpose: PlayPurpose) -> impl Iterator<Item = &PlayRecord> {
        self.plays.iter().filter(move |play| play.purpose == purpose)
    }
}

/// A comparison of the working skill with the incumbent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ComparisonRecord {
    /// The proposals that the working skill has and the incumbent has not.
    pub proposals: Vec<StepIdx>,
    /// Validation tasks that the incumbent solves.
    pub incumbent_solved: usize,
}
