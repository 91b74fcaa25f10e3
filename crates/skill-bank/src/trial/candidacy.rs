//! Trials of skills, for banks, GRPO and external trainers: the next version to try, what each half is shown, the design,
//! and the consequence of a verdict.
//!
//! People may retire, restore or pin skills at any time, so each step reads the bank again.

use super::design::{TrialDesign, TrialSettings};
use super::error::TrialError;
use super::items::{ItemRate, TriedItems};
use super::standing::over_cap;
use super::state::GROUPS_PER_LOOK;
use crate::bank::Bank;
use crate::event::{BankEvent, Basis, Occasion, Reason, TrialVerdict};
use crate::skill::{SkillRef, State, Tier, Utility, ViewedSkill};
use crate::view::BankView;
use skill_core::stats::stratified::TrialRule;
use std::collections::BTreeSet;

/// Groups that must tell something before the standing check retires a skill.
pub const MIN_STANDING_GROUPS: u64 = 8;

/// A version of a skill that is on trial, or may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidacy {
    /// The version.
    pub skill: SkillRef,
    /// True if the trial decides whether an active version is retired.
    pub is_retirement: bool,
}

/// The consequence of a verdict.
#[derive(Debug, Clone, PartialEq)]
pub enum Consequence {
    /// No change.
    Nothing,
    /// This event is recorded.
    Event(Box<BankEvent>),
    /// No change, because the bank no longer allows it; the reason.
    Hindered(String),
}

impl Candidacy {
    /// The next trial: proposed retirements first, then the candidate that was tried least, and the earliest in the bank
    /// of equal ones.
    ///
    /// Removes the retirements that it considers. A candidate that was tried `most` times is skipped.
    pub fn next(
        bank: &Bank,
        retirements: &mut Vec<SkillRef>,
        n_tried: impl Fn(&SkillRef) -> u32,
        most: u32,
    ) -> Option<Self> {
        while !retirements.is_empty() {
            let skill = retirements.remove(0);
            if obstacle(bank, &skill, true).is_none() {
                return Some(Self { skill, is_retirement: true });
            }
        }
        let candidates = bank.candidates().filter(|candidate| obstacle(bank, candidate, false).is_none());
        let candidates = candidates.filter(|candidate| n_tried(candidate) < most);
        candidates.min_by_key(&n_tried).map(|skill| Self { skill, is_retirement: false })
    }

    /// The reason why it cannot be tried, if there is one; see [`obstacle`].
    pub fn obstacle(&self, bank: &Bank) -> Option<String> {
        obstacle(bank, &self.skill, self.is_retirement)
    }

    /// The banks that the two halves are shown: without the version, and with it.
    pub fn arms(&self, bank: &Bank) -> [BankView; 2] {
        let view = bank.view();
        if self.is_retirement {
            return [view.without(&self.skill), view];
        }
        let with = with_skill(bank, &self.skill);
        [view, with]
    }

    /// The design of a trial on some of the tasks that would be shown the candidate.
    ///
    /// An anytime-valid trial is evaluated after whole passes over its tasks, each of at least as many groups as in the
    /// simulations of the page on trials.
    ///
    /// # Errors
    ///
    /// Those of [`TriedItems::choose`] and [`TrialDesign::new`].
    pub fn design(
        &self,
        bank: &Bank,
        eligible: &[ItemRate],
        settings: TrialSettings,
        seed: u64,
    ) -> Result<TrialDesign, TrialError> {
        let evidence = bank.version(&self.skill).map(|version| version.evidence.clone()).unwrap_or_default();
        let items = TriedItems::choose(&self.skill, &evidence, eligible, settings.max_items, seed)?;
        let n_items = (items.as_slice().len() as u64).max(1);
        let look = u32::try_from(GROUPS_PER_LOOK.div_ceil(n_items) * n_items).unwrap_or(u32::MAX);
        let rule = match settings.rule {
            TrialRule::AnyTime { threshold, .. } => TrialRule::AnyTime { threshold, groups_per_look: look },
            rule => rule,
        };
        TrialDesign::new(self.skill.clone(), items, &TrialSettings { rule, ..settings }, seed)
    }

    /// The event that opens a trial of this design.
    pub fn opened(&self, design: &TrialDesign) -> BankEvent {
        BankEvent::TrialOpened {
            skill: self.skill.clone(),
            max_rollouts: design.n_rollouts(),
            design_sha256: design.sha256(),
        }
    }

    /// The event that ends an open trial without a verdict, so that the candidate waits again; `None` without an open
    /// trial.
    pub fn released(&self, bank: &Bank) -> Option<BankEvent> {
        (self.state(bank) == Some(State::Trial)).then(|| BankEvent::Measured {
            skill: self.skill.clone(),
            occasion: Occasion::Trial,
            utility: None,
            verdict: Some(TrialVerdict::Undecided),
            e_better: None,
            e_worse: None,
            p_better: None,
        })
    }

    /// The consequence of this verdict in this bank.
    pub fn consequence(&self, bank: &Bank, verdict: TrialVerdict) -> Consequence {
        let event = match (verdict, self.is_retirement) {
            // An active skill that helps stays.
            (TrialVerdict::Undecided, _) | (TrialVerdict::Admit, true) => return Consequence::Nothing,
            (TrialVerdict::Admit, false) => self.admission(bank),
            (TrialVerdict::Reject, true) => {
                BankEvent::Retired { skill: self.skill.clone(), reason: Reason::Proposed }
            }
            (TrialVerdict::Reject, false) => {
                BankEvent::Retired { skill: self.skill.clone(), reason: Reason::Trial }
            }
        };
        // A rejected candidate replaces no skill, so pinned skills do not matter.
        let only_ends =
            verdict == TrialVerdict::Reject && !self.is_retirement && self.state(bank) == Some(State::Trial);
        match self.obstacle(bank).filter(|_| !only_ends) {
            Some(problem) => Consequence::Hindered(problem),
            None => Consequence::Event(Box::new(event)),
        }
    }

    fn state(&self, bank: &Bank) -> Option<State> {
        bank.version(&self.skill).map(|version| version.state)
    }

    /// The event that makes a candidate active and retires what it was made from.
    fn admission(&self, bank: &Bank) -> BankEvent {
        let (skill, basis) = (self.skill.clone(), Basis::Trial);
        let replaced = bank.replaced_by(&skill);
        if let Some(own) = replaced.iter().find(|replaced| replaced.skill == skill.skill) {
            return BankEvent::Revised { skill, from: own.version, basis };
        }
        if replaced.is_empty() {
            return BankEvent::Admitted { skill, basis };
        }
        let from = replaced.into_iter().map(|replaced| replaced.skill).collect();
        BankEvent::Merged { skill, from, basis }
    }
}

/// The reason why a version cannot be tried, or an active one not be retired; `None` if it can.
pub fn obstacle(bank: &Bank, skill: &SkillRef, is_retirement: bool) -> Option<String> {
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

/// The active skills with this one first in its tier, so that retrieval selects it, and without those that it replaces.
pub fn with_skill(bank: &Bank, skill: &SkillRef) -> BankView {
    let view = bank.view();
    let Some(viewed) = bank.viewed(skill) else { return view };
    let utility = Utility {
        difference: 1.0,
        interval: [1.0, 1.0],
        with: [0, 0],
        without: [0, 0],
        informative_groups: 0,
    };
    view.with(ViewedSkill { utility: Some(utility), ..viewed }, &bank.replaced_by(skill))
}

/// The least useful skills of each tier with more than `max_active`; see [`over_cap`].
pub fn over_cap_of(bank: &Bank, max_active: usize) -> Vec<SkillRef> {
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
