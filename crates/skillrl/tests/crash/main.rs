//! Exact resume, proven by processes that die.
//!
//! A test starts this binary again as a child that trains on the demo's files, kills it with SIGKILL, and starts it
//! again. The models are simulated and stand for a server: every request that reaches them is a line of
//! `requests.log`, which is not a part of the run and outlives the child. After every death the journal is read (from a
//! copy, so that nothing about it changes) and compared with what the server saw.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "../../../skill-core/tests/support/all_files.rs"]
mod all_files;
mod chain;
mod child;
mod disk;
mod lock;
mod order;
mod random;
mod served;
mod torn;
mod world;
