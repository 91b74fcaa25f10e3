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
pub mod gate;
pub mod ids;
pub mod json;
pub mod plan;
pub mod random;
pub mod rollout;
pub mod schedule;
pub mod select;
pub mod skill;
pub mod split;
pub mod usage;

pub use edit::{Edit, EditOp, Patch, RawPatch, SourceType};
pub use gate::{Gate, GateAction, GateDecision, GateMetric, GateState};
pub use ids::{EpochIdx, ItemId, SkillHash, StepIdx};
pub use json::{Extracted, PatchReply, Repair, extract, extract_json, read_object, read_patch};
pub use plan::{BatchPlan, EpochPlan, Minibatches, plan_minibatches, plan_train_epoch, steps_per_epoch};
pub use random::PyRandom;
pub use rollout::{MeanScore, Role, RolloutResult, Turn};
pub use schedule::{EditBudget, Schedule, ScheduleError};
pub use select::{select_edits, selected_indices};
pub use skill::SkillDoc;
pub use split::{split_by_ratio, split_counts};
pub use usage::Usage;
