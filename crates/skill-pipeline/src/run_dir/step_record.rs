//! The beginnings of records, for anyone who fills one: they are made by these functions and changed by field.

use super::format::{
    ApplySummary, ConfigFile, EvaluationSummary, FORMAT_VERSION, RuntimeState, StageTokens, StepAction,
    StepRecord, Summary, TokensByStage,
};
use indexmap::IndexMap;
use serde_json::{Map, Value};
use skill_core::{
    BudgetControl, EditRow, EpochIdx, FlipCounts, Gate, MeanScore, SkillHash, SkillId, StepIdx,
};
use std::collections::BTreeMap;

impl ConfigFile {
    /// The configuration of a run, in the newest format.
    pub fn new(config: Value, identity: BTreeMap<String, Value>) -> Self {
        Self { format_version: FORMAT_VERSION.to_owned(), config, identity, simulated_models: Vec::new() }
    }

    /// The same, of a run with these simulated models.
    #[must_use]
    pub fn with_simulated_models(self, names: &[String]) -> Self {
        Self { simulated_models: names.to_vec(), ..self }
    }
}

impl RuntimeState {
    /// The state after the baseline: the initial skill is the current and the best one.
    pub fn after_baseline(initial_skill: SkillHash, baseline: MeanScore, gate_score: f64) -> Self {
        let initial = SkillId::of_step(StepIdx(0));
        Self {
            format_version: FORMAT_VERSION.to_owned(),
            last_completed_step: StepIdx(0),
            current_score: gate_score,
            current_skill_hash: initial_skill.clone(),
            current_step: StepIdx(0),
            best_score: gate_score,
            best_skill_hash: initial_skill,
            best_step: StepIdx(0),
            baseline,
            epoch_end: None,
            current_slow_epoch: None,
            best_slow_epoch: None,
            flips: FlipCounts::default(),
            current_skill: initial,
            best_skill: initial,
            current_reference: None,
            best_reference: None,
            files_lines: None,
        }
    }
}

impl Summary {
    /// The summary of a run whose state is this one; the numbers of steps are 0, and nothing is known of the test split.
    pub fn of_state(state: &RuntimeState, baseline_selection_score: f64) -> Self {
        Self {
            format_version: FORMAT_VERSION.to_owned(),
            version: String::new(),
            env: String::new(),
            config: Value::Null,
            simulated_models: Vec::new(),
            total_steps: 0,
            total_accepts: 0,
            total_rejects: 0,
            total_indecisive: 0,
            total_skips: 0,
            epoch_ends: None,
            best_step: state.best_step,
            best_slow_epoch: state.best_slow_epoch,
            best_skill: state.best_skill,
            is_best_measured_last: false,
            best_skill_hash: state.best_skill_hash.clone(),
            baseline_selection_score,
            best_selection_score: state.best_score,
            best_of: 1,
            fresh_selection: None,
            current_selection_score: state.current_score,
            gate_metric: None,
            baseline_test_score: None,
            test_score: None,
            baseline_test_hard: None,
            baseline_test_soft: None,
            test_hard: None,
            test_soft: None,
            test_delta_hard: None,
            test_paired: None,
            token_summary: TokensByStage::new(),
            search: None,
            extras: Map::new(),
        }
    }
}

impl EvaluationSummary {
    /// The summary of an evaluation of `n` items, without task types.
    pub fn new(skill_hash: SkillHash, mean: MeanScore, n: usize, tokens: StageTokens) -> Self {
        Self {
            format_version: FORMAT_VERSION.to_owned(),
            skill_hash,
            hard: mean.hard,
            soft: mean.soft,
            n,
            n_without_number: 0,
            by_task_type: IndexMap::new(),
            tokens,
        }
    }
}

impl ApplySummary {
    /// How the edits of a report fared.
    pub fn of(report: &[EditRow]) -> Self {
        let applied = report.iter().filter(|row| row.status.is_applied()).count();
        Self { total: report.len(), applied, skipped: report.len() - applied }
    }
}

impl StepRecord {
    /// Whether nothing came of the step for want of edits.
    pub fn has_no_edit(&self) -> bool {
        matches!(self.action, StepAction::SkipNoPatches | StepAction::SkipNoRewrite)
            && self.n_appendix_notes_added.is_none()
    }

    /// The record of a step of which nothing is known yet but where it is: no items, scores of 0, and no patches.
    pub fn begun(step: StepIdx, epoch: EpochIdx) -> Self {
        Self {
            step,
            epoch,
            step_in_epoch: 0,
            batch_seed: 0,
            batch_item_ids: Vec::new(),
            rollout_hard: 0.0,
            rollout_soft: 0.0,
            rollout_n: 0,
            accumulation_batches: Vec::new(),
            n_failure_patches: 0,
            n_success_patches: 0,
            n_notes_read: None,
            n_edits_merged: None,
            n_edits_ranked: None,
            screening: None,
            edit_budget: None,
            lr_control_mode: BudgetControl::default(),
            lr_decision: None,
            rewrite_change_summary: None,
            apply_report: None,
            candidate_hash: None,
            current_skill_hash: None,
            candidate_skill_len: None,
            selection_n_seen: None,
            selection_n: None,
            selection_interval: None,
            selection_hard: None,
            selection_soft: None,
            selection_from_step: None,
            gate_metric: Gate::default().metric.as_str().to_owned(),
            gate_mode: None,
            paired: None,
            candidate_gate_score: None,
            saving: None,
            action: StepAction::SkipNoPatches,
            n_execution_lapse_notes: None,
            n_appendix_notes_added: None,
            n_appendix_notes_total: None,
            n_appendix_notes_consolidated: None,
            score_before: 0.0,
            current_score: 0.0,
            best_score: 0.0,
            best_step: StepIdx(0),
            tokens: TokensByStage::new(),
            notes: Vec::new(),
        }
    }
}
