//! The numbers behind a decision.

use crate::skill::Utility;
use serde::{Deserialize, Serialize};
use skill_core::stats::stratified::{OddsInterval, Stratified};

/// The level of all intervals of a trial.
const LEVEL: f64 = 0.95;

/// Larger e-values are written as `exp` of this, since JSON knows no infinity.
const MOST_LN_E: f64 = 700.0;

/// What the groups of a trial, or of the standing check, say about a skill.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialNumbers {
    /// All groups.
    pub groups: u64,
    /// Groups in which some rollouts succeeded and some failed: only these say anything.
    pub informative_groups: u64,
    /// Successes and rollouts with the skill.
    pub with: [u64; 2],
    /// Successes and rollouts without it.
    pub without: [u64; 2],
    /// The exact p-value that the skill is better.
    pub p_better: f64,
    /// The exact p-value that it is worse.
    pub p_worse: f64,
    /// The e-value that it is better, now.
    pub e_better: f64,
    /// The e-value that it is worse, now.
    pub e_worse: f64,
    /// The mean over groups of the difference of success rates, in [-1, 1].
    pub difference: f64,
    /// The interval of the difference at 95 %.
    pub interval: [f64; 2],
    /// The common odds ratio of Mantel and Haenszel; `None` where it would be infinite.
    pub odds: Option<f64>,
    /// The exact interval of the odds ratio at 95 %.
    pub odds_interval: OddsInterval,
}

impl TrialNumbers {
    /// The numbers of these groups.
    pub fn of(groups: &Stratified) -> Self {
        let process = groups.e_process();
        let [with, without] = groups.totals();
        Self {
            groups: groups.n_groups(),
            informative_groups: groups.n_informative(),
            with,
            without,
            p_better: groups.p_better(),
            p_worse: groups.p_worse(),
            e_better: process.ln_better().min(MOST_LN_E).exp(),
            e_worse: process.ln_worse().min(MOST_LN_E).exp(),
            difference: groups.difference(),
            interval: groups.difference_interval(LEVEL),
            odds: groups.mantel_haenszel_odds(),
            odds_interval: groups.odds_interval(LEVEL),
        }
    }

    /// The worth of the skill; `None` without a group that says anything.
    pub fn utility(&self) -> Option<Utility> {
        (self.informative_groups > 0).then_some(Utility {
            difference: self.difference,
            interval: self.interval,
            with: self.with,
            without: self.without,
            informative_groups: self.informative_groups,
        })
    }
}
