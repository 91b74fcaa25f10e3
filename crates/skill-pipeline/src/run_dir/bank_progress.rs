//! Where the training of a bank is, by its events: the part of `live.json` that runs of banks alone have.

use crate::bank::record::TrialRecord;
use crate::event::{Event, Stage};
use serde::{Deserialize, Serialize};
use skill_bank::Verdict;
use skill_bank::trial::TrialNumbers;
use skill_core::MeanScore;
use skill_core::stats::stratified::TrialRule;

/// The most trials of the round under way that are kept, the latest ones.
const MAX_TRIALS: usize = 100;

/// Where the training of a bank is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BankProgress {
    /// Rounds after the distillation.
    pub rounds: u32,
    /// The round under way; 0 is the distillation. Absent before it and after the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Skills that are active.
    pub n_active: usize,
    /// Candidates that wait for a trial.
    pub n_waiting: usize,
    /// Trials of the run that have ended.
    pub n_trials: u32,
    /// Versions that became active in the run.
    pub n_admitted: u32,
    /// Versions that were retired in the run.
    pub n_retired: u32,
    /// The selection split without skills of the bank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<MeanScore>,
    /// The selection split with the bank, as it was measured last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<ValidationProgress>,
    /// The trial under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<TrialProgress>,
    /// The trials of the round under way that have ended, without their tasks.
    #[serde(default)]
    pub trials: Vec<TrialRecord>,
}

/// A bank on the selection split.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ValidationProgress {
    /// The round after which it was measured.
    pub round: u32,
    /// The means.
    pub score: MeanScore,
    /// Items.
    pub n_items: usize,
}

/// A trial under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialProgress {
    /// Its number in the run, from 1.
    pub trial: u32,
    /// The candidate.
    pub skill: String,
    /// Its title.
    pub title: String,
    /// Its tier.
    pub tier: String,
    /// True if the skill is active and its retirement is tried.
    pub is_retirement: bool,
    /// True if the skill was admitted, and its worth is measured once more.
    pub is_fresh: bool,
    /// Tasks.
    pub n_items: usize,
    /// When it is decided.
    pub rule: TrialRule,
    /// Rollouts that are done.
    pub rollouts: u64,
    /// Rollouts at most.
    pub max_rollouts: u64,
    /// Rollouts that the numbers stand on.
    pub n_measured: u64,
    /// The numbers of these; `None` before the first tasks are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<TrialNumbers>,
}

impl BankProgress {
    /// Takes over what an event says.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::RunStarted { total_steps, .. } => {
                *self = Self { rounds: *total_steps, ..Self::default() };
            }
            Event::BaselineMeasured { score, .. } => self.baseline = Some(*score),
            Event::RoundStarted { round, rounds, n_active, n_waiting } => {
                (self.round, self.rounds) = (Some(*round), *rounds);
                (self.n_active, self.n_waiting) = (*n_active, *n_waiting);
                self.trials.clear();
            }
            Event::SkillsProposed { skills, .. } => self.n_waiting += skills.len(),
            Event::SkillAdmitted { n_active, .. } => {
                self.n_active = *n_active;
                self.n_admitted += 1;
            }
            Event::SkillRetired { n_active, .. } => {
                self.n_active = *n_active;
                self.n_retired += 1;
            }
            Event::BankValidated { round, score, n_items, n_active, .. } => {
                self.n_active = *n_active;
                self.validation =
                    Some(ValidationProgress { round: *round, score: *score, n_items: *n_items });
            }
            Event::RoundFinished { record } => {
                (self.n_active, self.n_waiting) = (record.n_active, record.waiting.len());
                (self.round, self.trial) = (None, None);
            }
            Event::RunFinished { .. } | Event::BankFinished { .. } | Event::RunStopped { .. } => {
                (self.round, self.trial) = (None, None);
            }
            other => self.apply_trial(other),
        }
    }

    fn apply_trial(&mut self, event: &Event) {
        match event {
            Event::TrialStarted {
                trial,
                skill,
                title,
                tier,
                is_retirement,
                n_items,
                max_rollouts,
                rule,
                ..
            } => {
                if !is_retirement {
                    self.n_waiting = self.n_waiting.saturating_sub(1);
                }
                self.trial = Some(TrialProgress {
                    trial: *trial,
                    skill: skill.clone(),
                    title: title.clone(),
                    tier: tier.clone(),
                    is_retirement: *is_retirement,
                    is_fresh: false,
                    n_items: *n_items,
                    rule: *rule,
                    rollouts: 0,
                    max_rollouts: *max_rollouts,
                    n_measured: 0,
                    numbers: None,
                });
            }
            Event::StageProgress { stage: Stage::Trial, done, .. } => {
                if let Some(trial) = &mut self.trial {
                    let n_before = if trial.is_fresh { 0 } else { trial.n_measured };
                    trial.rollouts = n_before.saturating_add(*done as u64);
                }
            }
            Event::TrialMeasured { rollouts, numbers, .. } => {
                if let Some(trial) = &mut self.trial {
                    (trial.rollouts, trial.n_measured) = (*rollouts, *rollouts);
                    trial.numbers = Some(**numbers);
                }
            }
            Event::FreshStarted { n_rollouts, .. } => {
                if let Some(trial) = &mut self.trial {
                    (trial.rollouts, trial.max_rollouts, trial.is_fresh) = (0, *n_rollouts, true);
                }
            }
            Event::TrialFinished { record, .. } => {
                let is_candidate = record.decision.is_none_or(|made| made.verdict == Verdict::Undecided);
                // What no task could try has had no trial, and never stopped waiting.
                if self.trial.take().is_some() {
                    self.n_trials += 1;
                    self.n_waiting += usize::from(is_candidate && !record.is_retirement);
                }
                if self.trials.len() >= MAX_TRIALS {
                    self.trials.remove(0);
                }
                self.trials.push(TrialRecord { items: Vec::new(), preflight: None, ..(**record).clone() });
            }
            // Steps of documents, stages with their own counts, and what later versions tell.
            _ => {}
        }
    }
}
