//! The Messages and Responses dialects, and providers of the Chat Completions dialect, over a transport in memory.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod anthropic;
mod keys;
mod providers;
mod responses;
#[path = "../support/said.rs"]
mod said;
mod support;
mod thoughts;
