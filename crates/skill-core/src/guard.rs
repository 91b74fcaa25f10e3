//! A second score that a change must not lower, whatever it gains by the first.
//!
//! The gate decides by one score. A guard is another one of the same samples, such as that of a second scorer: a candidate
//! that the gate would accept is rejected if that score falls.

use crate::stats::sign_flip_p;
use serde::{Deserialize, Serialize};

/// A fall that is at most this probable by chance counts, however small it is.
const ALPHA: f64 = 0.05;
/// A larger fall of the mean counts, even where few items cannot tell it from chance.
const MOST_LOST: f64 = 0.1;

/// The second scores of a candidate beside those of the current skill.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Guarded {
    /// Items that have a second score under both skills.
    pub n: usize,
    /// The mean of the current skill.
    pub current: f64,
    /// The mean of the candidate.
    pub candidate: f64,
    /// True if it falls: by more than a tenth, or significantly (one-sided sign-flip test at 0.05).
    pub falls: bool,
}

impl Guarded {
    /// Compares the second scores of the same samples, `repeats` of each item side by side; `None` where no item has them.
    ///
    /// ```
    /// use skill_core::guard::Guarded;
    ///
    /// let scores = |values: &[f64]| values.iter().map(|value| Some(*value)).collect::<Vec<_>>();
    /// let falls = |candidate: &[f64], current: &[f64]| {
    ///     Guarded::of(&scores(candidate), &scores(current), 1, 42).map(|guarded| guarded.falls)
    /// };
    /// assert_eq!(falls(&[1.0; 8], &[1.0; 8]), Some(false));
    /// assert_eq!(falls(&[0.0, 1.0, 1.0, 1.0, 1.0], &[1.0; 5]), Some(true), "a fifth");
    /// assert_eq!(falls(&[0.95; 8], &[1.0; 8]), Some(true), "a little on each item");
    /// assert_eq!(Guarded::of(&[None], &[Some(1.0)], 1, 42), None);
    /// ```
    pub fn of(candidate: &[Option<f64>], current: &[Option<f64>], repeats: usize, seed: u64) -> Option<Self> {
        let repeats = repeats.max(1);
        let pairs = candidate.chunks(repeats).zip(current.chunks(repeats));
        let both: Vec<(f64, f64)> =
            pairs.filter_map(|(candidate, current)| Some((mean(candidate)?, mean(current)?))).collect();
        if both.is_empty() || candidate.len() != current.len() {
            return None;
        }
        let n = both.len() as f64;
        let lost: Vec<f64> = both.iter().map(|(candidate, current)| current - candidate).collect();
        let mean_lost = lost.iter().sum::<f64>() / n;
        Some(Self {
            n: both.len(),
            current: both.iter().map(|(_, current)| current).sum::<f64>() / n,
            candidate: both.iter().map(|(candidate, _)| candidate).sum::<f64>() / n,
            falls: mean_lost > MOST_LOST || mean_lost > 0.0 && sign_flip_p(&lost, seed) <= ALPHA,
        })
    }
}

/// The mean of an item's draws, where all of them have a score.
fn mean(draws: &[Option<f64>]) -> Option<f64> {
    let values: Vec<f64> = draws.iter().copied().collect::<Option<_>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::Guarded;

    #[track_caller]
    fn check(
        candidate: &[Option<f64>],
        current: &[Option<f64>],
        repeats: usize,
        expect: Option<(usize, bool)>,
    ) {
        let found = Guarded::of(candidate, current, repeats, 7);
        assert_eq!(found.map(|guarded| (guarded.n, guarded.falls)), expect, "{candidate:?} {current:?}");
    }

    #[test]
    fn items_that_lack_a_score_count_for_neither_and_draws_count_together() {
        let (yes, no) = (Some(1.0), Some(0.0));
        check(&[no, None, yes], &[yes, yes, yes], 1, Some((2, true)));
        check(&[yes, None], &[None, yes], 1, None);
        // Two draws of each item: what one loses the other gains.
        check(&[yes, no, no, yes], &[no, yes, yes, no], 2, Some((2, false)));
        check(&[yes, yes], &[no, no], 1, Some((2, false)));
        // Another number of draws cannot be compared.
        check(&[yes], &[yes, yes], 1, None);
        // One item in twelve is within what chance does.
        let mut one_lost = vec![yes; 12];
        one_lost[3] = no;
        check(&one_lost, &[yes; 12], 1, Some((12, false)));
    }
}
