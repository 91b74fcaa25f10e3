//! What became of a program.

use std::fmt;
use std::time::Duration;

/// How a program ended.
///
/// What the kernel or the monitor saw comes first. A program that only got an error from the system, and ended with a
/// code other than 0 for it, is judged by the end of what it printed and by what is left of its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Termination {
    /// By itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// It had not ended when its time, or its time of the processor, was over.
    TimedOut,
    /// It wanted more memory than it may have.
    OutOfMemory,
    /// It wanted more processes or threads than it may have.
    TooManyProcesses,
    /// It wanted more disk than it may have, or a larger file.
    DiskFull,
    /// By a signal, of its own or of somebody else.
    Killed {
        /// The number of the signal.
        signal: i32,
    },
}

impl Termination {
    /// The name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exited { .. } => "exited",
            Self::TimedOut => "timed_out",
            Self::OutOfMemory => "out_of_memory",
            Self::TooManyProcesses => "too_many_processes",
            Self::DiskFull => "disk_full",
            Self::Killed { .. } => "killed",
        }
    }

    /// True for exit code 0.
    pub fn is_success(self) -> bool {
        self == Self::Exited { code: 0 }
    }
}

/// As the end of "the program ...".
impl fmt::Display for Termination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exited with code {code}"),
            Self::TimedOut => f.write_str("did not end in time"),
            Self::OutOfMemory => f.write_str("ran out of memory"),
            Self::TooManyProcesses => f.write_str("started too many processes or threads"),
            Self::DiskFull => f.write_str("filled its disk"),
            Self::Killed { signal } => write!(f, "was killed by signal {signal}"),
        }
    }
}

/// What a program printed on one stream: the beginning and the end of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printed {
    /// The first bytes, at most [`crate::Limits::printed`].
    pub head: Vec<u8>,
    /// The last bytes after them, at most as many.
    pub tail: Vec<u8>,
    /// All bytes that were printed.
    pub n_bytes: u64,
}

impl Printed {
    /// The bytes between head and tail, which were dropped.
    pub fn n_dropped(&self) -> u64 {
        self.n_bytes.saturating_sub((self.head.len() + self.tail.len()) as u64)
    }

    /// As text, with a line in place of what was dropped.
    pub fn text(&self) -> String {
        match self.n_dropped() {
            // Together, since a character may lie across the border.
            0 => String::from_utf8_lossy(&[self.head.as_slice(), &self.tail].concat()).into_owned(),
            n_dropped => format!(
                "{}\n[{n_dropped} bytes are left out]\n{}",
                String::from_utf8_lossy(&self.head),
                String::from_utf8_lossy(&self.tail)
            ),
        }
    }

    /// Adds what was read, and drops what is neither of the first nor of the last bytes.
    pub(crate) fn add(&mut self, bytes: &[u8], limit: usize) {
        self.n_bytes += bytes.len() as u64;
        let n_head = limit.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(n_head);
        self.head.extend_from_slice(head);
        self.tail.extend_from_slice(rest);
        // Twice as much, so that not every read moves it.
        if self.tail.len() > limit.saturating_mul(2) {
            self.cut(limit);
        }
    }

    /// Cuts the end to its limit.
    pub(crate) fn cut(&mut self, limit: usize) {
        let n_over = self.tail.len().saturating_sub(limit);
        self.tail.drain(..n_over);
    }
}

/// A file that came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// Its name relative to the working directory, without `.` and `..`.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether it can be started.
    pub is_executable: bool,
}

/// What became of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionResult {
    /// How it ended.
    pub verdict: Termination,
    /// Its standard output.
    pub stdout: Printed,
    /// Its standard error.
    pub stderr: Printed,
    /// The regular files among [`crate::Program::outputs`] that it has left; none where it was killed.
    pub files: Vec<OutputFile>,
    /// From the start of the sandbox to its end.
    pub wall: Duration,
}

impl ExecutionResult {
    /// The content of a file that came out.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|file| file.name == name).map(|file| file.bytes.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_of_a_stream_are_kept() {
        let mut printed = Printed::default();
        for number in 0..1_000_u32 {
            printed.add(format!("{number:04}").as_bytes(), 8);
        }
        printed.cut(8);
        assert_eq!((printed.head.as_slice(), printed.tail.as_slice()), (&b"00000001"[..], &b"09980999"[..]));
        assert_eq!((printed.n_bytes, printed.n_dropped()), (4000, 3984));
        assert!(printed.text().contains("3984 bytes"));
        let mut whole = Printed::default();
        whole.add("aé".as_bytes(), 2);
        assert_eq!(whole.text(), "aé");
    }
}
