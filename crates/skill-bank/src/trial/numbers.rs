//! The numbers behind a decision.

use crate::event::{BankEvent, Occasion, TrialVerdict};
use crate::skill::{SkillRef, Utility};
use serde::{Deserialize, Serialize};
use skill_core::stats::stratified::{OddsInterval, Stratified, StratifiedScores};

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
    /// Groups in which some rollouts succeeded and some failed, or scored differently: only these say anything.
    pub informative_groups: u64,
    /// Successes and rollouts with the skill.
    pub with: [u64; 2],
    /// Successes and rollouts without it.
    pub without: [u64; 2],
    /// The p-value that the skill is better: exact for successes, of the relabelling test for scores.
    pub p_better: f64,
    /// The p-value that it is worse.
    pub p_worse: f64,
    /// The e-value that it is better, now.
    pub e_better: f64,
    /// The e-value that it is worse, now.
    pub e_worse: f64,
    /// The mean over groups of the difference of success rates, or of mean scores where the trial compares them, in
    /// [-1, 1].
    pub difference: f64,
    /// The interval of the difference at 95 %.
    pub interval: [f64; 2],
    /// Mean scores with the skill and without it, over all rollouts; `None` where the trial compares successes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_scores: Option<[f64; 2]>,
    /// The common odds ratio of success of Mantel and Haenszel; `None` where it would be infinite.
    pub odds: Option<f64>,
    /// The exact interval of the odds ratio at 95 %.
    pub odds_interval: OddsInterval,
}

impl TrialNumbers {
    /// The numbers of these groups, by their successes.
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
            e_better: e_value(process.ln_better()),
            e_worse: e_value(process.ln_worse()),
            difference: groups.difference(),
            interval: groups.difference_interval(LEVEL),
            mean_scores: None,
            odds: groups.mantel_haenszel_odds(),
            odds_interval: groups.odds_interval(LEVEL),
        }
    }

    /// These numbers, where the scores of the same groups are compared: successes and odds stay.
    pub(super) fn with_scores(self, scores: &StratifiedScores, seed: u64, level: f64) -> Self {
        Self {
            informative_groups: scores.n_informative(),
            p_better: scores.p_better(seed, level),
            p_worse: scores.p_worse(seed, level),
            e_better: e_value(scores.ln_better()),
            e_worse: e_value(scores.ln_worse()),
            difference: scores.difference(),
            interval: scores.difference_interval(LEVEL),
            mean_scores: Some(scores.means()),
            ..self
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

    /// The event that a skill was measured with these numbers.
    pub fn measured(&self, skill: &SkillRef, occasion: Occasion, verdict: Option<TrialVerdict>) -> BankEvent {
        BankEvent::Measured {
            skill: skill.clone(),
            occasion,
            utility: self.utility(),
            verdict,
            e_better: Some(self.e_better),
            e_worse: Some(self.e_worse),
            p_better: Some(self.p_better),
        }
    }
}

fn e_value(ln_e: f64) -> f64 {
    ln_e.min(MOST_LN_E).exp()
}
