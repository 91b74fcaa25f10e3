//! The task that looks after a process: it writes requests, reads answers, and sees to the end.

use super::fault::{Fault, FaultKind};
use super::process::{Shared, Watch};
use super::protocol::{LineReader, excerpt};
use super::stderr;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

/// How long a process may take to end by itself, once its streams are closed.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// How long is read from the streams of a process that has ended, in case another one still holds them.
const DRAIN_TIME: Duration = Duration::from_millis(200);
/// How long the system may take to end a process that was killed.
const KILL_TIME: Duration = Duration::from_secs(5);

/// The streams of a process.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// Why nobody listens to a process any more.
enum Ending {
    /// Nobody has anything to ask any more.
    Unused,
    /// It was to be ended.
    Stopped,
    /// It has ended.
    Exited(ExitStatus),
    /// Its standard output has come to its end.
    OutputClosed,
    /// Its standard input cannot be written.
    InputClosed(std::io::Error),
    /// Its standard output cannot be read.
    Unreadable(std::io::Error),
    /// It does not follow the protocol.
    Violation(String),
}

/// Looks after a process until it is gone.
pub(super) async fn supervise(
    watch: Watch,
    mut child: Child,
    pipes: Pipes,
    requests: mpsc::UnboundedReceiver<Vec<u8>>,
    line_bytes: usize,
) {
    let shared = watch.shared();
    let Pipes { stdin, stdout, stderr } = pipes;
    let work = async {
        let mut reader = LineReader::new(line_bytes);
        let ending = converse(shared, &mut child, stdin, stdout, requests, &mut reader).await;
        end(shared, &mut child, ending, &reader).await;
    };
    let mut follow = std::pin::pin!(stderr::follow(stderr, shared));
    let mut work = std::pin::pin!(work);
    tokio::select! {
        () = &mut work => {
            // What it said last is the best hint at what has happened.
            drop(timeout(DRAIN_TIME, follow).await);
        }
        () = &mut follow => work.await,
    }
}

/// Writes what is asked and hands out what is answered.
async fn converse(
    shared: &Shared,
    child: &mut Child,
    mut stdin: ChildStdin,
    mut stdout: ChildStdout,
    mut requests: mpsc::UnboundedReceiver<Vec<u8>>,
    reader: &mut LineReader,
) -> Ending {
    let mut request = Vec::new();
    let mut n_written = 0;
    let mut exit: Option<(ExitStatus, Instant)> = None;
    loop {
        let unwritten = request.get(n_written..).unwrap_or_default();
        let until = exit.as_ref().map_or_else(Instant::now, |(_, until)| *until);
        tokio::select! {
            biased;
            () = shared.stop.cancelled() => return Ending::Stopped,
            read = stdout.read_buf(reader.space()) => match read {
                Ok(0) => return exit.map_or(Ending::OutputClosed, |(status, _)| Ending::Exited(status)),
                Ok(_) => {
                    if let Err(violation) = deliver(shared, reader) {
                        return Ending::Violation(violation);
                    }
                }
                Err(error) => return Ending::Unreadable(error),
            },
            written = stdin.write(unwritten), if !unwritten.is_empty() => match written {
                Ok(n_bytes) => n_written += n_bytes,
                Err(error) => return Ending::InputClosed(error),
            },
            next = requests.recv(), if unwritten.is_empty() && exit.is_none() => match next {
                Some(line) => (request, n_written) = (line, 0),
                None => return Ending::Unused,
            },
            status = child.wait(), if exit.is_none() => match status {
                Ok(status) => exit = Some((status, Instant::now() + DRAIN_TIME)),
                Err(error) => return Ending::Unreadable(error),
            },
            () = sleep_until(until), if exit.is_some() => {
                return exit.map_or(Ending::OutputClosed, |(status, _)| Ending::Exited(status));
            }
        }
    }
}

/// Hands out the lines that have come.
fn deliver(shared: &Shared, reader: &mut LineReader) -> Result<(), String> {
    loop {
        match reader.next_line() {
            Ok(Some(line)) => shared.deliver(line)?,
            Ok(None) => return Ok(()),
            Err(too_long) => {
                return Err(format!(
                    "line {} of its stdout is longer than the limit (`limits.line_bytes`): {}",
                    too_long.number, too_long.excerpt
                ));
            }
        }
    }
}

/// Sees to it that the process is gone, and says why.
async fn end(shared: &Shared, child: &mut Child, ending: Ending, reader: &LineReader) {
    let has_exited = matches!(ending, Ending::Exited(_));
    // A line that is not an answer names its place itself.
    let names_place = matches!(ending, Ending::Violation(_));
    let (kind, what, status) = match ending {
        Ending::Unused => {
            // The end of its input asks a process to end; it may take a moment to clean up.
            drop(timeout(EXIT_GRACE, child.wait()).await);
            (FaultKind::Ended, "was ended, since it was no longer needed".to_owned(), None)
        }
        Ending::Stopped => (FaultKind::Ended, "was killed".to_owned(), None),
        Ending::Exited(status) => (FaultKind::Broken, said(status), None),
        Ending::OutputClosed => {
            let exit = timeout(EXIT_GRACE, child.wait()).await;
            match exit {
                Ok(Ok(status)) => (FaultKind::Broken, said(status), Some(status)),
                Ok(Err(_)) | Err(_) => {
                    (FaultKind::Broken, "closed its stdout, went on, and was killed".to_owned(), None)
                }
            }
        }
        Ending::InputClosed(error) => {
            let exit = timeout(EXIT_GRACE, child.wait()).await;
            let what = format!("no longer reads its stdin ({error})");
            (FaultKind::Broken, what, exit.ok().and_then(Result::ok))
        }
        Ending::Unreadable(error) => (FaultKind::Broken, format!("cannot be listened to: {error}"), None),
        Ending::Violation(what) => (FaultKind::Broken, what, None),
    };
    let what = status.map_or(what, said);
    let place = if kind == FaultKind::Broken && !names_place { place(shared, reader) } else { String::new() };
    shared.group.kill();
    // On systems without groups, and for a process that has left its own.
    drop(child.start_kill());
    if timeout(KILL_TIME, child.wait()).await.is_err() {
        tracing::warn!(program = shared.label, "the process does not end though it was killed");
    }
    if kind == FaultKind::Broken {
        tracing::debug!(program = shared.label, "{}", shared.scrub(&format!("{what}{place}")));
    }
    // One that ends in the middle of a line has not given up, but broken.
    let may_be_the_agents = (has_exited || status.is_some()) && reader.rest().is_empty();
    shared.fail_with(Fault { may_be_the_agents, ..Fault::new(kind, format!("{what}{place}")) });
}

/// Where in its output the process has ended.
fn place(shared: &Shared, reader: &LineReader) -> String {
    if reader.rest().is_empty() {
        let when = if shared.is_asked() { "instead of an answer" } else { "while nothing was being asked" };
        format!(", {when}, after line {} of its stdout", reader.n_lines())
    } else {
        format!(", in the middle of line {} of its stdout: {}", reader.n_lines() + 1, excerpt(reader.rest()))
    }
}

fn said(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with the exit code {code}"),
        // A signal, on systems that have them; the text names it.
        None => format!("was ended ({status})"),
    }
}
