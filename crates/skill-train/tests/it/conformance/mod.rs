//! Recorded data of torch, transformers, TRL and verl, compared case by case.

mod chat;
mod examples;
mod export;
#[cfg(feature = "candle")]
mod forward;
mod grpo;
mod grpo_loss;
#[cfg(feature = "candle")]
mod grpo_steps;
#[cfg(feature = "candle")]
mod local;
#[cfg(feature = "candle")]
mod lora;
mod sampling;
#[cfg(feature = "candle")]
mod sft;
#[cfg(feature = "tokenizer")]
mod tokens;
