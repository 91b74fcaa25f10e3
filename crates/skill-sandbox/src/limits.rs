//! What a program may use.

use std::time::Duration;

const MIB: u64 = 1 << 20;

/// What a program may use; sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time by the clock, from the start of the sandbox.
    pub wall: Duration,
    /// Time of the processor, for each process; whole seconds.
    pub cpu: Duration,
    /// Memory of all processes together.
    pub memory: u64,
    /// Processes and threads at a time.
    pub processes: u32,
    /// The working directory.
    pub disk: u64,
    /// `/tmp`.
    pub temporary: u64,
    /// A single file.
    pub file: u64,
    /// Open files of a process.
    pub open_files: u32,
    /// What is kept of each of the two streams: this much of the beginning and this much of the end.
    pub printed: usize,
    /// All files that come out together.
    pub output: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(120),
            cpu: Duration::from_secs(60),
            memory: 2048 * MIB,
            processes: 64,
            disk: 128 * MIB,
            temporary: 64 * MIB,
            file: 64 * MIB,
            open_files: 256,
            printed: 32 << 10,
            output: 128 * MIB,
        }
    }
}
