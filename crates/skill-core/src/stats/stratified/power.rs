//! The rollouts that it takes to see an effect, before any is paid for.

use super::null::{Null, NullSum};
use super::{CANDIDATE_ODDS, GroupShape, Margins, TrialRule, is_at_most};
use crate::random::PyRandom;
use crate::stats::normal::upper_quantile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Trials of more rollouts are not planned.
pub const MOST_PLANNED_ROLLOUTS: u32 = 20_000;

/// Simulated trials for each question; a chance of 0.8 comes out within 0.04 in 95 of 100 cases.
const N_TRIALS: u32 = 400;

/// Within so many standard deviations of the threshold of the fixed end, the exact p-value is computed.
const UNSURE: f64 = 0.4;

/// The step and the reach of the integral over the prior, in standard deviations: for a normal density the
/// trapezoidal rule is then good to more digits than an `f64` has.
const PRIOR_STEP: f64 = 0.1;
const PRIOR_STEPS: i32 = 80;

/// How hard tasks are: the logit of a task's success rate without the candidate is normal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskPrior {
    /// The mean logit.
    pub mean: f64,
    /// The standard deviation between tasks.
    pub deviation: f64,
}

impl Default for TaskPrior {
    /// Many tasks of benchmarks of agents lie near 0 or 1: a mean logit of 0.4 with a standard deviation of 2.
    fn default() -> Self {
        Self { mean: 0.4, deviation: 2.0 }
    }
}

impl TaskPrior {
    /// The success rate over all tasks if every logit is raised by this much.
    pub fn success_rate(self, shift: f64) -> f64 {
        self.nodes().map(|(logit, weight)| weight * logistic(logit + shift)).sum()
    }

    /// The rise of every logit that changes the success rate over all tasks by so much (0.05 is 5 points); `None`
    /// where no rise does.
    pub fn shift_for(self, difference: f64) -> Option<f64> {
        let target = self.success_rate(0.0) + difference;
        if !(0.0..=1.0).contains(&target) || target == 0.0 || target == 1.0 {
            return None;
        }
        let (mut low, mut high) = (-60.0, 60.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if self.success_rate(middle) < target { low = middle } else { high = middle }
        }
        Some((low + high) / 2.0)
    }

    /// Logits with their weights, which sum to 1.
    fn nodes(self) -> impl Iterator<Item = (f64, f64)> + Clone {
        let density = |step: i32| (-0.5 * (f64::from(step) * PRIOR_STEP).powi(2)).exp();
        let all: f64 = (-PRIOR_STEPS..=PRIOR_STEPS).map(density).sum();
        (-PRIOR_STEPS..=PRIOR_STEPS)
            .map(move |step| (self.mean + self.deviation * f64::from(step) * PRIOR_STEP, density(step) / all))
    }
}

fn logistic(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

/// A question about a trial that has not begun: groups of this shape, on tasks of this prior, judged by this rule.
///
/// Answers come from 400 simulated trials with a seed, so the same question has the same answer.
///
/// ```
/// use skill_core::stats::stratified::{GroupShape, TaskPrior, TrialPower, TrialRule};
///
/// let power = TrialPower {
///     prior: TaskPrior::default(),
///     shape: GroupShape::halves(8),
///     rule: TrialRule::FixedEnd { alpha: 0.05 },
///     max_informative_groups: None,
///     seed: 1,
/// };
/// // 128 rollouts nearly always show a rise by 20 points, and hardly ever one by 5.
/// assert!(power.chance_to_admit(0.20, 16) > 0.8);
/// assert!(power.chance_to_admit(0.05, 16) < 0.25);
/// assert!(power.rollouts_needed(0.20, 0.8).unwrap() < power.rollouts_needed(0.05, 0.8).unwrap());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialPower {
    /// How hard the tasks are; they are taken as independent of each other.
    pub prior: TaskPrior,
    /// The halves of each group.
    pub shape: GroupShape,
    /// When the candidate is admitted.
    pub rule: TrialRule,
    /// The trial ends after so many informative groups; `None` for no such limit.
    pub max_informative_groups: Option<u64>,
    /// The seed of the simulated trials.
    pub seed: u64,
}

impl TrialPower {
    /// The chance that a candidate which changes the success rate by `difference` is admitted within `n_groups`
    /// groups; 0 where no shift of the prior changes it by so much.
    pub fn chance_to_admit(&self, difference: f64, n_groups: u32) -> f64 {
        let Some(outcomes) = Outcomes::of(self.prior, self.shape, difference) else { return 0.0 };
        let n_groups = n_groups.min(self.most_groups());
        let n_admitted = match self.rule {
            TrialRule::FixedEnd { alpha } => {
                (0..N_TRIALS).filter(|trial| self.is_shown(&outcomes, *trial, n_groups, alpha)).count()
            }
            TrialRule::AnyTime { threshold, .. } => (0..N_TRIALS)
                .filter(|trial| {
                    let most = self.max_informative_groups;
                    self.first_reach(&outcomes, *trial, n_groups, most, threshold).is_some()
                })
                .count(),
        };
        n_admitted as f64 / f64::from(N_TRIALS)
    }

    /// The rollouts with which a candidate that changes the success rate by `difference` is admitted with at least
    /// this chance; `None` where [`MOST_PLANNED_ROLLOUTS`] are too few. The limit of informative groups is left out.
    ///
    /// For the fixed end this is the normal approximation with a correction for whole numbers; at any time it is a
    /// quantile of the simulated trials, which end as soon as the candidate is admitted.
    pub fn rollouts_needed(&self, difference: f64, chance: f64) -> Option<u32> {
        let outcomes = Outcomes::of(self.prior, self.shape, difference)?;
        let n_groups = match self.rule {
            TrialRule::FixedEnd { alpha } => outcomes.groups_needed(alpha, chance, self.most_groups()),
            TrialRule::AnyTime { threshold, .. } => {
                let most = self.most_groups();
                let mut reached: Vec<u32> = (0..N_TRIALS)
                    .filter_map(|trial| self.first_reach(&outcomes, trial, most, None, threshold))
                    .collect();
                reached.sort_unstable();
                let rank = (chance * f64::from(N_TRIALS)).ceil().max(1.0) as usize;
                reached.get(rank - 1).copied()
            }
        };
        n_groups.map(|n_groups| n_groups.saturating_mul(self.shape.rollouts()))
    }

    /// The number of groups after which a simulated trial admits its candidate by the e-value; `None` if it drops the
    /// candidate before, or does neither within so many groups and so many informative ones.
    fn first_reach(
        &self,
        outcomes: &Outcomes,
        trial: u32,
        n_groups: u32,
        max_informative_groups: Option<u64>,
        threshold: f64,
    ) -> Option<u32> {
        let mut random = self.random(trial);
        let mean = |products: [f64; CANDIDATE_ODDS.len()]| {
            products.iter().sum::<f64>() / CANDIDATE_ODDS.len() as f64
        };
        let (mut better, mut worse) = ([1.0; CANDIDATE_ODDS.len()], [1.0; CANDIDATE_ODDS.len()]);
        let mut n_informative = 0;
        for n_seen in 1..=n_groups {
            let outcome = outcomes.sample(&mut random)?;
            n_informative += u64::from(outcome.is_informative());
            let is_end = max_informative_groups.is_some_and(|most| n_informative >= most);
            better.iter_mut().zip(outcome.better).for_each(|(product, factor)| *product *= factor);
            worse.iter_mut().zip(outcome.worse).for_each(|(product, factor)| *product *= factor);
            if is_end || self.rule.is_look(u64::from(n_seen), u64::from(n_groups)) {
                if mean(better) >= threshold {
                    return Some(n_seen);
                }
                if is_end || mean(worse) >= threshold {
                    return None;
                }
            }
        }
        None
    }

    /// Whether the exact test shows the candidate after so many groups, or as many informative ones as the trial takes.
    fn is_shown(&self, outcomes: &Outcomes, trial: u32, n_groups: u32, alpha: f64) -> bool {
        let mut random = self.random(trial);
        let mut n_informative = 0;
        let (mut excess, mut variance, mut found) = (0.0, 0.0, 0_i64);
        let mut margins: BTreeMap<Margins, u64> = BTreeMap::new();
        for _ in 0..n_groups {
            let Some(outcome) = outcomes.sample(&mut random) else { return false };
            if outcome.is_informative() {
                n_informative += 1;
                excess += outcome.excess;
                variance += outcome.variance;
                found += i64::from(outcome.successes);
                *margins.entry(outcome.margins).or_default() += 1;
            }
            if self.max_informative_groups.is_some_and(|most| n_informative >= most) {
                break;
            }
        }
        let z = (excess - 0.5) / variance.max(f64::MIN_POSITIVE).sqrt();
        let threshold = upper_quantile(alpha);
        // With little variance the normal approximation says nothing.
        if variance > 20.0 && (z - threshold).abs() > UNSURE {
            return z > threshold;
        }
        is_at_most(NullSum::of(&margins).upper_tail(found), alpha)
    }

    fn most_groups(&self) -> u32 {
        MOST_PLANNED_ROLLOUTS / self.shape.rollouts().max(1)
    }

    fn random(&self, trial: u32) -> PyRandom {
        PyRandom::new(self.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(trial)))
    }
}

/// What one group can be, with probabilities.
struct Outcomes {
    all: Vec<Outcome>,
    /// For each, the probability of it or one before it.
    cumulative: Vec<f64>,
}

struct Outcome {
    probability: f64,
    margins: Margins,
    /// Successes with the candidate.
    successes: u32,
    /// These, less their mean when the candidate makes no difference, and their variance then.
    excess: f64,
    variance: f64,
    /// The factors of the e-values at each of the odds, for the candidate and against it.
    better: [f64; CANDIDATE_ODDS.len()],
    worse: [f64; CANDIDATE_ODDS.len()],
}

impl Outcomes {
    fn of(prior: TaskPrior, shape: GroupShape, difference: f64) -> Option<Self> {
        let shift = prior.shift_for(difference)?;
        let mut probabilities: BTreeMap<(u32, u32), f64> = BTreeMap::new();
        for (logit, weight) in prior.nodes() {
            let new = binomial(shape.new, logistic(logit + shift));
            let old = binomial(shape.old, logistic(logit));
            for (with, p) in (0..).zip(&new) {
                for (without, q) in (0..).zip(&old) {
                    *probabilities.entry((with, without)).or_default() += weight * p * q;
                }
            }
        }
        let mut all: Vec<Outcome> = probabilities
            .into_iter()
            .map(|((with, without), probability)| Outcome::of(shape, with, without, probability))
            .collect();
        // The most probable first, which is where a search from the front finds most of them.
        all.sort_by(|one, other| other.probability.total_cmp(&one.probability));
        let mut sum = 0.0;
        let cumulative = all
            .iter()
            .map(|outcome| {
                sum += outcome.probability;
                sum
            })
            .collect();
        Some(Self { all, cumulative })
    }

    fn sample(&self, random: &mut PyRandom) -> Option<&Outcome> {
        let at = random.random();
        let place = self.cumulative.partition_point(|cumulative| *cumulative <= at);
        self.all.get(place.min(self.all.len().saturating_sub(1)))
    }

    /// The number of groups after which `excess - 1/2` exceeds its threshold with this chance, both being normal.
    fn groups_needed(&self, alpha: f64, chance: f64, most_groups: u32) -> Option<u32> {
        let expected = |of: &dyn Fn(&Outcome) -> f64| -> f64 {
            self.all.iter().map(|outcome| outcome.probability * of(outcome)).sum()
        };
        let mean = expected(&|outcome| outcome.excess);
        let spread = expected(&|outcome| (outcome.excess - mean).powi(2));
        let variance = expected(&|outcome| outcome.variance);
        let (level, power) = (upper_quantile(alpha), upper_quantile(1.0 - chance));
        let is_enough = |n_groups: u32| {
            let n = f64::from(n_groups);
            n * mean - 0.5 >= level * (n * variance).sqrt() + power * (n * spread).sqrt()
        };
        if !is_enough(most_groups) {
            return None;
        }
        let (mut too_few, mut enough) = (0, most_groups);
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            if is_enough(middle) { enough = middle } else { too_few = middle }
        }
        Some(enough)
    }
}

impl Outcome {
    /// True if the group can tell the candidate from nothing.
    fn is_informative(&self) -> bool {
        self.variance > 0.0
    }

    fn of(shape: GroupShape, with: u32, without: u32, probability: f64) -> Self {
        let margins = Margins { shape, successes: with.saturating_add(without) };
        let null = Null::of(margins);
        let factor = |ln_odds: f64| (f64::from(with) * ln_odds - null.ln_moment(ln_odds)).exp();
        Self {
            probability,
            margins,
            successes: with,
            excess: f64::from(with) - null.mean(),
            variance: if null.highest() > null.lowest { null.variance() } else { 0.0 },
            better: CANDIDATE_ODDS.map(|odds| factor(odds.ln())),
            worse: CANDIDATE_ODDS.map(|odds| factor(-odds.ln())),
        }
    }
}

/// The probabilities of 0 to `n` successes at this rate.
fn binomial(n: u32, rate: f64) -> Vec<f64> {
    let mut pmf = vec![1.0];
    for _ in 0..n {
        let stays = pmf.iter().map(|p| p * (1.0 - rate)).chain([0.0]);
        let rises = [0.0].into_iter().chain(pmf.iter().map(|p| p * rate));
        pmf = stays.zip(rises).map(|(stays, rises)| stays + rises).collect();
    }
    pmf
}
