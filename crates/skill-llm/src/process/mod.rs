//! Programs that are started for one exchange: input in, output out, and gone by a deadline with all that they started.
//!
//! There is no shell anywhere. What a program prints is the business of the caller; here it is only bounded.
//!
//! # Invariants
//!
//! - Only what is ours is killed or removed: programs are recognised by a random mark in their environment and
//!   temporary directories by the lock of their session, never by a process id or a name alone. Held by
//!   `a_sweep_removes_what_the_dead_have_left_and_nothing_else`,
//!   `a_mark_is_that_of_its_program_or_session_and_no_other`,
//!   `what_has_left_the_process_group_ends_with_the_program_too`,
//!   `a_process_that_ends_by_itself_leaves_nothing_running`,
//!   `what_a_killed_process_leaves_is_gone_at_the_next_start`.

mod descendants;
mod environment;
mod file_hash;
mod group;
mod hidden;
mod passed;
mod session;
mod supervisor;

pub use environment::{BASE_VARIABLES, check_passed, is_variable_name, pair};
pub use file_hash::file_hash;
use group::KillOnDrop;
pub use group::{Daemons, ProcessGroup};
pub use hidden::hide_this_process;
pub use passed::Passed;
pub use session::{Swept, TemporaryDir, sweep, temporary_dir};
pub use supervisor::{offer_supervision, supervised, supervised_command};

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

const READ_BYTES: usize = 8 * 1024;

/// What is started.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    /// The program and its arguments.
    pub command: &'a [String],
    /// Where it runs; `None` for where this program runs.
    pub directory: Option<&'a Path>,
    /// All that it finds in its environment; `None` for everything that this program has.
    pub environment: Option<Vec<(OsString, OsString)>>,
    /// What it reads on its standard input, before the end of it.
    pub stdin: &'a [u8],
    /// How long it may take.
    pub deadline: Duration,
    /// The most bytes that it may print; beyond them it is killed.
    pub max_output_bytes: usize,
    /// How much of its standard error is kept: the end of it.
    pub max_stderr_bytes: usize,
    /// The fate of what it puts aside.
    pub daemons: Daemons,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, or by somebody else's signal.
    Exited(ExitStatus),
    /// It was killed, since it printed too much.
    Cut,
    /// It was killed at its deadline.
    Deadline,
}

/// What became of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessOutput {
    /// How it ended.
    pub ending: Ending,
    /// What it printed, up to the limit.
    pub stdout: Vec<u8>,
    /// The end of what it printed on its standard error.
    pub stderr: Vec<u8>,
}

/// A program that did not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It cannot be started.
    #[error("cannot be started: {0}")]
    Start(std::io::Error),
    /// Its streams cannot be read.
    #[error("cannot be talked to: {0}")]
    Talk(std::io::Error),
}

/// Runs a program to its end.
///
/// Dropping the future kills it with all that it has started, as every end does.
///
/// # Errors
///
/// A program that cannot be started or listened to. However it ends is an `Ok`.
pub async fn run(run: &Run<'_>) -> Result<ProcessOutput, RunError> {
    run_watched(run, &mut |_| false).await
}

/// Runs a program as [`run`] does, and shows what it prints while it does; where `is_enough` says so it is killed, which
/// ends it as [`Ending::Cut`].
///
/// # Errors
///
/// As [`run`].
pub async fn run_watched(
    run: &Run<'_>,
    is_enough: &mut (dyn FnMut(&[u8]) -> bool + Send),
) -> Result<ProcessOutput, RunError> {
    let (mut child, group) = start(run).map_err(RunError::Start)?;
    let _killed = KillOnDrop(&group);
    let mut streams = Streams::default();
    let work = exchange(&mut child, &group, run, &mut streams, is_enough);
    let ended = tokio::time::timeout(run.deadline, work).await;
    let ending = match ended {
        Ok(Ok(_)) if streams.is_cut => Ending::Cut,
        Ok(Ok(status)) => Ending::Exited(status),
        Ok(Err(error)) => return Err(RunError::Talk(error)),
        Err(_) => Ending::Deadline,
    };
    Ok(ProcessOutput { ending, stdout: streams.stdout, stderr: streams.stderr })
}

fn start(run: &Run<'_>) -> std::io::Result<(Child, ProcessGroup)> {
    let mut words = run.command.iter();
    let name = words.next().map(String::as_str).unwrap_or_default();
    let program = located(name, run.directory);
    let mut command = match run.daemons {
        Daemons::End => supervised_command(&program, path_of(run.environment.as_deref()).as_deref()),
        Daemons::Stay => Command::new(&program),
    };
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(environment) = &run.environment {
        command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
    }
    if let Some(directory) = run.directory {
        command.current_dir(directory);
    }
    command.kill_on_drop(true);
    let group = ProcessGroup::lead(&mut command, run.daemons);
    let child = command.spawn()?;
    group.led_by(child.id());
    Ok((child, group))
}

/// Where a program with this environment looks for others.
fn path_of(environment: Option<&[(OsString, OsString)]>) -> Option<OsString> {
    match environment {
        Some(environment) => {
            environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone())
        }
        None => std::env::var_os("PATH"),
    }
}

/// A name with a directory in it is meant from where the program runs, which systems see differently.
pub fn located(name: &str, directory: Option<&Path>) -> PathBuf {
    let path = Path::new(name);
    match directory {
        Some(directory) if path.components().count() > 1 && path.is_relative() => {
            let joined = directory.join(path);
            std::path::absolute(&joined).unwrap_or(joined)
        }
        Some(_) | None => path.to_path_buf(),
    }
}

/// What has been read until now, also where the reading is given up.
#[derive(Default)]
struct Streams {
    stdout: Vec<u8>,
    is_cut: bool,
    stderr: Vec<u8>,
}

async fn exchange(
    child: &mut Child,
    group: &ProcessGroup,
    run: &Run<'_>,
    streams: &mut Streams,
    is_enough: &mut (dyn FnMut(&[u8]) -> bool + Send),
) -> std::io::Result<ExitStatus> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program that does not read its input may still know the answer.
            drop(stdin.write_all(run.stdin).await);
            drop(stdin.shutdown().await);
        }
    };
    let Streams { stdout: printed, is_cut, stderr: said } = streams;
    let read = async {
        let read = head(stdout, printed, run.max_output_bytes, is_enough).await;
        if let Ok(true) = read {
            *is_cut = true;
            group.kill();
        }
        read
    };
    let end = async {
        let status = child.wait().await;
        // What it has left behind would keep its streams open.
        group.kill();
        status
    };
    let ((), read, followed, status) =
        tokio::join!(write, read, tail(stderr, said, run.max_stderr_bytes), end);
    read?;
    followed?;
    status
}

/// Keeps the first bytes of a stream; tells whether there are more than the limit, or enough of them.
async fn head(
    stream: Option<impl AsyncRead + Unpin>,
    kept: &mut Vec<u8>,
    max_bytes: usize,
    is_enough: &mut (dyn FnMut(&[u8]) -> bool + Send),
) -> std::io::Result<bool> {
    let Some(mut stream) = stream else { return Ok(false) };
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let n_read = stream.read(&mut buffer).await?;
        if n_read == 0 {
            return Ok(false);
        }
        kept.extend_from_slice(buffer.get(..n_read).expect("no more is read than the buffer holds"));
        if kept.len() > max_bytes {
            kept.truncate(max_bytes);
            return Ok(true);
        }
        if is_enough(buffer.get(..n_read).expect("no more is read than the buffer holds")) {
            return Ok(true);
        }
    }
}

/// Keeps the last bytes of a stream.
async fn tail(
    stream: Option<impl AsyncRead + Unpin>,
    kept: &mut Vec<u8>,
    max_bytes: usize,
) -> std::io::Result<()> {
    let Some(mut stream) = stream else { return Ok(()) };
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let n_read = stream.read(&mut buffer).await?;
        if n_read == 0 {
            return Ok(());
        }
        kept.extend_from_slice(buffer.get(..n_read).expect("no more is read than the buffer holds"));
        let n_over = kept.len().saturating_sub(max_bytes);
        kept.drain(..n_over);
    }
}

/// How a program ended, as the end of "the program ...".
pub(crate) fn ended_with(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with the exit code {code}"),
        // A signal, on systems that have them; the text names it.
        None => format!("was ended ({status})"),
    }
}
