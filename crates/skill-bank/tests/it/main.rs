//! Tests of skill banks.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests say what they expect")]

mod log;
