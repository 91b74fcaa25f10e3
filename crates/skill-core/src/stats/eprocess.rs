//! Evidence that may be looked at after every item: the e-process of a bet on the candidate.
//!
//! A player starts with 1 and bets, on each item, a share `lambda` of what he has that the candidate scores higher:
//! his capital is multiplied by `1 + lambda * d` for a difference `d` in [-1, 1]. If the candidate is no better, nobody
//! can expect to gain by that, so that the capital ever reaches `1 / alpha` with a probability of at most `alpha`
//! (Ville's inequality), whenever one looks and stops. Here the bet is spread evenly over all `lambda` in [0, 1],
//!
//! `E = integral from 0 to 1 of product of (1 + lambda * d_i) d lambda`,
//!
//! which is the same as betting on the next item the share that has done best so far, on average: it is predictable,
//! and the order of the items does not matter for the value at the end. Where items are won, lost or tied, it is
//! `2^(m+1) * integral from 1/2 to 1 of t^W (1-t)^L dt` with `m = W + L`.
//!
//! **What it needs:** that the next difference is no higher on average than 0, given those before, if the candidate is
//! no better. That holds for items in random order, and for the value at the end of a whole evaluation. It does not
//! hold for [`crate::early::evaluation_order`], which puts the items first that can only be won.
//!
//! Sources: J. Ville, "Étude critique de la notion de collectif", 1939; I. Waudby-Smith and A. Ramdas, "Estimating means
//! of bounded random variables by betting", Journal of the Royal Statistical Society B 86 (2024), 1-27.

use super::paired::PairedCounts;
use super::scaled::Scaled;

/// Where the integrand has fallen by this much, in natural logarithms, nothing that counts is left.
const NEGLIGIBLE: f64 = 45.0;

/// Panels on each side of the integrand's peak.
const N_PANELS: u32 = 8;

/// Nodes and weights of the Gauss-Legendre rule of 16 points on [-1, 1], of which the negative half is the same.
const NODES: [(f64, f64); 8] = [
    (0.095_012_509_837_637_44, 0.189_450_610_455_068_5),
    (0.281_603_550_779_258_9, 0.182_603_415_044_923_6),
    (0.458_016_777_657_227_4, 0.169_156_519_395_002_54),
    (0.617_876_244_402_643_7, 0.149_595_988_816_576_74),
    (0.755_404_408_355_003, 0.124_628_971_255_533_88),
    (0.865_631_202_387_831_7, 0.095_158_511_682_492_78),
    (0.944_575_023_073_232_6, 0.062_253_523_938_647_894),
    (0.989_400_934_991_649_9, 0.027_152_459_411_754_095),
];

/// The natural logarithm of the e-value of these wins and losses, at the end of an evaluation.
///
/// ```
/// use skill_core::stats::{PairedCounts, ln_e_value};
///
/// let e = |wins, losses| ln_e_value(PairedCounts { wins, losses, ties: 3 }).exp();
/// assert!((e(0, 0) - 1.0).abs() < 1e-12);
/// // 2^8 * (1 - 2^-8) / 8.
/// assert!((e(7, 0) - 31.875).abs() < 1e-9);
/// assert!((e(1, 1) - 2.0 / 3.0).abs() < 1e-12);
/// ```
pub fn ln_e_value(counts: PairedCounts) -> f64 {
    // The integral is that of a beta distribution above 1/2, whose tail is one of a binomial distribution:
    // E = sum over j = 0..W of C(m+1, j) / ((m+1) C(m, W)), and C(m+1, W) / ((m+1) C(m, W)) = 1 / (L+1).
    let (w, l) = (counts.wins as f64, counts.losses as f64);
    let n_terms = (counts.wins as u64).saturating_add(1);
    Scaled::of_ratios(n_terms, |i| (w - i as f64) / (l + i as f64 + 2.0)).ln() - (l + 1.0).ln()
}

/// The natural logarithm of the e-value of these differences in [-1, 1], at the end of an evaluation.
///
/// Good to about 10 digits.
///
/// ```
/// use skill_core::stats::ln_e_value_of;
///
/// // The integral of (1 + 0.5 x) (1 - 0.25 x) from 0 to 1.
/// let e = ln_e_value_of(&[0.5, 0.0, -0.25]).exp();
/// assert!((e - (1.0 + 0.25 / 2.0 - 0.125 / 3.0)).abs() < 1e-12);
/// ```
pub fn ln_e_value_of(differences: &[f64]) -> f64 {
    let bets = Bets::of(differences);
    match bets.counts() {
        Some(counts) => ln_e_value(counts),
        None => bets.ln_mean(),
    }
}

/// A number that [`ln_e_value_of`] is certainly not above, for less work: the capital of the best single bet.
pub(crate) fn ln_e_value_at_most(differences: &[f64]) -> f64 {
    let bets = Bets::of(differences);
    match bets.counts() {
        Some(counts) => ln_e_value(counts),
        None => bets.ln_capital(bets.best()),
    }
}

/// The fewest items that differ with which the e-value can reach `1 / alpha`: `(2^(m+1) - 1) / (m + 1)` for `m` wins.
/// `None` for an `alpha` that is not above 0.
pub fn least_discordant(alpha: f64) -> Option<usize> {
    let mut power = 2.0;
    for n_items in 0..=1022_u32 {
        if (power - 1.0) / f64::from(n_items + 1) * alpha >= 1.0 {
            return Some(n_items as usize);
        }
        power *= 2.0;
    }
    None
}

/// The differences that are not 0, equal ones counted.
struct Bets {
    sizes: Vec<(f64, f64)>,
}

impl Bets {
    fn of(differences: &[f64]) -> Self {
        let usable = |difference: &f64| !difference.is_nan() && *difference != 0.0;
        let mut sorted: Vec<f64> = differences
            .iter()
            .copied()
            .filter(usable)
            .map(|difference| difference.clamp(-1.0, 1.0))
            .collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let sizes = sorted
            .chunk_by(|one, other| one == other)
            .filter_map(|equal| Some((*equal.first()?, equal.len() as f64)))
            .collect();
        Self { sizes }
    }

    /// Wins and losses, if there is nothing else.
    fn counts(&self) -> Option<PairedCounts> {
        let mut counts = PairedCounts::default();
        for (size, count) in &self.sizes {
            match *size {
                1.0 => counts.wins = *count as usize,
                -1.0 => counts.losses = *count as usize,
                _ => return None,
            }
        }
        Some(counts)
    }

    /// The logarithm of the capital of somebody who bets this share on each item; it is concave.
    fn ln_capital(&self, share: f64) -> f64 {
        self.sizes.iter().map(|(size, count)| count * (share * size).ln_1p()).sum()
    }

    /// The share that has the largest capital.
    fn best(&self) -> f64 {
        let slope = |share: f64| -> f64 {
            self.sizes.iter().map(|(size, count)| count * size / (1.0 + share * size)).sum()
        };
        if slope(0.0) <= 0.0 {
            return 0.0;
        }
        bisected(0.0, 1.0, |share| slope(share) > 0.0)
    }

    /// The logarithm of the mean capital over all shares in [0, 1].
    fn ln_mean(&self) -> f64 {
        let best = self.best();
        let peak = self.ln_capital(best);
        let counts = |share: f64| self.ln_capital(share) > peak - NEGLIGIBLE;
        let low = if counts(0.0) { 0.0 } else { bisected(0.0, best, |share| !counts(share)) };
        let high = if counts(1.0) { 1.0 } else { bisected(best, 1.0, counts) };
        let share_of_peak = |share: f64| (self.ln_capital(share) - peak).exp();
        let area = integral(low, best, share_of_peak) + integral(best, high, share_of_peak);
        peak + area.ln()
    }
}

/// The place in the interval up to which the condition holds.
fn bisected(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if holds(middle) { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The integral of a smooth function by the Gauss-Legendre rule in panels.
fn integral(low: f64, high: f64, function: impl Fn(f64) -> f64) -> f64 {
    let width = (high - low) / f64::from(N_PANELS);
    let of_panel = |panel: u32| {
        let middle = low + (f64::from(panel) + 0.5) * width;
        let at = |offset: f64| function(middle + offset * width / 2.0);
        NODES.iter().map(|(node, weight)| weight * (at(*node) + at(-node))).sum::<f64>()
    };
    (0..N_PANELS).map(of_panel).sum::<f64>() * width / 2.0
}

/// An e-process over items as they come.
///
/// It may be looked at after every item if, and only if, the items come in an order that was drawn by chance and not
/// by what is known of them.
///
/// ```
/// use skill_core::stats::EProcess;
///
/// let mut process = EProcess::default();
/// for difference in [1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0] {
///     process.push(difference);
/// }
/// assert!(process.has_reached(0.05));
/// ```
#[derive(Debug, Clone, Default)]
pub struct EProcess {
    differences: Vec<f64>,
    highest: f64,
}

impl EProcess {
    /// Takes the difference on the next item and returns the logarithm of the e-value now.
    pub fn push(&mut self, difference: f64) -> f64 {
        self.differences.push(difference);
        let now = ln_e_value_of(&self.differences);
        self.highest = self.highest.max(now);
        now
    }

    /// Whether the e-value has been `1 / alpha` or more at some time: then the hypothesis that the candidate is no
    /// better is rejected at this level.
    pub fn has_reached(&self, alpha: f64) -> bool {
        self.highest >= -alpha.ln()
    }
}
