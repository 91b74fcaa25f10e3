//! Crate.

pub mod prompts;
