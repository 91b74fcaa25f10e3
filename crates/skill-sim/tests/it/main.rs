//! The simulated models from outside, and the place of the crate among the others.
//!
//! One program for all of them: linking one takes longer than compiling most of these files.

mod agents;
#[path = "../../../skill-core/tests/support/all_files.rs"]
mod all_files;
#[cfg(feature = "weights")]
mod decoder;
#[path = "../../../skill-core/tests/support/dependencies.rs"]
mod dependencies;
mod models;
mod place;
mod teacher;
