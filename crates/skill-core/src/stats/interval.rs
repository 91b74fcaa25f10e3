//! Intervals for a difference and for a score, and the sign-flip permutation test.

use super::normal::upper_quantile;
use super::paired::Paired;
use crate::random::PyRandom;

/// Up to so many items that differ, every way to flip their signs is tried: about a million.
pub const EXACT_SIGN_FLIPS: usize = 20;

/// How many random ways are tried where there are more.
const RANDOM_SIGN_FLIPS: u32 = 20_000;

/// An interval for the true mean difference at this confidence level (such as 0.95), within [-1, 1].
///
/// It is that of A. Agresti and Y. Min, "Simple improved confidence intervals for comparing matched proportions",
/// Statistics in Medicine 24 (2005), 729-740: a Wald interval after one half has been added to each of the four counts
/// (both right, both wrong, a win, a loss). So it has a width even where no item differs, and keeps its level on few
/// items. Graded differences are treated alike; since the half win and the half loss that are added are as far from
/// each other as can be, the interval is wider for them than it had to be.
///
/// ```
/// use skill_core::stats::{Paired, difference_interval};
/// use skill_core::{Gate, ItemScore};
///
/// let scores = |hard: f64| vec![ItemScore { hard, soft: 0.0 }; 50];
/// let nothing_differs = Paired::of(Gate::default(), 1, &scores(1.0), &scores(1.0)).unwrap();
/// let [low, high] = difference_interval(&nothing_differs, 0.95);
/// assert!((high - 0.0377).abs() < 1e-4 && low == -high);
/// ```
pub fn difference_interval(paired: &Paired, level: f64) -> [f64; 2] {
    let n = paired.differences.len() as f64 + 2.0;
    // The half win and the half loss cancel out in the sum and add 1 to the squares.
    let mean = paired.sum() / n;
    let variance = ((paired.sum_of_squares() + 1.0) / n - mean * mean).max(0.0);
    let half_width = upper_quantile((1.0 - level) / 2.0) * (variance / n).sqrt();
    let found = paired.mean();
    [(mean - half_width).min(found).max(-1.0), (mean + half_width).max(found).min(1.0)]
}

/// An interval for the difference of two shares that were measured apart, each as successes of so many: the second less
/// the first, within [-1, 1].
///
/// It is that of A. Agresti and B. Caffo, "Simple and effective confidence intervals for proportions and differences of
/// proportions result from adding two successes and two failures", The American Statistician 54 (2000), 280-288. Where
/// both were measured on the same items, [`difference_interval`] is narrower.
///
/// ```
/// use skill_core::stats::shares_interval;
///
/// let [low, high] = shares_interval([256, 285], [400, 400], 0.95);
/// assert!((low - 0.0077).abs() < 5e-4 && (high - 0.1366).abs() < 5e-4);
/// ```
pub fn shares_interval(successes: [usize; 2], n: [usize; 2], level: f64) -> [f64; 2] {
    let [before, after] = [(successes[0], n[0]), (successes[1], n[1])].map(|(successes, n)| {
        let n = n as f64 + 2.0;
        let share = (successes as f64 + 1.0) / n;
        (share, share * (1.0 - share) / n)
    });
    let half_width = upper_quantile((1.0 - level) / 2.0) * (before.1 + after.1).sqrt();
    let difference = after.0 - before.0;
    [(difference - half_width).max(-1.0), (difference + half_width).min(1.0)]
}

/// An interval for the true mean of `n_items` scores in [0, 1] with this mean, at this confidence level.
///
/// It is that of A. Agresti and B. A. Coull, "Approximate is better than 'exact' for interval estimation of binomial
/// proportions", The American Statistician 52 (1998), 119-126. For graded scores it is wider than it had to be, since
/// no scores in [0, 1] of that mean vary as much as 0 and 1 do.
pub fn score_interval(mean: f64, n_items: usize, level: f64) -> [f64; 2] {
    let z = upper_quantile((1.0 - level) / 2.0);
    let n = n_items as f64 + z * z;
    let centre = (mean * n_items as f64 + z * z / 2.0) / n;
    let half_width = z * (centre * (1.0 - centre) / n).max(0.0).sqrt();
    [(centre - half_width).min(mean).max(0.0), (centre + half_width).max(mean).min(1.0)]
}

/// The one-sided p-value of the sign-flip permutation test: how often the sum of the differences would be as large if
/// each sign were chance. Unlike [`super::mcnemar_p`] it takes the size of graded differences into account.
///
/// Exact up to [`EXACT_SIGN_FLIPS`] differences that are not 0. With more it comes from 20,000 random flips by this
/// seed, and the differences as they are count as one of them, so that it is never 0 and never too small on average.
///
/// Source: R. A. Fisher, "The Design of Experiments", 1935, section 21; for the random flips B. Phipson and G. K. Smyth,
/// "Permutation p-values should never be zero", Statistical Applications in Genetics and Molecular Biology 9 (2010).
///
/// ```
/// use skill_core::stats::sign_flip_p;
///
/// // Of the eight ways, `+0.5 +0.4 +0.1` and `+0.5 +0.4 -0.1` reach 0.8.
/// assert_eq!(sign_flip_p(&[0.5, 0.4, 0.0, -0.1], 42), 0.25);
/// ```
pub fn sign_flip_p(differences: &[f64], seed: u64) -> f64 {
    let sizes: Vec<f64> =
        differences.iter().map(|difference| difference.abs()).filter(|size| *size > 0.0).collect();
    let found: f64 = differences.iter().sum();
    // Sums of the same numbers in another order differ in the last digits, and are as large all the same.
    let threshold = found - 1e-9 * sizes.iter().sum::<f64>();
    if sizes.len() <= EXACT_SIGN_FLIPS {
        let n_ways = 1_u32 << sizes.len();
        let is_as_large = |way: &u32| {
            let signed = sizes.iter().enumerate();
            let sum: f64 = signed.map(|(bit, size)| if way >> bit & 1 == 1 { *size } else { -size }).sum();
            sum >= threshold
        };
        let n_as_large = (0..n_ways).filter(is_as_large).count();
        return n_as_large as f64 / f64::from(n_ways);
    }
    let mut random = PyRandom::new(seed);
    let mut n_as_large = 1_u32;
    for _ in 0..RANDOM_SIGN_FLIPS {
        let sum: f64 = sizes
            .chunks(32)
            .map(|sizes| {
                let signs = random.getrandbits(32);
                let signed = sizes.iter().enumerate();
                signed.map(|(bit, size)| if signs >> bit & 1 == 1 { *size } else { -size }).sum::<f64>()
            })
            .sum();
        n_as_large += u32::from(sum >= threshold);
    }
    f64::from(n_as_large) / f64::from(RANDOM_SIGN_FLIPS + 1)
}
