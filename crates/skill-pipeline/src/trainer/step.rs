//! One step: the six stages in order, each arrow a file in the step's directory.

mod appendix;
mod propose;

use super::run::{Run, StepPlan};
use super::state::StepOutcome;
use super::{ScoredSkill, TrainState};
use crate::error::PipelineError;
use crate::event::Stage;
use crate::memory::StepTrace;
use crate::prompts::PromptLibrary;
use crate::records::StageTokens;
use crate::records::document::{StepAction, StepRecord};
use crate::run_dir::EvaluationDir;
use crate::run_dir::atomic;
use crate::run_dir::notes::{STEP_NOTES_FILE, StepNotes};
use crate::settings::{Acceptance, Protocol};
use crate::stage::evaluate::{CandidatePlan, Drawn, draw_of, evaluate_candidate};
use skill_core::constraints::EditConstraints;
use skill_core::gate::GateAction;
use skill_core::{FlipCounts, GateMode, MeanScore, RolloutResult, SkillDoc, SkillHash, SkillId, StepIdx};
use skill_envs::Split;
use skill_envs::source::document;
use std::collections::BTreeMap;

/// A step that is under way.
struct StepWork {
    record: StepRecord,
    /// What the optimizer is to know of it later.
    trace: StepTrace,
    /// The prompts with what the optimizer knows of earlier steps.
    prompts: PromptLibrary,
    /// What the analysts want to remind the agent of.
    appendix_notes: Vec<String>,
    /// Whether an optimizer that says nothing ends the run.
    ends_in_silence: bool,
    /// What people want of its edits.
    constraints: EditConstraints,
}

/// What the gate came to.
pub(super) struct Decision {
    /// The candidate, if it was measured whole.
    pub(super) candidate: Option<ScoredSkill>,
    /// The state's counts after the step.
    pub(super) flips: FlipCounts,
}

impl Run<'_> {
    /// Makes a step; returns its record and, if there was one, its candidate.
    pub(super) async fn step(
        &mut self,
        state: &TrainState,
        plan: StepPlan,
        notes: StepNotes,
    ) -> Result<StepOutcome, PipelineError> {
        // What an earlier process left of this step belongs to calls that are made again now.
        atomic::remove_dir(&self.dir.step_dir(plan.step))?;
        let mut work = self.begin_work(state, &plan, notes)?;
        let decision = match self.candidate(&state.current, &plan, &mut work).await? {
            Ok(candidate) => self.decide(state, candidate, &mut work.record).await?,
            Err(skipped) => {
                work.record.action = skipped;
                Decision { candidate: None, flips: state.flips.clone() }
            }
        };
        let Decision { candidate, flips } = decision;
        let accepted = candidate.as_ref().filter(|_| work.record.action.is_accept());
        let current = accepted.map_or(&state.current.skill, |scored| &scored.skill);
        let with_notes = self.flush_appendix(current, &mut work).await?;
        let StepWork { mut record, trace, .. } = work;
        record.current_skill_hash = Some(with_notes.as_ref().unwrap_or(current).hash());
        let digest = trace.entry(&record);
        Ok(StepOutcome { record, candidate, flips, digest, with_notes })
    }

    /// Stages 1 to 5: what is to be measured, or why nothing is.
    async fn candidate(
        &mut self,
        current: &ScoredSkill,
        plan: &StepPlan,
        work: &mut StepWork,
    ) -> Result<Result<SkillDoc, StepAction>, PipelineError> {
        let Some(patch) = self.propose(current, plan, work).await? else {
            return Ok(Err(StepAction::SkipNoPatches));
        };
        let Some(candidate) = self.update(current, &patch, work).await? else {
            return Ok(Err(StepAction::SkipNoRewrite));
        };
        Ok(if candidate == current.skill { Err(StepAction::SkipNoOp) } else { Ok(candidate) })
    }

    fn begin_work(
        &self,
        state: &TrainState,
        plan: &StepPlan,
        notes: StepNotes,
    ) -> Result<StepWork, PipelineError> {
        if let Some(file) = notes.file() {
            self.dir.put_json(&self.dir.step_dir(plan.step).join(STEP_NOTES_FILE), &file)?;
        }
        let memory = state.memory.render(self.settings.memory_steps, self.settings.memory_chars);
        Ok(StepWork {
            record: StepRecord {
                n_notes_read: Some(notes.n_read).filter(|n_read| *n_read > 0),
                ..self.new_record(state, plan)
            },
            trace: StepTrace::default(),
            prompts: self
                .prompts
                .clone()
                .with_memory(memory)
                .with_notes(&notes.told())
                .with_size_of(&state.current.skill, self.settings.edit_rules.max_tokens),
            appendix_notes: Vec::new(),
            ends_in_silence: state.history.last().is_none_or(StepRecord::has_no_edit),
            constraints: notes.constraints,
        })
    }

    fn new_record(&self, state: &TrainState, plan: &StepPlan) -> StepRecord {
        let batches = self.batches(&plan.batches);
        let batch_items = || batches.iter().flat_map(|batch| &batch.items);
        StepRecord {
            step_in_epoch: plan.step_in_epoch,
            batch_seed: plan.batches.first().map(|batch| batch.seed).unwrap_or_default(),
            batch_item_ids: batch_items().map(|item| item.id.clone()).collect(),
            rollout_n: batch_items().count(),
            edit_budget: plan.edit_budget,
            lr_control_mode: self.settings.effective_budget_control(),
            gate_metric: self.settings.gate.metric.as_str().to_owned(),
            gate_mode: Some(self.settings.evidence.mode)
                .filter(|mode| *mode != GateMode::Strict)
                .map(|mode| mode.as_str().to_owned()),
            score_before: state.current.score,
            current_score: state.current.score,
            best_score: state.best.score,
            best_step: state.best.id.origin.step(),
            ..StepRecord::begun(plan.step, plan.epoch)
        }
    }

    /// Stage 6: the candidate on the selection split, and what the gate says.
    pub(super) async fn decide(
        &mut self,
        state: &TrainState,
        candidate: SkillDoc,
        record: &mut StepRecord,
    ) -> Result<Decision, PipelineError> {
        let hash = candidate.hash();
        let known = self.known_results(state, &hash)?;
        // Under caps nothing is sent in vain.
        let risk = (self.settings.protocol == Protocol::Auto && self.budget.is_some()).then_some(0);
        let plan = CandidatePlan { risk, ..self.candidate_plan(state, &known) };
        let watch = self.begin(Some(record.step), Stage::Evaluate);
        let (ctx, source) = (self.stage_ctx(&watch), document(&candidate));
        let evaluation = evaluate_candidate(&self.rollouts, Split::Val, &source, plan, &ctx).await?;
        self.check_target_speaks(&watch, &candidate, &evaluation.results).await?;
        let tokens = self.end(&watch);
        note_tokens(record, Stage::Evaluate, tokens);
        self.warn_of_replies(Some(record.step), &evaluation.results);
        let n_draws = self.n_draws();
        let place = EvaluationDir::Selection(record.step);
        self.dir.write_candidate_evaluation(place, &hash, &evaluation, n_draws, tokens)?;

        record.selection_n_seen = Some(evaluation.results.len());
        record.selection_n = Some(n_draws);
        record.selection_interval = evaluation.left_out.map(|interval| [interval.low, interval.high]);
        if evaluation.n_known == evaluation.results.len() {
            record.selection_from_step = state.evaluated.get(&hash).and_then(|steps| steps.last().copied());
        }
        record.paired = self.paired_record(state, &evaluation, self.settings.seed);
        let flips = self.flips_after(state, &evaluation);
        let verdict = self.verdict(state, &evaluation);
        record.saving = self.saving_record(state, &evaluation, verdict);
        record.guard = self.guarded(state, &evaluation);
        record.action = match verdict.action {
            _ if self.settings.acceptance == Acceptance::Always => StepAction::ForceAccept,
            GateAction::AcceptNewBest => StepAction::AcceptNewBest,
            GateAction::Accept => StepAction::Accept,
            GateAction::Reject => StepAction::Reject,
            GateAction::Indecisive => StepAction::Indecisive,
        };
        if evaluation.left_out.is_some() {
            return Ok(Decision { candidate: None, flips });
        }
        let mut scored = self.score(state, candidate, &evaluation.results, record);
        self.keep_reference(state, verdict, &mut scored);
        Ok(Decision { candidate: Some(scored), flips })
    }

    /// The score of a candidate that was measured whole.
    fn score(
        &self,
        state: &TrainState,
        candidate: SkillDoc,
        results: &[RolloutResult],
        record: &mut StepRecord,
    ) -> ScoredSkill {
        let mean = MeanScore::of_results(results);
        let score = self.settings.gate.score(mean);
        record.selection_hard = Some(mean.hard);
        record.selection_soft = Some(mean.soft);
        record.candidate_gate_score = Some(score);
        if record.action.is_accept() {
            record.current_score = score;
        }
        let scored = ScoredSkill::of(candidate, score, results, SkillId::of_step(record.step));
        let best = state.best.bar();
        let is_above_best = || self.settings.gate.decide(&scored.item_scores, best, best).is_accepted();
        if record.action == StepAction::AcceptNewBest
            || record.action == StepAction::ForceAccept && is_above_best()
        {
            record.best_score = score;
            record.best_step = record.step;
        }
        scored
    }

    /// What the files of the run hold of this very skill on the selection split.
    pub(super) fn known_results(
        &self,
        state: &TrainState,
        hash: &SkillHash,
    ) -> Result<BTreeMap<Drawn, RolloutResult>, PipelineError> {
        let mut known = BTreeMap::new();
        for step in state.evaluated.get(hash).into_iter().flatten() {
            let results = self.dir.read_results(EvaluationDir::of_step(*step))?;
            known.extend(results.into_iter().map(|result| (draw_of(&result), result)));
        }
        Ok(known)
    }

    fn note(&self, step: StepIdx, record: &mut StepRecord, notes: Vec<String>) {
        self.warn_of_notes(step, &notes);
        record.notes.extend(notes);
    }
}

pub(super) fn note_tokens(record: &mut StepRecord, stage: Stage, tokens: StageTokens) {
    if tokens.calls > 0 {
        *record.tokens.entry(stage.as_str().to_owned()).or_default() += tokens;
    }
}
