//! Supervised fine-tuning: a local model learns what demonstrations of the tasks say.
//!
//! [`demos::Demonstrations`] has demonstrations played in the environment of the run, so that every example is the
//! prompt that the trained model will be shown, with the skills that are selected for its task. `SftData` turns these
//! rollouts into tokens, and `SftTrainer` trains on them through the seam of `skill_train`, which both need the cargo
//! feature `weights`. Settings and the files of a run are here without it, so that every build reads them.

#[cfg(feature = "weights")]
mod checkpoint;
#[cfg(feature = "weights")]
mod data;
pub mod demos;
#[cfg(feature = "weights")]
mod measure;
pub mod reasons;
#[cfg(feature = "weights")]
mod rows;
#[cfg(feature = "weights")]
mod run;
mod settings;
#[cfg(feature = "weights")]
mod trainer;

#[cfg(feature = "weights")]
pub use data::SftData;
#[cfg(feature = "weights")]
pub use measure::{StepCost, measured_step, peak_memory};
pub use settings::SftSettings;
#[cfg(feature = "weights")]
pub use trainer::SftTrainer;
