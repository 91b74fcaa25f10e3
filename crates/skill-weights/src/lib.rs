//! Training of the weights of a local model: fine-tuning and GRPO in any environment, with a bank of skills in the loop.
//!
//! # Who should depend on this crate alone
//!
//! Anybody who has a model of their own behind the seam of `skill_train`, and wants its episodes played, resumed and
//! recorded as all runs of skillrl are. To train a published model, take the program `skillrl` with the feature
//! `weights`.
//!
//! ```
//! use skill_pipeline::PipelineError;
//! use skill_pipeline::settings::RlSettings;
//! use skill_weights::policy::WeightsCaps;
//! use skill_weights::rl::RlTrainer;
//!
//! /// Ten iterations of GRPO by a trainer of your own model and environment, a million tokens at most. The same call
//! /// resumes a run that was killed, and ends with the same bytes.
//! async fn train(trainer: RlTrainer) -> Result<(), PipelineError> {
//!     let settings = RlSettings { iterations: 10, group_size: 4, ..RlSettings::default() };
//!     let caps = WeightsCaps::new(Some(1_000_000), None);
//!     let summary = trainer.with_settings(settings).with_caps(caps).train("runs/grpo".as_ref()).await?;
//!     println!("{summary:?}");
//!     Ok(())
//! }
//! ```
//!
//! [`sft::SftTrainer`] learns demonstrations, [`rl::RlTrainer`] its own episodes; [`policy`] is what both share. Their
//! run directory, their events and the shell around them are those of `skill_pipeline`, which knows nothing of this
//! crate; their settings are [`SftSettings`](skill_pipeline::settings::SftSettings) and
//! [`RlSettings`](skill_pipeline::settings::RlSettings). No tensor library is needed to build it.
//!
//! # Invariants
//!
//! - Every build shows a run that trains weights; the code that trains is not needed to read its files. Held by
//!   `a_run_that_fine_tunes_is_shown_by_every_program`,
//!   `a_run_of_reinforcement_learning_is_shown_by_every_program`.

pub mod policy;
pub mod rl;
pub mod sft;
