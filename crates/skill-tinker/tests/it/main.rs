//! The client against servers that fail, and against the server of this crate.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests say what they expect"
)]

mod faults;
mod recorded;
mod script;
#[cfg(feature = "server")]
mod served;
