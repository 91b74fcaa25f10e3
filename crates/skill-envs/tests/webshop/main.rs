//! The shop against what was recorded from the original, and what it says about bad input.
//!
//! `tests/data/webshop/` holds products, attributes and instructions in the original's formats, made up for the
//! recording, with sessions (pages, clickables, rankings, rewards) and vectors of every part; and sessions of people
//! on the original site. Every file there is read; a file or a group of vectors that no table knows fails.
#![cfg(feature = "webshop")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]
#![expect(
    clippy::print_stdout,
    reason = "what is measured, and what is not compared, is said in the test's output"
)]

mod bad_input;
mod conformance;
mod details;
mod people;
mod recorded;
#[path = "../../../skill-llm/tests/support/said.rs"]
mod said;
mod sessions;
mod vectors;
mod world;
