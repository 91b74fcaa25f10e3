//! Reports of large and damaged runs, of runs that train a bank, and what is new in runs.
//!
//! One program for all of them: linking one takes longer than compiling most of these files.

#[path = "../../../skill-core/tests/support/all_files.rs"]
mod all_files;
mod bank;
mod damaged;
mod large;
mod news;
mod unread;
