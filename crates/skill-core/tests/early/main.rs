//! Exact sums, the exact gate and early rejection, against an oracle in whole numbers.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod calls_used;
mod decisions;
mod oracle;
mod order;
mod removals;
mod saving;
mod sums;
