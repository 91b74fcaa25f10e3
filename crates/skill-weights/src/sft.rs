//! Supervised fine-tuning: a local model learns what demonstrations of the tasks say.
//!
//! [`demos::Demonstrations`] has demonstrations played in the environment of the run, so that every example is the
//! prompt that the trained model will be shown, with the skills that are selected for its task. [`SftData`] turns these
//! rollouts into tokens, and [`SftTrainer`] trains on them through the seam of `skill_train`.
//!
//! # Invariants
//!
//! - A run that fine-tunes and dies in any call of its model ends with the same bytes as an undisturbed one; its
//!   loop has no path to the tensor library. Held by `a_run_that_dies_in_any_call_ends_with_the_same_bytes`.
//! - A teacher's reason for an action knows nothing of what came after it, and changes no action. Held by
//!   `a_reason_knows_what_the_agent_had_seen_and_no_more`,
//!   `a_teacher_writes_reasons_and_those_that_know_what_comes_are_refused`.
//! - No demonstration of a validation or test task is trained on, and none is taken as text: each is played again
//!   in the environment. Held by `demonstrations_that_do_not_do_what_they_claim_are_left_out_and_counted`.

mod checkpoint;
mod data;
pub mod demos;
mod measure;
pub mod reasons;
mod rows;
mod run;
mod trainer;

pub use data::SftData;
pub use measure::{StepCost, measured_step, peak_memory};
pub use trainer::SftTrainer;
