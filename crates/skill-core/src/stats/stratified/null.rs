//! The successes with the candidate when it makes no difference: hypergeometric in each group, and their sum.

use super::{GroupShape, Margins};
use std::collections::BTreeMap;

/// Up to so many rollouts in a half, ways are counted in whole numbers: `C(60, 30)^2` fits 128 bits.
const MOST_WHOLE: u32 = 60;

/// Probabilities of a sum below this are left out at both ends.
const NEGLIGIBLE: f64 = 1e-300;

/// The hypergeometric distribution of one group.
#[derive(Debug)]
pub(super) struct Null {
    /// The fewest successes that the half with the candidate can have.
    pub(super) lowest: u32,
    /// Natural logarithms of the probabilities of `lowest`, `lowest + 1`, …
    ln_pmf: Vec<f64>,
    pmf: Vec<f64>,
}

impl Null {
    pub(super) fn of(margins: Margins) -> Self {
        let Margins { shape: GroupShape { new, old }, successes } = margins;
        let lowest = successes.saturating_sub(old);
        let highest = new.min(successes).max(lowest);
        if new.max(old) <= MOST_WHOLE {
            let ways: Vec<u128> =
                (lowest..=highest).map(|k| choose(new, k) * choose(old, successes - k)).collect();
            let all = ways.iter().sum::<u128>().max(1) as f64;
            let pmf: Vec<f64> = ways.iter().map(|ways| *ways as f64 / all).collect();
            return Self { lowest, ln_pmf: pmf.iter().map(|p| p.ln()).collect(), pmf };
        }
        let mut ln_ways = Vec::new();
        let mut ln_way = 0.0;
        for k in lowest..=highest {
            ln_ways.push(ln_way);
            // C(new, k + 1) C(old, t - k - 1) as a multiple of C(new, k) C(old, t - k).
            let up = f64::from(new - k) * f64::from(successes - k);
            let down = (f64::from(k) + 1.0) * (f64::from(old) - f64::from(successes - k) + 1.0);
            ln_way += up.ln() - down.ln();
        }
        let ln_all = ln_sum(ln_ways.iter().copied());
        let ln_pmf: Vec<f64> = ln_ways.iter().map(|ln_way| ln_way - ln_all).collect();
        Self { lowest, pmf: ln_pmf.iter().map(|ln_p| ln_p.exp()).collect(), ln_pmf }
    }

    /// `ln E[odds^K]` for the successes `K`: what the probabilities at these odds are normalised by.
    pub(super) fn ln_moment(&self, ln_odds: f64) -> f64 {
        ln_sum((self.lowest..).zip(&self.ln_pmf).map(|(k, ln_p)| f64::from(k) * ln_odds + ln_p))
    }

    /// The most successes that the half with the candidate can have.
    pub(super) fn highest(&self) -> u32 {
        (self.lowest..).zip(&self.pmf).last().map_or(self.lowest, |(k, _)| k)
    }

    pub(super) fn mean(&self) -> f64 {
        (self.lowest..).zip(&self.pmf).map(|(k, p)| f64::from(k) * p).sum()
    }

    pub(super) fn variance(&self) -> f64 {
        let mean = self.mean();
        (self.lowest..).zip(&self.pmf).map(|(k, p)| (f64::from(k) - mean).powi(2) * p).sum()
    }
}

/// The binomial coefficient, for `n` up to [`MOST_WHOLE`]; 0 where `k` is above `n`.
fn choose(n: u32, k: u32) -> u128 {
    if k > n {
        return 0;
    }
    (0..k.min(n - k)).fold(1, |ways, i| ways * u128::from(n - i) / u128::from(i + 1))
}

/// The logarithm of the sum of numbers that are given as logarithms; minus infinity for none.
pub(super) fn ln_sum(terms: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = terms.clone().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + terms.map(|term| (term - largest).exp()).sum::<f64>().ln()
}

/// For each shortfall from 0 on, its probability in the distribution that is nowhere more favourable than that of any
/// total: `P(D* >= d)` is the largest `P(D >= d)` of all totals.
fn highest_shortfalls(shape: GroupShape) -> Vec<f64> {
    let mut survivals = vec![1.0_f64];
    for successes in 1..shape.rollouts() {
        let null = Null::of(Margins { shape, successes });
        let mut below = 0.0;
        for (shortfall, p) in null.pmf.iter().rev().enumerate() {
            let survival: f64 = 1.0 - below;
            match survivals.get_mut(shortfall) {
                Some(most) => *most = most.max(survival),
                None => survivals.push(survival),
            }
            below += p;
        }
    }
    let beyond = survivals.iter().skip(1).copied().chain([0.0]);
    survivals.iter().zip(beyond).map(|(survival, beyond)| (survival - beyond).max(0.0)).collect()
}

/// The distribution of a sum over groups.
#[derive(Debug)]
pub(super) struct NullSum {
    /// The lowest value; below 0 where shortfalls have been added.
    lowest: i64,
    pmf: Vec<f64>,
}

impl NullSum {
    /// Of the successes with the candidate in these groups.
    pub(super) fn of(margins: &BTreeMap<Margins, u64>) -> Self {
        let mut sum = Self { lowest: 0, pmf: vec![1.0] };
        for (margins, count) in margins {
            let null = Null::of(*margins);
            for _ in 0..*count {
                sum.add(i64::from(null.lowest), &null.pmf);
            }
        }
        sum
    }

    /// Takes off the shortfalls of planned groups, see `Stratified::least_reachable_p`.
    pub(super) fn with_shortfalls(mut self, planned: &BTreeMap<GroupShape, u64>) -> Self {
        for (shape, count) in planned {
            let mut upwards = highest_shortfalls(*shape);
            upwards.reverse();
            let deepest = i64::try_from(upwards.len()).expect("the length of a list fits into 63 bits") - 1;
            for _ in 0..*count {
                self.add(-deepest, &upwards);
            }
        }
        self
    }

    fn add(&mut self, lowest: i64, pmf: &[f64]) {
        let mut sum = vec![0.0; self.pmf.len() + pmf.len() - 1];
        for (start, p) in self.pmf.iter().enumerate() {
            for (target, q) in sum.iter_mut().skip(start).zip(pmf) {
                *target += p * q;
            }
        }
        self.lowest += lowest;
        let n_low = sum.iter().take_while(|p| **p < NEGLIGIBLE).count();
        let n_high = sum.iter().rev().take_while(|p| **p < NEGLIGIBLE).count();
        if n_low + n_high < sum.len() {
            self.lowest += i64::try_from(n_low).expect("the length of a list fits into 63 bits");
            sum.truncate(sum.len() - n_high);
            sum.drain(..n_low);
        }
        self.pmf = sum;
    }

    /// Values with their probabilities, upwards.
    pub(super) fn values(&self) -> impl DoubleEndedIterator<Item = (i64, f64)> + Clone + '_ {
        self.pmf.iter().enumerate().map(|(offset, p)| (self.lowest + offset as i64, *p))
    }

    pub(super) fn lowest(&self) -> i64 {
        self.lowest
    }

    pub(super) fn highest(&self) -> i64 {
        self.values().next_back().map_or(self.lowest, |(value, _)| value)
    }

    pub(super) fn at(&self, value: i64) -> f64 {
        self.values().find(|(each, _)| *each == value).map_or(0.0, |(_, p)| p)
    }

    /// The probability of this value or a higher one.
    pub(super) fn upper_tail(&self, value: i64) -> f64 {
        if value <= self.lowest {
            return 1.0;
        }
        // The smallest terms first.
        self.values().rev().take_while(|(each, _)| *each >= value).map(|(_, p)| p).sum::<f64>().min(1.0)
    }

    /// The probability of this value or a lower one.
    pub(super) fn lower_tail(&self, value: i64) -> f64 {
        if value >= self.highest() {
            return 1.0;
        }
        self.values().take_while(|(each, _)| *each <= value).map(|(_, p)| p).sum::<f64>().min(1.0)
    }
}
