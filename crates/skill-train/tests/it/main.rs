//! Tests of the crate.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests say what they expect, and how many recorded cases they compared"
)]

mod conformance;
mod grpo;
mod recorded;
mod sampling;
