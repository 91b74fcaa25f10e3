//! Language models that run and learn on this machine.
//!
//! The crate knows models, tokenizers, losses and optimizers, and nothing of tasks, skills or runs. Training loops use
//! it through a seam of four verbs (sample, forward and backward, optimizer step, save and load), which no type of a
//! tensor library crosses, so that another back end, or a server, can take the place of the local one.

pub mod grpo;
pub mod sampling;
