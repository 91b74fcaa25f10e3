//! Student's t distribution: intervals for the mean of a few runs, and for the difference of two means.

use super::normal::upper_quantile;

/// From this many degrees of freedom on, the normal distribution is used; the quantiles differ by less than 0.3 %.
const MAX_DEGREES: u32 = 1_000;

/// The upper end of the search for a quantile.
const MAX_QUANTILE: f64 = 1e6;

/// The two-sided quantile: a variable of `degrees` degrees of freedom is between its negative and itself with
/// probability `level`.
///
/// Source: M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4.
///
/// ```
/// use skill_core::stats::student_quantile;
///
/// // From printed tables.
/// let quantiles = [1, 2, 4, 9, 30].map(|degrees| student_quantile(0.95, degrees));
/// for (found, printed) in quantiles.into_iter().zip([12.706, 4.303, 2.776, 2.262, 2.042]) {
///     assert!((found - printed).abs() < 1e-3);
/// }
/// ```
pub fn student_quantile(level: f64, degrees: u32) -> f64 {
    if degrees > MAX_DEGREES {
        return upper_quantile((1.0 - level) / 2.0);
    }
    let [mut low, mut high] = [0.0, MAX_QUANTILE];
    // Halved until a `f64` has no number between them.
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if central_probability(middle, degrees.max(1)) < level {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The probability that the absolute value is below `t`, for a positive `t`.
fn central_probability(t: f64, degrees: u32) -> f64 {
    let tangent = t / f64::from(degrees).sqrt();
    let cosine = 1.0 / (1.0 + tangent * tangent).sqrt();
    let sine = tangent * cosine;
    let is_odd = degrees % 2 == 1;
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    let mut degree = if is_odd { 1 } else { 0 };
    while degree + 2 <= degrees {
        sum += term;
        degree += 2;
        term *= cosine * cosine * f64::from(degree - 1) / f64::from(degree);
    }
    if is_odd { (tangent.atan() + sine * sum) / std::f64::consts::FRAC_PI_2 } else { sine * sum }
}

/// The mean and the variance of a sample, whose sum of squares is divided by one less than their number.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, squares / (n - 1.0))
}

/// The t interval for the mean that a sample comes from, at this confidence level; `None` for fewer than two values.
///
/// It is about chance between the values, such as the seeds of runs. Values that are all the same give an interval
/// without a width.
///
/// ```
/// use skill_core::stats::mean_interval;
///
/// let [low, high] = mean_interval(&[0.5, 0.6, 0.7], 0.95).unwrap();
/// assert!((low - 0.3516).abs() < 1e-4 && (high - 0.8484).abs() < 1e-4);
/// assert_eq!(mean_interval(&[0.5], 0.95), None);
/// ```
pub fn mean_interval(values: &[f64], level: f64) -> Option<[f64; 2]> {
    let degrees = u32::try_from(values.len()).ok()?.checked_sub(1).filter(|degrees| *degrees > 0)?;
    let (mean, variance) = moments(values);
    let half_width = student_quantile(level, degrees) * (variance / values.len() as f64).sqrt();
    Some([mean - half_width, mean + half_width])
}

/// Welch's interval for the difference of two means, the second less the first, of samples that are not paired; `None`
/// for fewer than two values in either.
///
/// Its degrees of freedom are rounded down, which makes it a little wider.
/// Source: B. L. Welch, "The generalization of 'Student's' problem when several different population variances are
/// involved", Biometrika 34 (1947), 28-35.
///
/// ```
/// use skill_core::stats::means_interval;
///
/// let [low, high] = means_interval([&[0.4, 0.5, 0.6], &[0.7, 0.8, 0.9]], 0.95).unwrap();
/// assert!((low - 0.0733).abs() < 1e-4 && (high - 0.5267).abs() < 1e-4);
/// ```
pub fn means_interval(samples: [&[f64]; 2], level: f64) -> Option<[f64; 2]> {
    if samples.iter().any(|sample| sample.len() < 2) {
        return None;
    }
    let of = |sample: &[f64]| {
        let (mean, variance) = moments(sample);
        let n = sample.len() as f64;
        (mean, variance / n, variance * variance / (n * n * (n - 1.0)))
    };
    let [first, second] = samples.map(of);
    let difference = second.0 - first.0;
    let variance = first.1 + second.1;
    if variance == 0.0 {
        return Some([difference, difference]);
    }
    // A whole number may be computed a little too small.
    let degrees = variance * variance / (first.2 + second.2) * (1.0 + 1e-9);
    let degrees = degrees.floor().clamp(1.0, f64::from(u32::MAX)) as u32;
    let half_width = student_quantile(level, degrees) * variance.sqrt();
    Some([difference - half_width, difference + half_width])
}
