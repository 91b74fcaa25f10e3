//! Language models that run and learn on this machine.
//!
//! The crate knows models, tokenizers, losses and optimizers, and nothing of tasks, skills or runs. Training loops use
//! it through a seam of four verbs (sample, forward and backward, optimizer step, save and load), which no type of a
//! tensor library crosses, so that another back end, or a server, can take the place of the local one.
//!
//! # Who should depend on this crate
//!
//! Programs that sample from a local model or change its weights with loops of their own, and those that only want the
//! formulas, chat templates, spans or exports: without its features the crate brings no tensor library.
//!
//! # Example
//!
//! ```
//! use skill_train::grpo::{AdvantageSettings, Rollout};
//!
//! # fn main() -> Result<(), skill_train::grpo::GrpoError> {
//! // Four games of one task, of which the first was won.
//! let rewards = [1.0, 0.0, 0.0, 0.0];
//! let rollouts: Vec<Rollout> = (0..)
//!     .zip(rewards)
//!     .map(|(trajectory, reward)| Rollout { group: 0, arm: 0, trajectory, reward: Some(reward) })
//!     .collect();
//! let advantages = AdvantageSettings::default().advantages(&rollouts)?.values;
//! assert!((advantages[0] - 1.5).abs() < 1e-5);
//! assert!((advantages[1] + 0.5).abs() < 1e-5);
//! # Ok(())
//! # }
//! ```

pub mod answers;
pub mod chat;
#[cfg(feature = "candle")]
pub mod chat_model;
pub mod checkpoint;
#[cfg(feature = "candle")]
pub mod embedding;
pub mod error;
pub mod examples;
pub mod export;
#[cfg(feature = "candle")]
pub mod generate;
pub mod grpo;
#[cfg(feature = "candle")]
pub mod local;
pub mod lora;
pub mod loss;
pub mod merge;
#[cfg(feature = "candle")]
pub mod model;
pub mod model_config;
mod model_file;
pub mod optim;
#[cfg(feature = "candle")]
mod parallel;
pub mod sampling;
pub mod schedule;
pub mod seam;
#[cfg(feature = "candle")]
mod state;
pub mod tokenizer;
pub mod training_memory;
pub mod weights;

pub use error::{RemoteFault, TensorFault, TrainError};
#[cfg(feature = "candle")]
pub use parallel::n_threads;
