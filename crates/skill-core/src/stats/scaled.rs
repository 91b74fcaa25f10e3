//! Sums of positive terms that are larger than an `f64` can be.

use std::f64::consts::LN_2;

/// What one step of the scale is, as a power of two, so that scaling rounds nothing.
const STEP_BITS: i32 = 800;

/// `mantissa * 2^(800 * n_steps)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scaled {
    mantissa: f64,
    n_steps: i32,
}

impl Scaled {
    /// `1 + r(0) + r(0) r(1) + …` with this many terms, for ratios that fall: the terms rise and then fall, or only fall.
    ///
    /// All terms are positive, so that the relative error is at most a few units in the last place per term.
    pub(super) fn of_ratios(n_terms: u64, ratio: impl Fn(u64) -> f64) -> Self {
        let (step, mut n_steps) = (2.0_f64.powi(STEP_BITS), 0);
        let (mut sum, mut term) = (0.0, 1.0);
        for term_idx in 0..n_terms {
            sum += term;
            let next = ratio(term_idx);
            term *= next;
            if sum > step {
                sum /= step;
                term /= step;
                n_steps += 1;
            }
            // What is left is less than one part in 10^20 for each of at most 10^9 terms.
            if next < 1.0 && term < sum * 1e-30 {
                break;
            }
        }
        Self { mantissa: sum, n_steps }
    }

    /// This many times as much.
    pub(super) fn times(self, factor: f64) -> Self {
        Self { mantissa: self.mantissa * factor, ..self }
    }

    /// The natural logarithm.
    pub(super) fn ln(self) -> f64 {
        self.mantissa.ln() + f64::from(self.n_steps) * f64::from(STEP_BITS) * LN_2
    }

    /// The natural logarithm of `self / (self + other)`.
    pub(super) fn ln_share(self, other: Self) -> f64 {
        let (ratio, n_steps) = (other.mantissa / self.mantissa, other.n_steps - self.n_steps);
        match n_steps {
            0 => -ratio.ln_1p(),
            _ => {
                let ln_ratio = ratio.ln() + f64::from(n_steps) * f64::from(STEP_BITS) * LN_2;
                // The larger of the two is taken out, so that nothing overflows.
                -(ln_ratio.max(0.0) + (-ln_ratio.abs()).exp().ln_1p())
            }
        }
    }

    /// `self / (self + other)`.
    pub(super) fn share(self, other: Self) -> f64 {
        if self.n_steps == other.n_steps {
            self.mantissa / (self.mantissa + other.mantissa)
        } else {
            self.ln_share(other).exp()
        }
    }
}
