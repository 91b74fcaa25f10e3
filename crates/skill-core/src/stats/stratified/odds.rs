//! Evidence at any time: bets on the odds of a candidate, group by group.
//!
//! At odds `o`, a group's e-value is the probability of its result if the candidate multiplies the odds of success by
//! `o`, divided by the probability if it makes no difference; both are conditional on the group's total. The e-value of
//! the trial is the mean over [`CANDIDATE_ODDS`] of the products over groups. Its expectation is 1 for every total if
//! the candidate makes no difference, so that it ever reaches `1 / alpha` with a probability of at most `alpha`
//! (Ville's inequality, see [`crate::stats::eprocess`]), whenever one looks and stops.

use super::null::{Null, ln_sum};
use super::{GroupShape, Margins, TaskStratum};
use std::collections::BTreeMap;

/// The odds that are bet on: those that the candidate is better by; worse are their inverses.
pub const CANDIDATE_ODDS: [f64; 4] = [1.5, 2.0, 3.0, 5.0];

/// As many combinations of totals of planned groups are tried; beyond, an upper bound is given.
const MOST_COMBINATIONS: usize = 4096;

/// The e-process of a trial, for and against its candidate.
///
/// Groups may be pushed in any order; the e-values are the same to the last digit. All of it is kept as logarithms, so
/// that 10,000 groups do not overflow.
///
/// ```
/// use skill_core::stats::stratified::{OddsEProcess, TaskStratum};
///
/// let won = TaskStratum { new: [1, 1].try_into().unwrap(), old: [0, 1].try_into().unwrap() };
/// let mut process = OddsEProcess::default();
/// process.push(won);
/// // The mean of 2 o / (1 + o): 1.2, 4/3, 3/2 and 5/3.
/// assert!((process.ln_better().exp() - 1.425).abs() < 1e-12);
/// assert!((process.ln_worse().exp() - 0.575).abs() < 1e-12);
/// ```
#[derive(Debug, Clone, Default)]
pub struct OddsEProcess {
    /// Successes with the candidate.
    successes: u64,
    margins: BTreeMap<Margins, Counted>,
}

/// How often the same margins came, and what one of them takes off the logarithm at each of the odds.
#[derive(Debug, Clone, Copy)]
struct Counted {
    count: u64,
    ln_better: [f64; CANDIDATE_ODDS.len()],
    ln_worse: [f64; CANDIDATE_ODDS.len()],
}

impl OddsEProcess {
    /// Takes the next group; one that is not informative changes nothing.
    pub fn push(&mut self, group: TaskStratum) {
        self.push_all(group, 1);
    }

    /// Takes the same group so many times.
    pub(super) fn push_all(&mut self, group: TaskStratum, count: u64) {
        if !group.is_informative() || count == 0 {
            return;
        }
        let counted = self.margins.entry(group.margins()).or_insert_with_key(|margins| {
            let null = Null::of(*margins);
            Counted {
                count: 0,
                ln_better: CANDIDATE_ODDS.map(|odds| null.ln_moment(odds.ln())),
                ln_worse: CANDIDATE_ODDS.map(|odds| null.ln_moment(-odds.ln())),
            }
        });
        counted.count = counted.count.saturating_add(count);
        let successes = u64::from(group.new.successes()).saturating_mul(count);
        self.successes = self.successes.saturating_add(successes);
    }

    /// The natural logarithm of the e-value that the candidate is better, now.
    pub fn ln_better(&self) -> f64 {
        ln_mean(self.ln_products())
    }

    /// The natural logarithm of the e-value that the candidate is worse, now.
    pub fn ln_worse(&self) -> f64 {
        let successes = self.successes as f64;
        let taken = self.taken(|counted| counted.ln_worse);
        let products = CANDIDATE_ODDS.iter().zip(taken).map(|(odds, taken)| -successes * odds.ln() - taken);
        ln_mean(products)
    }

    /// The natural logarithm of the largest e-value for the candidate that can be reached, now or after any number of
    /// these planned groups.
    ///
    /// It is exact: a group helps all odds most if it has as many successes with the candidate as its total allows,
    /// and since the e-value is convex in how many groups have which total, it is largest where all groups of a shape
    /// have the same one. With so many shapes that these cannot all be tried it is an upper bound.
    pub fn ln_reachable_better(&self, planned: &BTreeMap<GroupShape, u64>) -> f64 {
        let shapes: Vec<Vec<[f64; CANDIDATE_ODDS.len()]>> =
            planned.iter().map(|(shape, count)| best_gains(*shape, *count)).collect();
        let n_combinations = shapes.iter().try_fold(1_usize, |n, gains| {
            n.checked_mul(gains.len().max(1)).filter(|n| *n <= MOST_COMBINATIONS)
        });
        let now: Vec<f64> = self.ln_products().collect();
        let plus = |ln_products: &[f64], gains: &[f64; CANDIDATE_ODDS.len()]| -> Vec<f64> {
            ln_products.iter().zip(gains).map(|(ln_product, gain)| ln_product + gain).collect()
        };
        let mut reachable = vec![now];
        for gains in shapes.iter().filter(|gains| !gains.is_empty()) {
            reachable = match n_combinations {
                Some(_) => {
                    reachable.iter().flat_map(|each| gains.iter().map(|gain| plus(each, gain))).collect()
                }
                None => {
                    let most = gains.iter().fold([0.0_f64; CANDIDATE_ODDS.len()], |mut most, gain| {
                        most.iter_mut().zip(gain).for_each(|(most, gain)| *most = most.max(*gain));
                        most
                    });
                    reachable.iter().map(|each| plus(each, &most)).collect()
                }
            };
        }
        reachable.iter().map(|each| ln_mean(each.iter().copied())).fold(f64::NEG_INFINITY, f64::max)
    }

    /// For each of the odds, the logarithm of the product over groups.
    fn ln_products(&self) -> impl Iterator<Item = f64> + Clone {
        let successes = self.successes as f64;
        let taken = self.taken(|counted| counted.ln_better);
        CANDIDATE_ODDS.into_iter().zip(taken).map(move |(odds, taken)| successes * odds.ln() - taken)
    }

    fn taken(&self, of: impl Fn(&Counted) -> [f64; CANDIDATE_ODDS.len()]) -> [f64; CANDIDATE_ODDS.len()] {
        self.margins.values().fold(Default::default(), |mut sums, counted| {
            let ln_moments = of(counted);
            sums.iter_mut().zip(ln_moments).for_each(|(sum, each)| *sum += counted.count as f64 * each);
            sums
        })
    }
}

/// What so many groups of a shape add at each of the odds at best, for each total that they may have.
fn best_gains(shape: GroupShape, count: u64) -> Vec<[f64; CANDIDATE_ODDS.len()]> {
    if shape.new == 0 || shape.old == 0 {
        return Vec::new();
    }
    let of_total = |successes| {
        let null = Null::of(Margins { shape, successes });
        let most = f64::from(null.highest());
        CANDIDATE_ODDS.map(|odds| count as f64 * (most * odds.ln() - null.ln_moment(odds.ln())))
    };
    (1..shape.rollouts()).map(of_total).collect()
}

/// The logarithm of the mean over the odds.
fn ln_mean(ln_products: impl Iterator<Item = f64> + Clone) -> f64 {
    ln_sum(ln_products) - (CANDIDATE_ODDS.len() as f64).ln()
}
