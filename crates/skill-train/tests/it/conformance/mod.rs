//! Recorded data of torch, transformers, TRL and verl, compared case by case.

mod grpo;
mod grpo_loss;
mod sampling;
