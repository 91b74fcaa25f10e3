//! Whole runs whose rollouts are made by workers, over a broker in this process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod runs;
