//! The acceptance gate: whether a candidate skill takes the current one's place.
//!
//! Measuring and deciding are apart: [`Gate::score`] turns mean scores into the one number that is printed and kept,
//! and [`Gate::decide_exact`] compares the scores of single items in exact arithmetic. The latter decides in a run;
//! [`Gate::decide`] compares two printed numbers, as the reference does, and is there to be compared with it.
//! A rule that needs more (a paired test, say) is a [`GateRule`](crate::rule::GateRule), with its own way to the same
//! [`GateAction`]; [`GateState::after`] then carries out any rule's decision.
//!
//! # Where the two may differ
//!
//! A printed number is a rounded sum of rounded numbers, in the order of the items. So a tie may look like a win:
//! 0.1, 0.2 and 0.3 add up to more than 0.3, 0.2 and 0.1. And a win that is smaller than the last digit looks like a
//! tie. Where all scores of the metric are 0 or 1 both ways are the same for `hard` and `soft`.
//! [Early rejection](crate::early) needs the exact way: its bound adds up the same scores in another order.

use crate::exact::ExactSum;
use crate::ids::StepIdx;
use crate::rollout::{MeanScore, RolloutResult, SUCCESS_THRESHOLD, unit_interval};
use serde::{Deserialize, Serialize};

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

/// What becomes of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateAction {
    /// It becomes the current skill, and it is the best one so far.
    AcceptNewBest,
    /// It becomes the current skill.
    Accept,
    /// The current skill stays.
    Reject,
    /// The current skill stays, since too few items could tell; the strict gate never says this.
    Indecisive,
}

impl GateAction {
    /// The name used in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AcceptNewBest => "accept_new_best",
            Self::Accept => "accept",
            Self::Reject => "reject",
            Self::Indecisive => "indecisive",
        }
    }

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

    /// Compares three skills by what each scored on the same items, in any order and in exact arithmetic: strictly
    /// above the current skill accepts, and strictly above the best one too is a new best. A tie rejects.
    ///
    /// This is what decides in a run. Lists of different lengths are not of the same items, and a candidate is not
    /// better than what it cannot be compared with.
    pub fn decide_exact(
        &self,
        candidate: &[ItemScore],
        current: &[ItemScore],
        best: &[ItemScore],
    ) -> GateAction {
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

    /// Compares scores that [`Gate::score`] gave, as the reference does: strictly above the current one accepts, and strictly above the best
    /// one too is a new best. A tie rejects, and so does a score that is not a number.
    ///
    /// In a run [`Gate::decide_exact`] decides; the module says where the two may differ.
    pub fn decide(&self, candidate: f64, current: f64, best: f64) -> GateAction {
        if candidate > current && candidate > best {
            GateAction::AcceptNewBest
        } else if candidate > current {
            GateAction::Accept
        } else {
            GateAction::Reject
        }
    }

    /// Scores a candidate that came out of step `step`, decides about it by [`Gate::decide`], and gives the state after the decision.
    pub fn evaluate(&self, candidate: MeanScore, before: GateState, step: StepIdx) -> GateDecision {
        let candidate_score = self.score(candidate);
        let action = self.decide(candidate_score, before.current_score, before.best_score);
        GateDecision { candidate_score, action, state: before.after(action, candidate_score, step) }
    }
}

/// The scores that a candidate has to beat, as [`Gate::score`] gave them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GateState {
    /// The score of the current skill.
    pub current_score: f64,
    /// The score of the best skill so far.
    pub best_score: f64,
    /// The step that the best skill came from.
    pub best_step: StepIdx,
}

impl GateState {
    /// The state at the start: the initial skill is the current and the best one.
    pub fn baseline(score: f64) -> Self {
        Self { current_score: score, best_score: score, best_step: StepIdx(0) }
    }

    /// The state after `action` on a candidate of step `step` with this score.
    #[must_use]
    pub fn after(self, action: GateAction, candidate_score: f64, step: StepIdx) -> Self {
        match action {
            GateAction::AcceptNewBest => {
                Self { current_score: candidate_score, best_score: candidate_score, best_step: step }
            }
            GateAction::Accept => Self { current_score: candidate_score, ..self },
            GateAction::Reject | GateAction::Indecisive => self,
        }
    }
}

/// A decision, and what it leads to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateDecision {
    /// The candidate's score.
    pub candidate_score: f64,
    /// What becomes of the candidate.
    pub action: GateAction,
    /// The scores that the next candidate has to beat.
    pub state: GateState,
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

    #[track_caller]
    fn check_decision(candidate: f64, (current, best): (f64, f64), action: &str, after: (f64, f64, u32)) {
        let before = GateState { current_score: current, best_score: best, best_step: StepIdx(3) };
        let mean = MeanScore { hard: candidate, soft: 0.0 };
        let decision = Gate::default().evaluate(mean, before, StepIdx(7));
        assert_eq!(decision.action.as_str(), action, "{candidate} against {current} and {best}");
        let state = decision.state;
        assert_eq!((state.current_score, state.best_score, state.best_step.0), after);
    }

    #[test]
    fn decisions_are_those_of_the_reference() {
        check_decision(0.6, (0.4, 0.8), "accept", (0.6, 0.8, 3));
        check_decision(0.3, (0.5, 0.8), "reject", (0.5, 0.8, 3));
        check_decision(0.5, (0.5, 0.5), "reject", (0.5, 0.5, 3));
        check_decision(0.6, (0.5, 0.5), "accept_new_best", (0.6, 0.6, 7));
        check_decision(0.8, (0.5, 0.8), "accept", (0.8, 0.8, 3));
        check_decision(0.0, (0.0, 0.0), "reject", (0.0, 0.0, 3));
        check_decision(f64::NAN, (0.0, 0.0), "reject", (0.0, 0.0, 3));
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
            let action = gate.decide_exact(&both(candidate), &both(current), &both(best));
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

    /// What the two ways to decide say about a candidate and the current skill, which is the best one too.
    fn both_ways(gate: Gate, candidate: &[ItemScore], current: &[ItemScore]) -> (&'static str, &'static str) {
        let score = |scores: &[ItemScore]| {
            gate.score(MeanScore::of(scores.iter().map(|score| (score.hard, score.soft))))
        };
        let printed = gate.decide(score(candidate), score(current), score(current));
        (printed.as_str(), gate.decide_exact(candidate, current, current).as_str())
    }

    #[test]
    fn a_tie_that_rounding_breaks_is_a_tie() {
        let (candidate, current) = (both(&[0.1, 0.2, 0.3]), both(&[0.3, 0.2, 0.1]));
        assert_eq!(both_ways(Gate::default(), &candidate, &current), ("accept_new_best", "reject"));
        assert_eq!(both_ways(Gate::default(), &current, &candidate), ("reject", "reject"));
    }

    #[test]
    fn a_win_that_rounding_hides_is_a_win() {
        let (candidate, current) = (both(&[1.0, 5e-324]), both(&[1.0, 0.0]));
        assert_eq!(both_ways(Gate::default(), &candidate, &current), ("reject", "accept_new_best"));
        // The weight keeps one part in 2^1074 of the graded score, and the graded scores differ by as little.
        let gate = Gate { metric: GateMetric::Mixed, mixed_weight: 5e-324 };
        let of = |soft| [ItemScore { hard: 1.0, soft }, ItemScore { hard: 0.5, soft: 0.25 }];
        assert_eq!(both_ways(gate, &of(1.0), &of(1.0 - f64::EPSILON)), ("reject", "accept_new_best"));
        assert_eq!(both_ways(gate, &of(5e-324), &of(0.0)), ("reject", "accept_new_best"));
    }

    #[test]
    fn a_weight_that_is_no_number_is_zero() {
        let gate = Gate { metric: GateMetric::Mixed, mixed_weight: f64::NAN };
        assert_eq!(gate.score(MeanScore { hard: 0.25, soft: 1.0 }), 0.25);
        let of = |hard, soft| [ItemScore { hard, soft }];
        assert_eq!(both_ways(gate, &of(0.5, 0.0), &of(0.25, 1.0)), ("accept_new_best", "accept_new_best"));
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
            let gate = Gate::default();
            let action = |candidate| rank(gate.decide(candidate, current, best));
            prop_assert!(action(a.max(b)) >= action(a.min(b)));
        }

        #[test]
        fn scores_only_rise(scores in prop::collection::vec((0.0..=1.0_f64, 0.0..=1.0_f64), 1..20), weight: f64) {
            let gate = Gate { metric: GateMetric::Mixed, mixed_weight: weight };
            let mut state = GateState::baseline(0.5);
            for ((hard, soft), step) in scores.into_iter().zip(1..) {
                let next = gate.evaluate(MeanScore { hard, soft }, state, StepIdx(step)).state;
                prop_assert!(next.current_score >= state.current_score && next.best_score >= state.best_score);
                prop_assert!(next.best_score >= next.current_score);
                state = next;
            }
        }
    }
}
