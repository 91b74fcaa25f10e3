//! `skillrl stop`: asks the process that works on a run to end after the step under way.

use super::CommandError;
use crate::args::StopArgs;
use skillrl::pipeline::RunReader;
use skillrl::pipeline::run_dir::{is_held, request_stop, withdraw_stop};

pub(crate) fn run(args: &StopArgs) -> crate::Result {
    let run = RunReader::open(&args.run)?;
    let (path, place) = (run.path(), run.path().display());
    if args.withdraw {
        withdraw_stop(path)?;
        return super::print(&format!("{place} is no longer asked to stop\n"));
    }
    if !is_held(path) {
        let message = format!("no process works on the run in {place}, so there is nothing to stop");
        return Err(CommandError::new(message).into());
    }
    request_stop(path)?;
    super::print(&format!(
        "{place} stops when the step under way is done, or the evaluation after the last step; the command that started it resumes it later\n"
    ))
}
