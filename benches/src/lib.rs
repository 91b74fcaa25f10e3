//! What only development needs: run directories of any size for tests, and the benches.

pub mod runs;
#[cfg(feature = "bench")]
pub mod search;
