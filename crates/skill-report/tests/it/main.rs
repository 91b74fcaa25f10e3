//! Reports of large and damaged runs, and of runs that train a bank.
//!
//! One program for all of them: linking one takes longer than compiling most of these files.

mod bank;
mod damaged;
mod large;
