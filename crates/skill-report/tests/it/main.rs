//! Reports of large and damaged runs.
//!
//! One program for all of them: linking one takes longer than compiling most of these files.

mod damaged;
mod large;
