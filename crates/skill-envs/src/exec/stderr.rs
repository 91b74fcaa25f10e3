//! What a program says on its standard error: logged, and its end kept for messages.

use super::process::Shared;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;

/// How much of one line is logged.
const MAX_LOGGED_BYTES: usize = 2_000;
/// How many lines a message shows.
const MAX_SHOWN_LINES: usize = 12;
const READ_BYTES: usize = 8 * 1024;

/// The last bytes of a stream.
#[derive(Debug)]
pub(super) struct Tail {
    max_bytes: usize,
    bytes: Mutex<Vec<u8>>,
}

impl Tail {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, bytes: Mutex::new(Vec::new()) }
    }

    fn push(&self, more: &[u8]) {
        let mut bytes = self.bytes.lock();
        bytes.extend_from_slice(more);
        // Twice as much is let in, so that not every push moves everything.
        if bytes.len() > 2 * self.max_bytes {
            let n_old = bytes.len() - self.max_bytes;
            bytes.drain(..n_old);
        }
    }

    /// The last lines, to be put behind a message; empty if there are none.
    pub(super) fn shown(&self) -> String {
        let bytes = self.bytes.lock();
        let n_old = bytes.len().saturating_sub(self.max_bytes);
        let text = String::from_utf8_lossy(bytes.get(n_old..).unwrap_or_default());
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let first = lines.len().saturating_sub(MAX_SHOWN_LINES);
        let mut shown = String::new();
        for (line_idx, line) in lines.iter().enumerate().skip(first) {
            shown.push_str("\n    ");
            if line_idx == 0 && bytes.len() >= self.max_bytes {
                // What was before it is gone.
                shown.push('…');
            }
            shown.extend(line.trim_end().chars().filter(|character| !character.is_control()));
        }
        if shown.is_empty() { shown } else { format!("\n  its stderr ends with:{shown}") }
    }
}

/// Reads a program's standard error to its end, so that it never waits for a reader.
pub(super) async fn follow(mut stderr: ChildStderr, shared: &Shared) {
    let mut chunk = vec![0; READ_BYTES];
    let mut line = Vec::new();
    while let Ok(n_bytes) = stderr.read(&mut chunk).await {
        let Some(read) = chunk.get(..n_bytes).filter(|read| !read.is_empty()) else { break };
        shared.tail.push(read);
        if tracing::enabled!(tracing::Level::DEBUG) {
            log(&mut line, read, shared);
        }
    }
}

fn log(line: &mut Vec<u8>, read: &[u8], shared: &Shared) {
    for piece in read.split_inclusive(|byte| *byte == b'\n') {
        let room = MAX_LOGGED_BYTES.saturating_sub(line.len());
        line.extend_from_slice(piece.get(..room).unwrap_or(piece));
        if piece.ends_with(b"\n") {
            let cut = if line.len() >= MAX_LOGGED_BYTES { "…" } else { "" };
            let said = format!("{}{cut}", String::from_utf8_lossy(line).trim_end());
            tracing::debug!(program = shared.label, "{}", shared.scrub(&said));
            line.clear();
        }
    }
}
