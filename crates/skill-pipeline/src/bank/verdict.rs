//! What becomes of skills: verdicts of trials, retirements, and what a person has decided meanwhile.

use super::run::BankRun;
use crate::error::PipelineError;
use crate::records::bank::{RoundRecord, TrialRecord};
use skill_bank::trial::{Candidacy, Consequence, Decision, MIN_STANDING_GROUPS, obstacle, over_cap_of};
use skill_bank::{BankEvent, Occasion, Reason, SkillRef, TrialVerdict};

impl BankRun<'_> {
    /// Why an active skill is not retired.
    fn obstacle(&self, skill: &SkillRef) -> Option<String> {
        obstacle(self.bank.bank(), skill, true)
    }

    /// Has a candidate wait again whose trial ended without a verdict.
    pub(super) async fn release(&mut self, tried: &Candidacy, round: u32) -> Result<(), PipelineError> {
        let released = tried.released(self.bank.bank());
        match released {
            Some(released) => self.record_events(round, [released]).await,
            None => Ok(()),
        }
    }

    /// Records what a trial has shown and carries out its verdict; returns whether the candidate became active.
    pub(super) async fn decide(
        &mut self,
        tried: &Candidacy,
        decision: Decision,
        trial: &mut TrialRecord,
        record: &mut RoundRecord,
    ) -> Result<bool, PipelineError> {
        let skill = trial.skill.clone();
        trial.decision = Some(decision);
        // An event of its own: a process may be killed before the next one, and a person may come between them.
        let shown = decision.numbers.measured(&skill, Occasion::Trial, Some(decision.verdict));
        self.record_events(record.round, [shown]).await?;
        if decision.verdict == TrialVerdict::Undecided {
            *self.e_before.entry(skill).or_insert(1.0) *= decision.numbers.e_better;
            return Ok(false);
        }
        self.e_before.remove(&skill);
        match tried.consequence(self.bank.bank(), decision.verdict) {
            Consequence::Nothing => return Ok(false),
            Consequence::Hindered(problem) => {
                trial.problem = Some(problem);
                self.release(tried, record.round).await?;
                return Ok(false);
            }
            Consequence::Event(event) => self.record_events(record.round, [*event]).await?,
        }
        self.tell_changes();
        if decision.verdict == TrialVerdict::Reject {
            record.retired.push(skill);
            return Ok(false);
        }
        record.admitted.push(skill);
        self.n_admitted_since_validation += 1;
        self.n_admissions += 1;
        Ok(true)
    }

    /// Retires what the standing check has shown to harm, and notes what it knows.
    pub(super) async fn check_standing(&mut self, record: &mut RoundRecord) -> Result<(), PipelineError> {
        let harmful: Vec<SkillRef> =
            self.standing.harmful(MIN_STANDING_GROUPS).into_iter().cloned().collect();
        for skill in harmful {
            let Some(numbers) = self.standing.numbers(&skill) else { continue };
            if self.obstacle(&skill).is_some() {
                continue;
            }
            let shown = numbers.measured(&skill, Occasion::Standing, None);
            self.record_events(record.round, [shown]).await?;
            if self.obstacle(&skill).is_none() {
                let retired = BankEvent::Retired { skill: skill.clone(), reason: Reason::Harmful };
                self.record_events(record.round, [retired]).await?;
                record.retired.push(skill);
            }
        }
        record.standing = self.standing.all().map(|(skill, numbers)| (skill.to_string(), numbers)).collect();
        self.tell_standing(record);
        Ok(())
    }

    /// Retires the least useful skills of tiers that hold more than they may.
    pub(super) async fn retire_over_cap(&mut self, record: &mut RoundRecord) -> Result<(), PipelineError> {
        let retired = over_cap_of(self.bank.bank(), self.settings().max_active);
        for skill in retired {
            if self.obstacle(&skill).is_none() {
                let event = BankEvent::Retired { skill: skill.clone(), reason: Reason::OverCap };
                self.record_events(record.round, [event]).await?;
                record.retired.push(skill);
            }
        }
        Ok(())
    }
}
