//! What is wrong with a trial.

use crate::skill::SkillRef;
use skill_core::ItemId;
use thiserror::Error;

/// Why a trial cannot be planned, or a result cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TrialError {
    /// No task is left that would show the candidate and is not among its evidence.
    #[error("no task can try `{skill}`: {n_evidence} of {n_eligible} tasks are among its evidence")]
    NoItems {
        /// The candidate.
        skill: SkillRef,
        /// Tasks whose retrieval would show it.
        n_eligible: usize,
        /// Those among them that it was made from.
        n_evidence: usize,
    },
    /// A task of the trial is among the candidate's evidence.
    #[error("`{skill}` was made from task `{item}`, which therefore cannot try it")]
    EvidenceItem {
        /// The candidate.
        skill: SkillRef,
        /// The task.
        item: ItemId,
    },
    /// A task is named twice.
    #[error("task `{item}` is in the trial twice")]
    DuplicateItem {
        /// The task.
        item: ItemId,
    },
    /// A group needs a rollout in each half.
    #[error("a group of {rollouts} rollouts has an empty half")]
    EmptyHalf {
        /// Rollouts of both halves.
        rollouts: u32,
    },
    /// The limit of rollouts is less than one group.
    #[error("{max_rollouts} rollouts are fewer than one group of {group}")]
    TooFewRollouts {
        /// The limit.
        max_rollouts: u64,
        /// Rollouts of a group.
        group: u32,
    },
    /// The rule has a level or threshold that decides nothing.
    #[error("the trial's {name} is {value}, which is not between {low} and {high}")]
    BadRule {
        /// `alpha` or `threshold`.
        name: &'static str,
        /// Its value, as it would be printed.
        value: String,
        /// What it must be above.
        low: &'static str,
        /// What it must be below.
        high: &'static str,
    },
    /// A result is of a group that is not planned.
    #[error("group {group} is not planned: the trial has {n_groups}")]
    UnknownGroup {
        /// Its place, from 0.
        group: u64,
        /// The groups that are planned.
        n_groups: u64,
    },
    /// A result of a trial of scores has none.
    #[error("group {group} has no scores, which its trial compares")]
    MissingScores {
        /// Its place, from 0.
        group: u64,
    },
    /// A half of a result has more rollouts than were planned, or the results are not one for each sample.
    #[error("group {group} has {found} rollouts where {planned} were planned")]
    WrongRollouts {
        /// Its place, from 0.
        group: u64,
        /// Rollouts of the result.
        found: u64,
        /// Rollouts that were planned.
        planned: u64,
    },
}
