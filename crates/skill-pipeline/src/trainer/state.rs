//! What the trainer knows between steps.

use crate::error::PipelineError;
use crate::run_dir::RunDir;
use crate::run_dir::format::{FORMAT_VERSION, RuntimeState, StepAction, StepRecord};
use skill_core::{MeanScore, SkillDoc, SkillHash, StepIdx};
use std::collections::BTreeMap;

/// Selection scores by skill, each with the step that measured it; 0 is the baseline.
pub(super) type SelectionCache = BTreeMap<SkillHash, (StepIdx, MeanScore)>;

/// A skill that comes back is not measured again.
fn remember(cache: &mut SelectionCache, record: &StepRecord) {
    if let (Some(hash), Some(hard), Some(soft)) =
        (&record.candidate_hash, record.selection_hard, record.selection_soft)
    {
        let measured_at = record.selection_from_step.unwrap_or(record.step);
        cache.entry(hash.clone()).or_insert((measured_at, MeanScore { hard, soft }));
    }
}

/// A skill with the score that the gate gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredSkill {
    /// The skill.
    pub skill: SkillDoc,
    /// Its score under the gate's metric.
    pub score: f64,
    /// The step that made it; 0 is the initial skill.
    pub step: StepIdx,
}

/// The state of training: what `runtime_state.json`, `history.json` and `skills/` hold.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainState {
    /// The last finished step.
    pub last_step: StepIdx,
    /// The skill that the next step starts from.
    pub current: ScoredSkill,
    /// The best skill so far: what is deployed.
    pub best: ScoredSkill,
    /// The initial skill on the selection split.
    pub baseline: MeanScore,
    /// One record per finished step.
    pub history: Vec<StepRecord>,
    /// What is measured already.
    pub(super) selection_cache: SelectionCache,
}

impl TrainState {
    /// The state after the baseline.
    pub fn after_baseline(initial_skill: SkillDoc, baseline: MeanScore, score: f64) -> Self {
        let scored = ScoredSkill { skill: initial_skill, score, step: StepIdx(0) };
        let selection_cache = BTreeMap::from([(scored.skill.hash(), (StepIdx(0), baseline))]);
        Self {
            last_step: StepIdx(0),
            current: scored.clone(),
            best: scored,
            baseline,
            history: Vec::new(),
            selection_cache,
        }
    }

    /// Reads the state of a run back; `None` if its baseline is not measured yet.
    ///
    /// # Errors
    ///
    /// Files that cannot be read or do not fit together.
    pub fn read(dir: &RunDir, initial_skill: &SkillDoc) -> Result<Option<Self>, PipelineError> {
        let Some(stored) = dir.read_state()? else { return Ok(None) };
        let history = dir.read_history(stored.last_completed_step)?;
        let current = ScoredSkill {
            skill: dir.read_snapshot(stored.last_completed_step, &stored.current_skill_hash)?,
            score: stored.current_score,
            step: stored.current_step,
        };
        let best = ScoredSkill {
            skill: dir.read_snapshot(stored.best_step, &stored.best_skill_hash)?,
            score: stored.best_score,
            step: stored.best_step,
        };
        let mut selection_cache = BTreeMap::from([(initial_skill.hash(), (StepIdx(0), stored.baseline))]);
        for record in &history {
            remember(&mut selection_cache, record);
        }
        Ok(Some(Self {
            last_step: stored.last_completed_step,
            current,
            best,
            baseline: stored.baseline,
            history,
            selection_cache,
        }))
    }

    /// Writes the state so that it can be read back; the last file written commits it.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write(&self, dir: &RunDir) -> Result<(), PipelineError> {
        dir.write_snapshot(self.last_step, &self.current.skill)?;
        dir.write_skills(&self.current.skill, &self.best.skill)?;
        dir.write_history(&self.history)?;
        dir.write_state(&RuntimeState {
            format_version: FORMAT_VERSION.to_owned(),
            last_completed_step: self.last_step,
            current_score: self.current.score,
            current_skill_hash: self.current.skill.hash(),
            current_step: self.current.step,
            best_score: self.best.score,
            best_skill_hash: self.best.skill.hash(),
            best_step: self.best.step,
            baseline: self.baseline,
        })
    }

    /// Takes over what a step came to.
    pub fn apply(&mut self, record: StepRecord, candidate: Option<SkillDoc>) {
        self.last_step = record.step;
        remember(&mut self.selection_cache, &record);
        if let (Some(skill), Some(score)) = (candidate, record.candidate_gate_score)
            && record.action.is_accept()
        {
            let scored = ScoredSkill { skill, score, step: record.step };
            if record.action == StepAction::AcceptNewBest {
                self.best = scored.clone();
            }
            self.current = scored;
        }
        self.history.push(record);
    }
}
