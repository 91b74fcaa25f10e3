//! How much the candidate helps: the mean difference of success rates and the odds, both with an interval.

use super::null::{NullSum, ln_sum};
use super::{Arm, Stratified};
use crate::stats::normal::upper_quantile;
use serde::{Deserialize, Serialize};

/// Odds beyond `exp` of this are not told from 0 or from no bound.
const MOST_LN_ODDS: f64 = 60.0;

/// The odds of success with the candidate as a multiple of those without it, between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OddsInterval {
    /// The lower bound; 0 where the data give none.
    pub low: f64,
    /// The upper bound; `None` where the data give none.
    pub high: Option<f64>,
}

impl Stratified {
    /// The mean over groups of the difference of success rates, in [-1, 1]; each group with rollouts in both halves
    /// counts the same. 0 without such a group.
    pub fn difference(&self) -> f64 {
        let (n_groups, sum, _) = self.moments();
        if n_groups == 0 { 0.0 } else { sum / n_groups as f64 }
    }

    /// An interval for the true mean difference at this confidence level (such as 0.95), within [-1, 1]; the whole of
    /// it without a group that has rollouts in both halves.
    ///
    /// It is Student's interval for the differences of the groups: what they vary by is taken from them, so it holds
    /// also where the candidate helps on one task and harms on another. The square of one rollout's share of a half is
    /// added to their squares, so that the interval has a width where no group differs. On simulated tasks it holds its
    /// level from 8 groups on.
    pub fn difference_interval(&self, level: f64) -> [f64; 2] {
        let (n_groups, sum, squares) = self.moments();
        let one_rollout = if n_groups == 0 { 0.0 } else { self.one_rollout(n_groups) };
        student_interval(Moments { n_groups, sum, squares, one_rollout }, level)
    }

    /// The common odds ratio of Mantel and Haenszel; `None` where no group has a success without and a failure with
    /// the candidate, so that it would be infinite.
    ///
    /// Source: N. Mantel and W. Haenszel, "Statistical aspects of the analysis of data from retrospective studies of
    /// disease", Journal of the National Cancer Institute 22 (1959), 719-748.
    pub fn mantel_haenszel_odds(&self) -> Option<f64> {
        let product = |one: u32, other: u32| f64::from(one) * f64::from(other);
        let (mut better, mut worse) = (0.0, 0.0);
        for (group, count) in self.counts() {
            let weight = count as f64 / f64::from(group.shape().rollouts().max(1));
            better += weight * product(group.new.successes(), group.old.failures());
            worse += weight * product(group.new.failures(), group.old.successes());
        }
        (worse > 0.0).then(|| better / worse)
    }

    /// The exact conditional interval for the common odds ratio at this confidence level; `[0, no bound]` without an
    /// informative group.
    ///
    /// A bound is the odds at which as many successes with the candidate, or more (or fewer), have a probability of
    /// half of what is left beside the level. It is conditional on every group's total, so no difficulty of a task
    /// enters; its level is at least the one that is given if the odds are the same for all groups.
    ///
    /// Source: Gart (1970), see the module.
    pub fn odds_interval(&self, level: f64) -> OddsInterval {
        let (null, found) = (self.null(), self.successes());
        let tail = (1.0 - level) / 2.0;
        let low = if found <= null.lowest() {
            0.0
        } else {
            bisected(|ln_odds| share(&null, ln_odds, |value| value >= found) < tail).exp()
        };
        let high = (found < null.highest())
            .then(|| bisected(|ln_odds| share(&null, ln_odds, |value| value <= found) > tail).exp());
        OddsInterval { low, high }
    }

    /// The number of groups with rollouts in both halves, the sum of their differences and that of the squares.
    fn moments(&self) -> (u64, f64, f64) {
        let differences = self.counts().filter_map(|(group, count)| Some((group.difference()?, count)));
        differences.fold((0, 0.0, 0.0), |(n_groups, sum, squares), (difference, count)| {
            let times = count as f64;
            (n_groups + count, sum + times * difference, squares + times * difference * difference)
        })
    }

    /// The share of a half that one rollout is, on average over groups.
    fn one_rollout(&self, n_groups: u64) -> f64 {
        let of_half = |arm: Arm| 1.0 / f64::from(arm.rollouts());
        let halves = self.counts().filter(|(group, _)| group.difference().is_some());
        let sum: f64 =
            halves.map(|(group, count)| (of_half(group.new) + of_half(group.old)) / 2.0 * count as f64).sum();
        sum / n_groups as f64
    }
}

/// What an interval for the mean of differences is made of.
pub(super) struct Moments {
    /// How many differences there are.
    pub(super) n_groups: u64,
    /// Their sum.
    pub(super) sum: f64,
    /// The sum of their squares.
    pub(super) squares: f64,
    /// The share of a half that one rollout is, on average.
    pub(super) one_rollout: f64,
}

/// See [`Stratified::difference_interval`].
pub(super) fn student_interval(moments: Moments, level: f64) -> [f64; 2] {
    let Moments { n_groups, sum, squares, one_rollout } = moments;
    if n_groups == 0 {
        return [-1.0, 1.0];
    }
    let n = n_groups as f64;
    let found = sum / n;
    let freedom = (n - 1.0).max(1.0);
    let squares = (squares - sum * found).max(0.0) + one_rollout.powi(2);
    let half_width = upper_student((1.0 - level) / 2.0, freedom) * (squares / freedom / n).sqrt();
    [(found - half_width).max(-1.0), (found + half_width).min(1.0)]
}

/// The probability of these values at these odds.
fn share(null: &NullSum, ln_odds: f64, counts: impl Fn(i64) -> bool + Clone) -> f64 {
    let tilted = null.values().map(|(value, p)| (value, p.ln() + value as f64 * ln_odds));
    let all = ln_sum(tilted.clone().map(|(_, ln_p)| ln_p));
    (ln_sum(tilted.filter(|(value, _)| counts(*value)).map(|(_, ln_p)| ln_p)) - all).exp()
}

/// The logarithm of the odds up to which the condition holds.
fn bisected(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (-MOST_LN_ODDS, MOST_LN_ODDS);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if holds(middle) { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The value that Student's t exceeds with this probability (up to 1/2), at so many degrees of freedom.
///
/// Exact for 1 and 2 degrees, and within one part in 100 beyond, for probabilities from 0.005 on: the expansion of
/// E. A. Cornish and R. A. Fisher, "The percentile points of distributions having known cumulants", Technometrics 2
/// (1960), 209-225.
fn upper_student(probability: f64, freedom: f64) -> f64 {
    if freedom <= 1.0 {
        return 1.0 / (std::f64::consts::PI * probability).tan();
    }
    if freedom <= 2.0 {
        let share = 1.0 - 2.0 * probability;
        return share * (2.0 / (1.0 - share * share)).sqrt();
    }
    let z = upper_quantile(probability);
    let terms = [
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
        (79.0 * z.powi(9) + 776.0 * z.powi(7) + 1482.0 * z.powi(5) - 1920.0 * z.powi(3) - 945.0 * z)
            / 92_160.0,
    ];
    terms.iter().rev().fold(0.0, |inner, term| (inner + term) / freedom) + z
}

#[cfg(test)]
mod tests {
    use super::upper_student;

    #[test]
    fn quantiles_of_student_are_those_of_tables() {
        for (probability, freedom, expect) in [
            (0.025, 1.0, 12.706),
            (0.025, 2.0, 4.303),
            (0.025, 3.0, 3.182),
            (0.005, 3.0, 5.841),
            (0.025, 7.0, 2.365),
            (0.05, 15.0, 1.753),
            (0.025, 79.0, 1.990),
        ] {
            let found = upper_student(probability, freedom);
            assert!((found / expect - 1.0).abs() < 0.012, "{probability} {freedom}: {found}");
        }
    }
}
