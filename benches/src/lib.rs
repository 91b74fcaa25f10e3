//! What only development needs: run directories of any size for tests, and the benches.

#[cfg(feature = "bench")]
pub mod comparison;
#[cfg(feature = "bench")]
pub mod generator;
pub mod runs;
