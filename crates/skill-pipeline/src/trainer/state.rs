//! What the trainer knows between steps.

use crate::error::PipelineError;
use crate::memory::StepMemory;
use crate::records::document::{EpochEndCounts, EpochEndState, RuntimeState, StepRecord};
use crate::records::epoch::{EpochRecords, MetaSkillAction, MetaSkillRecord, SlowUpdateAction};
use crate::records::evaluation::Evaluation;
use crate::records::memory::MemoryEntry;
use crate::records::{FORMAT_VERSION, StageTokens};
use crate::run_dir::{EvaluationDir, RunDir};
use crate::settings::MAX_MEMORY_STEPS;
use skill_core::RolloutResult;
use skill_core::objective::Measures;
use skill_core::search_plan::SearchBudget;
use skill_core::{EpochIdx, FlipCounts, ItemScore, MeanScore, SkillDoc, SkillHash, SkillId, StepIdx};
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
    /// The tokens of each of these; 0 where they are not known.
    pub item_tokens: Vec<u64>,
    /// The second score of each of these, where there is one.
    pub item_guards: Vec<Option<f64>>,
    /// The skill whose scores a candidate has to beat, where this one took its place for its tokens and scores lower.
    pub reference: Option<Reference>,
    /// What made and measured it.
    pub id: SkillId,
}

/// A skill that another one took the place of, at a lower score.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// The skill.
    pub id: SkillId,
    /// Its score on each item.
    pub item_scores: Vec<ItemScore>,
}

impl ScoredSkill {
    /// A skill that was measured, by these results.
    pub(super) fn of(skill: SkillDoc, score: f64, results: &[RolloutResult], id: SkillId) -> Self {
        Self {
            skill,
            score,
            item_scores: results.iter().map(ItemScore::from).collect(),
            item_tokens: results.iter().map(|result| result.usage.tokens()).collect(),
            item_guards: results.iter().map(RolloutResult::guard).collect(),
            reference: None,
            id,
        }
    }

    /// What the gate compares of it.
    pub(super) fn measures(&self) -> Measures<'_> {
        Measures { scores: &self.item_scores, tokens: &self.item_tokens, bar: self.bar() }
    }

    /// The scores that a candidate has to beat.
    pub(super) fn bar(&self) -> &[ItemScore] {
        self.reference.as_ref().map_or(&self.item_scores, |reference| &reference.item_scores)
    }

    /// What a skill that takes its place for its tokens is held against.
    pub(super) fn as_reference(&self) -> Reference {
        let own = || Reference { id: self.id, item_scores: self.item_scores.clone() };
        self.reference.clone().unwrap_or_else(own)
    }
}

/// The end of an epoch that is done.
#[derive(Debug, Clone, PartialEq)]
pub struct EpochEnded {
    /// The epoch.
    pub epoch: EpochIdx,
    /// The current skill after it, which the next end compares with.
    pub skill: SkillDoc,
}

/// The state of training: what `runtime_state.json`, `history.jsonl` and `skills/` hold.
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
    /// The last epoch whose end is done, if an epoch's end does anything.
    pub epoch_end: Option<EpochEnded>,
    /// The optimizer's notes to itself; empty if there are none.
    pub meta_skill: String,
    /// What the ends of epochs came to, in order.
    pub(super) epoch_records: Vec<EpochRecords>,
    /// How often candidates and the current skill differed on an item.
    pub flips: FlipCounts,
    /// What the last steps left for the optimizer to know.
    pub memory: StepMemory,
    /// What is measured already.
    pub(super) evaluated: Evaluated,
    /// The caps within which a step was begun that they had no room for.
    pub no_room: Option<SearchBudget>,
}

impl TrainState {
    /// The state after the baseline.
    pub fn after_baseline(initial_skill: SkillDoc, baseline: &Evaluation, score: f64) -> Self {
        let scored = ScoredSkill::of(initial_skill, score, &baseline.results, SkillId::INITIAL);
        let evaluated = BTreeMap::from([(scored.skill.hash(), vec![StepIdx(0)])]);
        Self {
            last_step: StepIdx(0),
            current: scored.clone(),
            best: scored,
            baseline: baseline.score,
            history: Vec::new(),
            epoch_end: None,
            meta_skill: String::new(),
            epoch_records: Vec::new(),
            flips: FlipCounts::default(),
            memory: StepMemory::default(),
            evaluated,
            no_room: None,
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
        let (current_id, best_id) = (stored.current_skill, stored.best_skill);
        let results = |id: SkillId| -> Result<Vec<RolloutResult>, PipelineError> {
            let place = EvaluationDir::of_skill(id).ok_or_else(|| PipelineError::Corrupt {
                path: dir.state_path(),
                message: format!("names {id}, which this run has not measured"),
            })?;
            dir.read_results(place)
        };
        let reference = |id: Option<SkillId>| -> Result<Option<Reference>, PipelineError> {
            let Some(id) = id else { return Ok(None) };
            Ok(Some(Reference { id, item_scores: results(id)?.iter().map(ItemScore::from).collect() }))
        };
        let (epoch_end, epoch_records) = read_epoch_ends(dir, stored.epoch_end)?;
        let last_epoch = history.last().map(|record| record.epoch);
        let current_skill = match &epoch_end {
            Some(end) if Some(end.epoch) == last_epoch => end.skill.clone(),
            Some(_) | None => dir.read_snapshot(stored.last_completed_step, &stored.current_skill_hash)?,
        };
        let current = ScoredSkill {
            skill: current_skill.with_carried(initial_skill.carried().clone()),
            reference: reference(stored.current_reference)?,
            ..ScoredSkill::of(SkillDoc::default(), stored.current_score, &results(current_id)?, current_id)
        };
        let best = ScoredSkill {
            skill: match best_id.origin.ended_epoch() {
                Some(epoch) => dir.read_epoch_snapshot(epoch, &stored.best_skill_hash)?,
                None if stored.best_skill_hash == initial_skill.hash() => initial_skill.clone(),
                None => dir.read_made_skill(best_id.origin.step(), &stored.best_skill_hash)?,
            }
            .with_carried(initial_skill.carried().clone()),
            reference: reference(stored.best_reference)?,
            ..ScoredSkill::of(SkillDoc::default(), stored.best_score, &results(best_id)?, best_id)
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
            epoch_end,
            meta_skill: meta_skill_of(&epoch_records),
            epoch_records,
            flips: stored.flips,
            memory: StepMemory::new(memory?),
            evaluated,
            no_room: stored.no_room,
        }))
    }

    /// Writes the state so that it can be read back; the last file written commits it.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write(&self, dir: &RunDir) -> Result<(), PipelineError> {
        match &self.epoch_end {
            Some(end) if self.is_after_epoch_end() => dir.write_epoch_snapshot(end.epoch, &end.skill)?,
            Some(_) | None => dir.write_snapshot(self.last_step, &self.current.skill)?,
        }
        self.write_again(dir)
    }

    /// As [`TrainState::write`], where the skills are the same as before.
    pub(super) fn write_again(&self, dir: &RunDir) -> Result<(), PipelineError> {
        let state = RuntimeState {
            format_version: FORMAT_VERSION.to_owned(),
            last_completed_step: self.last_step,
            current_score: self.current.score,
            current_skill_hash: self.current.skill.hash(),
            current_step: self.current.id.origin.step(),
            best_score: self.best.score,
            best_skill_hash: self.best.skill.hash(),
            best_step: self.best.id.origin.step(),
            baseline: self.baseline,
            epoch_end: self
                .epoch_end
                .as_ref()
                .map(|end| EpochEndState { epoch: end.epoch, skill_hash: end.skill.hash() }),
            current_slow_epoch: self.current.id.origin.ended_epoch(),
            best_slow_epoch: self.best.id.origin.ended_epoch(),
            flips: self.flips.clone(),
            current_skill: self.current.id,
            best_skill: self.best.id,
            current_reference: self.current.reference.as_ref().map(|reference| reference.id),
            best_reference: self.best.reference.as_ref().map(|reference| reference.id),
            no_room: self.no_room,
            files_lines: None,
        };
        dir.write_progress(&self.current.skill, &self.best.skill, &self.history, &state)
    }

    /// Takes over what a step came to.
    pub(super) fn apply(&mut self, outcome: StepOutcome) {
        let StepOutcome { record, candidate, flips, digest, with_notes } = outcome;
        self.last_step = record.step;
        // A comparison makes no room for a round that had none.
        if record.comparison.is_none() {
            self.no_room = None;
        }
        self.flips = flips;
        self.memory.push(digest);
        remember(&mut self.evaluated, &record);
        if let Some(scored) = candidate
            && record.action.is_accept()
        {
            if record.best_step == record.step {
                self.best = scored.clone();
            }
            self.current = scored;
        }
        if let Some(skill) = with_notes {
            self.current.skill = skill;
        }
        self.history.push(record);
    }

    /// The last step whose notes are in the current skill and were not there when it was measured.
    pub(super) fn last_unmeasured_notes(&self) -> Option<StepIdx> {
        // Notes come after the gate of their step and before the guidance of its epoch's end.
        let made = self.current.id.origin;
        let is_after = |step: StepIdx| match made.ended_epoch() {
            Some(_) => step > made.step(),
            None => step >= made.step(),
        };
        let records = self.history.iter().rev();
        let mut noted = records.filter(|record| record.n_appendix_notes_added.is_some_and(|added| added > 0));
        noted.next().map(|record| record.step).filter(|step| is_after(*step))
    }

    /// How many candidates have been measured: those of steps, and skills with the guidance of an epoch's end.
    pub(super) fn n_measured(&self) -> usize {
        let of_ends = self.epoch_records.iter().filter_map(|end| end.slow_update.as_ref());
        let of_ends = of_ends.map(|record| record.selection_n_seen);
        self.history.iter().map(|record| record.selection_n_seen).chain(of_ends).flatten().count()
    }

    /// Whether the end of the last finished step's epoch is done.
    pub(super) fn is_after_epoch_end(&self) -> bool {
        self.epoch_end.as_ref().map(|end| end.epoch) == self.history.last().map(|record| record.epoch)
    }

    /// Takes over what the end of an epoch came to.
    pub(super) fn end_epoch(&mut self, outcome: EpochOutcome) {
        let EpochOutcome { epoch, records, change, flips } = outcome;
        match change {
            SkillChange::None => {}
            SkillChange::Text(skill) => self.current.skill = skill,
            SkillChange::Scored { scored, is_new_best } => {
                if is_new_best {
                    self.best = scored.clone();
                }
                self.current = scored;
            }
        }
        self.flips = flips;
        self.epoch_records.push(records);
        self.meta_skill = meta_skill_of(&self.epoch_records);
        self.epoch_end = Some(EpochEnded { epoch, skill: self.current.skill.clone() });
    }

    /// Calls and tokens by stage of everything that is finished, one step or end of an epoch after the other.
    pub(super) fn tokens(&self) -> impl Iterator<Item = (&str, StageTokens)> {
        let of_ends = self.epoch_records.iter().flat_map(EpochRecords::tokens);
        let of_steps = self.history.iter().map(|record| &record.tokens);
        of_steps.chain(of_ends).flatten().map(|(stage, used)| (stage.as_str(), *used))
    }

    /// How the ends of epochs fared; `None` if they do nothing.
    pub(super) fn epoch_end_counts(&self) -> Option<EpochEndCounts> {
        self.epoch_end.as_ref()?;
        let mut counts = EpochEndCounts::default();
        for EpochRecords { slow_update, meta_skill } in &self.epoch_records {
            match slow_update.as_ref().map(|record| record.action) {
                Some(SlowUpdateAction::Reject | SlowUpdateAction::Indecisive) => counts.slow_rejects += 1,
                Some(action) if action.is_accept() => counts.slow_accepts += 1,
                Some(_) => counts.slow_skips += 1,
                None => {}
            }
            let is_written = |record: &MetaSkillRecord| record.action == MetaSkillAction::WriteMetaSkill;
            counts.meta_skills += usize::from(meta_skill.as_ref().is_some_and(is_written));
        }
        Some(counts)
    }
}

/// The skill after the last end of an epoch, and what all of them came to.
fn read_epoch_ends(
    dir: &RunDir,
    stored: Option<EpochEndState>,
) -> Result<(Option<EpochEnded>, Vec<EpochRecords>), PipelineError> {
    let Some(EpochEndState { epoch, skill_hash }) = stored else { return Ok((None, Vec::new())) };
    let skill = dir.read_epoch_snapshot(epoch, &skill_hash)?;
    let records: Result<Vec<EpochRecords>, PipelineError> =
        (1..=epoch.0).map(|epoch| dir.read_epoch_end(EpochIdx(epoch))).collect();
    Ok((Some(EpochEnded { epoch, skill }), records?))
}

/// The notes of the last epoch; older ones are in them as far as the optimizer kept them.
fn meta_skill_of(records: &[EpochRecords]) -> String {
    let last = records.last().and_then(|records| records.meta_skill.as_ref());
    last.map(|record| record.meta_skill_content.clone()).unwrap_or_default()
}

/// What the end of an epoch came to.
pub(super) struct EpochOutcome {
    pub(super) epoch: EpochIdx,
    /// What its files hold.
    pub(super) records: EpochRecords,
    /// What becomes of the current skill.
    pub(super) change: SkillChange,
    /// The state's counts after it.
    pub(super) flips: FlipCounts,
}

/// What becomes of the current skill at an epoch's end.
pub(super) enum SkillChange {
    /// It stays.
    None,
    /// It gets this text, which says nothing else to the agent: its scores stay.
    Text(SkillDoc),
    /// Another takes its place.
    Scored {
        scored: ScoredSkill,
        /// And that of the best one.
        is_new_best: bool,
    },
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
    /// The text of the current skill after the step, where its scores are those of another: with notes in its appendix,
    /// or with what was taken and is not compared yet.
    pub(super) with_notes: Option<SkillDoc>,
}
