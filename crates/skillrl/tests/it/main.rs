//! The facade from outside; processes that are killed have a target of their own.
//!
//! One program for all of them: linking one takes longer than compiling most of these files.

#[cfg(unix)]
mod agent_model;
#[path = "../../../skill-core/tests/support/all_files.rs"]
mod all_files;
mod import;
mod import_faults;
mod krill;
mod own_data;
mod plain_libraries;
mod program;
mod unread;
