//! Tests of skill banks.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests say what they expect, and how many recorded cases they compared"
)]

mod diff;
mod distill;
mod distill_recorded;
mod episode;
mod evolve;
mod evolve_recorded;
mod format;
mod lint;
mod log;
mod raw;
mod recorded;
mod retrieve;
mod retrieve_recorded;
mod source;
mod summary;
mod support;
mod task_type;
mod trial;
