//! The effects that a design can show, before anything is paid for.

use super::design::TrialDesign;
use serde::{Deserialize, Serialize};
use skill_core::stats::stratified::{TaskPrior, TrialPower};

/// The rises of the success rate that a preflight looks at.
const DIFFERENCES: [f64; 3] = [0.05, 0.10, 0.20];

/// The chance with which an effect is to be shown.
const CHANCE: f64 = 0.8;

/// A rise of the success rate, and what it takes to see it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreflightRow {
    /// The rise of the success rate: 0.05 is 5 points.
    pub difference: f64,
    /// The chance that this design admits a candidate of this effect.
    pub chance: f64,
    /// The rollouts with which this chance is 0.8, without the design's limits; `None` where 20,000 are too few.
    pub rollouts_needed: Option<u32>,
}

/// What a trial can show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preflight {
    /// Rollouts at most; each costs an episode.
    pub rollouts: u64,
    /// Tasks that are run; all others are left alone.
    pub items: u64,
    /// Chances for +5, +10 and +20 points.
    pub rows: Vec<PreflightRow>,
}

/// Computes what a design can show on tasks of this difficulty.
///
/// The tasks are taken as independent of each other. Where tasks with success rates near 1/2 were chosen, the same skill
/// gains more points on them than on all tasks, and takes fewer rollouts to show. A trial of scores is estimated as one
/// of successes, whose scores of 0 and 1 vary the most.
pub fn preflight(design: &TrialDesign, prior: TaskPrior) -> Preflight {
    let (shape, rule) = (design.shape(), design.rule());
    let max_informative_groups = design.max_informative_groups();
    let power = TrialPower { prior, shape, rule, max_informative_groups, seed: 1 };
    let n_groups = u32::try_from(design.n_groups()).unwrap_or(u32::MAX);
    let row = |difference: f64| PreflightRow {
        difference,
        chance: power.chance_to_admit(difference, n_groups),
        rollouts_needed: power.rollouts_needed(difference, CHANCE),
    };
    Preflight {
        rollouts: design.n_rollouts(),
        items: design.items().len() as u64,
        rows: DIFFERENCES.map(row).to_vec(),
    }
}
