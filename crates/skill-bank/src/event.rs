//! What happens to a bank, as events: the bank is the sum of them.

use crate::skill::{Content, Evidence, SkillProvenance, SkillRef, Tier, Utility};
use serde::{Deserialize, Serialize};
use skill_core::SkillPartId;

/// One line of a bank's log.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Record {
    /// Its number, from 1.
    pub n: u64,
    /// The round of evolution; 0 before the first.
    #[serde(skip_serializing_if = "is_zero")]
    pub round: u32,
    /// Who did it.
    pub by: Author,
    /// What happened.
    #[serde(flatten)]
    pub event: BankEvent,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands the field by reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

skill_core::named_enum! {
    /// Who changes a bank.
    pub enum Author {
        /// A run or a command of this program.
        Process = "process",
        /// A person.
        Person = "person",
    }
}

/// What happened to a bank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum BankEvent {
    /// The bank of another system was read: its skills follow, each proposed and admitted.
    Imported {
        /// The format of the file.
        format: String,
        /// The SHA-256 of the file.
        sha256: String,
    },
    /// A version of a skill was proposed: the first one of a new skill, or a later one of a skill that is there.
    Proposed {
        /// The version.
        skill: SkillRef,
        /// Its tier: that of the skill.
        tier: Tier,
        /// What it says.
        #[serde(deserialize_with = "crate::skill::written::content")]
        content: Content,
        /// Who it comes from.
        source: SkillProvenance,
        /// The versions that it was made from: one for a revision, several for a merger.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parents: Vec<SkillRef>,
        /// What it was made from.
        #[serde(default)]
        evidence: Evidence,
    },
    /// A trial of a candidate began.
    TrialOpened {
        /// The candidate.
        skill: SkillRef,
        /// How many rollouts it takes at most.
        max_rollouts: u64,
        /// The SHA-256 of its design.
        design_sha256: String,
    },
    /// The worth of a version was measured.
    Measured {
        /// The version.
        skill: SkillRef,
        /// The occasion.
        occasion: Occasion,
        /// What came out; `None` where no group told anything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        utility: Option<Utility>,
        /// What a trial decided; `None` for other occasions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verdict: Option<TrialVerdict>,
        /// The e-value for "better", where it was computed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        e_better: Option<f64>,
        /// The e-value for "worse", where it was computed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        e_worse: Option<f64>,
        /// The exact p-value for "better", where it was computed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        p_better: Option<f64>,
    },
    /// A new skill became active.
    Admitted {
        /// The version.
        skill: SkillRef,
        /// Why.
        basis: Basis,
    },
    /// A later version of a skill became active, in the place of an earlier one.
    Revised {
        /// The version that is active now.
        skill: SkillRef,
        /// The one that was.
        from: u32,
        /// Why.
        basis: Basis,
    },
    /// A new skill became active, in the place of those that it was merged from.
    Merged {
        /// The version that is active now.
        skill: SkillRef,
        /// The skills that it replaces, which are retired.
        from: Vec<SkillPartId>,
        /// Why.
        basis: Basis,
    },
    /// A person keeps a skill as it is.
    Pinned {
        /// The skill.
        skill: SkillPartId,
    },
    /// A person lets processes change a skill again.
    Unpinned {
        /// The skill.
        skill: SkillPartId,
    },
    /// A version is shown to nobody any longer.
    Retired {
        /// The version.
        skill: SkillRef,
        /// Why.
        reason: Reason,
    },
    /// A retired version is active again, under its id.
    Restored {
        /// The version.
        skill: SkillRef,
    },
}

impl BankEvent {
    /// The proposal of a version that was made from no other.
    pub fn proposed(
        skill: SkillRef,
        tier: Tier,
        content: Content,
        source: SkillProvenance,
        evidence: Evidence,
    ) -> Self {
        Self::Proposed { skill, tier, content, source, parents: Vec::new(), evidence }
    }
}

skill_core::named_enum! {
    /// The occasion of a measurement.
    pub enum Occasion {
        /// A trial, which decides on a candidate.
        Trial = "trial",
        /// A fresh measurement after admission: the one that admitted is too good on average.
        AfterAdmission = "after_admission",
        /// The standing check, which hides shown skills at random.
        Standing = "standing",
        /// A comparison of the policy under training with the skill and without it.
        Withdrawal = "withdrawal",
    }
}

skill_core::named_enum! {
    /// What a trial decides.
    pub enum TrialVerdict {
        /// The candidate helps.
        Admit = "admit",
        /// The candidate harms, or cannot be shown to help within the limit.
        Reject = "reject",
        /// The rollouts do not tell.
        Undecided = "undecided",
    }
}

skill_core::named_enum! {
    /// Why a skill is active.
    pub enum Basis {
        /// A trial showed that it helps.
        Trial = "trial",
        /// It was let in without a measurement.
        Unmeasured = "unmeasured",
        /// A person wanted it.
        Person = "person",
    }
}

skill_core::named_enum! {
    /// Why a version was retired.
    pub enum Reason {
        /// A trial rejected it.
        Trial = "trial",
        /// A measurement showed that it harms.
        Harmful = "harmful",
        /// The policy that was trained with it succeeds as often without it.
        Internalized = "internalized",
        /// Its tier held too many skills, and it was worth least.
        OverCap = "over_cap",
        /// A later version took its place.
        Revised = "revised",
        /// It was merged into another skill.
        Merged = "merged",
        /// A teacher proposed it; unless changes are applied unmeasured, a trial has rejected the skill first.
        Proposed = "proposed",
        /// A person did it.
        Person = "person",
    }
}
