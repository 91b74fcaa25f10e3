//! Whether something can be taken from a skill: the rule for removals, where an addition has to pass the
//! [gate](crate::gate).
//!
//! A removal makes a skill shorter, which is worth something by itself, so that it need not score higher: it stays
//! unless it scores lower by more than a margin. With a margin of 0 a tie stays, and the least loss does not.

use crate::early::EarlyRejection;
use crate::exact::ExactSum;
use crate::gate::{Gate, ItemScore};

/// The rule: a candidate stands if its score is at least the current skill's score less a margin.
///
/// Both scores are over the same items, and are compared exactly.
///
/// ```
/// use skill_core::{Gate, ItemScore, NonInferiority};
///
/// let scores = |n_solved: usize| -> Vec<ItemScore> {
///     (0..10).map(|item| ItemScore { hard: f64::from(u8::from(item < n_solved)), soft: 0.0 }).collect()
/// };
/// let rule = NonInferiority { gate: Gate::default(), margin: 0.1 };
/// assert!(rule.holds(&scores(7), &scores(8)));
/// assert!(!rule.holds(&scores(6), &scores(8)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NonInferiority {
    /// What a score is.
    pub gate: Gate,
    /// How much lower the mean score may be; clamped to [0, 1], and 0 if it is not a number.
    pub margin: f64,
}

impl NonInferiority {
    /// Whether the candidate stands. Lists of different lengths are not of the same items, and by them nothing does;
    /// without items nothing is shown either.
    pub fn holds(&self, candidate: &[ItemScore], current: &[ItemScore]) -> bool {
        candidate.len() == current.len()
            && !current.is_empty()
            && self.gate.total(candidate).plus_sum(&self.allowance(current.len())) >= self.gate.total(current)
    }

    /// The comparison of a candidate of which nothing is known yet: it is rejected as soon as it can no longer stand,
    /// whatever the open items give, and so with the outcome of the whole evaluation. One that is open when all items
    /// are in stands.
    ///
    /// ```
    /// use skill_core::{EarlyVerdict, Gate, ItemScore, NonInferiority};
    ///
    /// let score = |hard| ItemScore { hard, soft: hard };
    /// let current = [score(1.0), score(1.0), score(1.0), score(0.0)];
    /// let mut rejection = NonInferiority { gate: Gate::default(), margin: 0.25 }.early(&current);
    /// assert_eq!(rejection.push(score(0.0)), EarlyVerdict::Open);
    /// assert_eq!(rejection.push(score(0.0)), EarlyVerdict::Open);
    /// // With the open item it would have 2 of 4, which is 0.75 less 0.25; without it not.
    /// assert_eq!(rejection.push(score(1.0)), EarlyVerdict::Open);
    /// assert_eq!(rejection.push(score(0.0)), EarlyVerdict::Rejected);
    /// ```
    pub fn early(&self, current: &[ItemScore]) -> EarlyRejection {
        EarlyRejection::of_removal(self.gate, current, self.allowance(current.len()))
    }

    /// What the items together may lose.
    ///
    /// The number nearest to 0.3 is a little less than 0.3, and three of ten items are meant to be a loss of 0.3: a
    /// margin is therefore taken as the next number above it, which is above what was written too.
    pub(crate) fn allowance(&self, n_items: usize) -> ExactSum {
        let margin = if self.margin > 0.0 { self.margin.next_up() } else { 0.0 };
        (0..n_items).fold(ExactSum::ZERO, |sum, _| sum.plus(margin))
    }
}
