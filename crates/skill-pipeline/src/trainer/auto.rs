//! The budget of a planned search: what is left for proposals, and what is set aside for the end.
//!
//! All of it follows from the items, the budget of the settings and what the files of the run hold: never from a clock,
//! from requests that were repeated, or from what was in flight. So a resumed run plans as it did before, whatever stopped
//! it and however many workers it has.
//!
//! No play is in flight that may turn out not to be needed, and so few are that what a killed process had in flight stays
//! within a reserve. If more is lost, the budget still covers the end of the run: a step without room is given up, and the
//! skills are measured.
//!
//! # Invariants
//!
//! - What is done next follows from recorded facts: a planned search that was stopped, killed by a fault or run
//!   with another number of workers leaves the same files, keeps its budget, and continues with a larger one. Held
//!   by `tests/training/auto.rs`.
//! - It ends inside its caps with everything measured, and no step uses what is set aside for the end. Held by
//!   `a_planned_run_ends_inside_its_cap_with_everything_measured_however_many_workers_it_has` and
//!   `a_step_that_the_cap_has_no_room_for_is_left_out_and_the_end_is_measured`.

use super::finish::Place;
use super::run::Run;
use super::search::Search;
use super::{ScoredSkill, TrainState};
use crate::error::PipelineError;
use crate::event::{Event, EventSink as _, Stage};
use crate::records::arm::ArmSetting;
use crate::records::summary::{ProposalCounts, SearchEnd, SearchRecord};
use crate::records::{StageTokens, TokensByStage};
use crate::run_dir::EvaluationDir;
use crate::settings::Protocol;
use crate::settings::protocol::{COMPARED_PART, PLAYS_OF_PROPOSAL};
use crate::shell::spent_by;
use crate::warning::{RunModel, Warning};
use skill_core::search::{Allowance, Due, GROUP, MOST_EDITS};
use skill_core::search_plan::{Failures, SearchBudget, SearchCost};
use skill_core::stats::{detectable_effect, flip_rate};
use skill_core::usage::{dollars, grouped};
use skill_core::{ItemScore, StepIdx, Usage};
use skill_envs::Split;
use skill_llm::{AttemptsSeen, Prices, Spent};
use std::time::Duration;

/// The stages whose calls are the optimizer's.
const OPTIMIZER_STAGES: [Stage; 6] =
    [Stage::Reflect, Stage::Aggregate, Stage::Select, Stage::Update, Stage::Appendix, Stage::OneShot];
/// How much more than their means the tasks of the end of a run are taken to use.
const END_MARGIN: f64 = 1.1;
/// After this many proposals in a row that leave the skill unchanged, pending proposals are compared, and the search ends
/// unless that changes the skill: further replies of an optimizer that repeats itself would be paid for nothing.
const MAX_UNCHANGED: usize = 8;
/// So many imagined proposals say what one takes before any was made.
const IMAGINED: f64 = 4.0;

impl Run<'_> {
    /// Leaves a step out that the caps have no room for; the search ends before it.
    pub(super) fn give_up(
        &mut self,
        state: &mut TrainState,
        step: StepIdx,
        what: &str,
    ) -> Result<(), PipelineError> {
        // Of a round, all of it.
        for n_after in 0..u32::try_from(self.settings.round).unwrap_or(u32::MAX) {
            self.dir.remove_step(StepIdx(step.0.saturating_add(n_after)))?;
        }
        state.no_room = Some(self.settings.search.budget);
        state.write_again(self.dir)?;
        self.warn(Some(step), Warning::NoRoomForStep { step: step.0, what: what.to_owned() });
        Ok(())
    }

    /// Reserves budget for the final measurements and the next comparison, the more the higher the failure rate of requests
    /// is. Optional arms get no such margin, since they are skipped when the budget is short.
    pub(super) fn set_aside(&self, state: &TrainState, compared: SearchCost) -> Result<(), PipelineError> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let (required, optional) = self.end_costs(state)?;
        let required = failures(budget.attempts()).on_top_of(required.plus(compared));
        let SearchCost { calls, tokens, money } = required.plus(optional);
        // The casts saturate, and less than nothing is nothing.
        let aside = Spent { calls: calls.ceil() as u64, tokens: tokens as u64, money, time: Duration::ZERO };
        budget.set_aside(aside);
        Ok(())
    }

    /// Gives the end of the run what was set aside for it. While the caps leave little more than it needs, so few requests
    /// are in flight that a process that is killed does not use it up.
    pub(super) fn begin_end(&mut self, state: &TrainState) -> Result<(), PipelineError> {
        let Some(budget) = self.budget.clone().filter(|_| self.settings.protocol == Protocol::Auto) else {
            return Ok(());
        };
        budget.set_aside(Spent::default());
        let end = failures(budget.attempts()).on_top_of(self.end_cost(state)?);
        let spent = spending_of(budget.spent());
        let risk = self.settings.search.budget.risk_at_end(spent, end, self.rollout_of(state, &state.best)?);
        self.workers = risk.map_or(self.workers, |risk| self.workers.min(risk).max(1));
        Ok(())
    }

    /// What was in flight in earlier processes when they were killed: it is spent, and in no record.
    fn killed(&self) -> SearchCost {
        spending_of(spent_by(&self.prices, self.journal.unanswered_before()))
    }

    /// Has so few requests in flight that a process that is killed leaves the plan of the run as it is.
    pub(super) fn bound_workers(&mut self, state: Option<&TrainState>) -> Result<(), PipelineError> {
        if self.settings.protocol == Protocol::Paper || self.budget.is_none() {
            return Ok(());
        }
        let (recorded, rollout) = match state {
            Some(state) => (self.recorded(state)?, self.rollout_of(state, &state.current)?),
            None => Default::default(),
        };
        let most = self.settings.search.budget.in_flight(recorded, self.killed(), rollout);
        self.workers = self.settings.workers.min(most.unwrap_or(usize::MAX));
        Ok(())
    }

    /// The length of a planned run as far as it is known: what is finished, and what the budget has room for.
    pub(super) fn plan_length(&mut self, stored: Option<&TrainState>) -> Result<(), PipelineError> {
        if self.settings.protocol == Protocol::Paper {
            return Ok(());
        }
        let Some(state) = stored else { return Ok(()) };
        let search = self.search(state);
        let has_ended = state.no_room == Some(self.settings.search.budget)
            || search.is_over
            || self.end_of(state, &search).is_some();
        let n_left = if has_ended { 0 } else { self.proposals_left(state, &self.allowance(state, &search)?) };
        self.length.1 = state.last_step.0.saturating_add(n_left);
        Ok(())
    }

    /// Measures the initial skill on the selection split once more, if the end of the run would do so anyway: the
    /// difference is the noise.
    ///
    /// It comes before the first state is written, so that a run without a state begins it again.
    pub(super) async fn measure_noise(&mut self) -> Result<(), PipelineError> {
        if self.settings.protocol == Protocol::Paper || !self.settings.evidence.fresh {
            return Ok(());
        }
        let initial = self.initial_skill.clone();
        self.measure(Place::FRESH_BASELINE, &initial, &mut TokensByStage::new())
            .await
            .map(drop)
            .map_err(|error| self.or_stopped(error, StepIdx(0)))
    }

    /// Ends the search, as long as the caps are the same.
    pub(super) fn end_for_room(&mut self, state: &mut TrainState) -> Result<(), PipelineError> {
        state.no_room = Some(self.settings.search.budget);
        state.write_again(self.dir)
    }

    /// What the search may still spend, in rollouts.
    pub(super) fn allowance(&self, state: &TrainState, search: &Search) -> Result<Allowance, PipelineError> {
        let (rollout, end) = (self.rollout_of(state, &state.current)?, self.end_cost(state)?);
        let budget = self.planned_budget()?;
        let known = match search.pending.is_empty() {
            // What is taken next is a skill of which nothing is known.
            true => 0,
            false => self.known_results(state, &state.current.skill.hash())?.len(),
        };
        Ok(Allowance {
            left: budget.times_left(self.recorded(state)?.plus(end), rollout),
            confirm: self.n_draws().saturating_sub(known) as f64,
            n_pending: search.pending.len(),
            since: search.since,
        })
    }

    /// The caps, or the calls of the paper's protocol.
    fn planned_budget(&self) -> Result<SearchBudget, PipelineError> {
        let rollout = self.initial_rollout()?;
        let [n_train, n_test] = [Split::Train, Split::Test].map(|split| self.env.items(split).len());
        let n_end = self.settings.n_rollouts_of_end(self.n_draws(), n_test, rollout);
        Ok(self.settings.search_budget(n_train, self.n_draws(), n_end, rollout))
    }

    /// Proposals that the budget has room for, by the cost of those before, and no more than a search is likely to make
    /// before its patience ends it.
    fn proposals_left(&self, state: &TrainState, allowance: &Allowance) -> u32 {
        let proposals = || state.history.iter().filter_map(|record| record.proposal.as_ref());
        let n_plays: usize = proposals().map(|proposal| proposal.plays.len() + 1).sum();
        let of_imagined = IMAGINED * (PLAYS_OF_PROPOSAL + 1.0);
        let cost = (n_plays as f64 + of_imagined) / (proposals().count() as f64 + IMAGINED);
        // For each play of the search a comparison takes a part of one.
        let of_search = allowance.for_proposals() / (1.0 + COMPARED_PART);
        // The cast saturates.
        let n_left = (of_search / cost).max(0.0).ceil() as u32;
        let n_made = u32::try_from(proposals().count()).unwrap_or(u32::MAX);
        let likely = self.settings.search.likely_max_proposals();
        n_left.min(likely.map_or(u32::MAX, |likely| likely.saturating_sub(n_made).max(1)))
    }

    /// Says what is planned: the events have the first plan of each process, the length of the run each one.
    pub(super) fn tell_plan(
        &mut self,
        state: &TrainState,
        allowance: &Allowance,
    ) -> Result<(), PipelineError> {
        let n_left = self.proposals_left(state, allowance);
        self.length.1 = state.last_step.0.saturating_add(n_left);
        if self.planned || allowance.due() == Due::Nothing {
            return Ok(());
        }
        self.planned = true;
        let sentence = self.sentence(state, n_left)?;
        self.log.emit(&Event::SearchPlanned {
            step: StepIdx(state.last_step.0.saturating_add(1)),
            batch_size: GROUP,
            minibatch_size: GROUP,
            edits: MOST_EDITS,
            steps_left: n_left,
            sentence,
        });
        Ok(())
    }

    /// An error where all caps count tokens, and the replies of a model that they are about come without counts: no plan
    /// would end.
    pub(super) fn check_counts(&self, state: &TrainState) -> Result<(), PipelineError> {
        let search = &self.settings.search;
        let what = match search.budget {
            SearchBudget { calls: Some(_), .. } => return Ok(()),
            SearchBudget { tokens: Some(_), .. } => "tokens",
            SearchBudget { money: Some(_), .. } => "money",
            SearchBudget { .. } => return Ok(()),
        };
        // A replay sends nothing that a cap could count.
        if self.budget.is_none() {
            return Ok(());
        }
        let baseline = self.dir.read_evaluation(EvaluationDir::Baseline)?;
        let of_target = baseline.map(|measured| measured.tokens).unwrap_or_default();
        let models = [
            (RunModel::Target, of_target, search.target_prices),
            (RunModel::Optimizer, of_optimizer(state), search.optimizer_prices),
        ];
        let is_blind = |(_, used, prices): &(RunModel, StageTokens, Prices)| {
            !used.has_counts() && (what == "tokens" || *prices != Prices::default())
        };
        match models.into_iter().find(is_blind) {
            Some((model, ..)) => {
                Err(PipelineError::Uncounted { model: model.as_str(), what, last_step: state.last_step.0 })
            }
            None => Ok(()),
        }
    }

    /// Why there is no further proposal, whatever the budget.
    pub(super) fn end_of(&self, state: &TrainState, search: &Search) -> Option<SearchEnd> {
        // No candidate is strictly better than a skill that solves everything.
        if state.best.score >= 1.0 {
            return Some(SearchEnd::Perfect);
        }
        if search.is_over {
            return Some(SearchEnd::Exhausted);
        }
        if search.unchanged >= MAX_UNCHANGED {
            return Some(SearchEnd::NothingNew);
        }
        let patience = usize::try_from(self.settings.search.patience).unwrap_or(usize::MAX);
        (patience > 0 && search.in_vain >= patience).then_some(SearchEnd::Plateau)
    }

    /// The share of the selection split that comes out otherwise in a second pass with the initial skill, if there was
    /// one.
    pub(super) fn flip_rate(&self) -> Result<Option<f64>, PipelineError> {
        if !self.settings.evidence.fresh || self.dir.read_evaluation(EvaluationDir::FreshBaseline)?.is_none()
        {
            return Ok(None);
        }
        let (first, second) =
            (self.scores(EvaluationDir::Baseline)?, self.scores(EvaluationDir::FreshBaseline)?);
        Ok(Some(flip_rate(&first, &second)))
    }

    /// How a planned search went.
    pub(super) fn search_record(&self, state: &TrainState) -> Result<Option<SearchRecord>, PipelineError> {
        if self.settings.protocol == Protocol::Paper {
            return Ok(None);
        }
        let counts = ProposalCounts::of(&state.history);
        let ProposalCounts { made, fixed, taken, accepted } = counts;
        let plan = format!(
            "{fixed} of {made} proposals fixed tasks that they came from, {taken} were taken, {accepted} accepted; within {}",
            budget_text(&self.planned_budget()?)
        );
        let ended = self.end_of(state, &self.search(state)).unwrap_or(SearchEnd::Budget);
        Ok(Some(SearchRecord { plan, proposals: Some(counts), ended }))
    }

    /// `about 46 more proposals, at most 760 calls; validation 20 %: at most 80 points to gain, minimum detectable gain of
    /// 15.5 points`.
    fn sentence(&self, state: &TrainState, n_left: u32) -> Result<String, PipelineError> {
        let n_items = self.env.items(Split::Val).len();
        let least = detectable_effect(self.flip_rate()?.unwrap_or_default(), n_items, 0.05, 0.8);
        let proposals = match n_left {
            1 => "about 1 more proposal".to_owned(),
            // Models without a price use up no cap on money.
            u32::MAX => "proposals".to_owned(),
            n_left => format!("about {n_left} more proposals"),
        };
        let solved = 100.0 * state.best.score;
        Ok(format!(
            "{proposals}, at most {}; validation {solved:.0} %: at most {:.0} points to gain, minimum detectable gain of {:.1} points",
            budget_text(&self.planned_budget()?),
            100.0 - solved,
            100.0 * least,
        ))
    }

    /// What the records of the run hold.
    fn recorded(&self, state: &TrainState) -> Result<SearchCost, PipelineError> {
        let mut recorded = SearchCost::default();
        for place in [EvaluationDir::Baseline, EvaluationDir::FreshBaseline] {
            if let Some(measured) = self.dir.read_evaluation(place)? {
                recorded = recorded.plus(spending(measured.tokens, self.settings.search.target_prices));
            }
        }
        let of_steps = state.tokens().map(|(stage, used)| self.spending_at(stage, used));
        Ok(of_steps.fold(recorded, SearchCost::plus))
    }

    fn spending_at(&self, stage: &str, used: StageTokens) -> SearchCost {
        let search = &self.settings.search;
        let prices = if is_of_optimizer(stage) { search.optimizer_prices } else { search.target_prices };
        spending(used, prices)
    }

    /// The cost of the final measurements: the re-evaluation of the initial and the best skill on the validation
    /// split, and all arms on the test split.
    pub(super) fn end_cost(&self, state: &TrainState) -> Result<SearchCost, PipelineError> {
        let (required, optional) = self.end_costs(state)?;
        Ok(required.plus(optional))
    }

    /// The same in two parts: what the verdict needs, and the optional arms, which are skipped when the budget is short.
    fn end_costs(&self, state: &TrainState) -> Result<(SearchCost, SearchCost), PipelineError> {
        let (settings, n_draws) = (self.settings, self.n_draws());
        let n_test = if settings.eval_test { self.env.items(Split::Test).len() } else { 0 };
        let n_fresh = if settings.evidence.fresh { n_draws } else { 0 };
        let is_fresh = self.dir.read_evaluation(EvaluationDir::FreshBaseline)?.is_some();
        let n_initial = n_test + if is_fresh { 0 } else { n_fresh };
        let (initial, best) = (self.initial_rollout()?, self.rollout_of(state, &state.best)?);
        let arms = [
            (settings.no_skill, self.measures_no_skill()?, initial.times(n_test as f64)),
            (settings.one_shot, self.measures_one_shot()?, settings.cost_of_one_shot(n_test, initial, best)),
        ];
        let mut required = initial.times(n_initial as f64).plus(best.times((n_test + n_fresh) as f64));
        let mut optional = SearchCost::default();
        for (setting, is_measured, cost) in arms {
            let part = if setting == ArmSetting::Auto { &mut optional } else { &mut required };
            *part = if is_measured { part.plus(cost) } else { *part };
        }
        // Other tasks have other lengths; that a task takes one call is known.
        let calls = if best.calls > 1.0 { END_MARGIN } else { 1.0 };
        let with_margin = |cost: SearchCost| SearchCost {
            calls: cost.calls * calls,
            tokens: cost.tokens * END_MARGIN,
            money: cost.money * END_MARGIN,
        };
        Ok((with_margin(required), with_margin(optional)))
    }

    /// What a rollout of the initial skill takes.
    pub(super) fn initial_rollout(&self) -> Result<SearchCost, PipelineError> {
        let baseline = self.dir.read_evaluation(EvaluationDir::Baseline)?;
        let of_baseline = baseline.map(|measured| measured.tokens).unwrap_or_default();
        let per_draw = 1.0 / self.n_draws().max(1) as f64;
        Ok(spending(of_baseline, self.settings.search.target_prices).times(per_draw))
    }

    /// What a rollout of a skill takes, by its own evaluation where that was whole, and at least as much as one of the
    /// initial skill: what a skill says comes on top of each prompt.
    pub(super) fn rollout_of(
        &self,
        state: &TrainState,
        scored: &ScoredSkill,
    ) -> Result<SearchCost, PipelineError> {
        let initial = self.initial_rollout()?;
        let step = scored.id.origin.step();
        let record = state.history.iter().find(|record| record.step == step);
        let measured = record.and_then(|record| {
            let n_seen = record.selection_n_seen.filter(|n_seen| *n_seen > 0)?;
            let used = *record.tokens.get(Stage::Evaluate.as_str())?;
            Some(spending(used, self.settings.search.target_prices).times(1.0 / n_seen as f64))
        });
        Ok(measured.map_or(initial, |own| own.max(initial)))
    }

    /// True if the end of the run measures no skill at all on the test split.
    pub(super) fn measures_no_skill(&self) -> Result<bool, PipelineError> {
        let n_test = self.env.items(Split::Test).len();
        Ok(self.settings.measures_no_skill(n_test, self.initial_rollout()?))
    }

    fn scores(&self, place: EvaluationDir) -> Result<Vec<ItemScore>, PipelineError> {
        Ok(self.dir.read_results(place)?.iter().map(ItemScore::from).collect())
    }
}

/// What the calls of the optimizer took.
fn of_optimizer(state: &TrainState) -> StageTokens {
    let stages = state.tokens().filter(|(stage, _)| is_of_optimizer(stage));
    stages.fold(StageTokens::default(), |mut all, (_, used)| {
        all += used;
        all
    })
}

fn is_of_optimizer(stage: &str) -> bool {
    OPTIMIZER_STAGES.iter().any(|own| own.as_str() == stage)
}

fn failures(seen: AttemptsSeen) -> Failures {
    let [n_replied, of_replies, n_failed, of_failures] =
        [seen.n_replied, seen.replied_tokens, seen.n_failed, seen.failed_tokens].map(|n| n as f64);
    Failures { n_replied, calls: n_failed / n_replied.max(1.0), tokens: of_failures / of_replies.max(1.0) }
}

fn spending_of(spent: Spent) -> SearchCost {
    SearchCost { calls: spent.calls as f64, tokens: spent.tokens as f64, money: spent.money }
}

fn spending(used: StageTokens, prices: Prices) -> SearchCost {
    let usage = Usage {
        input: used.prompt_tokens,
        cached: used.cached_tokens,
        cache_written: used.cache_written_tokens,
        output: used.completion_tokens,
        ..Usage::default()
    };
    SearchCost { calls: used.calls as f64, tokens: used.tokens() as f64, money: prices.cost(usage) }
}

/// The caps of a search.
fn budget_text(budget: &SearchBudget) -> String {
    let caps = [
        budget.calls.map(|cap| format!("{} calls", grouped(cap as u64))),
        budget.tokens.map(|cap| format!("{} tokens", grouped(cap as u64))),
        budget.money.map(dollars),
    ];
    caps.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}
