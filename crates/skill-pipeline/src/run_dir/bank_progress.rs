//! Where the training of a bank is, by its events: the part of `live.json` that runs of banks alone have.
//!
//! # Invariants
//!
//! - The progress of training a bank is one fold over events: `live.json`, the terminal and readers of
//!   `events.jsonl` come to the same. Held by `progress_adds_up_to_the_summary`.

use crate::event::{Event, Stage};
use crate::records::bank::TrialRecord;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skill_bank::TrialVerdict;
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
    /// The validation split without skills of the bank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<MeanScore>,
    /// The validation split with the bank, as it was measured last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<ValidationProgress>,
    /// The trial under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<TrialProgress>,
    /// The trials of the round under way that have ended, without their tasks.
    #[serde(default)]
    pub trials: Vec<TrialRecord>,
}

/// A bank on the validation split.
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
    #[serde(default)]
    pub is_fresh: bool,
    /// Tasks.
    pub n_items: usize,
    /// When it is decided.
    pub rule: TrialRule,
    /// Rollouts that are done.
    #[serde(default)]
    pub rollouts: u64,
    /// Rollouts at most.
    pub max_rollouts: u64,
    /// Rollouts that the numbers are based on.
    #[serde(default)]
    pub n_measured: u64,
    /// The numbers of these; `None` before the first tasks are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<TrialNumbers>,
}

/// What is read of the events of a log.
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Logged {
    RunStarted {
        total_steps: u32,
    },
    BaselineMeasured {
        score: MeanScore,
    },
    RoundStarted {
        round: u32,
        rounds: u32,
        n_active: usize,
        n_waiting: usize,
    },
    SkillsProposed {
        skills: Vec<IgnoredAny>,
    },
    SkillAdmitted {
        n_active: usize,
    },
    SkillRetired {
        n_active: usize,
    },
    BankValidated {
        round: u32,
        score: MeanScore,
        n_items: usize,
        n_active: usize,
    },
    TrialStarted(Box<TrialProgress>),
    TrialMeasured {
        rollouts: u64,
        numbers: Box<TrialNumbers>,
    },
    FreshStarted {
        n_rollouts: u64,
    },
    TrialFinished {
        record: Box<TrialRecord>,
    },
    RoundFinished {
        record: RoundEnd,
    },
    RunFinished,
    BankFinished,
    RunStopped,
    #[serde(other)]
    Other,
}

/// What is read of the record of a round.
#[derive(Deserialize)]
struct RoundEnd {
    n_active: usize,
    waiting: Vec<IgnoredAny>,
}

impl BankProgress {
    /// Takes over what an event says, also of progress inside a stage, which no log has.
    pub fn apply(&mut self, event: &Event) {
        if let Event::StageProgress { stage, done, .. } = event {
            if let (Stage::Trial, Some(trial)) = (stage, &mut self.trial) {
                let n_before = if trial.is_fresh { 0 } else { trial.n_measured };
                trial.rollouts = n_before.saturating_add(*done as u64);
            }
        } else {
            self.apply_logged(&serde_json::to_value(event).expect("an event serializes"));
        }
    }

    /// Takes over what a line of `events.jsonl` says; lines that say nothing of a bank change nothing.
    pub fn apply_logged(&mut self, event: &Value) {
        let Ok(logged) = Logged::deserialize(event) else { return };
        match logged {
            Logged::RunStarted { total_steps } => {
                *self = Self { rounds: total_steps, ..Self::default() };
            }
            Logged::BaselineMeasured { score } => self.baseline = Some(score),
            Logged::RoundStarted { round, rounds, n_active, n_waiting } => {
                (self.round, self.rounds) = (Some(round), rounds);
                (self.n_active, self.n_waiting) = (n_active, n_waiting);
                self.trials.clear();
            }
            Logged::SkillsProposed { skills } => self.n_waiting += skills.len(),
            Logged::SkillAdmitted { n_active } => {
                (self.n_active, self.n_admitted) = (n_active, self.n_admitted + 1);
            }
            Logged::SkillRetired { n_active } => {
                (self.n_active, self.n_retired) = (n_active, self.n_retired + 1);
            }
            Logged::BankValidated { round, score, n_items, n_active } => {
                self.n_active = n_active;
                self.validation = Some(ValidationProgress { round, score, n_items });
            }
            Logged::RoundFinished { record } => {
                (self.n_active, self.n_waiting) = (record.n_active, record.waiting.len());
                (self.round, self.trial) = (None, None);
            }
            Logged::RunFinished | Logged::BankFinished | Logged::RunStopped => {
                (self.round, self.trial) = (None, None);
            }
            Logged::TrialStarted(trial) => {
                if !trial.is_retirement {
                    self.n_waiting = self.n_waiting.saturating_sub(1);
                }
                self.trial = Some(*trial);
            }
            Logged::TrialMeasured { rollouts, numbers } => {
                if let Some(trial) = &mut self.trial {
                    (trial.rollouts, trial.n_measured) = (rollouts, rollouts);
                    trial.numbers = Some(*numbers);
                }
            }
            Logged::FreshStarted { n_rollouts } => {
                if let Some(trial) = &mut self.trial {
                    (trial.rollouts, trial.max_rollouts, trial.is_fresh) = (0, n_rollouts, true);
                }
            }
            Logged::TrialFinished { record } => self.end_trial(*record),
            Logged::Other => {}
        }
    }

    fn end_trial(&mut self, record: TrialRecord) {
        let is_candidate = record.decision.is_none_or(|made| made.verdict == TrialVerdict::Undecided);
        // What no task could try has had no trial, and never stopped waiting.
        if self.trial.take().is_some() {
            self.n_trials += 1;
            self.n_waiting += usize::from(is_candidate && !record.is_retirement);
        }
        if self.trials.len() >= MAX_TRIALS {
            self.trials.remove(0);
        }
        self.trials.push(TrialRecord { items: Vec::new(), preflight: None, ..record });
    }
}
