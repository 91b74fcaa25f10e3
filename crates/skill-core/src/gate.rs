//! The acceptance gate: whether a candidate skill takes the current one's place.
//!
//! Measuring and deciding are apart: [`Gate::score`] turns mean scores into the one number that is compared, and
//! [`Gate::decide`] compares. A rule that needs more than two means (a paired test, say) has its own way to the same
//! [`GateAction`]; [`GateState::after`] then carries out any rule's decision.

use crate::ids::StepIdx;
use crate::rollout::MeanScore;
use serde::{Deserialize, Serialize};

/// Which score the gate compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateMetric {
    /// The mean of the strict scores.
    #[default]
    Hard,
    /// The mean of the graded scores.
    Soft,
    /// `(1 - w) * hard + w * soft`.
    Mixed,
}

impl GateMetric {
    /// Every metric, for messages and help texts.
    pub const ALL: [Self; 3] = [Self::Hard, Self::Soft, Self::Mixed];

    /// The metric of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.as_str() == name)
    }

    /// The name used in configurations and files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
            Self::Mixed => "mixed",
        }
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
}

impl GateAction {
    /// The name used in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AcceptNewBest => "accept_new_best",
            Self::Accept => "accept",
            Self::Reject => "reject",
        }
    }

    /// Whether the candidate becomes the current skill.
    pub fn is_accepted(self) -> bool {
        match self {
            Self::AcceptNewBest | Self::Accept => true,
            Self::Reject => false,
        }
    }
}

/// The strict gate of the paper: a candidate has to be better, and a tie is not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gate {
    /// Which score is compared.
    pub metric: GateMetric,
    /// The weight of the soft score in [`GateMetric::Mixed`]; clamped to [0, 1].
    pub mixed_weight: f64,
}

impl Default for Gate {
    /// The paper's protocol: the hard metric.
    fn default() -> Self {
        Self { metric: GateMetric::Hard, mixed_weight: 0.5 }
    }
}

impl Gate {
    /// The one number that stands for these mean scores.
    pub fn score(&self, mean: MeanScore) -> f64 {
        match self.metric {
            GateMetric::Hard => mean.hard,
            GateMetric::Soft => mean.soft,
            GateMetric::Mixed => {
                let weight = self.mixed_weight.clamp(0.0, 1.0);
                (1.0 - weight) * mean.hard + weight * mean.soft
            }
        }
    }

    /// Compares scores that [`Gate::score`] gave: strictly above the current one accepts, and strictly above the best
    /// one too is a new best. A tie rejects, and so does a score that is not a number.
    pub fn decide(&self, candidate: f64, current: f64, best: f64) -> GateAction {
        if candidate > current && candidate > best {
            GateAction::AcceptNewBest
        } else if candidate > current {
            GateAction::Accept
        } else {
            GateAction::Reject
        }
    }

    /// Scores a candidate that came out of step `step`, decides about it, and gives the state after the decision.
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
            GateAction::Reject => self,
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

    #[test]
    fn names_are_read_back() {
        for metric in GateMetric::ALL {
            assert_eq!(GateMetric::parse(metric.as_str()), Some(metric));
            assert_eq!(serde_json::to_value(metric).unwrap(), metric.as_str());
        }
        for action in [GateAction::AcceptNewBest, GateAction::Accept, GateAction::Reject] {
            assert_eq!(serde_json::to_value(action).unwrap(), action.as_str());
        }
    }

    fn rank(action: GateAction) -> u8 {
        match action {
            GateAction::Reject => 0,
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
