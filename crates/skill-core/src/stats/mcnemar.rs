//! McNemar's test, exact and one-sided: could as many wins among the items that differ be chance?
//!
//! Items on which both skills score the same say nothing about which is better. Of the `W + L` others, under the
//! hypothesis that a candidate is no better, at least `W` are wins with a probability of at most
//! `p = sum over j = W..W+L of C(W+L, j) / 2^(W+L)`.
//!
//! Source: Q. McNemar, "Note on the sampling error of the difference between correlated proportions or percentages",
//! Psychometrika 12 (1947), 153-157, in its exact form: the sign test of W. J. Dixon and A. M. Mood, "The statistical
//! sign test", Journal of the American Statistical Association 41 (1946), 557-566.

use super::paired::PairedCounts;
use super::scaled::Scaled;

/// The one-sided p-value of these wins and losses.
///
/// Ties are not looked at; without a win or a loss the value is 1. Exact up to 100 items that differ, and good to 11 digits up to 100,000;
/// below the least `f64` it is 0, for which there is [`ln_mcnemar_p`].
///
/// ```
/// use skill_core::stats::{PairedCounts, mcnemar_p};
///
/// let p = |wins, losses| mcnemar_p(PairedCounts { wins, losses, ties: 40 });
/// assert_eq!(p(5, 0), 1.0 / 32.0);
/// // 10, 11 or 12 wins of 12: 66 + 12 + 1 of 4,096 ways.
/// assert!((p(10, 2) - 79.0 / 4096.0).abs() < 1e-15);
/// assert!(p(0, 0) == 1.0 && p(0, 7) == 1.0);
/// ```
pub fn mcnemar_p(counts: PairedCounts) -> f64 {
    if counts.wins == 0 {
        return 1.0;
    }
    if counts.discordant() <= MOST_WHOLE {
        return whole_p(counts.wins, counts.discordant());
    }
    let (above, below) = tails(counts);
    above.share(below)
}

/// Up to so many items that differ, the ways to have wins are counted one by one: their number fits 128 bits.
const MOST_WHOLE: usize = 100;

/// The ways in which `n` coins show at least `wins` heads, in whole numbers, of `2^n`.
fn whole_p(wins: usize, n: usize) -> f64 {
    let (mut ways, mut total) = (1_u128, 0_u128);
    for heads in 0..=n {
        if heads >= wins {
            total += ways;
        }
        ways = ways * (n - heads) as u128 / (heads as u128 + 1);
    }
    total as f64 / 2.0_f64.powi(n as i32)
}

/// The natural logarithm of [`mcnemar_p`], which does not run out of digits.
pub fn ln_mcnemar_p(counts: PairedCounts) -> f64 {
    if counts.wins == 0 {
        return 0.0;
    }
    let (above, below) = tails(counts);
    above.ln_share(below)
}

/// The ways to have at least as many wins, and fewer, both as multiples of the ways to have just as many.
fn tails(counts: PairedCounts) -> (Scaled, Scaled) {
    let (wins, losses) = (counts.wins as u64, counts.losses as u64);
    let (w, l) = (wins as f64, losses as f64);
    // Ratios of neighbours, outwards from C(m, W) and from C(m, W - 1), which is C(m, W) W / (L + 1).
    let above = Scaled::of_ratios(losses.saturating_add(1), |i| (l - i as f64) / (w + i as f64 + 1.0));
    let below = Scaled::of_ratios(wins, |i| (w - i as f64 - 1.0) / (l + i as f64 + 2.0)).times(w / (l + 1.0));
    (above, below)
}

/// The fewest wins without a loss whose p-value is at most `alpha`: with fewer items that differ, whichever way they
/// fall, the test shows nothing. `None` if no number does, which is so for an `alpha` that is not above 0.
///
/// ```
/// use skill_core::stats::least_wins;
///
/// assert_eq!(least_wins(0.05), Some(5));
/// assert_eq!(least_wins(0.0), None);
/// ```
pub fn least_wins(alpha: f64) -> Option<usize> {
    let mut p = 1.0;
    for n_wins in 0..=1074 {
        if p <= alpha {
            return Some(n_wins);
        }
        p /= 2.0;
    }
    None
}
