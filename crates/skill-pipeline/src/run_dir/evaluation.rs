//! Where the results of evaluations are, and what their summaries say.

use super::atomic;
use super::held::RunDir;
use super::path::{
    PLAYS_FILE, RESULTS_FILE, ROLLOUTS_FILE, SUMMARY_FILE, round_path, slow_update_path, step_path,
};
use super::read::{parse, parse_versioned};
use crate::error::PipelineError;
use crate::records::arm::{ArmName, OneShotRecord};
use crate::records::document::StepRecord;
use crate::records::evaluation::{
    Activations, CandidateEvaluation, Evaluation, EvaluationSummary, PartialEvaluationSummary, TaskTypeScore,
};
use crate::records::{FORMAT_VERSION, StageTokens};
use indexmap::IndexMap;
use skill_core::{EpochIdx, MeanScore, RolloutResult, SkillDoc, SkillHash, SkillId, SkillOrigin, StepIdx};
use std::path::{Path, PathBuf};

/// The skill of the one-shot arm, beside its results.
pub(super) const ONE_SHOT_SKILL: &str = "skill.md";
/// The request that made it.
const ONE_SHOT_FILE: &str = "one_shot.json";

/// Where an evaluation's results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvaluationDir {
    /// The initial skill on the validation split.
    Baseline,
    /// The candidate of a step on the validation split.
    Selection(StepIdx),
    /// The last skill on the validation split, where notes were added after it was measured.
    FinalSelection,
    /// The initial skill on the validation split once more.
    FreshBaseline,
    /// The best skill on the validation split once more.
    FreshBest,
    /// The skill with the guidance of an epoch's slow update on the validation split.
    SlowUpdate(EpochIdx),
    /// The bank after a round of its training on the validation split.
    Round(u32),
    /// The initial skill on the test split.
    TestBaseline,
    /// The best skill on the test split.
    TestBest,
    /// No skill at all on the test split.
    TestNoSkill,
    /// The skill of the one-shot arm on the test split.
    TestOneShot,
}

impl EvaluationDir {
    /// The evaluations that no state commits, since they are made after the last step.
    pub(super) const AFTER_LAST_STEP: [Self; 7] = [
        Self::FinalSelection,
        Self::FreshBaseline,
        Self::FreshBest,
        Self::TestBaseline,
        Self::TestBest,
        Self::TestNoSkill,
        Self::TestOneShot,
    ];

    /// Where an arm is measured on the test split.
    pub fn of_arm(arm: ArmName) -> Self {
        match arm {
            ArmName::Initial => Self::TestBaseline,
            ArmName::Trained => Self::TestBest,
            ArmName::NoSkill => Self::TestNoSkill,
            ArmName::OneShot => Self::TestOneShot,
        }
    }

    /// Where the selection results of a skill are; `None` for one that no part of the run measures.
    pub fn of_skill(skill: SkillId) -> Option<Self> {
        match skill.origin {
            SkillOrigin::Initial => Some(Self::Baseline),
            SkillOrigin::Step { step } => Some(Self::of_step(step)),
            SkillOrigin::EpochEnd { epoch, .. } => Some(Self::SlowUpdate(epoch)),
            SkillOrigin::Import | SkillOrigin::Trial => None,
        }
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
        EvaluationDir::Round(round) => round_path(run, round).join("selection_eval"),
        EvaluationDir::TestBaseline => run.join("test_eval_baseline"),
        EvaluationDir::TestBest => run.join("test_eval_best"),
        EvaluationDir::TestNoSkill => run.join("test_eval_no_skill"),
        EvaluationDir::TestOneShot => run.join("test_eval_one_shot"),
    }
}

impl RunDir {
    pub(crate) fn evaluation_dir(&self, dir: EvaluationDir) -> PathBuf {
        evaluation_path(self.path(), dir)
    }

    /// Writes `results.json` and `summary.json` of an evaluation.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_evaluation(
        &self,
        dir: EvaluationDir,
        skill: &SkillHash,
        evaluation: &Evaluation,
        tokens: StageTokens,
    ) -> Result<(), PipelineError> {
        self.check_not_moved()?;
        let path = self.evaluation_dir(dir);
        let (results_path, summary_path) = (path.join(RESULTS_FILE), path.join(SUMMARY_FILE));
        let results = atomic::json_bytes(&results_path, &evaluation.results)?;
        let summary = atomic::json_bytes(&summary_path, &summarise(skill, evaluation, tokens))?;
        atomic::write_all(&[(&results_path, &results), (&summary_path, &summary)])?;
        self.note(&results_path, &results)?;
        self.note(&summary_path, &summary)?;
        if EvaluationDir::AFTER_LAST_STEP.contains(&dir) { self.commit_evaluation(dir) } else { Ok(()) }
    }

    /// Writes `results.json` and `summary.json` of the evaluation of a candidate, as [`RunDir::put`] does.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub(crate) fn write_candidate_evaluation(
        &self,
        dir: EvaluationDir,
        skill: &SkillHash,
        evaluation: &CandidateEvaluation,
        n_items: usize,
        tokens: StageTokens,
    ) -> Result<(), PipelineError> {
        let dir = self.evaluation_dir(dir);
        self.put_json(&dir.join(RESULTS_FILE), &evaluation.results)?;
        let Some(interval) = evaluation.left_out else {
            let whole = Evaluation::of(evaluation.results.clone());
            return self.put_json(&dir.join(SUMMARY_FILE), &summarise(skill, &whole, tokens));
        };
        let summary = PartialEvaluationSummary {
            format_version: FORMAT_VERSION.to_owned(),
            skill_hash: skill.clone(),
            n_seen: evaluation.results.len(),
            n: n_items,
            interval: [interval.low, interval.high],
            tokens,
        };
        self.put_json(&dir.join(SUMMARY_FILE), &summary)
    }

    /// Writes `results.json` and `summary.json` of the evaluation in a run that trains a bank, as [`RunDir::put`]
    /// does. `shown` is the hash of the version of what agents were shown.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub(crate) fn put_bank_evaluation(
        &self,
        dir: EvaluationDir,
        shown: &SkillHash,
        evaluation: &Evaluation,
        tokens: StageTokens,
    ) -> Result<(), PipelineError> {
        let dir = self.evaluation_dir(dir);
        atomic::create_dir(&dir)?;
        self.put_json(&dir.join(RESULTS_FILE), &evaluation.results)?;
        self.put_json(&dir.join(SUMMARY_FILE), &summarise(shown, evaluation, tokens))
    }

    /// The summary of an evaluation; `None` if it was not made.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is not JSON, is of another format, or has changed since the run wrote it.
    pub fn read_evaluation(&self, dir: EvaluationDir) -> Result<Option<EvaluationSummary>, PipelineError> {
        let path = self.evaluation_dir(dir).join(SUMMARY_FILE);
        self.read_recorded(&path)?.map(|bytes| parse_versioned(&path, &bytes)).transpose()
    }

    /// The results of an evaluation that was written.
    ///
    /// # Errors
    ///
    /// A file that is not there, cannot be read, or is not what it should be.
    pub fn read_results(&self, dir: EvaluationDir) -> Result<Vec<RolloutResult>, PipelineError> {
        let path = self.evaluation_dir(dir).join(RESULTS_FILE);
        parse(&path, &self.read_required(&path)?)
    }

    /// The rollouts that the analysts of a finished step could read, all micro-batches in order.
    ///
    /// # Errors
    ///
    /// A file that is not there, cannot be read, or is not what it should be.
    pub(crate) fn read_rollouts(&self, record: &StepRecord) -> Result<Vec<RolloutResult>, PipelineError> {
        let dir = self.step_dir(record.step);
        let paths: Vec<PathBuf> = match record.accumulation_batches.len() {
            0 => vec![dir.join(ROLLOUTS_FILE)],
            n => (0..n).map(|batch| dir.join(format!("batch_{batch}")).join(ROLLOUTS_FILE)).collect(),
        };
        let mut rollouts = Vec::new();
        for path in paths {
            rollouts.extend(parse::<Vec<RolloutResult>>(&path, &self.read_required(&path)?)?);
        }
        Ok(rollouts)
    }

    /// The skill of the one-shot arm and the request that made it; `None` if they are not both whole.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or that has changed since the run wrote it.
    pub(crate) fn read_one_shot(&self) -> Result<Option<(SkillDoc, OneShotRecord)>, PipelineError> {
        let dir = self.evaluation_dir(EvaluationDir::TestOneShot);
        let (skill_path, record_path) = (dir.join(ONE_SHOT_SKILL), dir.join(ONE_SHOT_FILE));
        let Some(record) = self.read_recorded(&record_path)? else { return Ok(None) };
        let Some(skill) = self.read_recorded(&skill_path)? else { return Ok(None) };
        let record: OneShotRecord = parse_versioned(&record_path, &record)?;
        let skill = SkillDoc::new(String::from_utf8_lossy(&skill).into_owned());
        Ok((skill.hash() == record.skill_hash).then_some((skill, record)))
    }

    /// Writes the skill of the one-shot arm and the request that made it, as [`RunDir::put`] does.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub(crate) fn put_one_shot(&self, skill: &SkillDoc, record: &OneShotRecord) -> Result<(), PipelineError> {
        let dir = self.evaluation_dir(EvaluationDir::TestOneShot);
        atomic::create_dir(&dir)?;
        self.put_skill(&dir.join(ONE_SHOT_SKILL), skill)?;
        self.put_json(&dir.join(ONE_SHOT_FILE), record)
    }

    /// One result of the plays of a step's proposal.
    pub(crate) fn read_play(&self, step: StepIdx, place: usize) -> Result<RolloutResult, PipelineError> {
        let path = self.step_dir(step).join(PLAYS_FILE);
        let plays: Vec<RolloutResult> = parse(&path, &self.read_required(&path)?)?;
        let n = plays.len();
        let missing =
            || PipelineError::Corrupt { path, message: format!("has {n} plays, and no play {place}") };
        plays.into_iter().nth(place).ok_or_else(missing)
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
        n_without_number: evaluation.results.iter().filter(|result| result.has_no_number()).count(),
        n_with_marks: evaluation.results.iter().filter(|result| result.has_marks()).count(),
        activations: Activations::of(&evaluation.results),
        by_task_type: by_task_type.collect(),
        ..EvaluationSummary::new(skill.clone(), evaluation.score, evaluation.results.len(), tokens)
    }
}
