//! The parts of the pipeline from outside; whole runs have targets of their own.
//!
//! One program for all of them: linking one takes longer than compiling most of these files.

mod bank_dir;
mod prompt_library;
mod prompt_properties;
mod prompt_snapshots;
mod provenance;
mod skill_size;
mod step_memory;
mod unflushed;
mod unread;
