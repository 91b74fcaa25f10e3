//! Where the results of evaluations are, and what their summaries say.

use super::format::{EvaluationSummary, FORMAT_VERSION, StageTokens, TaskTypeScore};
use super::path::{slow_update_path, step_path};
use crate::stage::evaluate::Evaluation;
use indexmap::IndexMap;
use skill_core::{EpochIdx, MeanScore, SkillHash, StepIdx};
use std::path::{Path, PathBuf};

/// Where an evaluation's results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvaluationDir {
    /// The initial skill on the selection split.
    Baseline,
    /// The candidate of a step on the selection split.
    Selection(StepIdx),
    /// The last skill on the selection split, where notes were added after it was measured.
    FinalSelection,
    /// The initial skill on the selection split once more.
    FreshBaseline,
    /// The best skill on the selection split once more.
    FreshBest,
    /// The skill with the guidance of an epoch's slow update on the selection split.
    SlowUpdate(EpochIdx),
    /// The initial skill on the test split.
    TestBaseline,
    /// The best skill on the test split.
    TestBest,
}

impl EvaluationDir {
    /// Where the selection results of a skill are: of the one that an epoch's slow update made, else of a step's.
    pub fn of_skill(step: StepIdx, slow_epoch: Option<EpochIdx>) -> Self {
        slow_epoch.map_or_else(|| Self::of_step(step), Self::SlowUpdate)
    }

    /// Where the selection results of a step's skill are; 0 is the baseline.
    pub fn of_step(step: StepIdx) -> Self {
        if step == StepIdx(0) { Self::Baseline } else { Self::Selection(step) }
    }
}

pub(super) fn evaluation_path(run: &Path, dir: EvaluationDir) -> PathBuf {
    match dir {
        EvaluationDir::Baseline => run.join("baseline_selection_eval"),
        EvaluationDir::Selection(step) => step_path(run, step).join("selection_eval"),
        EvaluationDir::FinalSelection => run.join("final_selection_eval"),
        EvaluationDir::FreshBaseline => run.join("fresh_eval_baseline"),
        EvaluationDir::FreshBest => run.join("fresh_eval_best"),
        EvaluationDir::SlowUpdate(epoch) => slow_update_path(run, epoch).join("selection_eval"),
        EvaluationDir::TestBaseline => run.join("test_eval_baseline"),
        EvaluationDir::TestBest => run.join("test_eval_best"),
    }
}

/// The summary of an evaluation, with the scores by task type.
pub fn summarise(skill: &SkillHash, evaluation: &Evaluation, tokens: StageTokens) -> EvaluationSummary {
    let mut groups: IndexMap<&str, Vec<(f64, f64)>> = IndexMap::new();
    for result in evaluation.results.iter().filter(|result| !result.task_type.is_empty()) {
        groups.entry(&result.task_type).or_default().push((result.hard, result.soft));
    }
    groups.sort_unstable_keys();
    let by_task_type = groups.into_iter().map(|(task_type, scores)| {
        let (n, mean) = (scores.len(), MeanScore::of(scores));
        (task_type.to_owned(), TaskTypeScore { hard: mean.hard, soft: mean.soft, n })
    });
    EvaluationSummary {
        format_version: FORMAT_VERSION.to_owned(),
        skill_hash: skill.clone(),
        hard: evaluation.score.hard,
        soft: evaluation.score.soft,
        n: evaluation.results.len(),
        by_task_type: by_task_type.collect(),
        tokens,
    }
}
