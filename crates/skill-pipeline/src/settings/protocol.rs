//! By which protocol a run searches, and what a planned search may spend.

use super::{Acceptance, EpochEnd, Evidence, TrainSettings};
use crate::error::SettingsError;
use crate::records::arm::ArmSetting;
use serde_json::{Value, json};
use skill_core::editor::EditRules;
use skill_core::rewrite::UpdateMode;
use skill_core::search::{GROUP, MOST_EDITS};
use skill_core::search_plan::{SearchBudget, SearchCost};
use skill_core::{
    BudgetControl, EditBudget, EditBudgetSchedule, GateMode, Usage, named_enum, steps_per_epoch,
};
use skill_llm::Prices;

/// The batch of the paper's protocol, by which a planned run without caps is as long as one of that protocol.
const PAPER_BATCH: usize = 40;
/// Items that the paper's protocol compares at the end of an epoch, each under two skills.
const PAPER_COMPARISONS: usize = 40;
/// Calls of the optimizer in a step of that protocol.
const PAPER_OPTIMIZER_CALLS: usize = 8;
/// What a call of the optimizer takes besides the trajectories that it reads, while none was made: tokens of the prompt,
/// and of the reply.
const OPTIMIZER_TOKENS: [f64; 2] = [3_000.0, 600.0];
/// Trajectories that an analyst reads, while none has read any.
const READ_AT_ONCE: f64 = 4.0;
/// The most failures that the request of the one-shot arm shows.
pub(crate) const ONE_SHOT_FAILURES: usize = 8;
/// The share of each cap that an additional arm may cost by default.
const ARM_SHARE: f64 = 0.1;
/// What a run of this search calls its protocol in its identity: runs of versions before proposals are of another one.
pub(crate) const PLANNED: &str = "auto, proposals";
/// Proposals that may be made from one working skill.
const ROUNDS: [usize; 4] = [1, 2, 4, 8];
/// Plays of a proposal, and the share of the search's plays that comparisons take besides, before any was made.
pub(crate) const PLAYS_OF_PROPOSAL: f64 = 10.0;
pub(crate) const COMPARED_PART: f64 = 0.15;
/// Of 60 simulated searches without a cap, nine of ten ended within so many times their patience.
const PATIENCE_MULTIPLE: u32 = 10;
/// Tokens of a rollout that are taken before anything is measured.
const FORESEEN_TOKENS: [u64; 2] = [900, 100];

named_enum! {
    /// Who says how large a step is, and how many there are.
    #[derive(Default)]
    pub enum Protocol {
        /// The settings, whose defaults are the paper's.
        #[default]
        Paper = "paper",
        /// A plan that follows from the number of items, the noise, the budget and what is accepted.
        Auto = "auto",
    }
}

/// What a planned search may spend, and what models cost; changes of it change no decision that is made already.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SearchLimits {
    /// Caps on calls, tokens and money of the whole run. Without any the calls of the paper's protocol are planned with.
    pub budget: SearchBudget,
    /// What tokens of the agent cost.
    pub target_prices: Prices,
    /// What tokens of the optimizer cost.
    pub optimizer_prices: Prices,
    /// Proposals in a row of which none was taken, after which the search ends; 0 never ends it.
    pub patience: u32,
}

impl SearchLimits {
    /// Proposals within which nine of ten searches end by their patience, if no cap ends them before; `None` without a
    /// patience.
    pub fn likely_max_proposals(&self) -> Option<u32> {
        (self.patience > 0).then(|| self.patience.saturating_mul(PATIENCE_MULTIPLE))
    }
}

impl TrainSettings {
    /// The settings that a run goes by: a planned search has one micro-batch per step and no ends of epochs.
    pub(crate) fn effective(&self) -> Self {
        match self.protocol {
            Protocol::Paper => self.clone(),
            Protocol::Auto => Self {
                accumulation: 1,
                epoch_end: EpochEnd::OFF,
                budget_control: BudgetControl::Fixed,
                // The test is a fresh measurement itself.
                evidence: Evidence { fresh: self.evidence.fresh && !self.eval_test, ..self.evidence },
                edit_rules: EditRules { tight_lists: true, ..self.edit_rules },
                ..self.clone()
            },
        }
    }

    /// The settings of the paper's protocol that come nearest to the plan that a run would begin with, for forecasts; the
    /// settings themselves without a plan. `n_items` are the items of train, val and test, and a rollout is taken to be
    /// so many calls.
    pub fn foreseen(&self, n_items: [usize; 3], calls_per_rollout: f64) -> Self {
        let [input, output] = FORESEEN_TOKENS;
        let usage = Usage { input, output, ..Usage::default() };
        let rollout = spending_of(usage, self.search.target_prices).times(calls_per_rollout);
        self.foreseen_at(n_items, rollout, first_optimizer_call(rollout, self.search.optimizer_prices))
    }

    /// As [`Self::foreseen`], where a rollout takes one call of these tokens, and a call of the optimizer those: the
    /// longest plan is that of the shortest texts.
    pub fn foreseen_with(&self, n_items: [usize; 3], [rollout, optimizer_call]: [Usage; 2]) -> Self {
        let rollout = spending_of(rollout, self.search.target_prices);
        self.foreseen_at(n_items, rollout, spending_of(optimizer_call, self.search.optimizer_prices))
    }

    fn foreseen_at(&self, n_items: [usize; 3], rollout: SearchCost, optimizer_call: SearchCost) -> Self {
        let [n_train, n_val, n_test] = n_items;
        if self.protocol == Protocol::Paper {
            return self.effective();
        }
        let n_draws = n_val * self.evidence.selection_repeats.max(1);
        let n_end = self.n_rollouts_of_end(n_draws, n_test, rollout);
        let budget = self.search_budget(n_train, n_draws, n_end, rollout);
        let left = budget.times_left(rollout.times((n_draws + n_end) as f64), rollout);
        let reply = if rollout.calls > 0.0 { optimizer_call.calls / rollout.calls } else { 1.0 };
        let of_search = (left - n_draws as f64) / (1.0 + COMPARED_PART);
        // The cast saturates.
        let n_proposals = (of_search / (PLAYS_OF_PROPOSAL + reply)).max(0.0) as u32;
        let n_proposals = n_proposals.min(self.search.likely_max_proposals().unwrap_or(u32::MAX));
        let per_epoch = steps_per_epoch(n_train, GROUP, 1).max(1);
        Self {
            protocol: Protocol::Paper,
            failure_only: true,
            batch_size: GROUP,
            minibatch_size: GROUP,
            edit_budget: EditBudget {
                schedule: EditBudgetSchedule::Constant,
                max: MOST_EDITS,
                min: MOST_EDITS,
            },
            epochs: n_proposals.div_ceil(u32::try_from(per_epoch).unwrap_or(u32::MAX)),
            ..self.effective()
        }
    }

    /// Plays of so many proposals besides those of the failures that they are made from: of screening with the checks for
    /// regressions, and of comparisons.
    pub fn plays_beside(&self, n_proposals: usize) -> [u64; 2] {
        let n_proposals = n_proposals as f64;
        let screening = n_proposals * (PLAYS_OF_PROPOSAL - GROUP as f64);
        let comparisons = n_proposals * (PLAYS_OF_PROPOSAL + 1.0) * COMPARED_PART;
        // The casts saturate.
        [screening, comparisons].map(|plays| plays.ceil() as u64)
    }

    /// The calls that a planned search has, where nothing else is capped; `n_items` are those of train, val and test, and a
    /// rollout is taken to be so many calls.
    pub fn planned_calls(&self, [n_train, n_val, n_test]: [usize; 3], calls_per_rollout: f64) -> u64 {
        let rollout = SearchCost { calls: calls_per_rollout, ..SearchCost::default() };
        let n_draws = n_val * self.evidence.selection_repeats.max(1);
        let n_end = self.n_rollouts_of_end(n_draws, n_test, rollout);
        // The cast saturates.
        self.search_budget(n_train, n_draws, n_end, rollout).calls.map_or(u64::MAX, |calls| calls as u64)
    }

    /// Refuses settings that a planned search has no use for, and would not keep to.
    pub(super) fn check_planned(&self) -> Result<(), SettingsError> {
        if self.protocol == Protocol::Paper {
            return Ok(());
        }
        let is_gate = matches!(self.evidence.mode, GateMode::Strict | GateMode::EProcess { .. });
        let refused = [
            (self.update_mode != UpdateMode::Patch, "update_mode", "proposals are edits"),
            (self.skill_aware.is_some(), "skill_aware", "notes are not measured, and proposals are"),
            (self.samples > 1, "samples", "a task is played again where its outcome is in doubt"),
            (self.evidence.saving.is_some(), "evidence.saving", "proposals are screened by their scores"),
            (!is_gate, "evidence.mode", "the modes of a planned search are strict and eprocess"),
            (self.acceptance == Acceptance::Always, "acceptance", "a planned search ends with a comparison"),
            (!ROUNDS.contains(&self.round), "round", "a round has 1, 2, 4 or 8 proposals"),
        ];
        match refused.into_iter().find(|(is_refused, ..)| *is_refused) {
            Some((_, setting, reason)) => Err(SettingsError::NotPlanned { setting, reason }),
            None => Ok(()),
        }
    }

    /// Rollouts after the last step: the re-evaluation of two skills on the validation split, and on the test split the
    /// initial and the best skill with the no-skill and one-shot arms where they are measured. The request for the
    /// one-shot skill counts as one.
    pub(crate) fn n_rollouts_of_end(&self, n_draws: usize, n_test: usize, rollout: SearchCost) -> usize {
        2 * (usize::from(self.effective().evidence.fresh) * n_draws + usize::from(self.eval_test) * n_test)
            + usize::from(self.measures_no_skill(n_test, rollout)) * n_test
            + usize::from(self.measures_one_shot(n_test, rollout)) * (n_test + 1)
    }

    /// True if the no-skill arm is measured, given the cost of a rollout.
    pub(crate) fn measures_no_skill(&self, n_test: usize, rollout: SearchCost) -> bool {
        self.measures_arm(self.no_skill, rollout.times(n_test as f64))
    }

    /// True if the one-shot arm is measured, given the cost of a rollout.
    pub(crate) fn measures_one_shot(&self, n_test: usize, rollout: SearchCost) -> bool {
        self.measures_arm(self.one_shot, self.cost_of_one_shot(n_test, rollout, rollout))
    }

    /// The cost of the one-shot arm: its request, and a pass over the test split with `of_arm` for each rollout.
    pub(crate) fn cost_of_one_shot(
        &self,
        n_test: usize,
        rollout: SearchCost,
        of_arm: SearchCost,
    ) -> SearchCost {
        let shown = rollout.times(ONE_SHOT_FAILURES as f64 / READ_AT_ONCE);
        let request = first_optimizer_call(shown, self.search.optimizer_prices);
        request.plus(of_arm.times(n_test as f64))
    }

    /// True if an arm of this cost is measured.
    fn measures_arm(&self, setting: ArmSetting, arm: SearchCost) -> bool {
        let cap = self.search.budget;
        let is_small = |cap: Option<f64>, of_arm: f64| cap.is_none_or(|cap| of_arm <= ARM_SHARE * cap);
        let has_room = self.protocol == Protocol::Auto
            && !cap.is_unlimited()
            && is_small(cap.calls, arm.calls)
            && is_small(cap.tokens, arm.tokens)
            && is_small(cap.money, arm.money);
        self.eval_test
            && match setting {
                ArmSetting::On => true,
                ArmSetting::Auto => has_room,
                ArmSetting::Off => false,
            }
    }

    /// What a planned search may spend: the caps, or else the calls of the paper's protocol for as many epochs.
    pub(crate) fn search_budget(
        &self,
        n_train: usize,
        n_draws: usize,
        n_end: usize,
        rollout: SearchCost,
    ) -> SearchBudget {
        if !self.search.budget.is_unlimited() {
            return self.search.budget;
        }
        let epochs = self.epochs as usize;
        let steps = steps_per_epoch(n_train, PAPER_BATCH, 1);
        let of_epochs = epochs * (n_train * self.samples.max(1) + steps * n_draws);
        let of_ends = epochs.saturating_sub(1) * (PAPER_COMPARISONS.min(2 * n_train) + n_draws);
        let rollouts = n_draws + of_epochs + of_ends + n_end;
        let of_optimizer = epochs * steps * PAPER_OPTIMIZER_CALLS;
        let calls = rollouts as f64 * rollout.calls.max(1.0) + of_optimizer as f64;
        SearchBudget { calls: Some(calls), ..SearchBudget::default() }
    }

    /// What decides results and is a matter of the protocol, by name: a plan takes the place of the sizes.
    pub(super) fn protocol_identity(&self) -> Vec<(&'static str, Value)> {
        match self.protocol {
            Protocol::Paper => vec![
                ("train.batch_size", json!(self.batch_size)),
                ("train.accumulation", json!(self.accumulation)),
                ("train.minibatch_size", json!(self.minibatch_size)),
                ("train.edit_budget", json!(self.edit_budget.max)),
                ("train.min_edit_budget", json!(self.edit_budget.min)),
                ("train.schedule", json!(self.edit_budget.schedule)),
                ("train.budget_control", json!(self.budget_control)),
            ],
            Protocol::Auto => {
                vec![("train.protocol", json!(PLANNED)), ("train.round", json!(self.round))]
            }
        }
    }
}

/// A call of these tokens.
fn spending_of(usage: Usage, prices: Prices) -> SearchCost {
    SearchCost { calls: 1.0, tokens: usage.tokens() as f64, money: prices.cost(usage) }
}

/// What a call of the optimizer takes, before one was made, by the trajectories that it will read.
pub(crate) fn first_optimizer_call(rollout: SearchCost, prices: Prices) -> SearchCost {
    let [prompt, reply] = OPTIMIZER_TOKENS;
    let prompt = prompt + READ_AT_ONCE * rollout.tokens;
    let usage = Usage { input: prompt as u64, output: reply as u64, ..Usage::default() };
    SearchCost { tokens: prompt + reply, ..spending_of(usage, prices) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(budget: SearchBudget) -> TrainSettings {
        let search = SearchLimits { budget, ..SearchLimits::default() };
        TrainSettings { protocol: Protocol::Auto, search, ..TrainSettings::default() }
    }

    #[test]
    fn a_plan_without_caps_has_twenty_proposals_where_the_papers_protocol_has_four_steps() {
        let foreseen = auto(SearchBudget::default()).foreseen([40, 40, 40], 1.0);
        let steps = steps_per_epoch(40, foreseen.batch_size, 1) * foreseen.epochs as usize;
        assert!(steps >= 20, "{steps} proposals");
        assert_eq!(foreseen.epoch_end, EpochEnd::OFF);
        let paper = TrainSettings::default();
        assert_eq!(paper.foreseen([40, 40, 40], 1.0), paper);
    }

    #[test]
    fn each_cap_limits_the_plan_and_one_without_room_has_no_steps() {
        let steps = |budget| {
            let foreseen = auto(budget).foreseen([40, 40, 40], 1.0);
            foreseen.epochs as usize * steps_per_epoch(40, foreseen.batch_size, 1)
        };
        let calls = |cap| SearchBudget { calls: Some(cap), ..SearchBudget::default() };
        let tokens = |cap| SearchBudget { tokens: Some(cap), ..SearchBudget::default() };
        assert!(steps(calls(2_000.0)) > steps(calls(900.0)));
        assert!(steps(tokens(3e6)) > steps(tokens(1e6)));
        assert_eq!(steps(calls(100.0)), 0);
    }

    #[test]
    fn no_skill_is_measured_unasked_where_it_takes_at_most_a_tenth_of_each_cap() {
        let rollout = SearchCost { calls: 1.0, tokens: 500.0, money: 0.001 };
        let measures = |settings: TrainSettings| settings.measures_no_skill(40, rollout);
        let calls = |cap| SearchBudget { calls: Some(cap), ..SearchBudget::default() };
        assert!(measures(auto(calls(400.0))) && !measures(auto(calls(399.0))));
        let both = SearchBudget { money: Some(0.2), ..calls(4_000.0) };
        assert!(!measures(auto(both)), "a tenth of each");
        assert!(!measures(auto(SearchBudget::default())), "without a cap nobody has said what may be spent");
        let asked = |no_skill, eval_test| TrainSettings { no_skill, eval_test, ..auto(calls(10.0)) };
        assert!(measures(asked(ArmSetting::On, true)) && !measures(asked(ArmSetting::On, false)));
        assert!(!measures(TrainSettings { no_skill: ArmSetting::Off, ..auto(calls(400.0)) }));
        assert!(!measures(TrainSettings { protocol: Protocol::Paper, ..auto(calls(400.0)) }));
        // What it takes is kept for the end of the run.
        let kept = |settings: TrainSettings| settings.n_rollouts_of_end(10, 40, rollout);
        assert_eq!(kept(auto(calls(400.0))), kept(auto(calls(399.0))) + 40);
    }

    #[test]
    fn the_budget_and_the_sizes_are_no_part_of_a_planned_runs_identity() {
        let names = |settings: &TrainSettings| -> Vec<&'static str> {
            settings.identity().map(|(name, _)| name).collect()
        };
        let planned = auto(SearchBudget::default());
        let larger =
            TrainSettings { batch_size: 7, ..auto(SearchBudget { calls: Some(9.0), ..Default::default() }) };
        assert_eq!(planned.identity().collect::<Vec<_>>(), larger.identity().collect::<Vec<_>>());
        assert!(
            names(&planned).contains(&"train.protocol") && !names(&planned).contains(&"train.batch_size")
        );
        assert!(!names(&TrainSettings::default()).contains(&"train.protocol"));
    }
}
