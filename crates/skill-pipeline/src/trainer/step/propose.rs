//! The first five stages of a step: from the current skill to the candidate.

use super::{StepWork, note_tokens};
use crate::error::PipelineError;
use crate::event::Stage;
use crate::prompts::BatchScore;
use crate::records::document::{ApplySummary, BudgetDecision, MicroBatchRecord, RewriteResult};
use crate::run_dir::ROLLOUTS_FILE;
use crate::stage::aggregate::aggregate;
use crate::stage::own::reflect_by;
use crate::stage::reflect::{ReflectBatch, ReflectSettings, Reflection, reflect};
use crate::stage::rollout::{Batch, rollout_batches};
use crate::stage::select::{ChosenBudget, choose_budget, select};
use crate::stage::update::{Candidate, Rewrite, rewrite, take_whole, update};
use crate::trainer::ScoredSkill;
use crate::trainer::run::{Run, StepPlan};
use skill_core::constraints::EditConstraints;
use skill_core::exact::round_6;
use skill_core::plan::BatchPlan;
use skill_core::rewrite::{UpdateMode, changed_lines};
use skill_core::{BudgetChoice, MeanScore, Patch, RawPatch, RolloutResult, SkillDoc, SourceType};
use skill_envs::source::document;
use skill_envs::{Item, Split};
use std::path::{Path, PathBuf};

impl<'run> Run<'run> {
    /// The items of micro-batches; one that is a step by itself has no number.
    pub(in crate::trainer) fn batches(&self, plans: &[BatchPlan]) -> Vec<Batch<'run>> {
        let train = self.env.items(Split::Train);
        let is_numbered = plans.len() > 1;
        (0..)
            .zip(plans)
            .map(|(batch_idx, plan)| Batch {
                batch_idx: is_numbered.then_some(batch_idx),
                seed: Some(plan.seed),
                items: plan.item_idx.iter().filter_map(|&item_idx| train.get(item_idx)).collect(),
            })
            .collect()
    }

    /// Stages 1 to 4: from the current skill to the edits of this step; `None` if nobody proposed any.
    pub(super) async fn propose(
        &mut self,
        current: &ScoredSkill,
        plan: &StepPlan,
        work: &mut StepWork,
    ) -> Result<Option<Patch>, PipelineError> {
        let raw_patches = self.gather(&current.skill, plan, work).await?;
        if raw_patches.is_empty() {
            return Ok(None);
        }
        self.narrow(&current.skill, &raw_patches, work).await
    }

    /// Stages 1 and 2: what the agent did with the current skill, and what the analysts make of it.
    async fn gather(
        &mut self,
        skill: &SkillDoc,
        plan: &StepPlan,
        work: &mut StepWork,
    ) -> Result<Vec<RawPatch>, PipelineError> {
        let (step, step_dir) = (plan.step, self.dir.step_dir(plan.step));
        let StepWork { record, trace, prompts, appendix_notes, ends_in_silence, .. } = work;
        let watch = self.begin(Some(step), Stage::Rollout);
        let batches = self.batches(&plan.batches);
        let ctx = self.stage_ctx(&watch);
        let results = rollout_batches(&self.rollouts, &batches, &document(skill), &ctx).await?;
        let sizes: Vec<usize> = results.iter().map(Vec::len).collect();
        let all: Vec<RolloutResult> = results.into_iter().flatten().collect();
        let mut rest = all.as_slice();
        let results: Vec<&[RolloutResult]> = sizes.into_iter().filter_map(|n| rest.split_off(..n)).collect();
        self.check_target_speaks(&watch, skill, &all).await?;
        note_tokens(record, Stage::Rollout, self.end(&watch));
        self.warn_of_replies(Some(step), &all);
        let mean = MeanScore::of_results(&all);
        (record.rollout_hard, record.rollout_soft) = (round_6(mean.hard), round_6(mean.soft));
        for (batch, results) in batches.iter().zip(&results) {
            self.dir.put_json(&batch_dir(&step_dir, batch.batch_idx).join(ROLLOUTS_FILE), results)?;
        }

        let watch = self.begin(Some(step), Stage::Reflect);
        let settings = ReflectSettings {
            minibatch_size: plan.reading.minibatch_size,
            edit_budget: plan.reading.edit_budget,
            failure_only: plan.reading.failure_only,
            appendix_source: self.settings.skill_aware.map(|aware| aware.source),
            ends_in_silence: *ends_in_silence && !self.skips_empty_replies,
        };
        let to_read: Vec<ReflectBatch<'_>> = batches
            .iter()
            .zip(&plan.batches)
            .zip(&results)
            .map(|((batch, plan), results)| ReflectBatch {
                batch_idx: batch.batch_idx,
                seed: plan.seed,
                results,
            })
            .collect();
        let ctx = self.stage_ctx(&watch);
        let reflections = match &self.reflections {
            None => reflect(&to_read, skill, settings, prompts, &self.optimizer(), &ctx).await?,
            Some(own) => {
                // Of each result, so that samples of an item have it each.
                let item_of = |result: &RolloutResult| {
                    let mut items = batches.iter().flat_map(|batch| &batch.items);
                    items.find(|item| item.id == result.id).copied()
                };
                let items: Vec<Vec<&Item>> =
                    results.iter().map(|results| results.iter().filter_map(item_of).collect()).collect();
                reflect_by(own, &to_read, &items, skill, prompts, &ctx).await?
            }
        };
        note_tokens(record, Stage::Reflect, self.end(&watch));
        for (batch, reflection) in to_read.iter().zip(&reflections) {
            let path = batch_dir(&step_dir, batch.batch_idx).join("raw_patches.json");
            self.dir.put_json(&path, &reflection.patches)?;
            record.accumulation_batches.extend(micro_batch_record(*batch, reflection));
        }
        let mut raw_patches = Vec::new();
        let mut failure_patterns = Vec::new();
        for reflection in reflections {
            self.note(step, record, reflection.notes);
            record.n_empty_replies += reflection.n_empty;
            raw_patches.extend(reflection.patches);
            failure_patterns.extend(reflection.failure_patterns);
            appendix_notes.extend(reflection.appendix_notes);
        }
        trace.observe(&all, failure_patterns);
        record.n_failure_patches = n_patches(&raw_patches, SourceType::Failure);
        record.n_success_patches = n_patches(&raw_patches, SourceType::Success);
        Ok(raw_patches)
    }

    /// Stages 3 and 4: one patch of all, and of that as much as the edit budget allows.
    async fn narrow(
        &mut self,
        skill: &SkillDoc,
        raw_patches: &[RawPatch],
        work: &mut StepWork,
    ) -> Result<Option<Patch>, PipelineError> {
        let StepWork { record, prompts, .. } = work;
        let (step, step_dir) = (record.step, self.dir.step_dir(record.step));
        let watch = self.begin(Some(step), Stage::Aggregate);
        let merge_batch = self.settings.merge_batch_size;
        let ctx = self.stage_ctx(&watch);
        let merged = aggregate(raw_patches, skill, merge_batch, prompts, &self.optimizer(), &ctx).await?;
        note_tokens(record, Stage::Aggregate, self.end(&watch));
        self.dir.put_json(&step_dir.join("merged_patch.json"), &merged.patch)?;
        self.note(step, record, merged.notes);
        record.n_edits_merged = Some(merged.patch.edits.len());
        if merged.patch.edits.is_empty() {
            return Ok(None);
        }

        if self.settings.update_mode.has_budget() {
            return self.select(skill, merged.patch, work).await.map(Some);
        }
        work.record.n_edits_ranked = Some(merged.patch.edits.len());
        self.dir.put_json(&step_dir.join("ranked_patch.json"), &merged.patch)?;
        Ok(Some(merged.patch))
    }

    /// Stage 4: as many of the merged edits as the edit budget allows.
    async fn select(
        &mut self,
        skill: &SkillDoc,
        merged: Patch,
        work: &mut StepWork,
    ) -> Result<Patch, PipelineError> {
        let StepWork { record, trace, prompts, .. } = work;
        let (step, step_dir) = (record.step, self.dir.step_dir(record.step));
        let watch = self.begin(Some(step), Stage::Select);
        let ctx = self.stage_ctx(&watch);
        let mut notes = Vec::new();
        let edit_budget = match record.edit_budget {
            Some(edit_budget) => edit_budget,
            None => {
                let batch = BatchScore {
                    n_rollouts: record.rollout_n,
                    hard: record.rollout_hard,
                    soft: record.rollout_soft,
                };
                let chosen = choose_budget(&merged, skill, batch, prompts, &self.optimizer(), &ctx).await?;
                let decision = budget_decision(&chosen, merged.edits.len());
                self.dir.put_json(&step_dir.join("lr_decision.json"), &decision)?;
                record.lr_decision = Some(decision);
                notes.extend(chosen.notes);
                chosen.choice.learning_rate
            }
        };
        record.edit_budget = Some(edit_budget);
        let selected = select(merged, skill, edit_budget, prompts, &self.optimizer(), &ctx).await?;
        note_tokens(record, Stage::Select, self.end(&watch));
        self.dir.put_json(&step_dir.join("ranked_patch.json"), &selected.patch)?;
        notes.extend(selected.notes);
        self.note(step, record, notes);
        record.n_edits_ranked = Some(selected.patch.edits.len());
        trace.try_patch(&selected.patch);
        Ok(selected.patch)
    }

    /// Stage 5: the candidate; `None` if the skill was to be rewritten and nothing came out.
    pub(super) async fn update(
        &mut self,
        current: &ScoredSkill,
        patch: &Patch,
        work: &mut StepWork,
    ) -> Result<Option<SkillDoc>, PipelineError> {
        let step_dir = self.dir.step_dir(work.record.step);
        let watch = self.begin(Some(work.record.step), Stage::Update);
        let candidate = match self.settings.update_mode {
            UpdateMode::Patch => {
                let (front_matter, rules) = (self.settings.front_matter, &self.settings.edit_rules);
                let Candidate { skill, report } =
                    update(&current.skill, patch, front_matter, rules, &work.constraints);
                self.dir.put_json(&step_dir.join("edit_apply_report.json"), &report)?;
                work.trace.report(&report);
                work.record.apply_report = Some(ApplySummary::of(&report));
                Some(skill)
            }
            // Nothing to follow is not a rewrite: a budget of 0, as the optimizer may choose it, changes nothing.
            UpdateMode::RewriteFromSuggestions if patch.edits.is_empty() => Some(current.skill.clone()),
            UpdateMode::RewriteFromSuggestions => {
                let ctx = self.stage_ctx(&watch);
                let made = rewrite(&current.skill, patch, &work.prompts, &self.optimizer(), &ctx).await?;
                self.take_rewrite(&current.skill, made, &step_dir.join("rewrite_result.json"), work)?
            }
            UpdateMode::FullRewriteMinibatch => {
                let made = take_whole(&current.skill, patch);
                let candidate = self.take_rewrite(
                    &current.skill,
                    made,
                    &step_dir.join("full_rewrite_result.json"),
                    work,
                )?;
                if let Some(candidate) = &candidate {
                    let title = work.record.rewrite_change_summary.iter().flatten().next();
                    let changes = changed_lines(&current.skill, candidate);
                    work.trace.try_rewrite(title.map(String::as_str).unwrap_or_default(), &changes);
                }
                candidate
            }
        };
        note_tokens(&mut work.record, Stage::Update, self.end(&watch));
        if let Some(candidate) = &candidate {
            self.dir.put_skill(&step_dir.join("candidate_skill.md"), candidate)?;
            work.record.candidate_hash = Some(candidate.hash());
            work.record.candidate_skill_len = Some(candidate.n_chars());
        }
        Ok(candidate)
    }

    /// Why a rewritten skill is not taken: it passes the size limit, and is longer than the skill that it replaces.
    fn too_long(&self, current: &SkillDoc, rewritten: &SkillDoc) -> Option<String> {
        let limit = self.settings.edit_rules.max_tokens?;
        let [before, after] = [current, rewritten].map(SkillDoc::n_tokens);
        (after > limit && after > before).then(|| {
            format!(
                "the rewritten skill has about {after} tokens, and may have at most {limit}: it is not taken"
            )
        })
    }

    /// Notes what came of a rewrite.
    fn take_rewrite(
        &self,
        current: &SkillDoc,
        made: Rewrite,
        path: &Path,
        work: &mut StepWork,
    ) -> Result<Option<SkillDoc>, PipelineError> {
        let Rewrite { skill, new_skill, reasoning, change_summary, notes } = made;
        let too_long = skill.as_ref().and_then(|skill| self.too_long(current, skill));
        let broken = skill.as_ref().and_then(|skill| broken_constraint(current, skill, &work.constraints));
        let skill = if too_long.is_some() || broken.is_some() { None } else { skill };
        let notes = notes.into_iter().chain(too_long).chain(broken).collect();
        self.note(work.record.step, &mut work.record, notes);
        if skill.is_some() {
            let result = RewriteResult { reasoning, change_summary: change_summary.clone(), new_skill };
            self.dir.put_json(path, &result)?;
            work.record.rewrite_change_summary = Some(change_summary);
        }
        Ok(skill)
    }
}

/// Why a rewritten skill is not taken: it lacks what a person has pinned, or says what one has forbidden.
fn broken_constraint(
    current: &SkillDoc,
    rewritten: &SkillDoc,
    constraints: &EditConstraints,
) -> Option<String> {
    let text = constraints.broken_by(current, rewritten)?;
    Some(format!(
        "the rewritten skill goes against what a person has pinned or forbidden: it is not taken ({text})"
    ))
}

/// Where the files of a micro-batch stand: with those of the step, or in a directory of its own where there are several.
fn batch_dir(step_dir: &Path, batch_idx: Option<usize>) -> PathBuf {
    match batch_idx {
        Some(batch_idx) => step_dir.join(format!("batch_{batch_idx}")),
        None => step_dir.to_owned(),
    }
}

/// The row of a micro-batch; a step with one has its numbers in the record itself.
fn micro_batch_record(batch: ReflectBatch<'_>, reflection: &Reflection) -> Option<MicroBatchRecord> {
    let mean = MeanScore::of_results(batch.results);
    Some(MicroBatchRecord {
        batch_idx: batch.batch_idx?,
        batch_seed: batch.seed,
        n_envs: batch.results.len(),
        hard: mean.hard,
        soft: mean.soft,
        n_failure_patches: n_patches(&reflection.patches, SourceType::Failure),
        n_success_patches: n_patches(&reflection.patches, SourceType::Success),
    })
}

fn n_patches(patches: &[RawPatch], source: SourceType) -> usize {
    patches.iter().filter(|raw| raw.source_type == source && !raw.patch.edits.is_empty()).count()
}

fn budget_decision(chosen: &ChosenBudget, n_available: usize) -> BudgetDecision {
    let BudgetChoice { learning_rate, raw_learning_rate, clamped, fallback } = chosen.choice;
    BudgetDecision {
        learning_rate,
        raw_learning_rate,
        available_update_items: n_available,
        clamped,
        fallback,
        reasoning: chosen.reasoning.clone(),
    }
}
