//! Where a skill comes from, and the name that follows from it: how records, state and reports refer to a skill.
//!
//! Nothing here holds a skill's text; [`SkillHash`](crate::SkillHash) says what a text is.

use crate::ids::{EpochIdx, StepIdx};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Names one skill of a run.
///
/// Two skills of a run have two ids: what made them, and which of its candidates each is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SkillId {
    /// What made it.
    pub origin: SkillOrigin,
    /// The number of the candidate among those of its origin, from 0; left out where it is 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub candidate: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_first(candidate: &u32) -> bool {
    *candidate == 0
}

/// What made a skill.
///
/// The order is that of a run: the initial skill, then each step, and after the last step of an epoch its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SkillOrigin {
    /// The run began with it.
    Initial,
    /// The edits of a step.
    Step {
        /// The step, from 1.
        step: StepIdx,
    },
    /// The guidance of an epoch's end.
    EpochEnd {
        /// The epoch, from 1.
        epoch: EpochIdx,
        /// The last step of the epoch.
        step: StepIdx,
    },
    /// Another system: the run only holds it.
    Import,
    /// A trial outside of the loop of steps, such as pruning.
    Trial,
}

impl SkillId {
    /// The initial skill of a run.
    pub const INITIAL: Self = Self::of(SkillOrigin::Initial);

    /// The first, and usually only, candidate of an origin.
    pub const fn of(origin: SkillOrigin) -> Self {
        Self { origin, candidate: 0 }
    }

    /// The skill of a step; of step 0 it is the initial skill.
    pub const fn of_step(step: StepIdx) -> Self {
        Self::of(SkillOrigin::of_step(step))
    }
}

impl SkillOrigin {
    /// The origin of a step's skill; step 0 is [`SkillOrigin::Initial`].
    pub const fn of_step(step: StepIdx) -> Self {
        if step.0 == 0 { Self::Initial } else { Self::Step { step } }
    }

    /// The last step that was finished when the skill was made; 0 before the first one, and outside of steps.
    pub const fn step(self) -> StepIdx {
        match self {
            Self::Step { step } | Self::EpochEnd { step, .. } => step,
            Self::Initial | Self::Import | Self::Trial => StepIdx(0),
        }
    }

    /// The epoch whose end made the skill; `None` if something else did.
    pub const fn ended_epoch(self) -> Option<EpochIdx> {
        match self {
            Self::EpochEnd { epoch, .. } => Some(epoch),
            Self::Initial | Self::Step { .. } | Self::Import | Self::Trial => None,
        }
    }

    /// The place of an origin in a run: step, then whether it is after the step's epoch, then the kind.
    const fn place(self) -> (u32, u32, u8) {
        let kind = match self {
            Self::Initial => 0,
            Self::Step { .. } => 1,
            Self::EpochEnd { .. } => 2,
            Self::Import => 3,
            Self::Trial => 4,
        };
        let epoch = match self.ended_epoch() {
            Some(epoch) => epoch.0,
            None => 0,
        };
        (self.step().0, epoch, kind)
    }
}

impl PartialOrd for SkillOrigin {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SkillOrigin {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place().cmp(&other.place())
    }
}

impl fmt::Display for SkillOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Initial => f.write_str("the initial skill"),
            Self::Step { step } => write!(f, "step {step}"),
            Self::EpochEnd { epoch, .. } => write!(f, "the end of epoch {epoch}"),
            Self::Import => f.write_str("an import"),
            Self::Trial => f.write_str("a trial"),
        }
    }
}

impl fmt::Display for SkillId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.candidate {
            0 => self.origin.fmt(f),
            candidate => write!(f, "candidate {candidate} of {}", self.origin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const END: SkillOrigin = SkillOrigin::EpochEnd { epoch: EpochIdx(2), step: StepIdx(6) };

    #[track_caller]
    fn check(id: SkillId, expect: serde_json::Value) {
        let written = serde_json::to_value(id).unwrap();
        assert_eq!(written, expect);
        assert_eq!(serde_json::from_value::<SkillId>(written).unwrap(), id);
    }

    #[test]
    fn an_id_is_written_with_its_origin() {
        check(SkillId::INITIAL, json!({"origin": {"kind": "initial"}}));
        check(SkillId::of_step(StepIdx(3)), json!({"origin": {"kind": "step", "step": 3}}));
        check(SkillId::of(END), json!({"origin": {"kind": "epoch_end", "epoch": 2, "step": 6}}));
        check(SkillId::of(SkillOrigin::Import), json!({"origin": {"kind": "import"}}));
        check(
            SkillId { candidate: 2, ..SkillId::of(SkillOrigin::Trial) },
            json!({"origin": {"kind": "trial"}, "candidate": 2}),
        );
    }

    #[test]
    fn origins_are_in_the_order_of_the_run() {
        let before = SkillOrigin::Step { step: StepIdx(6) };
        let after = SkillOrigin::Step { step: StepIdx(7) };
        assert!(SkillOrigin::Initial < before && before < END && END < after);
        assert!(SkillId::of(END) < SkillId { candidate: 1, ..SkillId::of(END) });
    }
}
