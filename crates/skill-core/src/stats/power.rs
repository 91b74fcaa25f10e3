//! What a number of items can show, and how many are needed.
//!
//! Source of the formulae: O. S. Miettinen, "The matched pairs design in the case of all-or-none responses",
//! Biometrics 24 (1968), 339-352, without its correction of second order.

use super::normal::upper_quantile;
use std::f64::consts::PI;

/// `z_(1-alpha) + z_(1-beta)`, with `power = 1 - beta`.
fn both_quantiles(alpha: f64, power: f64) -> f64 {
    upper_quantile(alpha) + upper_quantile(1.0 - power)
}

/// The smallest true difference that a one-sided test at level `alpha` finds with probability `power`, if so large a
/// share of the items differs: `(z_(1-alpha) + z_(1-beta)) * sqrt(discordant / n)`.
///
/// Only the flips of an edit without effect are known: an edit that gains `effect` makes at least so many items differ
/// besides, `discordant = flip_rate + effect`.
///
/// Without flips this is not 0 but about six items: what the test needs to see at all. It is at most 1.
///
/// ```
/// use skill_core::stats::detectable_effect;
///
/// assert!((detectable_effect(0.0, 100, 0.05, 0.8) - 0.0618).abs() < 1e-4);
/// assert_eq!(detectable_effect(0.5, 4, 0.05, 0.8), 1.0);
/// ```
pub fn detectable_effect(flip_rate: f64, n_items: usize, alpha: f64, power: f64) -> f64 {
    detectable_beyond(upper_quantile(alpha), flip_rate, n_items, power)
}

/// As [`detectable_effect`], for a rule that accepts what lies so many standard errors above 0.
pub(crate) fn detectable_beyond(standard_errors: f64, flip_rate: f64, n_items: usize, power: f64) -> f64 {
    if n_items == 0 {
        return 1.0;
    }
    // n * effect^2 = z^2 * (flip_rate + effect).
    let (n, z_squared) = (n_items as f64, (standard_errors + upper_quantile(1.0 - power)).powi(2));
    let effect = (z_squared + (z_squared * z_squared + 4.0 * n * z_squared * flip_rate).sqrt()) / (2.0 * n);
    effect.min(1.0)
}

/// How many items are needed to find a true difference of `effect` as [`detectable_effect`] does; `None` for an effect
/// that is not above 0.
///
/// ```
/// use skill_core::stats::items_needed;
///
/// assert_eq!(items_needed(0.05, 0.2, 0.05, 0.8), Some(619));
/// ```
pub fn items_needed(effect: f64, flip_rate: f64, alpha: f64, power: f64) -> Option<usize> {
    if effect.is_nan() || effect <= 0.0 {
        return None;
    }
    let n_items = both_quantiles(alpha, power).powi(2) * (flip_rate + effect) / (effect * effect);
    Some(n_items.ceil() as usize)
}

/// The level of test number `test` (from 1), so that all tests together are wrong with a probability of at most
/// `alpha`, however many there will be: `alpha * 6 / (pi^2 * test^2)`, whose sum over all tests is `alpha`.
///
/// ```
/// use skill_core::stats::spent_alpha;
///
/// let spent: f64 = (1..=100_000).map(|test| spent_alpha(0.05, test)).sum();
/// assert!(spent < 0.05 && spent > 0.0499);
/// ```
pub fn spent_alpha(alpha: f64, test: u32) -> f64 {
    let test = f64::from(test.max(1));
    alpha * 6.0 / (PI * PI * test * test)
}

/// By how many standard deviations the largest of `n` draws of a normal distribution lies above its mean, on average;
/// 0 for one draw.
///
/// This is the expected selection bias of the best of `n` measurements, in standard deviations. The approximation is that
/// of G. Blom, "Statistical estimates and transformed beta-variables", 1958, with 3/8; it is good to 0.03.
///
/// ```
/// use skill_core::stats::expected_maximum;
///
/// assert!((expected_maximum(41) - 2.17).abs() < 0.01);
/// assert_eq!(expected_maximum(1), 0.0);
/// ```
pub fn expected_maximum(n: usize) -> f64 {
    if n < 2 {
        return 0.0;
    }
    let n = n as f64;
    upper_quantile(0.625 / (n + 0.25))
}
