//! Exact sums of scores, so that a comparison of two sums depends neither on the order of the summands nor on
//! rounding.
//!
//! A finite `f64` in [0, 1] is a whole multiple of 2^-1074, and a product of two of them a whole multiple of 2^-2148.
//! [`ExactSum`] is therefore a fixed-point number that is wide enough for both: adding is integer addition, nothing
//! underflows, and equal sums are equal bit by bit.
//!
//! # Invariants
//!
//! - An exact comparison of scores depends neither on rounding nor on the order of summands. Held by
//!   `sums_compare_as_whole_numbers_do`, `the_order_of_summands_does_not_matter`.

use crate::rollout::unit_interval;
use std::iter;

/// Limbs of 64 bits: one before the binary point and 34 behind it, 2,176 bits of which products use 2,148.
const N_LIMBS: usize = 35;

/// The bits that no product of two `f64` reaches, at the low end.
const SPARE_BITS: usize = 28;

/// How the exponent field of an `f64` is laid out.
const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
const FRACTION_MASK: u64 = (1 << FRACTION_BITS) - 1;
const EXPONENT_MASK: u64 = 0x7ff;

/// One limb's place value relative to the one above it: 2^-64.
const LIMB_STEP: f64 = 1.0 / 18_446_744_073_709_551_616.0;

/// Rounds to 6 digits, as the reference prints means.
pub fn round_6(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

/// An exact sum of scores and of products of two scores.
///
/// Every argument is a score: clamped to [0, 1], and 0 if it is not a number.
/// Sums are ordered as the numbers that they are; fewer than 2^64 summands fit.
///
/// ```
/// use skill_core::exact::ExactSum;
///
/// let sum = |scores: [f64; 3]| scores.into_iter().fold(ExactSum::ZERO, |sum, score| sum.plus(score));
/// assert_ne!(0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1);
/// assert_eq!(sum([0.1, 0.2, 0.3]), sum([0.3, 0.2, 0.1]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExactSum {
    /// The highest limb first, so that the derived order is that of the numbers.
    limbs: [u64; N_LIMBS],
}

impl Default for ExactSum {
    fn default() -> Self {
        Self::ZERO
    }
}

impl ExactSum {
    /// The sum of nothing.
    pub const ZERO: Self = Self { limbs: [0; N_LIMBS] };

    /// Adds a score.
    pub fn add(&mut self, score: f64) {
        self.add_product(score, 1.0);
    }

    /// Adds `left * right`.
    pub fn add_product(&mut self, left: f64, right: f64) {
        self.apply(product(left, right), u64::overflowing_add);
    }

    /// Adds `(1 - weight) * first + weight * second`, where `1 - weight` is not rounded either.
    pub fn add_blend(&mut self, weight: f64, first: f64, second: f64) {
        // What is taken away is at most what was added before, so that the number never falls below zero.
        self.add(first);
        self.apply(product(weight, first), u64::overflowing_sub);
        self.add_product(weight, second);
    }

    /// The sum with one more score.
    #[must_use]
    pub fn plus(mut self, score: f64) -> Self {
        self.add(score);
        self
    }

    /// The sum with `n_items` more scores of 1.
    #[must_use]
    pub fn plus_whole(mut self, n_items: usize) -> Self {
        let [whole, ..] = &mut self.limbs;
        *whole = whole.saturating_add(n_items as u64);
        self
    }

    /// This sum and another one together.
    #[must_use]
    pub(crate) fn plus_sum(mut self, other: &Self) -> Self {
        let mut carry = false;
        for (limb, added) in self.limbs.iter_mut().zip(&other.limbs).rev() {
            let (partial, first_carry) = limb.overflowing_add(*added);
            let (value, second_carry) = partial.overflowing_add(u64::from(carry));
            *limb = value;
            carry = first_carry || second_carry;
        }
        self
    }

    /// By how much this sum exceeds `other`, rounded up to a whole number; 0 where it does not.
    pub fn whole_excess(&self, other: &Self) -> usize {
        let [whole, fraction @ ..] = &self.limbs;
        let [other_whole, other_fraction @ ..] = &other.limbs;
        let excess = match whole.checked_sub(*other_whole) {
            Some(excess) => excess.saturating_add(u64::from(fraction > other_fraction)),
            None => 0,
        };
        usize::try_from(excess).unwrap_or(usize::MAX)
    }

    /// Whether this is less than `n_items`, the most that so many scores add up to.
    pub(crate) fn lacks_of(&self, n_items: usize) -> bool {
        *self < Self::ZERO.plus_whole(n_items)
    }

    /// The nearest `f64`; a larger sum never gives a smaller one.
    pub fn to_f64(&self) -> f64 {
        let n_zeros = self.limbs.iter().take_while(|limb| **limb == 0).count();
        let mut rest = self.limbs.iter().skip(n_zeros);
        let mut next = || u128::from(rest.next().copied().unwrap_or(0));
        let head = (next() << 64) | next();
        // At least 65 bits of the head are in use, so that its lowest bit can stand for everything below it:
        // it only says on which side of a tie the number lies.
        let is_inexact = rest.any(|limb| *limb != 0);
        let head = (head | u128::from(is_inexact)) as f64;
        (0..=n_zeros).fold(head, |value, _| value * LIMB_STEP)
    }

    /// Adds to, or takes from, the limbs from the one on where the term starts, with `step` for one limb.
    fn apply(&mut self, term: Term, step: fn(u64, u64) -> (u64, bool)) {
        let mut carry = false;
        let pieces = term.pieces.into_iter().map(Some).chain(iter::repeat(None));
        for (limb, piece) in self.limbs.iter_mut().rev().skip(term.n_limbs_below).zip(pieces) {
            if piece.is_none() && !carry {
                break;
            }
            let (partial, first_carry) = step(*limb, piece.unwrap_or(0));
            let (value, second_carry) = step(partial, u64::from(carry));
            *limb = value;
            carry = first_carry || second_carry;
        }
    }
}

/// A product at its place among the limbs.
struct Term {
    /// How many of the lowest limbs it does not touch.
    n_limbs_below: usize,
    /// The limbs that it touches, the lowest first.
    pieces: [u64; 3],
}

/// The exact product of two scores.
fn product(left: f64, right: f64) -> Term {
    let (left_significand, left_exponent) = parts(unit_interval(left));
    let (right_significand, right_exponent) = parts(unit_interval(right));
    let significand = u128::from(left_significand) * u128::from(right_significand);
    let shift = left_exponent + right_exponent + SPARE_BITS;
    // The significand has at most 106 bits and moves by at most 63, so that it ends in the third piece.
    let bits = shift % 64;
    let low = significand << bits;
    let high = if bits == 0 { 0 } else { significand >> (128 - bits) };
    Term { n_limbs_below: shift / 64, pieces: [low as u64, (low >> 64) as u64, high as u64] }
}

/// The significand `m` and the exponent `e` with `score = m * 2^(e - 1074)`, for a score in [0, 1].
fn parts(score: f64) -> (u64, usize) {
    let bits = score.to_bits();
    let fraction = bits & FRACTION_MASK;
    match (bits >> FRACTION_BITS) & EXPONENT_MASK {
        // A subnormal number has no hidden bit.
        0 => (fraction, 0),
        field => (fraction | (1 << FRACTION_BITS), field as usize - 1),
    }
}
