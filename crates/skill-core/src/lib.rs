//! The pure core of `skillrl`: what a skill document is and everything that is decided about it.
//!
//! # Who should depend on this crate alone
//!
//! Anybody who wants the deterministic parts without a runtime: the skill editor, the edit-budget
//! schedule, the acceptance gate, CPython-compatible sampling, splits and epoch
//! plans, JSON extraction from model text, and content hashes.
//!
//! Nothing here does I/O, reads a clock or the environment, starts a thread or awaits: times, seeds and
//! texts are arguments, and the same arguments give the same bytes on every machine.
//! Functions over text that a model wrote are total: bad text is a normal input with a normal result.

pub mod edit;
pub mod ids;
pub mod rollout;
pub mod skill;
pub mod usage;

pub use edit::{Edit, EditOp, Patch, RawPatch, SourceType};
pub use ids::{EpochIdx, ItemId, SkillHash, StepIdx};
pub use rollout::{MeanScore, Role, RolloutResult, Turn};
pub use skill::SkillDoc;
pub use usage::Usage;
