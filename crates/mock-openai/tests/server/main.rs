//! The server over real sockets.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod client;
mod counts;
mod embeddings;
mod faults;
mod program;
mod training;
mod world;
