//! Whole runs whose rollouts are made by workers, over a broker in this process, and the files of `examples/cluster`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster_files;
mod runs;
