//! What the trainer knows between steps.

use crate::error::PipelineError;
use crate::memory::{MAX_MEMORY_STEPS, MemoryEntry, StepMemory};
use crate::run_dir::format::{FORMAT_VERSION, RuntimeState, StepAction, StepRecord};
use crate::run_dir::{EvaluationDir, RunDir};
use crate::stage::evaluate::Evaluation;
use skill_core::{FlipCounts, ItemScore, MeanScore, SkillDoc, SkillHash, StepIdx};
use std::collections::BTreeMap;

/// Where each skill was measured: steps in order; 0 is the baseline.
pub(super) type Evaluated = BTreeMap<SkillHash, Vec<StepIdx>>;

fn remember(evaluated: &mut Evaluated, record: &StepRecord) {
    // A step that measured nothing new has nothing that an earlier one has not.
    if let (Some(hash), Some(_), None) =
        (&record.candidate_hash, record.selection_n_seen, record.selection_from_step)
    {
        evaluated.entry(hash.clone()).or_default().push(record.step);
    }
}

/// A skill with the score that the gate gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredSkill {
    /// The skill.
    pub skill: SkillDoc,
    /// Its score under the gate's metric.
    pub score: f64,
    /// Its score on each item of the selection split, in the order of the split: what decisions compare.
    pub item_scores: Vec<ItemScore>,
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
    /// How often candidates and the current skill differed on an item.
    pub flips: FlipCounts,
    /// What the last steps left for the optimizer to know.
    pub memory: StepMemory,
    /// What is measured already.
    pub(super) evaluated: Evaluated,
}

impl TrainState {
    /// The state after the baseline.
    pub fn after_baseline(initial_skill: SkillDoc, baseline: &Evaluation, score: f64) -> Self {
        let item_scores = baseline.results.iter().map(ItemScore::from).collect();
        let scored = ScoredSkill { skill: initial_skill, score, item_scores, step: StepIdx(0) };
        let evaluated = BTreeMap::from([(scored.skill.hash(), vec![StepIdx(0)])]);
        Self {
            last_step: StepIdx(0),
            current: scored.clone(),
            best: scored,
            baseline: baseline.score,
            history: Vec::new(),
            flips: FlipCounts::default(),
            memory: StepMemory::default(),
            evaluated,
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
        let item_scores = |step: StepIdx| -> Result<Vec<ItemScore>, PipelineError> {
            Ok(dir.read_results(EvaluationDir::of_step(step))?.iter().map(ItemScore::from).collect())
        };
        let current = ScoredSkill {
            skill: dir.read_snapshot(stored.last_completed_step, &stored.current_skill_hash)?,
            score: stored.current_score,
            item_scores: item_scores(stored.current_step)?,
            step: stored.current_step,
        };
        let best = ScoredSkill {
            skill: if stored.best_skill_hash == initial_skill.hash() {
                initial_skill.clone()
            } else {
                dir.read_made_skill(stored.best_step, &stored.best_skill_hash)?
            },
            score: stored.best_score,
            item_scores: item_scores(stored.best_step)?,
            step: stored.best_step,
        };
        let mut evaluated = BTreeMap::from([(initial_skill.hash(), vec![StepIdx(0)])]);
        for record in &history {
            remember(&mut evaluated, record);
        }
        let remembered = history.iter().rev().take(MAX_MEMORY_STEPS).rev();
        let memory: Result<Vec<MemoryEntry>, _> =
            remembered.map(|record| dir.read_digest(record.step)).collect();
        Ok(Some(Self {
            last_step: stored.last_completed_step,
            current,
            best,
            baseline: stored.baseline,
            history,
            flips: stored.flips,
            memory: StepMemory::new(memory?),
            evaluated,
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
            flips: self.flips.clone(),
        })
    }

    /// Takes over what a step came to.
    pub(super) fn apply(&mut self, outcome: StepOutcome) {
        let StepOutcome { record, candidate, flips, digest, with_notes } = outcome;
        self.last_step = record.step;
        self.flips = flips;
        self.memory.push(digest);
        remember(&mut self.evaluated, &record);
        if let Some(scored) = candidate
            && record.action.is_accept()
        {
            if record.action == StepAction::AcceptNewBest {
                self.best = scored.clone();
            }
            self.current = scored;
        }
        if let Some(skill) = with_notes {
            self.current.skill = skill;
        }
        self.history.push(record);
    }
}

/// What a step came to.
pub(super) struct StepOutcome {
    pub(super) record: StepRecord,
    /// The candidate, if it was measured whole.
    pub(super) candidate: Option<ScoredSkill>,
    /// The state's counts after the step.
    pub(super) flips: FlipCounts,
    /// What the step leaves for the optimizer to know.
    pub(super) digest: MemoryEntry,
    /// The current skill with this step's notes in its appendix, if there are any.
    pub(super) with_notes: Option<SkillDoc>,
}
