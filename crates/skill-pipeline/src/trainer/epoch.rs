//! The end of an epoch: the same tasks under two skills, guidance for the agent, and notes of the optimizer to itself.
//!
//! What it does belongs to the last step of its epoch: places of calls, timings and events name that step.
//!
//! # Invariants
//!
//! - An epoch's end is done once, before the next step, and leaves the same files whatever stopped it before. Held
//!   by `a_run_that_fails_at_any_call_goes_on_to_the_files_of_an_undisturbed_one`,
//!   `a_run_that_is_stopped_before_the_end_of_an_epoch_ends_it_first`,
//!   `a_run_that_is_extended_is_one_that_was_longer_from_the_start`.
//! - The scores of a skill come from an evaluation of that skill; the one exception is an empty region for
//!   guidance, which the agent does not see. Held by `forced_guidance_is_measured_and_the_best_skill_stays`,
//!   `the_first_epoch_gets_an_empty_region_and_keeps_its_score`.

mod compare;

use super::finish::add_tokens;
use super::run::Run;
use super::state::{EpochOutcome, SkillChange};
use super::{ScoredSkill, TrainState};
use crate::error::PipelineError;
use crate::event::{Event, EventSink as _, Stage};
use crate::records::epoch::{
    EpochRecords, MetaSkillAction, MetaSkillRecord, SlowUpdateAction, SlowUpdateRecord,
};
use crate::records::{FORMAT_VERSION, StageTokens, TokensByStage};
use crate::run_dir::{EvaluationDir, META_SKILL_RESULT, SLOW_RESULT, atomic};
use crate::settings::SlowUpdate;
use crate::stage::epoch_end::{Written, write_guidance, write_meta_skill};
use crate::stage::evaluate::evaluate_candidate;
use crate::warning::Warning;
use compare::Comparison;
use indexmap::IndexMap;
use skill_core::gate::GateAction;
use skill_core::package::edit_main;
use skill_core::{
    EpochIdx, FlipCounts, MeanScore, PairCategory, SkillDoc, SkillId, SkillOrigin, StepIdx,
    inject_slow_update, replace_slow_update,
};
use skill_envs::Split;
use skill_envs::source::document;

impl Run<'_> {
    /// Does what the end of an epoch asks for, if the last finished step ended one and it is not done yet.
    pub(super) async fn end_epoch_if_due(&mut self, state: &mut TrainState) -> Result<(), PipelineError> {
        let Some((epoch, step)) = state.history.last().map(|record| (record.epoch, record.step)) else {
            return Ok(());
        };
        let (steps_per_epoch, total_steps) = self.length;
        let is_last_step = (step.0 as usize).is_multiple_of(steps_per_epoch.max(1));
        if !self.settings.epoch_end.is_due() || !is_last_step || state.is_after_epoch_end() {
            return Ok(());
        }
        self.check_stop(step, total_steps)?;
        let outcome =
            self.end_epoch(state, epoch, step).await.map_err(|error| self.or_stopped(error, step))?;
        // What the end is based on is on the disk before it is.
        self.journal.flush().await?;
        if let Some(record) = &outcome.records.slow_update {
            self.dir.put_json(&self.dir.slow_update_dir(epoch).join(SLOW_RESULT), record)?;
        }
        if let Some(record) = &outcome.records.meta_skill {
            self.dir.put_json(&self.dir.meta_skill_dir(epoch).join(META_SKILL_RESULT), record)?;
        }
        let event = Event::EpochEnded {
            epoch,
            slow_update: outcome.records.slow_update.clone().map(Box::new),
            meta_skill: outcome.records.meta_skill.clone().map(Box::new),
        };
        state.end_epoch(outcome);
        state.write(self.dir)?;
        self.write_timings()?;
        self.log.emit(&event);
        Ok(())
    }

    async fn end_epoch(
        &mut self,
        state: &TrainState,
        epoch: EpochIdx,
        step: StepIdx,
    ) -> Result<EpochOutcome, PipelineError> {
        // What an earlier process left of it belongs to calls that are made again now.
        let (slow_dir, meta_dir) = (self.dir.slow_update_dir(epoch), self.dir.meta_skill_dir(epoch));
        atomic::remove_dir(&slow_dir)?;
        atomic::remove_dir(&meta_dir)?;
        let settings = self.settings.epoch_end;
        let has_slow_update = settings.slow_update != SlowUpdate::Off;
        self.prompts.set_meta_skill(&state.meta_skill);
        let mut outcome = EpochOutcome {
            epoch,
            records: EpochRecords {
                slow_update: has_slow_update.then(|| new_slow_record(state, epoch, step)),
                meta_skill: settings.meta_skill.then(|| new_meta_record(epoch, step)),
            },
            change: SkillChange::None,
            flips: state.flips.clone(),
        };
        let Some(before) = state.epoch_end.as_ref().map(|end| end.skill.clone()) else {
            if has_slow_update {
                outcome.change = SkillChange::Text(edit_main(&state.current.skill, inject_slow_update));
            }
            return Ok(outcome);
        };
        let mut tokens = TokensByStage::new();
        let files = if has_slow_update { &slow_dir } else { &meta_dir };
        let current = &state.current.skill;
        let comparison = self.compare(epoch, step, [&before, current], files, &mut tokens).await?;
        if let Some(mut record) = outcome.records.slow_update.take() {
            record.tokens = std::mem::take(&mut tokens);
            (outcome.change, outcome.flips) =
                self.slow_update(state, &before, &comparison, &mut record).await?;
            outcome.records.slow_update = Some(record);
        }
        if let Some(record) = &mut outcome.records.meta_skill {
            record.tokens = tokens;
            self.meta_skill(&before, current, &comparison, record).await?;
        }
        Ok(outcome)
    }

    /// Asks for guidance, and puts it into the skill as the settings have it.
    async fn slow_update(
        &mut self,
        state: &TrainState,
        before: &SkillDoc,
        comparison: &Comparison,
        record: &mut SlowUpdateRecord,
    ) -> Result<(SkillChange, FlipCounts), PipelineError> {
        (record.prev_hard, record.curr_hard) = (Some(comparison.prev_hard), Some(comparison.curr_hard));
        record.n_pairs = counts(comparison);
        record.action = SlowUpdateAction::NoContent;
        let unchanged = |record: &mut SlowUpdateRecord, action| {
            record.action = action;
            Ok((SkillChange::None, state.flips.clone()))
        };
        if comparison.pairs.is_empty() {
            return unchanged(record, SlowUpdateAction::NoContent);
        }
        let watch = self.begin(Some(record.step), Stage::SlowUpdate);
        let (current, ctx) = (&state.current.skill, self.stage_ctx(&watch));
        let Written { reasoning, content, notes } =
            write_guidance(before, current, &comparison.pairs, &self.prompts, &self.optimizer(), &ctx)
                .await?;
        add_tokens(&mut record.tokens, Stage::SlowUpdate.as_str(), self.end(&watch));
        self.warn_of_notes(record.step, &notes);
        record.notes.extend(notes);
        record.reasoning = reasoning;
        record.slow_update_content.clone_from(&content);
        if content.is_empty() {
            return unchanged(record, SlowUpdateAction::NoContent);
        }
        let candidate = edit_main(current, |main| replace_slow_update(main, &content));
        let path = self.dir.slow_update_dir(record.epoch).join("candidate_skill.md");
        self.dir.put_skill(&path, &candidate)?;
        record.candidate_hash = Some(candidate.hash());
        if candidate == *current {
            return unchanged(record, SlowUpdateAction::SkipNoOp);
        }
        self.judge_guidance(state, candidate, record).await
    }

    /// Measures the skill with the new guidance and decides about it.
    async fn judge_guidance(
        &mut self,
        state: &TrainState,
        candidate: SkillDoc,
        record: &mut SlowUpdateRecord,
    ) -> Result<(SkillChange, FlipCounts), PipelineError> {
        let is_forced = self.settings.epoch_end.slow_update == SlowUpdate::Force;
        let hash = candidate.hash();
        let known = self.known_results(state, &hash)?;
        let plan = if is_forced { self.whole_plan(&known) } else { self.candidate_plan(state, &known) };
        let watch = self.begin(Some(record.step), Stage::SlowEvaluate);
        let ctx = self.stage_ctx(&watch);
        let evaluation =
            evaluate_candidate(&self.rollouts, Split::Val, &document(&candidate), plan, &ctx).await?;
        self.check_target_speaks(&watch, &candidate, &evaluation.results).await?;
        let tokens: StageTokens = self.end(&watch);
        add_tokens(&mut record.tokens, Stage::SlowEvaluate.as_str(), tokens);
        self.warn_of_replies(Some(record.step), &evaluation.results);
        let n_draws = self.n_draws();
        let place = EvaluationDir::SlowUpdate(record.epoch);
        self.dir.write_candidate_evaluation(place, &hash, &evaluation, n_draws, tokens)?;
        record.selection_n_seen = Some(evaluation.results.len());
        record.selection_n = Some(n_draws);
        record.selection_interval = evaluation.left_out.map(|interval| [interval.low, interval.high]);
        record.paired = self.paired_record(state, &evaluation, self.settings.seed);
        let flips = self.flips_after(state, &evaluation);
        let verdict = self.verdict(state, &evaluation);
        record.action = match verdict.action {
            _ if is_forced => SlowUpdateAction::ForceAccept,
            GateAction::AcceptNewBest => SlowUpdateAction::AcceptNewBest,
            GateAction::Accept => SlowUpdateAction::Accept,
            GateAction::Reject => SlowUpdateAction::Reject,
            GateAction::Indecisive => SlowUpdateAction::Indecisive,
        };
        if evaluation.left_out.is_some() {
            return Ok((SkillChange::None, flips));
        }
        let mean = MeanScore::of_results(&evaluation.results);
        let score = self.settings.gate.score(mean);
        (record.selection_hard, record.selection_soft) = (Some(mean.hard), Some(mean.soft));
        record.candidate_gate_score = Some(score);
        if !record.action.is_accept() {
            return Ok((SkillChange::None, flips));
        }
        record.current_score = score;
        let is_new_best = record.action == SlowUpdateAction::AcceptNewBest;
        if is_new_best {
            record.best_score = score;
        }
        let id = SkillId::of(SkillOrigin::EpochEnd { epoch: record.epoch, step: record.step });
        let mut scored = ScoredSkill::of(candidate, score, &evaluation.results, id);
        self.keep_reference(state, verdict, &mut scored);
        Ok((SkillChange::Scored { scored, is_new_best }, flips))
    }

    /// Asks for the optimizer's notes to itself.
    async fn meta_skill(
        &mut self,
        before: &SkillDoc,
        current: &SkillDoc,
        comparison: &Comparison,
        record: &mut MetaSkillRecord,
    ) -> Result<(), PipelineError> {
        record.action = MetaSkillAction::NoContent;
        if comparison.pairs.is_empty() {
            return Ok(());
        }
        let watch = self.begin(Some(record.step), Stage::MetaSkill);
        let ctx = self.stage_ctx(&watch);
        let Written { reasoning, content, notes } =
            write_meta_skill(before, current, &comparison.pairs, &self.prompts, &self.optimizer(), &ctx)
                .await?;
        add_tokens(&mut record.tokens, Stage::MetaSkill.as_str(), self.end(&watch));
        self.warn_of_notes(record.step, &notes);
        record.notes.extend(notes);
        record.reasoning = reasoning;
        if !content.is_empty() {
            record.action = MetaSkillAction::WriteMetaSkill;
        }
        record.meta_skill_content = content;
        Ok(())
    }

    /// Emits a warning for each note.
    pub(super) fn warn_of_notes(&self, step: StepIdx, notes: &[String]) {
        for message in notes {
            self.warn(Some(step), Warning::Note { message: message.clone() });
        }
    }
}

fn counts(comparison: &Comparison) -> IndexMap<PairCategory, usize> {
    let count = |category| comparison.pairs.iter().filter(|pair| pair.category == category).count();
    PairCategory::ALL.into_iter().map(|category| (category, count(category))).collect()
}

fn new_slow_record(state: &TrainState, epoch: EpochIdx, step: StepIdx) -> SlowUpdateRecord {
    SlowUpdateRecord {
        format_version: FORMAT_VERSION.to_owned(),
        epoch,
        step,
        action: SlowUpdateAction::InjectPlaceholder,
        score_before: state.current.score,
        current_score: state.current.score,
        best_score: state.best.score,
        ..SlowUpdateRecord::default()
    }
}

fn new_meta_record(epoch: EpochIdx, step: StepIdx) -> MetaSkillRecord {
    MetaSkillRecord {
        format_version: FORMAT_VERSION.to_owned(),
        epoch,
        step,
        action: MetaSkillAction::SkipFirstEpoch,
        reasoning: String::new(),
        meta_skill_content: String::new(),
        tokens: TokensByStage::new(),
        notes: Vec::new(),
    }
}
