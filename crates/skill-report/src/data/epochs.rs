//! The ends of epochs: guidance for the agent, and the optimizer's notes to itself.

use super::steps::{DiffLine, difference, evidence, n_characters};
use serde::Serialize;
use skill_core::{SkillDoc, SkillId, SkillOrigin, StepIdx};
use skill_pipeline::records::document::{RuntimeState, StepRecord};
use skill_pipeline::records::epoch::EpochRecords;
use skill_pipeline::records::paired::PairedRecord;
use skill_pipeline::records::summary::Summary;
use skill_pipeline::run_dir::{EvaluationDir, RunSkills};
use skill_pipeline::{PipelineError, RunReader, SlowUpdateAction, SlowUpdateRecord};

/// The end of an epoch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpochRow {
    /// The epoch, from 1.
    pub epoch: u32,
    /// The slow update; `None` if there is none.
    pub slow_update: Option<SlowUpdateRow>,
    /// The optimizer's notes to itself; empty if it wrote none.
    pub notes_to_self: String,
    /// What went wrong without stopping the run.
    pub notes: Vec<String>,
}

impl EpochRow {
    /// How many characters of a run's texts it holds.
    pub(super) fn n_characters(&self) -> usize {
        let of_slow_update = |update: &SlowUpdateRow| update.reasoning.len() + n_characters(&update.diff);
        let of_notes: usize = self.notes.iter().map(String::len).sum();
        self.notes_to_self.len() + of_notes + self.slow_update.as_ref().map_or(0, of_slow_update)
    }
}

/// A slow update.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlowUpdateRow {
    /// What it came to, in words.
    pub decision: &'static str,
    /// `accepted`, `rejected`, `indecisive` or `skipped`: what it came to in the rough.
    pub outcome: &'static str,
    /// The shares of the sample that the last epoch's skill and this one's solved.
    pub sample: Option<[f64; 2]>,
    /// Pairs that the optimizer saw, by category.
    pub pairs: Vec<(String, usize)>,
    /// The score of the current skill before it.
    pub before: f64,
    /// The score of the skill with the guidance; `None` if not every item was measured.
    pub score: Option<f64>,
    /// The interval of one that was rejected early.
    pub interval: Option<[f64; 2]>,
    /// The skill with the guidance against the current one, item by item.
    pub paired: Option<PairedRecord>,
    /// The same in words.
    pub evidence: Option<String>,
    /// Items that were measured.
    pub n_seen: Option<usize>,
    /// Items of the validation split.
    pub n_items: Option<usize>,
    /// The score of the current skill after it.
    pub current: f64,
    /// The score of the best skill after it.
    pub best: f64,
    /// Why the optimizer wrote what it wrote.
    pub reasoning: String,
    /// What the guidance changed.
    pub diff: Vec<DiffLine>,
}

/// The end of the epoch whose last step this is; `None` if it is not the last one or the end is not done.
pub(super) fn after_step(
    skills: &RunSkills<'_>,
    run: &RunReader,
    ends: &[EpochRecords],
    record: &StepRecord,
    next: Option<&StepRecord>,
) -> Result<Option<EpochRow>, PipelineError> {
    let epoch = record.epoch;
    let is_last = next.is_none_or(|next| next.epoch != epoch);
    let place = usize::try_from(epoch.0).unwrap_or(usize::MAX).checked_sub(1).filter(|_| is_last);
    let Some(end) = place.and_then(|place| ends.get(place)) else { return Ok(None) };
    let slow_update = end.slow_update.as_ref().map(|record| slow_update(skills, run, record)).transpose()?;
    let meta_skill = end.meta_skill.as_ref();
    let of_slow_update = end.slow_update.as_ref().map(|record| &record.notes);
    let notes = of_slow_update.into_iter().chain(meta_skill.map(|record| &record.notes));
    Ok(Some(EpochRow {
        epoch: epoch.0,
        slow_update,
        notes_to_self: meta_skill.map(|record| record.meta_skill_content.clone()).unwrap_or_default(),
        notes: notes.flatten().cloned().collect(),
    }))
}

fn slow_update(
    skills: &RunSkills<'_>,
    run: &RunReader,
    record: &SlowUpdateRecord,
) -> Result<SlowUpdateRow, PipelineError> {
    // What the last step made of the skill; guidance is written into that.
    let before = run.skill_of(record.step, None)?;
    let after = match run.guided_candidate(record.epoch)? {
        Some(candidate) => candidate,
        None => skills.after(record.step)?,
    };
    let pairs = record.n_pairs.iter().filter(|(_, count)| **count > 0);
    Ok(SlowUpdateRow {
        decision: record.action.words(),
        outcome: outcome(record.action),
        sample: record.prev_hard.zip(record.curr_hard).map(|(previous, current)| [previous, current]),
        pairs: pairs.map(|(category, count)| (category.as_str().replace('_', " "), *count)).collect(),
        before: record.score_before,
        score: record.candidate_gate_score,
        interval: record.selection_interval,
        paired: record.paired.clone(),
        evidence: record.paired.as_ref().map(evidence),
        n_seen: record.selection_n_seen,
        n_items: record.selection_n,
        current: record.current_score,
        best: record.best_score,
        reasoning: record.reasoning.clone(),
        diff: changes(&before, &after),
    })
}

fn outcome(action: SlowUpdateAction) -> &'static str {
    match action {
        SlowUpdateAction::AcceptNewBest | SlowUpdateAction::Accept | SlowUpdateAction::ForceAccept => {
            "accepted"
        }
        SlowUpdateAction::Reject => "rejected",
        SlowUpdateAction::Indecisive => "indecisive",
        SlowUpdateAction::InjectPlaceholder | SlowUpdateAction::NoContent | SlowUpdateAction::SkipNoOp => {
            "skipped"
        }
        other => other.as_str(),
    }
}

fn changes(before: &SkillDoc, after: &SkillDoc) -> Vec<DiffLine> {
    if before == after { Vec::new() } else { difference(before.source_text(), after.source_text()) }
}

/// A skill of the run, by what made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Maker {
    pub(super) id: SkillId,
    /// Whether it was measured at the end of the run, with the notes that it has.
    pub(super) is_measured_last: bool,
}

impl Maker {
    /// What made the best skill: what the run says at its end, which may find that the last skill is the best one.
    pub(super) fn of_best(state: &RuntimeState, summary: Option<&Summary>) -> Self {
        match summary {
            None => Self::of(state.best_skill),
            Some(summary) => Self { id: summary.best_skill, is_measured_last: summary.is_best_measured_last },
        }
    }

    /// A skill that was measured when it was made.
    pub(super) fn of(id: SkillId) -> Self {
        Self { id, is_measured_last: false }
    }

    /// The last step that was finished when it was made.
    pub(super) fn step(self) -> StepIdx {
        self.id.origin.step()
    }

    /// Where the skill was measured on the validation split.
    pub(super) fn measured(self, history: &[StepRecord]) -> EvaluationDir {
        if self.is_measured_last {
            return EvaluationDir::FinalSelection;
        }
        match self.id.origin {
            SkillOrigin::Step { step } => EvaluationDir::of_step(super::headline::measured_at(history, step)),
            SkillOrigin::EpochEnd { epoch, .. } => EvaluationDir::SlowUpdate(epoch),
            // What the run has not made is measured as the skill that it began with.
            SkillOrigin::Initial | SkillOrigin::Import | SkillOrigin::Trial => EvaluationDir::Baseline,
        }
    }

    /// Where the skill was measured on the test split; the initial one was measured once.
    pub(super) fn tested(self, history: &[StepRecord]) -> EvaluationDir {
        match self.measured(history) {
            EvaluationDir::Baseline => EvaluationDir::TestBaseline,
            _ => EvaluationDir::TestBest,
        }
    }

    /// Its name.
    pub(super) fn name(self) -> String {
        match self.id.origin {
            origin if self.is_measured_last => format!("the notes of step {}", origin.step()),
            SkillOrigin::EpochEnd { epoch, .. } => format!("the guidance of epoch {epoch}"),
            SkillOrigin::Initial => "the first one".to_owned(),
            origin @ (SkillOrigin::Step { .. } | SkillOrigin::Import | SkillOrigin::Trial) => {
                origin.to_string()
            }
        }
    }
}

/// The skill with the guidance of an epoch's end.
pub(super) fn guided_by(record: &SlowUpdateRecord) -> SkillId {
    SkillId::of(SkillOrigin::EpochEnd { epoch: record.epoch, step: record.step })
}
