//! The simulated models from outside, and the place of the crate among the others.
//!
//! One program for all of them: linking one takes longer than compiling most of these files.

mod agents;
#[cfg(feature = "weights")]
mod decoder;
mod models;
mod place;
mod teacher;
