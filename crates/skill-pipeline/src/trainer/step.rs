//! One step: the six stages in order, each arrow a file in the step's directory.

use super::run::{Run, StepPlan};
use super::{ScoredSkill, TrainState};
use crate::error::PipelineError;
use crate::event::{Event, EventSink as _, Stage};
use crate::run_dir::EvaluationDir;
use crate::run_dir::atomic;
use crate::run_dir::format::{ApplySummary, StageTokens, StepAction, StepRecord, TokensByStage};
use crate::stage::aggregate::aggregate;
use crate::stage::evaluate::evaluate;
use crate::stage::reflect::{ReflectSettings, reflect};
use crate::stage::rollout::rollout;
use crate::stage::select::select;
use crate::stage::update::update;
use skill_core::gate::GateAction;
use skill_core::{MeanScore, Patch, SkillDoc, SourceType, StepIdx};
use skill_envs::{Item, Split};

impl Run<'_> {
    /// Makes a step; returns its record and, if there was one, its candidate.
    pub(super) async fn step(
        &mut self,
        state: &TrainState,
        plan: StepPlan,
    ) -> Result<(StepRecord, Option<SkillDoc>), PipelineError> {
        // What an earlier process left of this step belongs to calls that are made again now.
        atomic::remove_dir(&self.dir.step_dir(plan.step))?;
        let mut record = self.new_record(state, &plan);
        let Some(patch) = self.propose(&state.current, &plan, &mut record).await? else {
            record.action = StepAction::SkipNoPatches;
            return Ok((record, None));
        };
        let candidate = self.update(&state.current, &patch, &mut record)?;
        if candidate == state.current.skill {
            record.action = StepAction::SkipNoOp;
            return Ok((record, Some(candidate)));
        }
        self.decide(state, &candidate, &mut record).await?;
        Ok((record, Some(candidate)))
    }

    fn new_record(&self, state: &TrainState, plan: &StepPlan) -> StepRecord {
        let train = self.env.items(Split::Train);
        let batch_items = plan.batch.item_idx.iter().filter_map(|&item_idx| train.get(item_idx));
        StepRecord {
            step: plan.step,
            epoch: plan.epoch,
            step_in_epoch: plan.step_in_epoch,
            batch_seed: plan.batch.seed,
            batch_item_ids: batch_items.map(|item| item.id.clone()).collect(),
            rollout_hard: 0.0,
            rollout_soft: 0.0,
            rollout_n: plan.batch.item_idx.len(),
            n_failure_patches: 0,
            n_success_patches: 0,
            n_edits_merged: None,
            n_edits_ranked: None,
            edit_budget: self.settings.edit_budget.at(plan.step, plan.total_steps),
            apply_report: None,
            candidate_hash: None,
            candidate_skill_len: None,
            selection_hard: None,
            selection_soft: None,
            selection_from_step: None,
            gate_metric: self.settings.gate.metric.as_str().to_owned(),
            candidate_gate_score: None,
            action: StepAction::SkipNoPatches,
            score_before: state.current.score,
            current_score: state.current.score,
            best_score: state.best.score,
            best_step: state.best.step,
            tokens: TokensByStage::new(),
            notes: Vec::new(),
        }
    }

    /// Stages 1 to 4: from the current skill to the edits of this step; `None` if nobody proposed any.
    async fn propose(
        &mut self,
        current: &ScoredSkill,
        plan: &StepPlan,
        record: &mut StepRecord,
    ) -> Result<Option<Patch>, PipelineError> {
        let (step, skill, step_dir) = (plan.step, &current.skill, self.dir.step_dir(plan.step));

        let watch = self.begin(Some(step), Stage::Rollout);
        let train = self.env.items(Split::Train);
        let batch: Vec<&Item> =
            plan.batch.item_idx.iter().filter_map(|&item_idx| train.get(item_idx)).collect();
        let results = rollout(self.env, &batch, skill, &self.target, &self.stage_ctx(&watch)).await?;
        note_tokens(record, Stage::Rollout, self.end(&watch));
        self.warn_of_cut_replies(Some(step), &results);
        atomic::write_json(&step_dir.join("rollout_results.json"), &results)?;
        let mean = MeanScore::of_results(&results);
        (record.rollout_hard, record.rollout_soft) = (round_6(mean.hard), round_6(mean.soft));

        let watch = self.begin(Some(step), Stage::Reflect);
        let settings = ReflectSettings {
            minibatch_size: self.settings.minibatch_size,
            edit_budget: self.settings.edit_budget.max,
            batch_seed: plan.batch.seed,
        };
        let (prompts, ctx) = (&self.prompts, self.stage_ctx(&watch));
        let reflection = reflect(&results, skill, settings, prompts, &self.optimizer(), &ctx).await?;
        note_tokens(record, Stage::Reflect, self.end(&watch));
        atomic::write_json(&step_dir.join("raw_patches.json"), &reflection.patches)?;
        self.note(step, record, reflection.notes);
        let n_patches = |source| reflection.patches.iter().filter(|raw| raw.source_type == source).count();
        record.n_failure_patches = n_patches(SourceType::Failure);
        record.n_success_patches = n_patches(SourceType::Success);
        if reflection.patches.is_empty() {
            return Ok(None);
        }

        let watch = self.begin(Some(step), Stage::Aggregate);
        let merge_batch = self.settings.merge_batch_size;
        let (prompts, ctx) = (&self.prompts, self.stage_ctx(&watch));
        let merged =
            aggregate(&reflection.patches, skill, merge_batch, prompts, &self.optimizer(), &ctx).await?;
        note_tokens(record, Stage::Aggregate, self.end(&watch));
        atomic::write_json(&step_dir.join("merged_patch.json"), &merged.patch)?;
        self.note(step, record, merged.notes);
        record.n_edits_merged = Some(merged.patch.edits.len());
        if merged.patch.edits.is_empty() {
            return Ok(None);
        }

        let watch = self.begin(Some(step), Stage::Select);
        let (prompts, ctx) = (&self.prompts, self.stage_ctx(&watch));
        let selected =
            select(merged.patch, skill, record.edit_budget, prompts, &self.optimizer(), &ctx).await?;
        note_tokens(record, Stage::Select, self.end(&watch));
        atomic::write_json(&step_dir.join("ranked_patch.json"), &selected.patch)?;
        self.note(step, record, selected.notes);
        record.n_edits_ranked = Some(selected.patch.edits.len());
        Ok(Some(selected.patch))
    }

    /// Stage 5: the candidate.
    fn update(
        &mut self,
        current: &ScoredSkill,
        patch: &Patch,
        record: &mut StepRecord,
    ) -> Result<SkillDoc, PipelineError> {
        let watch = self.begin(Some(record.step), Stage::Update);
        let candidate = update(&current.skill, patch);
        self.end(&watch);
        let step_dir = self.dir.step_dir(record.step);
        atomic::write(&step_dir.join("candidate_skill.md"), candidate.skill.text().as_bytes())?;
        atomic::write_json(&step_dir.join("edit_apply_report.json"), &candidate.report)?;
        let (total, applied) =
            (candidate.report.len(), candidate.report.iter().filter(|row| row.status.is_applied()).count());
        record.apply_report = Some(ApplySummary { total, applied, skipped: total - applied });
        record.candidate_hash = Some(candidate.skill.hash());
        record.candidate_skill_len = Some(candidate.skill.text().chars().count());
        Ok(candidate.skill)
    }

    /// Stage 6: the candidate's score on the selection split and what the gate says.
    async fn decide(
        &mut self,
        state: &TrainState,
        candidate: &SkillDoc,
        record: &mut StepRecord,
    ) -> Result<(), PipelineError> {
        let hash = candidate.hash();
        let score = match state.selection_cache.get(&hash) {
            Some((measured_at, score)) => {
                record.selection_from_step = Some(*measured_at);
                *score
            }
            None => {
                let watch = self.begin(Some(record.step), Stage::Evaluate);
                let ctx = self.stage_ctx(&watch);
                let evaluation = evaluate(self.env, Split::Val, candidate, &self.target, &ctx).await?;
                let tokens = self.end(&watch);
                note_tokens(record, Stage::Evaluate, tokens);
                self.warn_of_cut_replies(Some(record.step), &evaluation.results);
                let place = EvaluationDir::Selection(record.step);
                self.dir.write_evaluation(place, &hash, &evaluation, tokens)?;
                evaluation.score
            }
        };
        let gate = &self.settings.gate;
        let gate_score = gate.score(score);
        record.selection_hard = Some(score.hard);
        record.selection_soft = Some(score.soft);
        record.candidate_gate_score = Some(gate_score);
        record.action = match gate.decide(gate_score, state.current.score, state.best.score) {
            GateAction::AcceptNewBest => StepAction::AcceptNewBest,
            GateAction::Accept => StepAction::Accept,
            GateAction::Reject => StepAction::Reject,
        };
        if record.action.is_accept() {
            record.current_score = gate_score;
        }
        if record.action == StepAction::AcceptNewBest {
            record.best_score = gate_score;
            record.best_step = record.step;
        }
        Ok(())
    }

    fn note(&self, step: StepIdx, record: &mut StepRecord, notes: Vec<String>) {
        for message in &notes {
            self.log.emit(&Event::Warning { step: Some(step), message: message.clone() });
        }
        record.notes.extend(notes);
    }
}

fn note_tokens(record: &mut StepRecord, stage: Stage, tokens: StageTokens) {
    if tokens.calls > 0 {
        *record.tokens.entry(stage.as_str().to_owned()).or_default() += tokens;
    }
}

/// Rounds to 6 digits, as the reference prints means.
pub(super) fn round_6(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}
