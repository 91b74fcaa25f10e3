//! Does a candidate help, judged on rollouts that were split at random inside each task.
//!
//! The rollouts of one task in one policy step are a [`TaskStratum`]. Chance decides, before any rollout, which of them
//! see the candidate (`new`) and which do not (`old`). Each group is conditioned on its total: if the candidate makes no
//! difference, the successes with it are hypergeometric, however hard the task is and however much the policy has
//! changed since the last step. Everything here follows from that, so a drift of the policy is not taken for an effect.
//!
//! - [`Stratified`]: counts of groups with the exact p-values, the mean difference and the odds, both with an interval;
//! - [`OddsEProcess`]: evidence that may be looked at at any time, and the most that planned groups can add;
//! - [`StratifiedScores`], [`relabel_p`] and [`score_e_process`]: the same for scores between 0 and 1;
//! - [`TrialPower`]: the rollouts that an effect of a given size takes.
//!
//! A group is uninformative if all of its rollouts succeed, if none does, or if one of its halves is empty.
//!
//! Sources: R. A. Fisher, "The logic of inductive inference", Journal of the Royal Statistical Society 98 (1935), 39-82,
//! for the hypergeometric distributions; J. J. Gart, "Point and interval estimation of the common odds ratio in the
//! combination of 2 x 2 tables with fixed marginals", Biometrika 57 (1970), 471-475, for their sum.
//!
//! # Invariants
//!
//! - The numbers of a trial do not depend on the order of its groups, and no outcome beats what was declared
//!   reachable. Held by `the_order_of_groups_does_not_matter`, `no_outcome_beats_what_can_be_reached`.
//! - At most 6.4 % of null candidates are admitted at a fixed end and 3 % at any time, also while the policy
//!   changes. `cargo xtask check trials` runs 1,000 seeds of the test. Held by
//!   `useless_candidates_are_seldom_admitted`.

mod estimate;
mod null;
mod odds;
mod power;
mod scores;

pub use estimate::OddsInterval;
pub use odds::{CANDIDATE_ODDS, OddsEProcess};
pub use power::{MOST_PLANNED_ROLLOUTS, TaskPrior, TrialPower};
pub use scores::{ScoreGroup, StratifiedScores, relabel_p, score_e_process};

use super::power::spent_alpha;
use null::NullSum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Relative difference up to which a number counts as having reached its threshold: a p-value of 1/20 reaches 0.05,
/// whatever the last digit of an `f64` is.
const ROUNDING: f64 = 1e-9;

/// One half of a group.
///
/// In files it is `[successes, rollouts]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "[u32; 2]", into = "[u32; 2]")]
pub struct Arm {
    successes: u32,
    rollouts: u32,
}

/// An arm with more successes than rollouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{successes} successes of {rollouts} rollouts")]
pub struct ArmError {
    /// The successes that were given.
    pub successes: u32,
    /// The rollouts that were given.
    pub rollouts: u32,
}

impl Arm {
    /// So many successes of so many rollouts; an error if there are more successes than rollouts.
    pub fn new(successes: u32, rollouts: u32) -> Result<Self, ArmError> {
        if successes > rollouts {
            return Err(ArmError { successes, rollouts });
        }
        Ok(Self { successes, rollouts })
    }

    /// Counts one more rollout.
    pub fn add(&mut self, is_success: bool) {
        // Past the largest count nothing is added, so that successes never exceed rollouts.
        if let Some(rollouts) = self.rollouts.checked_add(1) {
            self.rollouts = rollouts;
            self.successes += u32::from(is_success);
        }
    }

    /// Rollouts that succeeded.
    pub fn successes(self) -> u32 {
        self.successes
    }

    /// All rollouts.
    pub fn rollouts(self) -> u32 {
        self.rollouts
    }

    /// Rollouts that failed.
    pub fn failures(self) -> u32 {
        self.rollouts - self.successes
    }

    /// The success rate; `None` without rollouts.
    pub fn rate(self) -> Option<f64> {
        (self.rollouts > 0).then(|| f64::from(self.successes) / f64::from(self.rollouts))
    }
}

impl TryFrom<[u32; 2]> for Arm {
    type Error = ArmError;

    fn try_from([successes, rollouts]: [u32; 2]) -> Result<Self, ArmError> {
        Self::new(successes, rollouts)
    }
}

impl From<Arm> for [u32; 2] {
    fn from(arm: Arm) -> Self {
        [arm.successes, arm.rollouts]
    }
}

/// The rollouts of one task in one policy step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskStratum {
    /// Those that saw the candidate.
    pub new: Arm,
    /// Those that did not.
    pub old: Arm,
}

impl TaskStratum {
    /// True if the group can tell the candidate from nothing: both halves have rollouts, some rollout succeeded and
    /// some rollout failed.
    pub fn is_informative(self) -> bool {
        self.has_both_halves()
            && (self.new.successes > 0 || self.old.successes > 0)
            && (self.new.failures() > 0 || self.old.failures() > 0)
    }

    /// The success rate with the candidate less the one without it; `None` with an empty half.
    pub fn difference(self) -> Option<f64> {
        Some(self.new.rate()? - self.old.rate()?)
    }

    /// The sizes of its halves.
    pub fn shape(self) -> GroupShape {
        GroupShape { new: self.new.rollouts, old: self.old.rollouts }
    }

    fn has_both_halves(self) -> bool {
        self.new.rollouts > 0 && self.old.rollouts > 0
    }

    fn margins(self) -> Margins {
        Margins { shape: self.shape(), successes: self.new.successes.saturating_add(self.old.successes) }
    }
}

/// The number of rollouts in each half of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupShape {
    /// Rollouts with the candidate.
    pub new: u32,
    /// Rollouts without it.
    pub old: u32,
}

impl GroupShape {
    /// So many rollouts in halves; an odd one goes to the half without the candidate.
    pub fn halves(rollouts: u32) -> Self {
        Self { new: rollouts / 2, old: rollouts - rollouts / 2 }
    }

    /// Rollouts of both halves.
    pub fn rollouts(self) -> u32 {
        self.new.saturating_add(self.old)
    }
}

/// What a group is conditioned on: the sizes of its halves and the successes of both together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Margins {
    shape: GroupShape,
    successes: u32,
}

/// When a trial is decided.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum TrialRule {
    /// Once all planned groups are in: admit if the exact p-value is at most `alpha`.
    ///
    /// Of several trials, each gets its share of it, see [`Self::for_trial`].
    FixedEnd {
        /// The share of null candidates that may be admitted.
        alpha: f64,
    },
    /// At every look: admit once the e-value has reached `threshold`.
    ///
    /// Of null candidates at most `1 / threshold` ever reach it, however often one looks, and fewer with fewer
    /// looks.
    AnyTime {
        /// The e-value at which a candidate is admitted, such as 20.
        threshold: f64,
        /// Groups between two looks, such as the tasks of a policy step; at least 1.
        groups_per_look: u32,
    },
}

impl TrialRule {
    /// The rule for trial number `trial` (from 1) of a run: at a fixed end it gets its share of `alpha`, so that all
    /// trials together admit a null candidate with a probability of at most `alpha`.
    #[must_use]
    pub fn for_trial(self, trial: u32) -> Self {
        match self {
            Self::FixedEnd { alpha } => Self::FixedEnd { alpha: spent_alpha(alpha, trial) },
            Self::AnyTime { .. } => self,
        }
    }

    /// Whether a decision may be made when so many of the planned groups are in.
    pub fn is_look(self, n_seen: u64, n_planned: u64) -> bool {
        let is_end = n_seen >= n_planned;
        match self {
            Self::FixedEnd { .. } => is_end,
            Self::AnyTime { groups_per_look, .. } => {
                is_end || n_seen.is_multiple_of(u64::from(groups_per_look.max(1)))
            }
        }
    }
}

/// Whether a p-value is at most `alpha`, but for rounding.
pub fn is_at_most(p: f64, alpha: f64) -> bool {
    p <= alpha * (1.0 + ROUNDING)
}

/// Whether an e-value, as a natural logarithm, has reached a threshold, but for rounding.
pub fn has_reached(ln_e: f64, threshold: f64) -> bool {
    ln_e >= threshold.ln() - ROUNDING
}

/// Any number of groups, in any order: equal groups are counted together, so that no number depends on the order.
///
/// ```
/// use skill_core::stats::stratified::{Arm, Stratified, TaskStratum};
///
/// let arm = |counts: [u32; 2]| Arm::try_from(counts).unwrap();
/// let group = |new, old| TaskStratum { new: arm(new), old: arm(old) };
/// let groups: Stratified = [group([3, 3], [1, 5]), group([2, 3], [2, 5])].into_iter().collect();
/// assert_eq!(groups.n_informative(), 2);
/// // 13 of 196 ways to place the successes give as many with the candidate.
/// assert!((groups.p_better() - 13.0 / 196.0).abs() < 1e-15);
/// assert!((groups.difference() - 8.0 / 15.0).abs() < 1e-15);
/// assert!((groups.mantel_haenszel_odds().unwrap() - 9.0).abs() < 1e-12);
/// ```
///
/// In files it is a list of groups with their counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(TaskStratum, u64)>", into = "Vec<(TaskStratum, u64)>")]
pub struct Stratified {
    counts: BTreeMap<TaskStratum, u64>,
}

impl Stratified {
    /// Takes one more group.
    pub fn push(&mut self, group: TaskStratum) {
        let count = self.counts.entry(group).or_default();
        *count = count.saturating_add(1);
    }

    /// Takes all groups of another.
    pub fn add(&mut self, other: &Self) {
        for (group, more) in &other.counts {
            let count = self.counts.entry(*group).or_default();
            *count = count.saturating_add(*more);
        }
    }

    /// All groups.
    pub fn n_groups(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Groups that say something, see [`TaskStratum::is_informative`].
    pub fn n_informative(&self) -> u64 {
        self.informative().map(|(_, count)| count).sum()
    }

    /// Rollouts of all groups.
    pub fn n_rollouts(&self) -> u64 {
        self.counts.iter().map(|(group, count)| u64::from(group.shape().rollouts()) * count).sum()
    }

    /// Successes and rollouts with the candidate, and without it.
    pub fn totals(&self) -> [[u64; 2]; 2] {
        let of = |arm: fn(TaskStratum) -> Arm| {
            self.counts().fold([0, 0], |[successes, rollouts], (group, count)| {
                let arm = arm(group);
                [successes + u64::from(arm.successes) * count, rollouts + u64::from(arm.rollouts) * count]
            })
        };
        [of(|group| group.new), of(|group| group.old)]
    }

    /// The e-process of these groups, whatever order they came in.
    pub fn e_process(&self) -> OddsEProcess {
        let mut process = OddsEProcess::default();
        self.counts().for_each(|(group, count)| process.push_all(group, count));
        process
    }

    /// The probability, given every group's total, of at least as many successes with the candidate when the candidate
    /// makes no difference; 1 without an informative group.
    ///
    /// It is exact but for rounding (the sum of independent hypergeometric counts); below 1e-300 it may be 0.
    pub fn p_better(&self) -> f64 {
        self.null().upper_tail(self.successes())
    }

    /// The probability of at most as many successes with the candidate when the candidate makes no difference.
    pub fn p_worse(&self) -> f64 {
        self.null().lower_tail(self.successes())
    }

    /// [`Self::p_better`] with half of the probability of exactly as many successes: 1/2 on average when the
    /// candidate makes no difference, and not a guaranteed level.
    ///
    /// Source: H. O. Lancaster, "Significance tests in discrete distributions", Journal of the American Statistical
    /// Association 56 (1961), 223-234.
    pub fn mid_p_better(&self) -> f64 {
        let null = self.null();
        (null.upper_tail(self.successes()) - null.at(self.successes()) / 2.0).max(0.0)
    }

    /// The smallest p-value that can still be reached with these planned groups, or a number below it: no outcome of
    /// theirs makes [`Self::p_better`] smaller.
    ///
    /// A planned group's shortfall is its largest possible number of successes with the candidate less the one it
    /// gets. The bound takes, of all totals, the highest probability of every shortfall, so that it holds whatever the
    /// totals will be.
    pub fn least_reachable_p(&self, planned: &BTreeMap<GroupShape, u64>) -> f64 {
        self.null().with_shortfalls(planned).upper_tail(self.successes())
    }

    /// Distinct groups with their counts, sorted.
    fn counts(&self) -> impl Iterator<Item = (TaskStratum, u64)> + '_ {
        self.counts.iter().map(|(group, count)| (*group, *count))
    }

    fn informative(&self) -> impl Iterator<Item = (TaskStratum, u64)> + '_ {
        self.counts().filter(|(group, _)| group.is_informative())
    }

    /// Successes with the candidate in informative groups.
    fn successes(&self) -> i64 {
        self.informative().map(|(group, count)| i64::from(group.new.successes) * count as i64).sum()
    }

    /// The distribution of [`Self::successes`] when the candidate makes no difference.
    fn null(&self) -> NullSum {
        let mut margins: BTreeMap<Margins, u64> = BTreeMap::new();
        for (group, count) in self.informative() {
            *margins.entry(group.margins()).or_default() += count;
        }
        NullSum::of(&margins)
    }
}

impl From<Vec<(TaskStratum, u64)>> for Stratified {
    fn from(groups: Vec<(TaskStratum, u64)>) -> Self {
        let mut stratified = Self::default();
        for (group, count) in groups {
            let all = stratified.counts.entry(group).or_default();
            *all = all.saturating_add(count);
        }
        stratified
    }
}

impl From<Stratified> for Vec<(TaskStratum, u64)> {
    fn from(stratified: Stratified) -> Self {
        stratified.counts.into_iter().collect()
    }
}

impl FromIterator<TaskStratum> for Stratified {
    fn from_iter<T: IntoIterator<Item = TaskStratum>>(groups: T) -> Self {
        let mut stratified = Self::default();
        groups.into_iter().for_each(|group| stratified.push(group));
        stratified
    }
}
