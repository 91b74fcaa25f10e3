//! What a person can follow of a bank's training: events are made here, and nothing is decided.

use super::run::BankRun;
use crate::event::{Activation, Event, EventSink as _, NamedSkill, Stage};
use crate::records::bank::{RoundRecord, TrialRecord, ValidationRecord};
use crate::shell::spans;
use skill_bank::trial::{TrialDesign, TrialState};
use skill_bank::{BankEvent, Record, SkillRef};
use skill_core::StepIdx;
use std::ops::Range;

impl BankRun<'_> {
    /// Rounds that earlier processes have finished, without the distillation.
    pub(super) fn finished_rounds(&self) -> u32 {
        let is_finished = |round: &u32| self.round_file(*round).is_file();
        (1..=self.rounds()).take_while(is_finished).last().unwrap_or_default()
    }

    fn n_active(&self) -> usize {
        self.bank.bank().view().skills().len()
    }

    pub(super) fn tell_round(&mut self, round: u32, rounds: u32) {
        // What a person has changed between two processes comes before what this one does.
        self.tell_changes();
        let (n_active, n_waiting) = (self.n_active(), self.waiting().len());
        self.log.emit(&Event::RoundStarted { round, rounds, n_active, n_waiting });
    }

    /// Says that a teacher is asked: stages with rollouts say it themselves.
    pub(super) fn tell_stage(&self, step: Option<StepIdx>, stage: Stage, total: usize) {
        self.log.emit(&Event::StageStarted { step, stage, total });
    }

    pub(super) fn tell_proposals(&mut self, stage: Stage, record: &RoundRecord) {
        self.log.emit(&Event::SkillsProposed {
            round: record.round,
            stage,
            weak: record.weak.clone(),
            skills: record.proposed.iter().map(|skill| self.named(skill)).collect(),
            n_left_out: record.left_out.len(),
        });
        self.tell_changes();
    }

    pub(super) fn tell_trial(&self, round: u32, trial: &TrialRecord, design: &TrialDesign) {
        spans::begin_trial(trial, design.n_rollouts());
        let Some(preflight) = trial.preflight.clone() else { return };
        self.log.emit(&Event::TrialStarted {
            round,
            trial: trial.trial,
            skill: trial.skill.to_string(),
            title: trial.title.clone(),
            tier: trial.tier.clone(),
            is_retirement: trial.is_retirement,
            n_items: trial.items.len(),
            max_rollouts: design.n_rollouts(),
            rule: design.rule(),
            preflight,
        });
    }

    pub(super) fn tell_numbers(&self, round: u32, trial: &TrialRecord, state: &TrialState) {
        let design = state.design();
        self.log.emit(&Event::TrialMeasured {
            round,
            trial: trial.trial,
            skill: trial.skill.to_string(),
            rollouts: trial.rollouts,
            max_rollouts: design.n_rollouts(),
            is_look: design.rule().is_look(state.n_seen(), design.n_groups()),
            numbers: Box::new(state.numbers()),
        });
    }

    pub(super) fn tell_fresh(
        &self,
        round: u32,
        trial: &TrialRecord,
        design: &TrialDesign,
        places: &Range<u64>,
    ) {
        let n_groups = places.end.saturating_sub(places.start);
        self.log.emit(&Event::FreshStarted {
            round,
            trial: trial.trial,
            skill: trial.skill.to_string(),
            n_rollouts: n_groups.saturating_mul(u64::from(design.shape().rollouts())),
        });
    }

    pub(super) fn tell_standing(&mut self, record: &RoundRecord) {
        if !record.standing.is_empty() {
            let (round, skills) = (record.round, record.standing.clone());
            self.log.emit(&Event::StandingChecked { round, skills });
        }
        self.tell_changes();
    }

    pub(super) fn tell_validation(&self, round: u32, validation: &ValidationRecord) {
        self.log.emit(&Event::BankValidated {
            round,
            score: validation.score,
            n_items: validation.n,
            n_active: self.n_active(),
            by_task_type: validation.by_task_type.clone(),
        });
    }

    /// Tells which skills became active and which were retired since this was called last, by the bank's log.
    pub(super) fn tell_changes(&mut self) {
        let bank = self.bank.bank();
        let n_active = self.n_active();
        let admitted = |record: &Record, skill: &SkillRef, how, replaces| Event::SkillAdmitted {
            round: record.round,
            skill: self.named(skill),
            how,
            replaces,
            by: record.by,
            n_active,
        };
        let told = |record: &Record| match &record.event {
            BankEvent::Admitted { skill, .. } => {
                Some(admitted(record, skill, Activation::Admitted, Vec::new()))
            }
            BankEvent::Restored { skill } => Some(admitted(record, skill, Activation::Restored, Vec::new())),
            BankEvent::Revised { skill, from, .. } => {
                let earlier = SkillRef::new(skill.skill.clone(), *from);
                Some(admitted(record, skill, Activation::Revised, vec![earlier.to_string()]))
            }
            BankEvent::Merged { skill, from, .. } => {
                let replaces = from.iter().map(ToString::to_string).collect();
                Some(admitted(record, skill, Activation::Merged, replaces))
            }
            BankEvent::Retired { skill, reason } => Some(Event::SkillRetired {
                round: record.round,
                skill: self.named(skill),
                reason: *reason,
                by: record.by,
                n_active,
            }),
            // The others have events of their own, or change no skill that is shown.
            _ => None,
        };
        let events: Vec<Event> = bank.log().iter().skip(self.n_told).filter_map(told).collect();
        self.n_told = bank.log().len();
        for event in &events {
            self.log.emit(event);
        }
    }

    fn named(&self, skill: &SkillRef) -> NamedSkill {
        let bank = self.bank.bank();
        NamedSkill {
            skill: skill.clone(),
            title: bank.version(skill).map(|version| version.content.title().to_owned()).unwrap_or_default(),
            tier: bank.skill(&skill.skill).map(|skill| skill.tier.to_string()).unwrap_or_default(),
        }
    }
}
