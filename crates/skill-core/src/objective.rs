//! A second objective of the gate: fewer tokens at the same score.
//!
//! The score comes first: a [`GateRule`] decides about a higher score without looking at tokens. With a [`TokenSaving`] a
//! candidate without a higher score is accepted too, if its score passes [`NonInferiority`] and it saves enough tokens on
//! the same samples of the same items.
//!
//! With a margin above 0 the score could fall a little with each acceptance. So a skill that was accepted for its tokens
//! and scores lower keeps the scores that it was compared with ([`Measures::bar`]): whatever comes after it has to beat
//! these, or to stay within the margin of these.

use crate::early::EarlyRejection;
use crate::gate::{GateAction, ItemScore};
use crate::non_inferiority::NonInferiority;
use crate::rule::GateRule;
use crate::saving::{SavingBound, TokenSaving};

/// What was measured of a skill on the draws of the validation split, each list in the order of the split.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measures<'run> {
    /// Its scores.
    pub scores: &'run [ItemScore],
    /// The tokens of each draw, prompts and replies; 0 where they are not known.
    pub tokens: &'run [u64],
    /// The scores that a candidate is compared with: its own, or those of the skill whose place it took for its tokens.
    pub bar: &'run [ItemScore],
}

/// What a candidate is accepted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectiveVerdict {
    /// What becomes of it.
    pub action: GateAction,
    /// True if it took the current skill's place for its tokens alone.
    pub is_for_tokens: bool,
}

/// A rule of the gate, and what else a candidate may be accepted for.
///
/// ```
/// use skill_core::objective::{Measures, Objective};
/// use skill_core::{Gate, GateAction, GateRule, ItemScore, TokenSaving};
///
/// let scores = [ItemScore { hard: 1.0, soft: 1.0 }, ItemScore { hard: 0.0, soft: 0.0 }];
/// let skill = |tokens| Measures { scores: &scores, tokens, bar: &scores };
/// let rule = GateRule::strict(Gate::default());
/// let saving = Some(TokenSaving { least: 0.2, margin: 0.0 });
/// let (long, short) = (skill(&[100, 100]), skill(&[80, 70]));
/// let verdict = Objective { rule, saving }.decide(short, long, long);
/// assert_eq!((verdict.action, verdict.is_for_tokens), (GateAction::AcceptNewBest, true));
/// assert_eq!(Objective { rule, saving: None }.decide(short, long, long).action, GateAction::Reject);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Objective {
    /// What a higher score has to show.
    pub rule: GateRule,
    /// What fewer tokens are worth; `None` for nothing.
    pub saving: Option<TokenSaving>,
}

impl Objective {
    /// Compares three skills that were measured in the same draws of the same items.
    pub fn decide(
        &self,
        candidate: Measures<'_>,
        current: Measures<'_>,
        best: Measures<'_>,
    ) -> ObjectiveVerdict {
        let by_score = self.rule.decide(candidate.scores, current.bar, best.bar);
        let saves = |other| self.saves(candidate, other);
        let (action, is_for_tokens) = match by_score {
            GateAction::AcceptNewBest => (by_score, false),
            GateAction::Accept if saves(best) => (GateAction::AcceptNewBest, false),
            GateAction::Accept => (by_score, false),
            GateAction::Reject | GateAction::Indecisive if !saves(current) => (by_score, false),
            GateAction::Reject | GateAction::Indecisive if saves(best) => (GateAction::AcceptNewBest, true),
            GateAction::Reject | GateAction::Indecisive => (GateAction::Accept, true),
        };
        ObjectiveVerdict { action, is_for_tokens }
    }

    fn saves(&self, candidate: Measures<'_>, other: Measures<'_>) -> bool {
        self.saving.is_some_and(|saving| {
            self.non_inferiority(saving).holds(candidate.scores, other.bar)
                && saving.is_shown(candidate.tokens, other.tokens)
        })
    }

    fn non_inferiority(&self, saving: TokenSaving) -> NonInferiority {
        NonInferiority { gate: self.rule.gate, margin: saving.margin }
    }

    /// The comparison of a candidate of which nothing is known yet, whose draws will be measured in this order: it is
    /// rejected as soon as it can win neither by its score nor by its tokens.
    ///
    /// # Panics
    ///
    /// An order with draws that `current` does not have.
    pub fn early(&self, current: Measures<'_>, order: &[usize]) -> EarlyRejection {
        let rejection = EarlyRejection::of_rule(self.rule, current.bar, order);
        match self.saving {
            Some(saving) => {
                let allowance = self.non_inferiority(saving).allowance(current.bar.len());
                let bound = SavingBound::new(saving, allowance, current.tokens, order);
                rejection.or_saving(bound)
            }
            None => rejection,
        }
    }
}
