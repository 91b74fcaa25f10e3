//! The paired statistics, the rules that are based on them, and what they promise about noise.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

#[path = "../early/oracle.rs"]
#[expect(dead_code, reason = "the tests of early rejection use all of it")]
mod oracle;

mod arms;
mod inflation;
mod order;
mod rules;
mod stratified;
mod trials;
mod vectors;
