//! What the gate makes of a candidate, and what the record says about it.
//!
//! # Invariants
//!
//! - A candidate that was given up early has no interval and no p-value: its measured items are not a sample of the
//!   split. Held by `every_decision_stands_beside_its_evidence`.
//! - Only the shortest prefix that decides about a candidate enters files and flip counts. Held by
//!   `a_candidate_that_cannot_win_is_rejected_before_every_item_is_measured`,
//!   `early_rejection_changes_no_decision`.

use super::run::Run;
use super::{ScoredSkill, TrainState};
use crate::records::document::SavingRecord;
use crate::records::evaluation::CandidateEvaluation;
use crate::records::paired::PairedRecord;
use crate::settings::{Acceptance, EarlyStop, Evidence, Protocol};
use crate::stage::evaluate::{CandidatePlan, Drawn, draw_of};
use crate::warning::Warning;
use skill_core::exact::round_6;
use skill_core::gate::GateAction;
use skill_core::guard::Guarded;
use skill_core::objective::{Measures, Objective, ObjectiveVerdict};
use skill_core::saving::CountedTokens;
use skill_core::search::RandomOrder;
use skill_core::{
    EarlyRejection, FlipCounts, GateMode, GateRule, ItemId, ItemScore, RolloutResult, evaluation_order,
};
use skill_envs::Split;
use std::collections::BTreeMap;

impl Run<'_> {
    /// The rule for the next decision: it is one test more than there have been.
    pub(super) fn rule(&self, state: &TrainState) -> GateRule {
        self.objective(state).rule
    }

    /// The same, with what else a candidate may be accepted for.
    pub(super) fn objective(&self, state: &TrainState) -> Objective {
        let test = u32::try_from(state.n_measured()).unwrap_or(u32::MAX).saturating_add(1);
        let mut objective = self.settings.evidence.objective(self.settings.gate, test);
        if self.settings.protocol == Protocol::Auto {
            // Its evidence ends comparisons early; whether a skill is better is a strictly higher score.
            objective.rule.mode = GateMode::Strict;
        }
        objective
    }

    /// What the gate says.
    pub(super) fn verdict(&self, state: &TrainState, evaluation: &CandidateEvaluation) -> ObjectiveVerdict {
        let objective = self.objective(state);
        if evaluation.left_out.is_some() {
            let can_show = objective.rule.can_show(state.current.bar());
            let action = if can_show { GateAction::Reject } else { GateAction::Indecisive };
            return ObjectiveVerdict { action, is_for_tokens: false };
        }
        let scores: Vec<ItemScore> = evaluation.results.iter().map(ItemScore::from).collect();
        let tokens: Vec<u64> = evaluation.results.iter().map(|result| result.usage.tokens()).collect();
        let candidate = Measures { scores: &scores, tokens: &tokens, bar: &scores };
        let verdict = objective.decide(candidate, state.current.measures(), state.best.measures());
        let falls = || self.guarded(state, evaluation).is_some_and(|guarded| guarded.falls);
        if verdict.action.is_accepted() && falls() {
            return ObjectiveVerdict { action: GateAction::Reject, is_for_tokens: false };
        }
        verdict
    }

    /// The second scores of a candidate that was measured whole, where the gate has a guard.
    pub(super) fn guarded(&self, state: &TrainState, evaluation: &CandidateEvaluation) -> Option<Guarded> {
        let Evidence { is_guarded, selection_repeats, .. } = self.settings.evidence;
        if !is_guarded || evaluation.left_out.is_some() {
            return None;
        }
        let scores: Vec<Option<f64>> = evaluation.results.iter().map(RolloutResult::guard).collect();
        Guarded::of(&scores, &state.current.item_guards, selection_repeats, self.settings.seed)
    }

    /// Holds a skill that was accepted for its tokens against the scores that were given up for it.
    pub(super) fn keep_reference(
        &self,
        state: &TrainState,
        verdict: ObjectiveVerdict,
        scored: &mut ScoredSkill,
    ) {
        if !verdict.is_for_tokens {
            return;
        }
        let total = |scores: &[ItemScore]| self.settings.gate.total(scores);
        let is_best = verdict.action == GateAction::AcceptNewBest
            && total(state.best.bar()) > total(state.current.bar());
        let before = if is_best { &state.best } else { &state.current };
        if total(before.bar()) > total(&scored.item_scores) {
            scored.reference = Some(before.as_reference());
        }
    }

    /// Tokens of a candidate beside those of the current skill, where the gate looks at them.
    pub(super) fn saving_record(
        &self,
        state: &TrainState,
        evaluation: &CandidateEvaluation,
        verdict: ObjectiveVerdict,
    ) -> Option<SavingRecord> {
        self.settings.evidence.saving?;
        let seen: BTreeMap<Drawn, u64> =
            evaluation.results.iter().map(|result| (draw_of(result), result.usage.tokens())).collect();
        let candidate: Vec<u64> =
            self.draws().iter().map(|draw| seen.get(draw).copied().unwrap_or_default()).collect();
        let counted = CountedTokens::of(&candidate, &state.current.item_tokens);
        Some(SavingRecord {
            n: counted.n_draws,
            candidate_tokens: counted.candidate,
            current_tokens: counted.current,
            saved: round_6(counted.saved()),
            is_decisive: verdict.is_for_tokens,
        })
    }

    /// The numbers of the comparison with the current skill.
    pub(super) fn paired_record(
        &self,
        state: &TrainState,
        evaluation: &CandidateEvaluation,
        seed: u64,
    ) -> Option<PairedRecord> {
        let (rule, current) = (self.rule(state), state.current.bar());
        let Some(interval) = evaluation.left_out else {
            let scores: Vec<ItemScore> = evaluation.results.iter().map(ItemScore::from).collect();
            return Some(PairedRecord::of(&rule, &rule.compare(&scores, current)?, seed));
        };
        let seen: BTreeMap<Drawn, ItemScore> =
            evaluation.results.iter().map(|result| (draw_of(result), ItemScore::from(result))).collect();
        let known: Vec<Option<ItemScore>> = self.draws().iter().map(|draw| seen.get(draw).copied()).collect();
        let counts = rule.counts_of_known(&known, current);
        let n_draws = current.len().max(1) as f64;
        let current_score = rule.gate.total(current).to_f64() / n_draws;
        Some(PairedRecord {
            wins: counts.wins,
            losses: counts.losses,
            ties: counts.ties,
            bounds: Some([interval.low, interval.high].map(|score| round_6(score - current_score))),
            ..PairedRecord::empty(&rule, self.env.items(Split::Val).len())
        })
    }

    /// All draws of the selection split in order: those of an item side by side.
    fn draws(&self) -> Vec<Drawn> {
        let repeats = self.settings.evidence.selection_repeats;
        let items = self.env.items(Split::Val).iter();
        items.flat_map(|item| (0..repeats).map(|draw| (item.id.clone(), draw))).collect()
    }

    /// How many draws of the selection split make an evaluation.
    pub(super) fn n_draws(&self) -> usize {
        self.env.items(Split::Val).len() * self.settings.evidence.selection_repeats
    }

    /// The counts of flips after a candidate.
    pub(super) fn flips_after(&self, state: &TrainState, evaluation: &CandidateEvaluation) -> FlipCounts {
        let mut flips = state.flips.clone();
        let draws = self.draws();
        let current: BTreeMap<&Drawn, ItemScore> =
            draws.iter().zip(state.current.item_scores.iter().copied()).collect();
        flips.record(evaluation.results.iter().filter_map(|result| {
            Some((&result.id, ItemScore::from(result), *current.get(&draw_of(result))?))
        }));
        flips
    }

    /// How a candidate is measured.
    pub(super) fn candidate_plan<'known>(
        &self,
        state: &TrainState,
        known: &'known BTreeMap<Drawn, RolloutResult>,
    ) -> CandidatePlan<'known> {
        let (draws, current) = (self.draws(), &state.current.item_scores);
        match self.settings.early_stop {
            // A batch that is made as a whole has no first part that could decide.
            EarlyStop::Exact
                if self.settings.acceptance == Acceptance::Gate && self.rollouts.whole().is_none() =>
            {
                if let Some((order, rejection)) = self.sequential(current) {
                    return CandidatePlan { order, rejection: Some(rejection), known, risk: None };
                }
                let ids: Vec<ItemId> = draws.into_iter().map(|(id, _)| id).collect();
                let order = evaluation_order(&ids, current, &state.flips);
                let rejection = self.objective(state).early(state.current.measures(), &order);
                CandidatePlan { order, rejection: Some(rejection), known, risk: None }
            }
            EarlyStop::Exact | EarlyStop::Off => self.whole_plan(known),
        }
    }

    /// The order of a planned search's sequential comparison, which is one for the run, and what ends it.
    fn sequential(&self, current: &[ItemScore]) -> Option<(Vec<usize>, EarlyRejection)> {
        let GateMode::EProcess { alpha } = self.settings.evidence.mode else { return None };
        if self.settings.protocol == Protocol::Paper {
            return None;
        }
        let order = RandomOrder::new(self.n_draws(), self.settings.seed);
        let rejection = EarlyRejection::in_random_order(self.settings.gate, current, &order, alpha);
        Some((order.items().to_vec(), rejection))
    }

    /// Every draw, whatever they give.
    pub(super) fn whole_plan<'known>(
        &self,
        known: &'known BTreeMap<Drawn, RolloutResult>,
    ) -> CandidatePlan<'known> {
        CandidatePlan { order: (0..self.n_draws()).collect(), rejection: None, known, risk: None }
    }

    /// Says before the first step what the gate will not be able to tell.
    pub(super) fn warn_of_what_cannot_be_shown(&self, state: &TrainState, total_steps: u32) {
        let evidence = self.settings.evidence;
        let n_items = self.env.items(Split::Val).len();
        let first = evidence.rule(self.settings.gate, 1);
        if evidence.saving.is_none() && !first.can_show(&state.current.item_scores) {
            let least = first.mode.least_discordant(n_items);
            self.warn(None, Warning::NothingToShow { mode: first.mode, least });
        }
        let last = evidence.rule(self.settings.gate, total_steps).mode.least_discordant(n_items);
        if evidence.saving.is_none() && last > n_items {
            self.warn(None, Warning::LastStepCannotAccept { least: last, n_items });
        }
    }
}
