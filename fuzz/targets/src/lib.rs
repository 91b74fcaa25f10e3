//! What the fuzz targets do with their input.
//!
//! Each function takes any bytes and panics where a promise is broken. The targets in `fuzz/` call them with what the
//! fuzzer makes up, and the test of this crate with the corpora in `fuzz/corpus/`, so that what was found once is
//! checked by every run of the tests.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a target fails by panicking"
)]

mod agent_actions;
mod alfworld;
mod editor;
mod exec_protocol;
mod journal;
mod json;
mod run_dir;
mod shop;

pub use agent_actions::agent_actions;
pub use alfworld::{alfworld_commands, alfworld_problem};
pub use editor::editor;
pub use exec_protocol::exec_protocol;
pub use journal::journal;
pub use json::json;
pub use run_dir::run_dir;
pub use shop::shop;

use std::path::Path;

/// A directory for one input: in memory if there is such a place, since nothing here is about the disk.
fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}
