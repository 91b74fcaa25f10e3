//! A planned search: each step is as large as the budget, the noise and what was accepted so far make it.
//!
//! The plan of a step follows from the items, the budget of the settings and what the files of the run hold
//! ([`SearchFacts`]): never from a clock, from requests that were repeated, or from what was in flight. So a resumed
//! run plans as it did before, whatever stopped it and however many workers it has.
//!
//! What a run sends beyond its records is bounded: an evaluation keeps so few calls in flight that may turn out not to be
//! needed that they stay within the slack of the plan, and all stages so few that what a killed process had in flight
//! stays within a reserve. If more is lost, the budget still covers the end of the run: a step without room is given up,
//! and the skills are measured.
//!
//! # Invariants
//!
//! - The plan of a step follows from recorded facts: a planned search that was stopped, killed by a fault or run
//!   with another number of workers leaves the same files, keeps its budget, and continues with a larger one. Held
//!   by `tests/training/auto.rs`.
//! - A plateau counts only rejections of candidates that could have shown the configured gain. Held by
//!   `a_rejection_that_could_not_have_shown_the_gain_is_no_part_of_a_plateau`.
//! - It ends inside its caps with everything measured: what an evaluation sends in vain stays within what the plan leaves
//!   free, and no step uses what is set aside for the end. Held by
//!   `a_planned_run_ends_inside_its_cap_with_everything_measured_however_many_workers_it_has` and
//!   `a_step_that_the_cap_has_no_room_for_is_left_out_and_the_end_is_measured`.

use super::finish::Place;
use super::run::{Reading, Run, StepPlan};
use super::{ScoredSkill, TrainState};
use crate::error::PipelineError;
use crate::event::{Event, EventSink as _, Stage};
use crate::records::document::StepRecord;
use crate::records::summary::{SearchEnd, SearchRecord};
use crate::records::{StageTokens, TokensByStage};
use crate::run_dir::EvaluationDir;
use crate::settings::{Protocol, first_optimizer_call};
use crate::shell::{spans, spent_by};
use crate::warning::{RunModel, Warning};
use skill_core::plan::batch_at;
use skill_core::search_plan::{Decision, SearchBudget, SearchFacts, SearchPlan, Spending};
use skill_core::stats::flip_rate;
use skill_core::usage::{dollars, grouped};
use skill_core::{EpochIdx, ItemScore, StepIdx, Usage};
use skill_envs::Split;
use skill_llm::{Prices, Spent};
use std::time::Duration;
use tracing::Instrument as _;

/// The stages whose calls are the optimizer's.
const OPTIMIZER_STAGES: [Stage; 5] =
    [Stage::Reflect, Stage::Aggregate, Stage::Select, Stage::Update, Stage::Appendix];
/// How much more than their means the tasks of the end of a run are taken to use.
const END_MARGIN: f64 = 1.1;
/// Candidates from which on their mean share of the selection split says what the next one will take.
const LEAST_SHARES: usize = 2;

impl Run<'_> {
    /// Makes steps for as long as the plan has any.
    pub(super) async fn follow_the_plan(&mut self, state: &mut TrainState) -> Result<(), PipelineError> {
        loop {
            let Some(plan) = self.next_step(state)? else {
                self.length.1 = state.last_step.0;
                return Ok(());
            };
            self.check_stop(state.last_step, self.length.1)?;
            self.set_aside(self.end_cost(state)?);
            self.bound_workers(Some(state))?;
            let (step, span) = (plan.step, spans::of_step(plan.step, plan.epoch));
            match self.make_step(state, plan).instrument(span).await {
                Err(PipelineError::Capped { what, .. }) if self.budget.is_some() && what != "time" => {
                    self.give_up(state, step, what)?;
                }
                made => made?,
            }
        }
    }

    /// Leaves a step out that the caps have no room for; the search ends before it.
    fn give_up(&mut self, state: &mut TrainState, step: StepIdx, what: &str) -> Result<(), PipelineError> {
        self.dir.remove_step(step)?;
        state.no_room = Some(self.settings.search.budget);
        state.write_again(self.dir)?;
        self.warn(Some(step), Warning::NoRoomForStep { step: step.0, what: what.to_owned() });
        Ok(())
    }

    /// Sets aside what only the end of the run may use.
    fn set_aside(&self, end: Spending) {
        let Some(budget) = &self.budget else { return };
        let Spending { calls, tokens, money } = end;
        // The casts saturate, and less than nothing is nothing.
        let aside = Spent { calls: calls.ceil() as u64, tokens: tokens as u64, money, time: Duration::ZERO };
        budget.set_aside(aside);
    }

    /// Gives the end of the run what was set aside for it. While the caps leave little more than it needs, so few requests
    /// are in flight that a process that is killed does not use it up.
    pub(super) fn begin_end(&mut self, state: &TrainState) -> Result<(), PipelineError> {
        let Some(budget) = self.budget.clone().filter(|_| self.settings.protocol == Protocol::Auto) else {
            return Ok(());
        };
        budget.set_aside(Spent::default());
        let (spent, end) = (spending_of(budget.spent()), self.end_cost(state)?);
        let risk = self.settings.search.budget.risk_at_end(spent, end, self.rollout_of(state, &state.best)?);
        self.workers = risk.map_or(self.workers, |risk| self.workers.min(risk).max(1));
        Ok(())
    }

    /// The most rollouts of an evaluation that may be sent in vain; `None` without a plan and without caps. The step has
    /// taken these tokens until now.
    pub(super) fn risk(
        &self,
        state: &TrainState,
        of_step: &TokensByStage,
    ) -> Result<Option<usize>, PipelineError> {
        let Some(budget) = self.budget.as_ref().filter(|_| self.settings.protocol == Protocol::Auto) else {
            return Ok(None);
        };
        let of_step = of_step.iter().map(|(stage, used)| self.spending_at(stage, *used));
        let recorded = of_step.fold(self.recorded(state)?, Spending::plus);
        let rollout = self.rollout_of(state, &state.current)?;
        let spent = spending_of(budget.spent());
        Ok(self.settings.search.budget.risk(spent, recorded, self.killed(), rollout))
    }

    /// What was in flight in earlier processes when they were killed: it is spent, and in no record.
    fn killed(&self) -> Spending {
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
        let has_ended = state.no_room == Some(self.settings.search.budget) || self.end_of(state)?.is_some();
        let left = if has_ended { None } else { self.facts(state)?.plan() };
        self.length.1 = state.last_step.0.saturating_add(left.map_or(0, |plan| plan.steps_left));
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

    /// The next step; `None` where the search is over.
    fn next_step(&mut self, state: &TrainState) -> Result<Option<StepPlan>, PipelineError> {
        if self.end_of(state)?.is_some() {
            return Ok(None);
        }
        // As long as the caps are the same.
        if state.no_room == Some(self.settings.search.budget) {
            self.length.1 = state.last_step.0;
            return Ok(None);
        }
        self.check_counts(state)?;
        let facts = self.facts(state)?;
        let Some(plan) = facts.plan() else { return Ok(None) };
        let step = StepIdx(state.last_step.0.saturating_add(1));
        self.length.1 = state.last_step.0.saturating_add(plan.steps_left);
        if self.planned != Some((plan.batch_size, plan.edits)) {
            self.planned = Some((plan.batch_size, plan.edits));
            self.log.emit(&Event::SearchPlanned {
                step,
                batch_size: plan.batch_size,
                minibatch_size: plan.minibatch_size,
                edits: plan.edits,
                steps_left: plan.steps_left,
                sentence: sentence(&plan, &facts),
            });
        }
        Ok(Some(self.step_plan(state, step, &plan)))
    }

    /// An error where all caps count tokens, and the replies of a model that they are about come without counts: no plan
    /// would end.
    fn check_counts(&self, state: &TrainState) -> Result<(), PipelineError> {
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

    fn step_plan(&self, state: &TrainState, step: StepIdx, plan: &SearchPlan) -> StepPlan {
        let n_train = self.env.items(Split::Train).len();
        let epoch = state.history.last().map_or(EpochIdx(1), |record| record.epoch);
        let of_epoch: Vec<&StepRecord> =
            state.history.iter().filter(|record| record.epoch == epoch).collect();
        let offset: usize = of_epoch.iter().map(|record| record.batch_item_ids.len()).sum();
        let (epoch, offset, batch_idx) = match offset < n_train {
            true => (epoch, offset, of_epoch.len()),
            false => (EpochIdx(epoch.0.saturating_add(1)), 0, 0),
        };
        let batch = batch_at(n_train, epoch, offset, plan.batch_size, batch_idx, self.settings.seed);
        StepPlan {
            step,
            epoch,
            step_in_epoch: batch_idx,
            total_steps: self.length.1,
            batches: vec![batch],
            reading: Reading {
                minibatch_size: plan.minibatch_size,
                edit_budget: plan.edits,
                // What is solved may be solved with fewer tokens.
                failure_only: self.settings.evidence.saving.is_none(),
                shows_solved: true,
                keeps_credit: true,
            },
            edit_budget: self.settings.update_mode.has_budget().then_some(plan.edits),
        }
    }

    /// Why there is no further step, whatever the budget.
    fn end_of(&self, state: &TrainState) -> Result<Option<SearchEnd>, PipelineError> {
        // No candidate is strictly better than a skill that solves everything.
        // One that saves tokens may be accepted still.
        if state.current.score >= 1.0 && self.settings.evidence.saving.is_none() {
            return Ok(Some(SearchEnd::Perfect));
        }
        let patience = usize::try_from(self.settings.search.patience).unwrap_or(usize::MAX);
        if patience == 0 {
            return Ok(None);
        }
        // Steps without a candidate mean that the optimizer has no more ideas.
        let in_row = state.history.iter().rev().take_while(|record| !record.action.is_accept());
        if in_row.filter(|record| record.action.is_skip()).count() >= patience {
            return Ok(Some(SearchEnd::Plateau));
        }
        let measured: Vec<&StepRecord> =
            state.history.iter().filter(|record| record.selection_n_seen.is_some()).collect();
        let flip_rate = self.flip_rate()?.unwrap_or_default();
        let numbers = (1..=u32::try_from(measured.len()).unwrap_or(u32::MAX)).rev();
        let since = measured.iter().rev().zip(numbers).take_while(|(record, _)| !record.action.is_accept());
        let n_shown = since.filter(|(record, test)| self.could_show(record, *test, flip_rate)).count();
        Ok((n_shown >= patience).then_some(SearchEnd::Plateau))
    }

    /// Whether a measured candidate, of this number, could have shown the gain that patience is about.
    fn could_show(&self, record: &StepRecord, test: u32, flip_rate: f64) -> bool {
        let Some(gain) = self.settings.search.patience_gain else { return true };
        let rule = self.settings.evidence.rule(self.settings.gate, test);
        rule.can_find(gain, record.score_before, self.env.items(Split::Val).len(), flip_rate)
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
        let facts = self.facts(state)?;
        let n_steps = state.history.len();
        let steps = if n_steps == 1 { "step" } else { "steps" };
        let plan = format!("{n_steps} {steps} within {}", budget_text(&facts));
        let ended = self.end_of(state)?.unwrap_or(SearchEnd::Budget);
        Ok(Some(SearchRecord { plan, ended }))
    }

    /// What the plan of the next step follows from.
    fn facts(&self, state: &TrainState) -> Result<SearchFacts, PipelineError> {
        let settings = self.settings;
        let n_items = |split| self.env.items(split).len();
        let n_draws = self.n_draws();
        let rollout = self.rollout_of(state, &state.current)?;
        let flip_rate = self.flip_rate()?;
        // The end of the run is paid for first.
        let spent = self.recorded(state)?.plus(self.end_cost(state)?);
        let n_end = settings.n_rollouts_of_end(n_draws, n_items(Split::Test), self.initial_rollout()?);

        let shares = state.history.iter().filter_map(|record| {
            Some(record.selection_n_seen? as f64 / (record.selection_n? as f64).max(1.0))
        });
        let shares: Vec<f64> = shares.collect();
        let share_seen =
            (shares.len() >= LEAST_SHARES).then(|| shares.iter().sum::<f64>() / shares.len() as f64);
        let scores = &state.current.item_scores;
        let n_solved = scores.iter().filter(|score| score.is_success()).count();
        Ok(SearchFacts {
            n_train: n_items(Split::Train),
            n_draws,
            n_samples: settings.samples,
            solved: n_solved as f64 / scores.len().max(1) as f64,
            flip_rate,
            share_seen,
            rollout,
            optimizer_call: optimizer_call(of_optimizer(state), rollout, settings.search.optimizer_prices),
            budget: settings.search_budget(n_items(Split::Train), n_draws, n_end, rollout),
            spent,
            decisions: state.history.iter().map(decision).collect(),
            n_candidates: settings.n_screened(),
            merge_batch: settings.merge_batch_size,
        })
    }

    /// What the records of the run hold.
    fn recorded(&self, state: &TrainState) -> Result<Spending, PipelineError> {
        let mut recorded = Spending::default();
        for place in [EvaluationDir::Baseline, EvaluationDir::FreshBaseline] {
            if let Some(measured) = self.dir.read_evaluation(place)? {
                recorded = recorded.plus(spending(measured.tokens, self.settings.search.target_prices));
            }
        }
        let of_steps = state.tokens().map(|(stage, used)| self.spending_at(stage, used));
        Ok(of_steps.fold(recorded, Spending::plus))
    }

    fn spending_at(&self, stage: &str, used: StageTokens) -> Spending {
        let search = &self.settings.search;
        let prices = if is_of_optimizer(stage) { search.optimizer_prices } else { search.target_prices };
        spending(used, prices)
    }

    /// What the end of the run will take: the initial and the best skill on the selection split once more, and on the test
    /// split; and the last skill once more where its notes are not measured.
    fn end_cost(&self, state: &TrainState) -> Result<Spending, PipelineError> {
        let (settings, n_draws) = (self.settings, self.n_draws());
        let n_test = if settings.eval_test { self.env.items(Split::Test).len() } else { 0 };
        let n_fresh = if settings.evidence.fresh { n_draws } else { 0 };
        let is_fresh = self.dir.read_evaluation(EvaluationDir::FreshBaseline)?.is_some();
        let n_noted = if settings.skill_aware.is_some() { n_draws } else { 0 };
        let n_without = if self.measures_no_skill()? { n_test } else { 0 };
        let n_initial = n_test + n_without + if is_fresh { 0 } else { n_fresh };
        let (initial, best) = (self.initial_rollout()?, self.rollout_of(state, &state.best)?);
        let end = initial.times(n_initial as f64).plus(best.times((n_test + n_fresh + n_noted) as f64));
        // Other tasks have other lengths; that a task takes one call is known.
        let calls = if best.calls > 1.0 { END_MARGIN } else { 1.0 };
        Ok(Spending {
            calls: end.calls * calls,
            tokens: end.tokens * END_MARGIN,
            money: end.money * END_MARGIN,
        })
    }

    /// What a rollout of the initial skill takes.
    fn initial_rollout(&self) -> Result<Spending, PipelineError> {
        let baseline = self.dir.read_evaluation(EvaluationDir::Baseline)?;
        let of_baseline = baseline.map(|measured| measured.tokens).unwrap_or_default();
        let per_draw = 1.0 / self.n_draws().max(1) as f64;
        Ok(spending(of_baseline, self.settings.search.target_prices).times(per_draw))
    }

    /// What a rollout of a skill takes, by its own evaluation where that was whole, and at least as much as one of the
    /// initial skill: what a skill says comes on top of each prompt.
    fn rollout_of(&self, state: &TrainState, scored: &ScoredSkill) -> Result<Spending, PipelineError> {
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

fn spending_of(spent: Spent) -> Spending {
    Spending { calls: spent.calls as f64, tokens: spent.tokens as f64, money: spent.money }
}

fn decision(record: &StepRecord) -> Decision {
    match record.action {
        action if action.is_accept() => Decision::Accepted,
        action if action.is_skip() => Decision::Skipped,
        _ => Decision::Rejected,
    }
}

fn spending(used: StageTokens, prices: Prices) -> Spending {
    let usage = Usage {
        input: used.prompt_tokens,
        cached: used.cached_tokens,
        cache_written: used.cache_written_tokens,
        output: used.completion_tokens,
        ..Usage::default()
    };
    Spending { calls: used.calls as f64, tokens: used.tokens() as f64, money: prices.cost(usage) }
}

/// What a call of the optimizer takes: by those that were made, else by the trajectories that it will read.
fn optimizer_call(used: StageTokens, rollout: Spending, prices: Prices) -> Spending {
    if used.calls > 0 {
        return spending(used, prices).times(1.0 / used.calls as f64);
    }
    first_optimizer_call(rollout, prices)
}

/// `about 18 more steps of 20 tasks, at most 750 calls; validation 20 %, and 5 % of the items change from one pass to the
/// next`.
fn sentence(plan: &SearchPlan, facts: &SearchFacts) -> String {
    let noise = facts.flip_rate.map_or_else(String::new, |rate| {
        format!(", and {:.0} % of the items change from one pass to the next", 100.0 * rate)
    });
    // Models without a price use up no cap on money.
    let steps = match plan.steps_left {
        1 => "about 1 more step".to_owned(),
        u32::MAX => "steps".to_owned(),
        steps_left => format!("about {steps_left} more steps"),
    };
    format!(
        "{steps} of {} tasks, at most {}; validation {:.0} %{noise}",
        plan.batch_size,
        budget_text(facts),
        100.0 * facts.solved
    )
}

/// The caps of a search.
fn budget_text(SearchFacts { budget, .. }: &SearchFacts) -> String {
    let caps = [
        budget.calls.map(|cap| format!("{} calls", grouped(cap as u64))),
        budget.tokens.map(|cap| format!("{} tokens", grouped(cap as u64))),
        budget.money.map(dollars),
    ];
    caps.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}
