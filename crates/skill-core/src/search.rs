//! The decisions of a planned search, in which a step tries one *proposal*: one reply of the optimizer with all its
//! edits.
//!
//! - [`KnownTasks`] holds the last outcome of each training task under the working skill, and chooses the failures that
//!   the next analyst reads ([`KnownTasks::pick`]);
//! - [`Screening`] decides whether a proposal solves the tasks that it was made from;
//! - [`Regression`] decides whether it spoils tasks that were solved;
//! - [`Allowance`] says whether there is room for another proposal, and when a comparison on validation tasks is due;
//! - [`Sequential`] ends a comparison early where the evidence is against the candidate, in a [`RandomOrder`].
//!
//! All of them are functions of outcomes and a seed, so that a run that is resumed decides as it did before. The odds are
//! natural logarithms. The constants were chosen by simulation; `docs/results.md` has the measurements.
//!
//! # Invariants
//!
//! - The number of plays that are certain to be needed is never more than those that are used, so that a search that
//!   keeps no more in flight plays none in vain. Held by `what_is_certain_to_be_needed_is_used`.
//! - Every search of a group ends, whatever the outcomes. Held by `every_group_ends`.

mod allowance;
mod known;
mod regression;
mod screening;
mod sequential;

pub use allowance::{Allowance, Due};
pub use known::{Adopted, FailureSelection, KnownTask, KnownTasks, Pick, SearchRules};
pub use regression::Regression;
pub use screening::{ScreenTask, Screening};
pub use sequential::{RandomOrder, Sequential};

use crate::gate::{Gate, ItemScore};

/// Failures that one analyst reads.
pub const GROUP: usize = 4;
/// The most edits of a proposal.
pub const MOST_EDITS: u32 = 4;
/// Solved tasks beside the failures of an analyst.
pub const SHOWN_SOLVED: usize = 2;
/// Proposals made from one working skill, unless a person says otherwise.
pub const ROUND: usize = 2;
/// A score within this of 1 is a solved task.
const SOLVED: f64 = 1.0 - 1e-9;

/// What came of a task: its score by the metric of the gate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaskScore {
    /// The score, from 0 to 1.
    pub score: f64,
}

impl TaskScore {
    /// The outcome of these scores.
    pub fn of(gate: Gate, scores: ItemScore) -> Self {
        Self { score: gate.total(&[scores]).to_f64().clamp(0.0, 1.0) }
    }

    /// True if nothing is missing.
    pub fn is_solved(self) -> bool {
        self.score >= SOLVED
    }
}

/// What a decision has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequentialDecision {
    /// It needs another play.
    Open,
    /// For the proposal.
    Passed,
    /// Against it.
    Failed,
}

/// How often outcomes change by themselves, from what was seen; each begins with imagined plays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimates {
    /// The share lost of plays of tasks that were solved before.
    pub eps: f64,
    /// The share won of plays of dropped proposals.
    pub luck: f64,
    /// The share of tasks that the working skill solves, without noise; not yet bounded.
    pub solved: f64,
    /// The share of failures with an older working skill that are solved when they are played again.
    pub stale: f64,
}

impl Estimates {
    /// The share of tasks that the working skill solves, at most 0.97.
    pub fn ok(self) -> f64 {
        self.solved.min(0.97)
    }

    /// How likely a task that has failed so often in a row fails by noise alone.
    pub fn noise(self, fails: u32) -> f64 {
        let by_noise = self.ok() * self.eps.powi(i32::try_from(fails.max(1)).unwrap_or(i32::MAX));
        by_noise / (by_noise + 1.0 - self.ok())
    }
}

/// Imagined plays that an estimate begins with, and the share of them that came out otherwise.
const PRIOR: [f64; 2] = [8.0, 0.06];

/// So many of so many, within these bounds.
fn share(n: u32, of: u32, [least, most]: [f64; 2]) -> f64 {
    let [plays, part] = PRIOR;
    ((f64::from(n) + plays * part) / (f64::from(of) + plays)).clamp(least, most)
}
