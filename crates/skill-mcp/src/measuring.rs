//! A measurement in a process of its own, which the next call with the same arguments looks after.

use crate::error::ToolError;
use crate::start::{failed, of_system, open_beside, open_log, spawn};
use skill_llm::regular_file;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tokio::process::Child;
use tokio::time::{Instant, timeout_at};

/// What a measurement's result is called, after its directory, beside it.
const RESULT_ENDING: &str = ".json";

/// A measurement: its arguments, and its process while it is at work.
#[derive(Default)]
pub(crate) struct Measuring {
    args: Vec<OsString>,
    process: Option<Process>,
}

struct Process {
    child: Child,
    log: PathBuf,
    /// Where its part of the log begins.
    log_start: u64,
    result: PathBuf,
}

impl Measuring {
    /// Starts the measurement unless it is at work, and waits for it; `None` when the time is up.
    pub(crate) async fn wait(
        &mut self,
        program: &Path,
        args: Vec<OsString>,
        dir: &Path,
        until: Instant,
    ) -> Result<Option<Vec<u8>>, ToolError> {
        let of_system = |error| of_system("measurement", &error);
        if self.process.is_some() && self.args != args {
            return Err(ToolError::new(
                "a measurement of this name is at work, with other arguments",
                "call measure with the arguments that it was started with, or take another name",
            ));
        }
        let process = match &mut self.process {
            Some(process) => process,
            None => self.process.insert(Process::begin(program, &args, dir).map_err(of_system)?),
        };
        self.args = args;
        let Ok(status) = timeout_at(until, process.child.wait()).await else { return Ok(None) };
        let status = status.map_err(of_system)?;
        let Some(Process { log, log_start, result, .. }) = self.process.take() else { return Ok(None) };
        if !status.success() {
            return Err(failed("measurement", status, &log, log_start));
        }
        regular_file::read(&result).map(Some).map_err(of_system)
    }
}

impl Process {
    fn begin(program: &Path, args: &[OsString], dir: &Path) -> std::io::Result<Self> {
        let (log, errors) = open_log(dir)?;
        let log_start = errors.metadata()?.len();
        let (result, out) = open_beside(dir, RESULT_ENDING)?;
        out.set_len(0)?;
        Ok(Self { child: spawn(program, args, out, errors)?, log, log_start, result })
    }
}
