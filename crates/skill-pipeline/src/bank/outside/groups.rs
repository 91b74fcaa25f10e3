//! The groups of a trial, and those behind it that measure what it has admitted.

use skill_bank::Occasion;
use skill_bank::trial::{
    Decision, TrialDesign, TrialError, TrialGroup, TrialGroups, TrialNumbers, TrialState,
};

/// What the groups of one candidate have shown, in the order of its design.
pub(super) enum SeenGroups {
    /// They decide about it.
    Trial(TrialState),
    /// They measure it once it was admitted: the numbers that admit a skill are too good on average.
    AfterAdmission {
        /// That of the trial, with more groups.
        design: TrialDesign,
        groups: TrialGroups,
        /// The first place behind the trial.
        first: u64,
        /// The next place to be seen.
        next: u64,
    },
}

impl SeenGroups {
    pub(super) fn of_trial(design: TrialDesign) -> Self {
        Self::Trial(TrialState::new(design))
    }

    pub(super) fn after_admission(design: TrialDesign, first: u64) -> Self {
        let groups = TrialGroups::new(&design);
        Self::AfterAdmission { design, groups, first, next: first }
    }

    pub(super) fn design(&self) -> &TrialDesign {
        match self {
            Self::Trial(state) => state.design(),
            Self::AfterAdmission { design, .. } => design,
        }
    }

    pub(super) fn occasion(&self) -> Occasion {
        match self {
            Self::Trial(_) => Occasion::Trial,
            Self::AfterAdmission { .. } => Occasion::AfterAdmission,
        }
    }

    /// The place that the first group has in the design.
    pub(super) fn first(&self) -> u64 {
        match self {
            Self::Trial(_) => 0,
            Self::AfterAdmission { first, .. } => *first,
        }
    }

    /// The place of the next group.
    pub(super) fn next(&self) -> u64 {
        match self {
            Self::Trial(state) => state.n_seen(),
            Self::AfterAdmission { next, .. } => *next,
        }
    }

    /// Takes the group of the next place.
    pub(super) fn push(&mut self, group: TrialGroup) -> Result<(), TrialError> {
        match self {
            Self::Trial(state) => state.push(state.n_seen(), group).map(drop),
            Self::AfterAdmission { groups, next, .. } => {
                groups.push(group);
                *next += 1;
                Ok(())
            }
        }
    }

    pub(super) fn numbers(&self) -> TrialNumbers {
        match self {
            Self::Trial(state) => state.numbers(),
            Self::AfterAdmission { groups, .. } => groups.numbers(),
        }
    }

    /// What a trial has decided.
    pub(super) fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Trial(state) => state.decision(),
            Self::AfterAdmission { .. } => None,
        }
    }

    /// True if no further group is played.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Trial(state) => state.is_over(),
            Self::AfterAdmission { design, next, .. } => *next >= design.n_groups(),
        }
    }
}
