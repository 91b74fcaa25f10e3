//! The acceptance gate: whether a candidate skill takes the current one's place.
//!
//! Measuring and deciding are apart: [`Gate::score`] turns mean scores into the one number that is printed and kept,
//! and [`Gate::decide`] compares the scores of single items in exact arithmetic.
//! A rule that needs more (a paired test, say) is a [`GateRule`](crate::rule::GateRule), with its own way to the same
//! [`GateAction`].
//!
//! # Printed numbers do not decide
//!
//! A printed number is a rounded sum of rounded numbers, in the order of the items. So a tie may look like a win:
//! 0.1, 0.2 and 0.3 add up to more than 0.3, 0.2 and 0.1. And a win that is smaller than the last digit looks like a
//! tie. Where all scores of the metric are 0 or 1 both ways are the same for `hard` and `soft`.
//! [Early rejection](crate::early) needs the exact way: its bound adds up the same scores in another order.
//!
//! ```
//! use skill_core::{Gate, GateAction, ItemScore};
//!
//! let scores = |hard: [f64; 3]| hard.map(|hard| ItemScore { hard, soft: hard });
//! let (current, candidate) = (scores([1.0, 0.0, 0.0]), scores([1.0, 1.0, 0.0]));
//! let gate = Gate::default();
//! assert_eq!(gate.decide(&candidate, &current, &current), GateAction::AcceptNewBest);
//! assert_eq!(gate.decide(&current, &current, &current), GateAction::Reject, "a tie is not better");
//! ```

use crate::exact::ExactSum;
use crate::rollout::{MeanScore, RolloutResult, SUCCESS_THRESHOLD, unit_interval};

crate::named_enum! {
    /// Which score the gate compares.
    #[derive(Default)]
    pub enum GateMetric {
        /// The mean of the strict scores.
        #[default]
        Hard = "hard",
        /// The mean of the graded scores.
        Soft = "soft",
        /// `(1 - w) * hard + w * soft`.
        Mixed = "mixed",
    }
}

crate::named_enum! {
    /// What becomes of a candidate.
    pub enum GateAction {
        /// It becomes the current skill, and it is the best one so far.
        AcceptNewBest = "accept_new_best",
        /// It becomes the current skill.
        Accept = "accept",
        /// The current skill stays.
        Reject = "reject",
        /// The current skill stays, since too few items could tell; the strict gate never says this.
        Indecisive = "indecisive",
    }
}

impl GateAction {
    /// Whether the candidate becomes the current skill.
    pub fn is_accepted(self) -> bool {
        match self {
            Self::AcceptNewBest | Self::Accept => true,
            Self::Reject | Self::Indecisive => false,
        }
    }
}

/// What the gate knows of one item: the two scores of one skill's attempt at it.
///
/// The scores may be anything; readers take them as clamped to [0, 1], and as 0 if they are not numbers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ItemScore {
    /// The strict score.
    pub hard: f64,
    /// The graded score.
    pub soft: f64,
}

impl ItemScore {
    /// Whether the task counts as solved, as [`RolloutResult::is_success`] has it.
    pub fn is_success(self) -> bool {
        self.hard >= SUCCESS_THRESHOLD
    }
}

impl From<&RolloutResult> for ItemScore {
    fn from(result: &RolloutResult) -> Self {
        Self { hard: result.hard, soft: result.soft }
    }
}

/// The strict gate of the paper: a candidate has to be better, and a tie is not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gate {
    /// Which score is compared.
    pub metric: GateMetric,
    /// The weight of the soft score in [`GateMetric::Mixed`]; clamped to [0, 1], and 0 if it is not a number.
    pub mixed_weight: f64,
}

impl Default for Gate {
    /// The paper's protocol: the hard metric.
    fn default() -> Self {
        Self { metric: GateMetric::Hard, mixed_weight: 0.5 }
    }
}

impl Gate {
    /// The one number that stands for these mean scores, wherever one is shown or kept.
    pub fn score(&self, mean: MeanScore) -> f64 {
        match self.metric {
            GateMetric::Hard => mean.hard,
            GateMetric::Soft => mean.soft,
            GateMetric::Mixed => {
                let weight = unit_interval(self.mixed_weight);
                (1.0 - weight) * mean.hard + weight * mean.soft
            }
        }
    }

    /// What these items add up to by this metric, exactly and in any order.
    pub fn total(&self, scores: &[ItemScore]) -> ExactSum {
        let mut total = ExactSum::ZERO;
        for score in scores {
            self.add_to(&mut total, *score);
        }
        total
    }

    /// Adds one item to such a total.
    pub(crate) fn add_to(&self, total: &mut ExactSum, score: ItemScore) {
        match self.metric {
            GateMetric::Hard => total.add(score.hard),
            GateMetric::Soft => total.add(score.soft),
            GateMetric::Mixed => total.add_blend(self.mixed_weight, score.hard, score.soft),
        }
    }

    /// True if the candidate scored strictly more than the current skill on the same items, in exact arithmetic.
    ///
    /// [`Gate::decide`] with the current skill as the best one; [`GateRule::accepts`](crate::GateRule::accepts) can ask
    /// for more.
    pub fn accepts(&self, candidate: &[ItemScore], current: &[ItemScore]) -> bool {
        self.decide(candidate, current, current).is_accepted()
    }

    /// Compares three skills by what each scored on the same items, in any order and in exact arithmetic: strictly
    /// above the current skill accepts, and strictly above the best one too is a new best. A tie rejects.
    ///
    /// Lists of different lengths are not of the same items, and a candidate is not
    /// better than what it cannot be compared with.
    pub fn decide(&self, candidate: &[ItemScore], current: &[ItemScore], best: &[ItemScore]) -> GateAction {
        let candidate_total = self.total(candidate);
        let is_above =
            |other: &[ItemScore]| candidate.len() == other.len() && candidate_total > self.total(other);
        if !is_above(current) {
            GateAction::Reject
        } else if is_above(best) {
            GateAction::AcceptNewBest
        } else {
            GateAction::Accept
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check_score(hard: f64, soft: f64, metric: &str, mixed_weight: f64, expect: f64) {
        let gate = Gate { metric: GateMetric::parse(metric).unwrap(), mixed_weight };
        let found = gate.score(MeanScore { hard, soft });
        assert!((found - expect).abs() < 1e-9, "{metric} of {hard} and {soft} is {found}, not {expect}");
    }

    #[test]
    fn scores_are_those_of_the_reference() {
        check_score(1.0, 0.0, "mixed", 0.5, 0.5);
        check_score(0.8, 0.3, "mixed", 5.0, 0.3);
        check_score(0.8, 0.3, "mixed", -2.0, 0.8);
        check_score(0.8, 0.3, "hard", 0.5, 0.8);
        check_score(0.8, 0.3, "soft", 0.5, 0.3);
    }

    /// The same number as hard and as soft score.
    fn both(scores: &[f64]) -> Vec<ItemScore> {
        scores.iter().map(|&score| ItemScore { hard: score, soft: score }).collect()
    }

    #[track_caller]
    fn check_exact(candidate: &[f64], current: &[f64], best: &[f64], expect: &str) {
        for metric in GateMetric::ALL {
            // With this weight `1 - w` is not an `f64`.
            let gate = Gate { metric, mixed_weight: 1e-20 };
            let action = gate.decide(&both(candidate), &both(current), &both(best));
            assert_eq!(action.as_str(), expect, "{candidate:?}, {current:?} and {best:?} by {metric:?}");
        }
    }

    #[test]
    fn exact_decisions_are_strict() {
        check_exact(&[1.0, 0.0], &[0.0, 0.0], &[1.0, 1.0], "accept");
        check_exact(&[1.0, 0.0], &[0.0, 0.0], &[0.0, 1.0], "accept");
        check_exact(&[1.0, 0.0], &[0.0, 0.0], &[0.0, 0.0], "accept_new_best");
        check_exact(&[0.0, 1.0], &[1.0, 0.0], &[0.0, 0.0], "reject");
        check_exact(&[0.5, 0.5], &[1.0, 0.0], &[0.0, 0.0], "reject");
        check_exact(&[0.0, 0.0], &[0.0, 1.0], &[0.0, 0.0], "reject");
        check_exact(&[], &[], &[], "reject");
    }

    #[test]
    fn exact_decisions_read_scores_as_everything_else_does() {
        check_exact(&[f64::NAN, 0.0], &[0.0, 0.0], &[0.0, 0.0], "reject");
        check_exact(&[7.0, 0.0], &[1.0, 0.0], &[1.0, 0.0], "reject");
        check_exact(&[f64::INFINITY, -1.0], &[0.5, -0.0], &[1.0, f64::NEG_INFINITY], "accept");
        check_exact(&[0.5, -7.0], &[0.25, 0.0], &[0.25, f64::NAN], "accept_new_best");
    }

    #[test]
    fn what_cannot_be_compared_is_not_beaten() {
        check_exact(&[1.0, 1.0], &[0.0], &[0.0, 0.0], "reject");
        check_exact(&[1.0], &[0.0, 0.0], &[0.0], "reject");
        check_exact(&[1.0, 1.0], &[0.0, 0.0], &[0.0], "accept");
        check_exact(&[1.0], &[], &[], "reject");
    }

    #[track_caller]
    fn check_two(gate: Gate, candidate: &[ItemScore], current: &[ItemScore], expect: &str) {
        assert_eq!(gate.decide(candidate, current, current).as_str(), expect);
    }

    /// The means of 0.1, 0.2, 0.3 and of 0.3, 0.2, 0.1 are different numbers.
    #[test]
    fn a_tie_that_rounding_breaks_is_a_tie() {
        let (candidate, current) = (both(&[0.1, 0.2, 0.3]), both(&[0.3, 0.2, 0.1]));
        check_two(Gate::default(), &candidate, &current, "reject");
        check_two(Gate::default(), &current, &candidate, "reject");
    }

    #[test]
    fn a_win_that_rounding_hides_is_a_win() {
        check_two(Gate::default(), &both(&[1.0, 5e-324]), &both(&[1.0, 0.0]), "accept_new_best");
        // The weight keeps one part in 2^1074 of the graded score, and the graded scores differ by as little.
        let gate = Gate { metric: GateMetric::Mixed, mixed_weight: 5e-324 };
        let of = |soft| [ItemScore { hard: 1.0, soft }, ItemScore { hard: 0.5, soft: 0.25 }];
        check_two(gate, &of(1.0), &of(1.0 - f64::EPSILON), "accept_new_best");
        check_two(gate, &of(5e-324), &of(0.0), "accept_new_best");
    }

    #[test]
    fn a_weight_that_is_no_number_is_zero() {
        let gate = Gate { metric: GateMetric::Mixed, mixed_weight: f64::NAN };
        assert_eq!(gate.score(MeanScore { hard: 0.25, soft: 1.0 }), 0.25);
        let of = |hard, soft| [ItemScore { hard, soft }];
        check_two(gate, &of(0.5, 0.0), &of(0.25, 1.0), "accept_new_best");
    }

    #[test]
    fn names_are_read_back() {
        for metric in GateMetric::ALL {
            assert_eq!(GateMetric::parse(metric.as_str()), Some(metric));
            assert_eq!(serde_json::to_value(metric).unwrap(), metric.as_str());
        }
        use GateAction::{Accept, AcceptNewBest, Indecisive, Reject};
        for action in [AcceptNewBest, Accept, Reject, Indecisive] {
            assert_eq!(serde_json::to_value(action).unwrap(), action.as_str());
        }
    }

    fn rank(action: GateAction) -> u8 {
        match action {
            GateAction::Reject | GateAction::Indecisive => 0,
            GateAction::Accept => 1,
            GateAction::AcceptNewBest => 2,
        }
    }

    proptest! {
        #[test]
        fn a_better_candidate_is_never_treated_worse(
            a in 0.0..=1.0_f64, b in 0.0..=1.0_f64, current in 0.0..=1.0_f64, best in 0.0..=1.0_f64,
        ) {
            let action = |candidate| rank(Gate::default().decide(&both(&[candidate]), &both(&[current]), &both(&[best])));
            prop_assert!(action(a.max(b)) >= action(a.min(b)));
        }
    }
}
