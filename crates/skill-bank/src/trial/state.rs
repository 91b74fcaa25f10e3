//! The results of a trial so far, and its decision.

use super::design::TrialDesign;
use super::error::TrialError;
use super::groups::{TrialGroup, TrialGroups};
use super::numbers::TrialNumbers;
use crate::event::TrialVerdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// It is looked so many times at most whether the candidate can still be shown to help: a look takes a time that grows
/// with the square of the groups, and so would make a long trial's grow with their cube.
const MOST_REACH_LOOKS: u64 = 128;

/// Groups between two looks at a trial, at least.
pub(super) const GROUPS_PER_LOOK: u64 = 16;

/// Why a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ground {
    /// The candidate was shown to help.
    Better,
    /// The candidate was shown to harm.
    Worse,
    /// No outcome of the groups that are left could show that it helps.
    OutOfReach,
    /// The limit of groups was reached.
    Limit,
}

/// The decision of a trial.
///
/// A candidate that can no longer be admitted is rejected if it did no better than nothing on the groups so far, and
/// else undecided: it stays a candidate, and is shown to nobody.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// What becomes of the candidate.
    pub verdict: TrialVerdict,
    /// Why the trial ended here.
    pub ground: Ground,
    /// Groups that were needed for it, from the first one on.
    pub n_groups: u64,
    /// The numbers of these groups.
    pub numbers: TrialNumbers,
}

/// A trial in progress.
///
/// Results may arrive in any order; they count in the order of the design, and the decision depends on nothing but the
/// shortest prefix that decides. A trial of more than 128 groups looks only 128 times, at even distances, whether its
/// candidate is out of reach. What is beyond that prefix is not looked at, so neither the number of workers nor a
/// slow rollout decides anything.
#[derive(Debug, Clone)]
pub struct TrialState {
    design: TrialDesign,
    groups: TrialGroups,
    n_seen: u64,
    /// Results that wait for one before them.
    waiting: BTreeMap<u64, TrialGroup>,
    decision: Option<Decision>,
}

impl TrialState {
    /// A trial of which nothing is known yet.
    pub fn new(design: TrialDesign) -> Self {
        Self {
            groups: TrialGroups::new(&design),
            design,
            n_seen: 0,
            waiting: BTreeMap::new(),
            decision: None,
        }
    }

    /// Takes the result of the group at this place of the design, from 0, and returns the decision if there is one.
    ///
    /// The first result of a place counts. A half may have fewer rollouts than planned, where some could not be made.
    ///
    /// # Errors
    ///
    /// [`TrialError::UnknownGroup`], [`TrialError::WrongRollouts`] and [`TrialError::MissingScores`]; nothing is taken
    /// then.
    pub fn push(
        &mut self,
        place: u64,
        group: impl Into<TrialGroup>,
    ) -> Result<Option<&Decision>, TrialError> {
        let group = group.into();
        if place >= self.design.n_groups() {
            return Err(TrialError::UnknownGroup { group: place, n_groups: self.design.n_groups() });
        }
        let (found, planned) = (group.shape(), self.design.shape());
        if found.new > planned.new || found.old > planned.old {
            return Err(TrialError::WrongRollouts {
                group: place,
                found: u64::from(found.rollouts()),
                planned: u64::from(planned.rollouts()),
            });
        }
        group.check(place, self.design.outcome())?;
        if place >= self.n_seen && self.decision.is_none() {
            self.waiting.entry(place).or_insert(group);
        }
        while self.decision.is_none()
            && let Some(next) = self.waiting.remove(&self.n_seen)
        {
            self.groups.push(next);
            self.n_seen += 1;
            self.decision = self.decided();
        }
        if self.decision.is_some() {
            self.waiting.clear();
        }
        Ok(self.decision.as_ref())
    }

    /// The decision, once there is one.
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// The design.
    pub fn design(&self) -> &TrialDesign {
        &self.design
    }

    /// Groups that count so far: those from the first one on, without a gap, up to the decision.
    pub fn n_seen(&self) -> u64 {
        self.n_seen
    }

    /// The numbers of these groups.
    pub fn numbers(&self) -> TrialNumbers {
        self.groups.numbers()
    }

    /// Groups among these that say something.
    pub fn n_informative(&self) -> u64 {
        self.groups.n_informative()
    }

    /// True if no further group is needed: the trial is decided, at its end, or unlikely to be decided.
    ///
    /// Where every task of the first look came out the same in both halves, more of the same would cost as much and tell
    /// as little.
    pub fn is_over(&self) -> bool {
        let tells_nothing = self.n_seen >= GROUPS_PER_LOOK && self.n_informative() == 0;
        self.decision.is_some() || self.n_seen >= self.design.n_groups() || tells_nothing
    }

    fn decided(&self) -> Option<Decision> {
        let ground = self.ground()?;
        let verdict = match ground {
            Ground::Better => TrialVerdict::Admit,
            Ground::Worse => TrialVerdict::Reject,
            Ground::OutOfReach | Ground::Limit if self.groups.difference() <= 0.0 => TrialVerdict::Reject,
            Ground::OutOfReach | Ground::Limit => TrialVerdict::Undecided,
        };
        Some(Decision { verdict, ground, n_groups: self.n_seen, numbers: self.numbers() })
    }

    fn ground(&self) -> Option<Ground> {
        let n_informative = self.groups.n_informative();
        let is_informed = self.design.max_informative_groups().is_some_and(|most| n_informative >= most);
        let is_end = is_informed || self.n_seen >= self.design.n_groups();
        let is_look = is_end || self.design.rule().is_look(self.n_seen, self.design.n_groups());
        if is_look && self.groups.is_better(self.design.rule()) {
            return Some(Ground::Better);
        }
        if self.groups.is_worse() {
            return Some(Ground::Worse);
        }
        if is_end {
            return Some(Ground::Limit);
        }
        let is_reach_look =
            self.n_seen.is_multiple_of(self.design.n_groups().div_ceil(MOST_REACH_LOOKS).max(1));
        (is_reach_look && !self.can_be_better()).then_some(Ground::OutOfReach)
    }

    fn can_be_better(&self) -> bool {
        let n_left = self.design.n_groups().saturating_sub(self.n_seen);
        let n_left = match self.design.max_informative_groups() {
            Some(most) => n_left.min(most.saturating_sub(self.groups.n_informative())),
            None => n_left,
        };
        self.groups.can_be_better(self.design.rule(), self.design.shape(), n_left)
    }
}
