//! Whole runs whose rollouts are made by workers, over a broker in this process, and the files of `examples/cluster`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../skill-core/tests/support/all_files.rs"]
mod all_files;
mod cluster_files;
mod runs;
