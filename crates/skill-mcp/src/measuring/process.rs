//! The process of a measurement, and the task that waits for its end.

use super::files::Part;
use crate::error::ToolError;
use crate::start::{Kind, failed, of_system, open_log, spawn};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tokio::process::Child;
use tokio::sync::watch;

/// How a process has ended: with a result in its file, or with an error.
pub(super) type Outcome = Result<(), ToolError>;

/// Starts the program; its end is told whether somebody waits for it or not.
pub(super) fn begin(
    program: &Path,
    args: &[OsString],
    dir: &Path,
) -> Result<watch::Receiver<Option<Outcome>>, ToolError> {
    let of_system = |error| of_system("start the measurement", &error);
    let (log, errors) = open_log(dir).map_err(of_system)?;
    let log_start = errors.metadata().map_err(of_system)?.len();
    let (part, out) = Part::create(dir).map_err(of_system)?;
    let child = match spawn(program, args, out, errors) {
        Ok(child) => child,
        Err(error) => {
            part.discard();
            return Err(of_system(error));
        }
    };
    let (tell, outcome) = watch::channel(None);
    drop(tokio::spawn(async move {
        let ended = end(child, part, (log, log_start)).await;
        tell.send_replace(Some(ended));
    }));
    Ok(outcome)
}

async fn end(mut child: Child, part: Part, (log, log_start): (PathBuf, u64)) -> Outcome {
    let status = match child.wait().await {
        Ok(status) => status,
        Err(error) => {
            part.discard();
            return Err(of_system("wait for the measurement", &error));
        }
    };
    if !status.success() {
        part.discard();
        return Err(failed(Kind::Measurement, status, &log, log_start));
    }
    part.keep().map_err(|error| of_system("keep the result of the measurement", &error))
}
