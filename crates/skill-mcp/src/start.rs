//! What is started: `skillrl train` or `skillrl eval` in a process of its own, which lives on when the server ends.

use crate::error::ToolError;
use skill_llm::regular_file;
use skill_pipeline::RunReader;
use skill_pipeline::run_dir::RunStatus;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// How long is waited until a process has taken up its run: its data is read before.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often is looked whether it has.
const PERIOD: Duration = Duration::from_millis(50);
/// How much of the end of a log an error shows.
const LOG_BYTES: u64 = 4_000;
/// What the log of a run or of a measurement is called, after its directory, beside it.
pub(crate) const LOG_ENDING: &str = ".mcp.log";

/// The exit codes of the program that have a hint of their own; `docs/running.md` lists them all.
const USAGE: i32 = 2;
const RUN_DIR: i32 = 6;
const OTHER_RUN: i32 = 7;
const CAP_REACHED: i32 = 8;
const DAMAGED: i32 = 12;

/// What a process makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Run,
    Measurement,
}

/// A run that is started.
pub(crate) struct Training<'a> {
    pub(crate) program: &'a Path,
    pub(crate) config: &'a Path,
    pub(crate) overrides: Vec<String>,
    pub(crate) run_dir: &'a Path,
    /// How the run is before.
    pub(crate) status: RunStatus,
}

/// What was started.
pub(crate) struct Begun {
    /// The process, unless it has done all there was to do.
    pub(crate) pid: Option<u32>,
    pub(crate) log: PathBuf,
}

impl Training<'_> {
    /// Starts the process, and waits until it has taken up the run or has ended; of a finished run, until it has ended.
    pub(crate) async fn begin(self) -> Result<Begun, ToolError> {
        let of_system = |error: io::Error| of_system("start the run", &error);
        let (log, file) = open_log(self.run_dir).map_err(of_system)?;
        let n_before = file.metadata().map_err(of_system)?.len();
        let mut child = self.spawn(file).map_err(of_system)?;
        let pid = child.id();
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait().map_err(of_system)? {
                return match status.success() {
                    true => Ok(Begun { pid: None, log }),
                    false => Err(failed(Kind::Run, status, &log, n_before)),
                };
            }
            // It says so itself, after it has read its data and found the run to be its own.
            let live = RunReader::open(self.run_dir).ok().and_then(|run| run.live());
            let is_at_work = live.is_some_and(|live| Some(live.pid) == pid);
            let has_begun = match self.status {
                RunStatus::Absent | RunStatus::Unfinished => is_at_work,
                // Nothing is left to do, as a rule, and the process is about to say so.
                RunStatus::Finished => false,
            };
            if has_begun || began.elapsed() >= PATIENCE {
                break;
            }
            tokio::time::sleep(PERIOD).await;
        }
        // Nobody kills it when this task ends; somebody has to hear that it has ended.
        drop(tokio::spawn(async move {
            match child.wait().await {
                Ok(status) => tracing::info!(%status, "a run's process has ended"),
                Err(error) => tracing::warn!(%error, "a run's process cannot be waited for"),
            }
        }));
        Ok(Begun { pid, log })
    }

    fn spawn(&self, log: File) -> io::Result<Child> {
        let mut args: Vec<OsString> = vec!["train".into(), self.config.into()];
        args.extend(settings(&self.overrides));
        let errors = log.try_clone()?;
        spawn(self.program, &args, log, errors)
    }
}

/// Settings as arguments of the program.
pub(crate) fn settings(overrides: &[String]) -> impl Iterator<Item = OsString> {
    overrides.iter().flat_map(|entry| [OsString::from("--set"), OsString::from(entry)])
}

/// Starts the program in a group of its own.
pub(crate) fn spawn(program: &Path, args: &[OsString], out: File, errors: File) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(out).stderr(errors).kill_on_drop(false);
    // What ends the server, such as Ctrl-C in its terminal or a client that ends what it started, goes to its group.
    #[cfg(unix)]
    command.process_group(0);
    command.spawn()
}

/// The log beside a directory: the directory itself holds what the program writes there and nothing else.
pub(crate) fn open_log(dir: &Path) -> io::Result<(PathBuf, File)> {
    let name = dir.file_name().ok_or_else(|| io::Error::other("it has no directory of its own"))?;
    let mut name = name.to_owned();
    name.push(LOG_ENDING);
    let path = dir.with_file_name(name);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    // What a link leads to is somebody else's.
    if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(io::Error::other(format!("{} is not a plain file", path.display())));
    }
    let file = OpenOptions::new().create(true).append(true).open(&path)?;
    Ok((path, file))
}

/// What the system refuses, as an agent can pass it on.
pub(crate) fn of_system(what: &str, error: &io::Error) -> ToolError {
    let hint = "tell the person whom you work for: the server has to be able to start processes, and to read and write \
                files below its directory of runs";
    ToolError::new(format!("cannot {what}: {error}"), hint)
}

/// A process that ended without a result, with the end of its log.
pub(crate) fn failed(kind: Kind, status: ExitStatus, log: &Path, from: u64) -> ToolError {
    let said = tail(log, from).unwrap_or_default();
    let what = match kind {
        Kind::Run => "run",
        Kind::Measurement => "measurement",
    };
    let message = format!("the {what} ended ({status}); its log is {}", log.display());
    ToolError::new(message, hint_of(kind, status.code())).with_untrusted(said)
}

/// What an agent can do: options of the program, which its log may name, are not its own.
fn hint_of(kind: Kind, code: Option<i32>) -> &'static str {
    match (kind, code) {
        (_, Some(CAP_REACHED)) => {
            "a cap is reached: agree on a higher one with the person whom you work for, and call this again with a higher \
             max_calls or max_money; nothing is lost"
        }
        (Kind::Run, Some(OTHER_RUN)) => {
            "it was begun with other settings: leave out `set`, or take a configuration with another run directory"
        }
        (Kind::Run, _) => {
            "fix the problem that the program reports below, or tell the person whom you work for; nothing is lost, and \
             the same call resumes the run"
        }
        (Kind::Measurement, Some(USAGE | RUN_DIR | OTHER_RUN | DAMAGED)) => {
            "correct the argument that the program reports below; if it is the directory of the measurement, which holds \
             another one or is damaged, pass another `name`"
        }
        (Kind::Measurement, _) => {
            "fix the problem that the program reports below, or tell the person whom you work for; the same call resumes \
             the measurement"
        }
    }
}

fn tail(log: &Path, from: u64) -> io::Result<String> {
    let mut file = regular_file::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(from.max(length.saturating_sub(LOG_BYTES))))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}
