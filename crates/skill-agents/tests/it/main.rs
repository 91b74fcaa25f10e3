//! Streams and session files of all agents, by the table.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it did not compare"
)]

mod formats;
mod recorded;
mod samples;
mod sign_in;
mod simulated;
mod table;
mod training;
