//! The standard normal distribution.
//!
//! Sources: the series around 0 as in G. Marsaglia, "Evaluating the normal distribution", Journal of Statistical
//! Software 11 (2004), and Laplace's continued fraction for the tails.

use std::f64::consts::{PI, SQRT_2};

/// From here on the continued fraction converges faster than the series.
const TAIL_START: f64 = 3.0;

/// How deep the continued fraction goes; at [`TAIL_START`] this is more than an `f64` can tell.
const TAIL_DEPTH: u32 = 120;

/// Beyond this an `f64` knows no smaller probability.
const FARTHEST: f64 = 38.0;

/// The density at `x`.
fn density(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (SQRT_2 * PI.sqrt())
}

/// The probability of a value above `x`.
///
/// ```
/// use skill_core::stats::normal::upper_tail;
///
/// assert!((upper_tail(1.959963984540054) - 0.025).abs() < 1e-16);
/// ```
pub fn upper_tail(x: f64) -> f64 {
    if x.is_nan() {
        return f64::NAN;
    }
    if x < 0.0 {
        return 1.0 - upper_tail(-x);
    }
    if x >= TAIL_START {
        // x + 1 / (x + 2 / (x + 3 / …)), from the inside out.
        let fraction = (1..=TAIL_DEPTH).rev().fold(x, |inner, depth| x + f64::from(depth) / inner);
        return density(x) / fraction;
    }
    let (mut sum, mut term, mut odd) = (0.0, x, 1.0);
    while term > sum * 1e-18 {
        sum += term;
        odd += 2.0;
        term *= x * x / odd;
    }
    0.5 - density(x) * sum
}

/// The value that is exceeded with this probability; infinite at 0 and 1, and not a number outside.
///
/// ```
/// use skill_core::stats::normal::upper_quantile;
///
/// assert!((upper_quantile(0.05) - 1.6448536269514722).abs() < 1e-12);
/// assert!((upper_quantile(0.8) + 0.8416212335729143).abs() < 1e-12);
/// ```
pub fn upper_quantile(probability: f64) -> f64 {
    if !(0.0..=1.0).contains(&probability) {
        return f64::NAN;
    }
    if probability == 0.0 {
        return f64::INFINITY;
    }
    if probability > 0.5 {
        return -upper_quantile(1.0 - probability);
    }
    let (mut low, mut high) = (0.0, FARTHEST);
    // Each round is one more binary digit.
    for _ in 0..64 {
        let middle = (low + high) / 2.0;
        if upper_tail(middle) > probability { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}
