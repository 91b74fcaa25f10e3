//! The trials of a bank's run, by the records of its rounds and, for the round under way, by the log of its bank.

use super::MAX_TITLE_CHARACTERS;
use super::measured::BankMeasurement;
use crate::data::conversation::clip;
use serde::Serialize;
use skill_bank::trial::{Ground, PreflightRow};
use skill_bank::{Bank, BankEvent, Occasion, SkillRef, TrialVerdict};
use skill_core::ItemId;
use skill_pipeline::records::bank::{RoundRecord, TrialRecord};

/// A trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BankTrial {
    /// Its number in the run, from 1.
    pub trial: u32,
    /// Its round.
    pub round: u32,
    /// The version that was tried.
    pub skill: SkillRef,
    /// Its title.
    pub title: String,
    /// Its tier.
    pub tier: String,
    /// True if the retirement of an active skill was tried.
    pub is_retirement: bool,
    /// How it ended, or that it has not.
    pub phase: TrialPhase,
    /// Why it ended there; `None` before that, and in the round under way.
    pub ground: Option<Ground>,
    /// Its tasks, in the order of a pass; empty in the round under way.
    pub items: Vec<ItemId>,
    /// Rollouts that were made; `None` in the round under way.
    pub rollouts: Option<u64>,
    /// Rollouts that it may take at most; `None` where there was no trial.
    pub max_rollouts: Option<u64>,
    /// The chance that it admits a skill of some effects; empty in the round under way.
    pub power: Vec<PreflightRow>,
    /// What decided.
    pub measured: Option<BankMeasurement>,
    /// The fresh measurement after admission.
    pub fresh: Option<BankMeasurement>,
    /// Why there was no trial, or why it ended without a decision.
    pub problem: Option<String>,
}

skill_core::named_enum! {
    /// How a trial ended.
    pub enum TrialPhase {
        /// It is under way, or its process stopped.
        Open = "open",
        /// The skill was admitted; of a retirement, the skill is kept.
        Admitted = "admitted",
        /// The skill was rejected; of a retirement, the skill is retired.
        Rejected = "rejected",
        /// The rollouts decided nothing.
        Undecided = "undecided",
        /// No task could try it, or a person changed the skill meanwhile.
        NotTried = "not_tried",
    }
}

impl TrialPhase {
    fn of(verdict: TrialVerdict) -> Self {
        match verdict {
            TrialVerdict::Admit => Self::Admitted,
            TrialVerdict::Reject => Self::Rejected,
            TrialVerdict::Undecided => Self::Undecided,
        }
    }
}

/// All trials in order.
pub(super) fn of(bank: &Bank, records: &[RoundRecord]) -> Vec<BankTrial> {
    let mut trials: Vec<BankTrial> = records
        .iter()
        .flat_map(|record| record.trials.iter().map(|trial| of_record(record.round, trial)))
        .collect();
    let finished = records.last().map(|record| record.round);
    for record in bank.log().iter().filter(|record| finished.is_none_or(|last| record.round > last)) {
        match &record.event {
            BankEvent::TrialOpened { skill, max_rollouts, .. } => {
                let number = trials.last().map_or(0, |trial| trial.trial).saturating_add(1);
                trials.push(opened(bank, number, record.round, skill, *max_rollouts));
            }
            BankEvent::Measured { skill, occasion, utility, verdict, e_better, e_worse, p_better } => {
                let tried = trials.iter_mut().rev().find(|trial| trial.skill == *skill);
                let Some(trial) = tried.filter(|trial| trial.round == record.round) else { continue };
                let measured = utility.as_ref().map(|utility| BankMeasurement {
                    e_better: *e_better,
                    e_worse: *e_worse,
                    p_better: *p_better,
                    ..BankMeasurement::from(utility)
                });
                match occasion {
                    Occasion::Trial => {
                        trial.measured = measured;
                        trial.phase = verdict.map_or(trial.phase, TrialPhase::of);
                    }
                    Occasion::AfterAdmission => trial.fresh = measured,
                    Occasion::Standing | Occasion::Withdrawal => {}
                }
            }
            _ => {}
        }
    }
    trials
}

fn of_record(round: u32, record: &TrialRecord) -> BankTrial {
    let decision = record.decision.as_ref();
    BankTrial {
        trial: record.trial,
        round,
        skill: record.skill.clone(),
        title: clip(&record.title, MAX_TITLE_CHARACTERS),
        tier: record.tier.clone(),
        is_retirement: record.is_retirement,
        phase: match decision {
            Some(decision) => TrialPhase::of(decision.verdict),
            None if record.rollouts > 0 => TrialPhase::Undecided,
            None => TrialPhase::NotTried,
        },
        ground: decision.map(|decision| decision.ground),
        items: record.items.clone(),
        rollouts: Some(record.rollouts),
        max_rollouts: record.preflight.as_ref().map(|preflight| preflight.rollouts),
        power: record.preflight.as_ref().map(|preflight| preflight.rows.clone()).unwrap_or_default(),
        measured: decision.map(|decision| BankMeasurement::from(&decision.numbers)),
        fresh: record.fresh.as_ref().map(BankMeasurement::from),
        problem: record.problem.clone(),
    }
}

fn opened(bank: &Bank, number: u32, round: u32, skill: &SkillRef, max_rollouts: u64) -> BankTrial {
    let title = bank.version(skill).map(|version| clip(version.content.title(), MAX_TITLE_CHARACTERS));
    let tier = bank.skill(&skill.skill).map(|skill| skill.tier.to_string());
    BankTrial {
        trial: number,
        round,
        skill: skill.clone(),
        title: title.unwrap_or_default(),
        tier: tier.unwrap_or_default(),
        is_retirement: false,
        phase: TrialPhase::Open,
        ground: None,
        items: Vec::new(),
        rollouts: None,
        max_rollouts: Some(max_rollouts),
        power: Vec::new(),
        measured: None,
        fresh: None,
        problem: None,
    }
}
