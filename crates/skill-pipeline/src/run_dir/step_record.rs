//! The beginning of a step's record, for whoever fills one.

use super::format::{StepAction, StepRecord, TokensByStage};
use skill_core::{BudgetControl, EpochIdx, Gate, StepIdx};

impl StepRecord {
    /// Whether nothing came of the step for want of edits.
    pub fn has_no_edit(&self) -> bool {
        matches!(self.action, StepAction::SkipNoPatches | StepAction::SkipNoRewrite)
            && self.n_appendix_notes_added.is_none()
    }

    /// The record of a step of which nothing is known yet but where it stands: no items, scores of 0, and no patches.
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
            n_edits_merged: None,
            n_edits_ranked: None,
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
