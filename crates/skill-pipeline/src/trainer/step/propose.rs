//! The first five stages of a step: from the current skill to the candidate.

use super::{note_tokens, round_6};
use crate::error::PipelineError;
use crate::event::Stage;
use crate::run_dir::atomic;
use crate::run_dir::format::{ApplySummary, StepRecord};
use crate::stage::aggregate::aggregate;
use crate::stage::reflect::{ReflectSettings, reflect};
use crate::stage::rollout::rollout;
use crate::stage::select::select;
use crate::stage::update::update;
use crate::trainer::ScoredSkill;
use crate::trainer::run::{Run, StepPlan};
use skill_core::{MeanScore, Patch, SkillDoc, SourceType};
use skill_envs::{Item, Split};

impl Run<'_> {
    /// Stages 1 to 4: from the current skill to the edits of this step; `None` if nobody proposed any.
    pub(super) async fn propose(
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
    pub(super) fn update(
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
}
