//! Tests of the crate.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests say what they expect, and how many recorded cases they compared"
)]

#[cfg(feature = "candle")]
mod backend;
mod byte_codec;
mod chat;
#[cfg(feature = "candle")]
mod chat_model;
mod conformance;
#[cfg(feature = "candle")]
mod embedding;
mod examples;
mod export;
#[cfg(feature = "parquet")]
mod export_verl;
#[cfg(feature = "candle")]
mod generation;
#[cfg(feature = "candle")]
mod gguf;
#[cfg(feature = "candle")]
mod gradients;
mod grpo;
mod model_files;
mod recorded;
mod sampling;
#[cfg(feature = "candle")]
mod small;
mod states;
#[cfg(feature = "candle")]
mod threads;
mod tokenizer;
