//! Language models that run and learn on this machine.
//!
//! The crate knows models, tokenizers, losses and optimizers, and nothing of tasks, skills or runs. Training loops use
//! it through a seam of four verbs (sample, forward and backward, optimizer step, save and load), which no type of a
//! tensor library crosses, so that another back end, or a server, can take the place of the local one.

pub mod answers;
pub mod checkpoint;
pub mod error;
#[cfg(feature = "candle")]
pub mod generate;
pub mod chat;
pub mod examples;
pub mod export;
pub mod grpo;
#[cfg(feature = "candle")]
pub mod local;
pub mod lora;
pub mod loss;
#[cfg(feature = "candle")]
pub mod model;
pub mod model_config;
pub mod optim;
pub mod sampling;
pub mod schedule;
pub mod seam;
#[cfg(feature = "candle")]
mod state;
pub mod weights;

pub use error::{TensorFault, TrainError};
pub mod tokenizer;
