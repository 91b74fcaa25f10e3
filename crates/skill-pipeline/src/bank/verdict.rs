//! What becomes of skills: verdicts of trials, retirements, and what a person has decided meanwhile.

use super::record::{RoundRecord, TrialRecord};
use super::run::{BankRun, MIN_STANDING_GROUPS};
use crate::error::PipelineError;
use skill_bank::trial::{Decision, TrialNumbers, over_cap};
use skill_bank::{Bank, BankEvent, Basis, Occasion, Reason, SkillRef, State, Tier, Verdict};
use std::collections::BTreeSet;

impl BankRun<'_> {
    /// See [`obstacle`].
    pub(super) fn obstacle(&self, skill: &SkillRef, is_retirement: bool) -> Option<String> {
        obstacle(self.bank.bank(), skill, is_retirement)
    }

    /// Has a candidate wait again whose trial ended without a verdict.
    pub(super) async fn release(&mut self, candidate: &SkillRef, round: u32) -> Result<(), PipelineError> {
        let state = self.bank.bank().version(candidate).map(|version| version.state);
        if state != Some(State::Trial) {
            return Ok(());
        }
        self.record_events(round, [released(candidate)]).await
    }

    /// Records what a trial has shown and carries out its verdict; returns whether the candidate became active.
    pub(super) async fn decide(
        &mut self,
        decision: Decision,
        trial: &mut TrialRecord,
        record: &mut RoundRecord,
    ) -> Result<bool, PipelineError> {
        let skill = trial.skill.clone();
        trial.decision = Some(decision);
        // An event of its own: a process may be killed before the next one, and a person may come between them.
        let shown = measured(&skill, Occasion::Trial, &decision.numbers, Some(decision.verdict));
        self.record_events(record.round, [shown]).await?;
        if decision.verdict != Verdict::Undecided {
            self.e_before.remove(&skill);
        }
        if decision.verdict == Verdict::Undecided {
            *self.e_before.entry(skill).or_insert(1.0) *= decision.numbers.e_better;
            return Ok(false);
        }
        let Some(event) = consequence(self.bank.bank(), &skill, decision.verdict, trial.is_retirement) else {
            return Ok(false);
        };
        if let Some(problem) =
            obstacle_to_verdict(self.bank.bank(), &skill, decision.verdict, trial.is_retirement)
        {
            trial.problem = Some(problem);
            self.release(&skill, record.round).await?;
            return Ok(false);
        }
        self.record_events(record.round, [event]).await?;
        self.tell_changes();
        if decision.verdict == Verdict::Reject {
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
            if self.obstacle(&skill, true).is_some() {
                continue;
            }
            let shown = measured(&skill, Occasion::Standing, &numbers, None);
            self.record_events(record.round, [shown]).await?;
            if self.obstacle(&skill, true).is_none() {
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
            if self.obstacle(&skill, true).is_none() {
                let event = BankEvent::Retired { skill: skill.clone(), reason: Reason::OverCap };
                self.record_events(record.round, [event]).await?;
                record.retired.push(skill);
            }
        }
        Ok(())
    }
}

/// Why a version cannot be tried, or its verdict not be carried out; `None` where nothing is in the way.
///
/// Between two processes of a run a person may retire, restore or pin any skill.
pub(crate) fn obstacle(bank: &Bank, skill: &SkillRef, is_retirement: bool) -> Option<String> {
    let Some((owner, version)) = bank.skill(&skill.skill).zip(bank.version(skill)) else {
        return Some("the bank does not contain it".to_owned());
    };
    let is_expected = match version.state {
        State::Active => is_retirement,
        State::Candidate | State::Trial => !is_retirement,
        State::Retired => false,
    };
    if !is_expected {
        return Some(format!("its state is `{}`", version.state.as_str()));
    }
    if is_retirement {
        return owner.is_pinned.then(|| "it is pinned".to_owned());
    }
    let replaced = bank.replaced_by(skill).into_iter().map(|replaced| replaced.skill);
    let mut pinned = replaced.filter(|id| bank.skill(id).is_some_and(|skill| skill.is_pinned));
    pinned.next().map(|id| format!("it would replace {id}, which is pinned"))
}

/// Why the verdict of a trial cannot be carried out.
pub(crate) fn obstacle_to_verdict(
    bank: &Bank,
    skill: &SkillRef,
    verdict: Verdict,
    is_retirement: bool,
) -> Option<String> {
    // A candidate that failed takes nobody's place, so a pin is not in its way.
    let is_open = bank.version(skill).is_some_and(|version| version.state == State::Trial);
    let only_ends = verdict == Verdict::Reject && !is_retirement && is_open;
    obstacle(bank, skill, is_retirement).filter(|_| !only_ends)
}

/// The event that a verdict brings about; `None` where everything stays as it is.
pub(crate) fn consequence(
    bank: &Bank,
    skill: &SkillRef,
    verdict: Verdict,
    is_retirement: bool,
) -> Option<BankEvent> {
    match (verdict, is_retirement) {
        // An active skill that helps stays.
        (Verdict::Undecided, _) | (Verdict::Admit, true) => None,
        (Verdict::Admit, false) => Some(admission(bank, skill)),
        (Verdict::Reject, true) => {
            Some(BankEvent::Retired { skill: skill.clone(), reason: Reason::Proposed })
        }
        (Verdict::Reject, false) => Some(BankEvent::Retired { skill: skill.clone(), reason: Reason::Trial }),
    }
}

/// The event that ends a trial without a verdict, so that the candidate waits again.
pub(crate) fn released(candidate: &SkillRef) -> BankEvent {
    BankEvent::Measured {
        skill: candidate.clone(),
        occasion: Occasion::Trial,
        utility: None,
        verdict: Some(Verdict::Undecided),
        e_better: None,
        e_worse: None,
        p_better: None,
    }
}

/// The least useful skills of tiers that hold more than so many.
pub(crate) fn over_cap_of(bank: &Bank, max_active: usize) -> Vec<SkillRef> {
    let view = bank.view();
    let pinned: BTreeSet<_> =
        bank.skills().filter(|skill| skill.is_pinned).map(|skill| skill.id.clone()).collect();
    let tiers: BTreeSet<&Tier> = view.skills().iter().map(|skill| &skill.tier).collect();
    let retired = tiers.into_iter().flat_map(|tier| {
        let of_tier: Vec<_> = view.tier(tier).map(|(_, skill)| skill.clone()).collect();
        over_cap(&of_tier, max_active, &pinned, MIN_STANDING_GROUPS).retired
    });
    retired.collect()
}

pub(crate) fn measured(
    skill: &SkillRef,
    occasion: Occasion,
    numbers: &TrialNumbers,
    verdict: Option<Verdict>,
) -> BankEvent {
    BankEvent::Measured {
        skill: skill.clone(),
        occasion,
        utility: numbers.utility(),
        verdict,
        e_better: Some(numbers.e_better),
        e_worse: Some(numbers.e_worse),
        p_better: Some(numbers.p_better),
    }
}

/// The event by which a trial makes a candidate active: in the place of what it was made from.
fn admission(bank: &Bank, candidate: &SkillRef) -> BankEvent {
    let replaced = bank.replaced_by(candidate);
    let basis = Basis::Trial;
    if let Some(own) = replaced.iter().find(|replaced| replaced.skill == candidate.skill) {
        return BankEvent::Revised { skill: candidate.clone(), from: own.version, basis };
    }
    if replaced.is_empty() {
        return BankEvent::Admitted { skill: candidate.clone(), basis };
    }
    let from = replaced.into_iter().map(|replaced| replaced.skill).collect();
    BankEvent::Merged { skill: candidate.clone(), from, basis }
}
