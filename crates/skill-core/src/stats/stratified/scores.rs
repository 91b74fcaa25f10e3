//! The same for scores between 0 and 1, such as the rewards of WebShop.
//!
//! For the end of a trial, the rollouts of each group are relabelled: if the candidate makes no difference, each way
//! to split a group into halves of these sizes was as likely as the one that chance has chosen. For any time there is
//! a bet on the difference of means of each group, which asks for less: that the candidate is no better on average.

use super::estimate::{Moments, student_interval};
use super::has_reached;
use crate::random::PyRandom;
use crate::stats::eprocess::{EProcess, ln_e_value_of};
use serde::{Deserialize, Serialize};

/// Up to so many ways to relabel all groups, every one is tried: about a million.
const MOST_EXACT_WAYS: u64 = 1 << 20;

/// The ways of a group are listed up to this many; beyond, they are sampled.
const MOST_LISTED_WAYS: u64 = 20_000;

/// How many random ways are tried where not all are.
const RANDOM_WAYS: u32 = 20_000;

/// So many random ways are tried at most, where a p-value is compared with a small level.
const MOST_RANDOM_WAYS: u32 = 1_000_000;

/// So many random ways reach the level on average where the p-value is the level: it is then told within a tenth of it.
const WAYS_AT_LEVEL: f64 = 100.0;

/// The scores of the rollouts of one task in one policy step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreGroup {
    /// Of those that saw the candidate.
    pub new: Vec<f64>,
    /// Of those that did not.
    pub old: Vec<f64>,
}

impl ScoreGroup {
    /// The mean score with the candidate less the one without it, in [-1, 1]; `None` with an empty half.
    ///
    /// A score outside [0, 1] counts as the nearest of both, and one that is not a number as 0.
    pub fn difference(&self) -> Option<f64> {
        Some(mean(self.new.iter())? - mean(self.old.iter())?)
    }

    /// True if the group can tell the candidate from nothing: both halves have rollouts, and not all scores are the same.
    pub fn is_informative(&self) -> bool {
        let all = self.all();
        self.difference().is_some() && all.iter().any(|score| Some(score) != all.first())
    }

    /// Both halves, those with the candidate first.
    fn all(&self) -> Vec<f64> {
        self.new.iter().chain(&self.old).map(bounded).collect()
    }

    /// The ways to choose the half with the candidate, if there are at most so many.
    fn n_ways(&self, most: u64) -> Option<u64> {
        let (new, all) = (self.new.len() as u64, (self.new.len() + self.old.len()) as u64);
        (0..new.min(all - new)).try_fold(1_u64, |ways, i| {
            let ways = ways.checked_mul(all - i)? / (i + 1);
            (ways <= most).then_some(ways)
        })
    }

    /// The difference for every way to choose the half with the candidate.
    fn differences(&self) -> Vec<f64> {
        let all = self.all();
        let total: f64 = all.iter().sum();
        let (n_new, n_old) = (self.new.len(), self.old.len());
        // The smaller half is chosen: on the way to a larger one there would be more ways than in the end.
        let n_chosen = n_new.min(n_old);
        let mut sums = vec![vec![]; n_chosen + 1];
        if let Some(none) = sums.first_mut() {
            none.push(0.0);
        }
        for score in &all {
            for n_before in (0..n_chosen).rev() {
                let with: Vec<f64> =
                    sums.get(n_before).into_iter().flatten().map(|sum: &f64| sum + score).collect();
                if let Some(more) = sums.get_mut(n_before + 1) {
                    more.extend(with);
                }
            }
        }
        let difference = |chosen: f64| {
            let (new, old) = if n_new <= n_old { (chosen, total - chosen) } else { (total - chosen, chosen) };
            new / n_new as f64 - old / n_old as f64
        };
        sums.pop().expect("there are sums of each number of scores").into_iter().map(difference).collect()
    }
}

fn bounded(score: &f64) -> f64 {
    if score.is_nan() { 0.0 } else { score.clamp(0.0, 1.0) }
}

fn mean<'a>(scores: impl ExactSizeIterator<Item = &'a f64>) -> Option<f64> {
    let n_scores = scores.len();
    (n_scores > 0).then(|| scores.map(bounded).sum::<f64>() / n_scores as f64)
}

/// The one-sided p-value of the permutation test inside groups: how often the sum of the groups' differences would be
/// as large if chance had split each group otherwise. 1 without a group that has both halves.
///
/// With one rollout in each half this is the sign-flip test of [`sign_flip_p`](crate::stats::sign_flip_p). It is exact
/// up to about a million ways. With more it comes from 20,000 random ways by this seed, and the split as it was counts
/// as one of them, so that it is never 0 and never too small on average.
///
/// Source: R. A. Fisher, "The Design of Experiments", 1935, section 21; for the random ways B. Phipson and G. K. Smyth,
/// "Permutation p-values should never be zero", Statistical Applications in Genetics and Molecular Biology 9 (2010).
///
/// ```
/// use skill_core::stats::stratified::{ScoreGroup, relabel_p};
///
/// let group = ScoreGroup { new: vec![0.9, 1.0], old: vec![0.2, 0.5] };
/// assert_eq!(relabel_p(&[group], 42), 1.0 / 6.0);
/// ```
pub fn relabel_p(groups: &[ScoreGroup], seed: u64) -> f64 {
    relabelled(groups, seed, RANDOM_WAYS)
}

fn relabelled(groups: &[ScoreGroup], seed: u64, n_random: u32) -> f64 {
    let groups: Vec<&ScoreGroup> = groups.iter().filter(|group| group.difference().is_some()).collect();
    let found: f64 = groups.iter().filter_map(|group| group.difference()).sum();
    // Sums of the same numbers in another order differ in the last digits, and are as large all the same.
    let threshold = found - 1e-9 * groups.len() as f64;
    let ways: Vec<Ways> = groups.iter().map(|group| Ways::of(group)).collect();
    let n_ways = ways.iter().try_fold(1_u64, |n, ways| {
        let listed = ways.listed()?.len() as u64;
        n.checked_mul(listed).filter(|n| *n <= MOST_EXACT_WAYS)
    });
    if let Some(n_ways) = n_ways {
        let mut sums = vec![0.0];
        for ways in ways.iter().filter_map(Ways::listed) {
            sums = sums.iter().flat_map(|sum| ways.iter().map(move |each| sum + each)).collect();
        }
        return sums.iter().filter(|sum| **sum >= threshold).count() as f64 / n_ways as f64;
    }
    let mut random = PyRandom::new(seed);
    let mut n_as_large = 1_u32;
    for _ in 0..n_random {
        let sum: f64 = ways.iter().map(|ways| ways.sample(&mut random)).sum();
        n_as_large += u32::from(sum >= threshold);
    }
    f64::from(n_as_large) / f64::from(n_random + 1)
}

/// What the difference of a group could have been.
enum Ways {
    Listed(Vec<f64>),
    Sampled { all: Vec<f64>, n_new: usize },
}

impl Ways {
    fn of(group: &ScoreGroup) -> Self {
        match group.n_ways(MOST_LISTED_WAYS) {
            Some(_) => Self::Listed(group.differences()),
            None => Self::Sampled { all: group.all(), n_new: group.new.len() },
        }
    }

    fn listed(&self) -> Option<&[f64]> {
        match self {
            Self::Listed(differences) => Some(differences),
            Self::Sampled { .. } => None,
        }
    }

    fn sample(&self, random: &mut PyRandom) -> f64 {
        match self {
            Self::Listed(differences) => {
                let way = random.randbelow(differences.len() as u64);
                *usize::try_from(way)
                    .ok()
                    .and_then(|way| differences.get(way))
                    .expect("it is below their number")
            }
            Self::Sampled { all, n_new } => {
                let mut shuffled = all.clone();
                random.shuffle(&mut shuffled);
                let (new, old) = shuffled.split_at(*n_new);
                let mean_of =
                    |half: &[f64]| mean(half.iter()).expect("a group with a difference has both halves");
                mean_of(new) - mean_of(old)
            }
        }
    }
}

/// The e-process of the groups' differences of means, see [`EProcess`]: a bet on each group that the candidate scores
/// higher on average. Groups with an empty half are left out.
///
/// For evidence that the candidate is worse, exchange the halves.
pub fn score_e_process<'a>(groups: impl IntoIterator<Item = &'a ScoreGroup>) -> EProcess {
    let mut process = EProcess::default();
    groups.into_iter().filter_map(ScoreGroup::difference).for_each(|difference| {
        process.push(difference);
    });
    process
}

/// Any number of groups of scores: what [`Stratified`](super::Stratified) is for successes.
///
/// Numbers that do not say otherwise do not depend on the order of the groups, but for rounding.
///
/// ```
/// use skill_core::stats::stratified::{ScoreGroup, StratifiedScores};
///
/// let group = ScoreGroup { new: vec![0.9, 1.0], old: vec![0.2, 0.5] };
/// let groups: StratifiedScores = [group.clone(), group].into_iter().collect();
/// assert!((groups.difference() - 0.6).abs() < 1e-12);
/// assert_eq!(groups.p_better(42, 0.05), 1.0 / 36.0);
/// // The integral of (1 + 0.6 x)^2 from 0 to 1.
/// assert!((groups.ln_better().exp() - 1.72).abs() < 1e-9);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StratifiedScores {
    groups: Vec<ScoreGroup>,
    /// Of the groups that have both halves, in the order of the groups.
    differences: Vec<f64>,
}

impl StratifiedScores {
    /// Takes one more group.
    pub fn push(&mut self, group: ScoreGroup) {
        self.differences.extend(group.difference());
        self.groups.push(group);
    }

    /// All groups.
    pub fn n_groups(&self) -> u64 {
        self.groups.len() as u64
    }

    /// Groups that say something, see [`ScoreGroup::is_informative`].
    pub fn n_informative(&self) -> u64 {
        self.groups.iter().filter(|group| group.is_informative()).count() as u64
    }

    /// The mean score over the rollouts with the candidate, and over those without it; 0 without rollouts.
    pub fn means(&self) -> [f64; 2] {
        let of = |half: fn(&ScoreGroup) -> &Vec<f64>| {
            let scores: Vec<f64> = self.groups.iter().flat_map(half).copied().collect();
            mean(scores.iter()).unwrap_or_default()
        };
        [of(|group| &group.new), of(|group| &group.old)]
    }

    /// The mean over groups of the difference of mean scores, in [-1, 1]; each group with rollouts in both halves counts
    /// the same. 0 without such a group.
    pub fn difference(&self) -> f64 {
        let n_groups = self.differences.len();
        if n_groups == 0 { 0.0 } else { self.differences.iter().sum::<f64>() / n_groups as f64 }
    }

    /// An interval for the true mean difference at this confidence level, made as
    /// [`Stratified::difference_interval`](super::Stratified::difference_interval) is.
    pub fn difference_interval(&self, level: f64) -> [f64; 2] {
        let shares = self.groups.iter().filter(|group| group.difference().is_some());
        let shares = shares.map(|group| (1.0 / group.new.len() as f64 + 1.0 / group.old.len() as f64) / 2.0);
        let n_groups = self.differences.len();
        let moments = Moments {
            n_groups: n_groups as u64,
            sum: self.differences.iter().sum(),
            squares: self.differences.iter().map(|difference| difference * difference).sum(),
            one_rollout: shares.sum::<f64>() / n_groups.max(1) as f64,
        };
        student_interval(moments, level)
    }

    /// The p-value of [`relabel_p`] that the candidate is better, with so many random ways (up to a million) that it can
    /// be compared with this level.
    pub fn p_better(&self, seed: u64, level: f64) -> f64 {
        relabelled(&self.groups, seed, n_ways_for(level))
    }

    /// The same that it is worse.
    pub fn p_worse(&self, seed: u64, level: f64) -> f64 {
        let exchanged: Vec<ScoreGroup> = self
            .groups
            .iter()
            .map(|group| ScoreGroup { new: group.old.clone(), old: group.new.clone() })
            .collect();
        relabelled(&exchanged, seed, n_ways_for(level))
    }

    /// The natural logarithm of the e-value of [`score_e_process`] that the candidate is better, now.
    pub fn ln_better(&self) -> f64 {
        ln_e_value_of(&self.differences)
    }

    /// The same that it is worse.
    pub fn ln_worse(&self) -> f64 {
        ln_e_value_of(&self.negated())
    }

    /// Whether the e-value that the candidate is worse has reached this threshold, for less work than the e-value where
    /// it is far below: no bet gains more than the sum of the differences, since `ln(1 + x) <= x`.
    pub fn is_worse(&self, threshold: f64) -> bool {
        let most = -self.differences.iter().sum::<f64>();
        has_reached(most.max(0.0), threshold) && has_reached(self.ln_worse(), threshold)
    }

    /// The natural logarithm of the largest e-value that the candidate is better that can be reached with so many planned
    /// groups: each of them has the difference 1.
    pub fn ln_reachable_better(&self, n_planned: u64) -> f64 {
        let planned = usize::try_from(n_planned).unwrap_or(usize::MAX);
        let differences: Vec<f64> =
            self.differences.iter().copied().chain(std::iter::repeat_n(1.0, planned)).collect();
        ln_e_value_of(&differences)
    }

    /// Whether [`ln_reachable_better`](Self::ln_reachable_better) reaches this threshold, for less work than the number
    /// where it is far above: the mean of the logarithms of all bets is at most the logarithm of their mean (Jensen).
    pub fn can_be_better(&self, n_planned: u64, threshold: f64) -> bool {
        let all_bets: f64 = self.differences.iter().map(mean_ln_bet).sum();
        let least = all_bets + n_planned as f64 * mean_ln_bet(&1.0);
        has_reached(least, threshold) || has_reached(self.ln_reachable_better(n_planned), threshold)
    }

    fn negated(&self) -> Vec<f64> {
        self.differences.iter().map(|difference| -difference).collect()
    }
}

impl FromIterator<ScoreGroup> for StratifiedScores {
    fn from_iter<T: IntoIterator<Item = ScoreGroup>>(groups: T) -> Self {
        let mut all = Self::default();
        groups.into_iter().for_each(|group| all.push(group));
        all
    }
}

/// The integral of `ln(1 + x d)` over `x` from 0 to 1, or less: `((1 + d) ln(1 + d) - d) / d`.
fn mean_ln_bet(difference: &f64) -> f64 {
    let d = *difference;
    if d.abs() < 1e-6 {
        // Here the integral is d / 2 but for less than this.
        return d / 2.0 - 1e-6;
    }
    if d <= -1.0 { -1.0 } else { ((1.0 + d) * d.ln_1p() - d) / d }
}

/// How many random ways a p-value takes that is compared with this level.
fn n_ways_for(level: f64) -> u32 {
    let wanted = WAYS_AT_LEVEL / level;
    if wanted >= f64::from(MOST_RANDOM_WAYS) { MOST_RANDOM_WAYS } else { (wanted as u32).max(RANDOM_WAYS) }
}
