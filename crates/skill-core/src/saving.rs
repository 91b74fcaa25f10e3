//! Fewer tokens: how many are worth a change that does not score higher, and how long a candidate can still save them.
//!
//! Tokens are compared as whole numbers, and the share that has to be saved counts to a millionth. A draw of which the
//! tokens are not known for both skills counts for neither.
//!
//! # Invariants
//!
//! - A candidate that could win by fewer tokens is rejected early only if the whole evaluation would reject it; the
//!   margin of the score is lost once, not with each acceptance. Held by
//!   `early_rejection_decides_as_the_whole_evaluation_does_with_tokens`,
//!   `a_margin_is_given_up_once_and_not_with_each_acceptance`.

use crate::exact::ExactSum;

/// Shares count in millionths.
const WHOLE: i128 = 1_000_000;

/// How many fewer tokens are worth a change that does not score higher.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenSaving {
    /// The least share of the tokens that has to be saved, above 0 and below 1.
    pub least: f64,
    /// How much lower the mean score may be, as in [`NonInferiority::margin`](crate::NonInferiority::margin).
    pub margin: f64,
}

impl TokenSaving {
    /// The share of the tokens that may be left, in millionths.
    fn kept(self) -> i128 {
        let saved = (self.least.clamp(0.0, 1.0) * 1e6).round();
        WHOLE - saved as i128
    }

    /// True if the candidate takes so much fewer tokens.
    ///
    /// ```
    /// use skill_core::TokenSaving;
    ///
    /// let saving = TokenSaving { least: 0.2, margin: 0.0 };
    /// assert!(saving.is_shown(&[80, 160], &[100, 200]));
    /// assert!(!saving.is_shown(&[80, 161], &[100, 200]));
    /// // What was not counted shows nothing.
    /// assert!(!saving.is_shown(&[0, 0], &[100, 200]));
    /// ```
    pub fn is_shown(self, candidate: &[u64], current: &[u64]) -> bool {
        let counted = CountedTokens::of(candidate, current);
        candidate.len() == current.len()
            && counted.n_draws > 0
            && i128::from(counted.candidate) * WHOLE <= i128::from(counted.current) * self.kept()
    }
}

/// Tokens of two skills over the draws that were counted for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CountedTokens {
    /// How many draws these are.
    pub n_draws: usize,
    /// What the candidate took.
    pub candidate: u64,
    /// What the other skill took.
    pub current: u64,
}

impl CountedTokens {
    /// Adds up the draws of which both numbers are known; one that is 0 is not.
    pub fn of(candidate: &[u64], current: &[u64]) -> Self {
        let pairs = candidate.iter().zip(current).filter(|(ours, theirs)| **ours > 0 && **theirs > 0);
        pairs.fold(Self::default(), |sum, (ours, theirs)| Self {
            n_draws: sum.n_draws + 1,
            candidate: sum.candidate.saturating_add(*ours),
            current: sum.current.saturating_add(*theirs),
        })
    }

    /// The share of the tokens that the candidate saves; negative if it takes more.
    pub fn saved(self) -> f64 {
        if self.current == 0 { 0.0 } else { 1.0 - self.candidate as f64 / self.current as f64 }
    }
}

/// What is still possible for a candidate that would win by its tokens.
#[derive(Debug, Clone)]
pub(crate) struct SavingBound {
    /// What all items together may lose.
    allowance: ExactSum,
    kept: i128,
    /// The current skill's tokens, by place of the evaluation order.
    current: Vec<u64>,
    /// By how much the candidate would exceed what may be left, in millionths of a token, if each open draw took as
    /// little as it can.
    least_excess: i128,
    /// Draws that count, or may come to count.
    n_countable: usize,
}

impl SavingBound {
    pub(crate) fn new(saving: TokenSaving, allowance: ExactSum, tokens: &[u64], order: &[usize]) -> Self {
        let kept = saving.kept();
        let current: Vec<u64> = order
            .iter()
            .map(|draw_idx| *tokens.get(*draw_idx).expect("the order is that of these draws"))
            .collect();
        let least_excess = current.iter().map(|tokens| least_excess(kept, *tokens)).sum();
        let n_countable = current.iter().filter(|tokens| **tokens > 0).count();
        Self { allowance, kept, current, least_excess, n_countable }
    }

    /// Takes the tokens of the draw at this place.
    pub(crate) fn push(&mut self, place: usize, tokens: u64) {
        let Some(current) = self.current.get(place).copied().filter(|current| *current > 0) else { return };
        self.least_excess -= least_excess(self.kept, current);
        if tokens == 0 {
            self.n_countable -= 1;
        } else {
            self.least_excess += excess(self.kept, tokens, current);
        }
    }

    /// True if the candidate cannot win by its tokens, where `most` is what it can still score at most.
    pub(crate) fn is_lost(&self, most: ExactSum, bar: &ExactSum) -> bool {
        self.n_countable == 0 || self.least_excess > 0 || most.plus_sum(&self.allowance) < *bar
    }
}

fn excess(kept: i128, candidate: u64, current: u64) -> i128 {
    i128::from(candidate) * WHOLE - i128::from(current) * kept
}

/// An open draw takes a token at least, or does not count.
fn least_excess(kept: i128, current: u64) -> i128 {
    if current == 0 { 0 } else { excess(kept, 1, current).min(0) }
}
