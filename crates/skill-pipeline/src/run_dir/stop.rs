//! `stop_after_step`: how somebody who only looks asks the process that trains to end after the step under way.
//!
//! The file is in the run directory and is the request: what is in it does not matter, so `touch` asks too. The
//! trainer looks for it after the baseline, after each step and between the evaluations after the last one, takes it
//! away, and ends as it does when a person stops it. What was asked of an earlier process is not asked of a new one: the
//! file is taken away when a process takes up the run, and when it leaves it.
//!
//! # Invariants
//!
//! - A request to stop ends the run after the current step, is obeyed once, and changes no file of the finished
//!   run. Held by `tests/training/stop.rs`.

use super::atomic::{self, failed, if_there};
use super::read::is_held;
use crate::error::PipelineError;
use crate::kind::has_phases;
use crate::records::phases::Phase;
use std::path::{Path, PathBuf};

/// The name of the request in the directory of a run.
pub const STOP_FILE: &str = "stop_after_step";

/// What people find in the file.
const WORDS: &str =
    "The process that works on this run is asked to end after the step, or the last evaluation, under way.\n";

fn stop_path(run: &Path) -> PathBuf {
    run.join(STOP_FILE)
}

/// Asks the process that works on a run to end after the step under way.
///
/// # Errors
///
/// A file that cannot be written.
pub fn request_stop(run: &Path) -> Result<(), PipelineError> {
    atomic::write(&stop_path(run), WORDS.as_bytes())?;
    if has_phases(run) {
        // The phase under way looks into its own directory.
        for phase in Phase::ALL.into_iter().map(|phase| phase.dir(run)).filter(|dir| is_held(dir)) {
            atomic::write(&stop_path(&phase), WORDS.as_bytes())?;
        }
    }
    Ok(())
}

/// Whether somebody asked.
pub fn is_stop_requested(run: &Path) -> bool {
    stop_path(run).symlink_metadata().is_ok()
}

/// Takes the request away, if there is one.
///
/// # Errors
///
/// A file that cannot be removed.
pub fn withdraw_stop(run: &Path) -> Result<(), PipelineError> {
    let path = stop_path(run);
    if_there(std::fs::remove_file(&path)).map_err(failed("remove", &path))
}
