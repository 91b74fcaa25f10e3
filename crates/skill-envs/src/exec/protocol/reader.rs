//! Lines out of bytes, in whatever pieces they come.

use std::fmt;

/// How much of a line a message shows.
pub const MAX_EXCERPT_CHARACTERS: usize = 160;

/// The room that is made for one read.
const READ_BYTES: usize = 16 * 1024;

/// Cuts what a program prints into lines, and counts them.
#[derive(Debug)]
pub struct LineReader {
    buffer: Vec<u8>,
    /// Where the next line starts in the buffer.
    start: usize,
    /// Up to where no line end was found.
    scanned: usize,
    n_lines: u64,
    max_line_bytes: usize,
}

/// A line with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// From 1, over the life of the process.
    pub number: u64,
    /// The line without its end.
    pub bytes: Vec<u8>,
}

/// A line that passed the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineTooLong {
    /// From 1, over the life of the process.
    pub number: u64,
    /// How the line begins, see [`excerpt`].
    pub excerpt: String,
}

impl LineReader {
    /// A reader that takes lines of up to so many bytes, their ends not counted.
    pub fn new(max_line_bytes: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, scanned: 0, n_lines: 0, max_line_bytes }
    }

    /// The buffer, with room behind its content, for the next read to append to.
    pub fn space(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        self.buffer.reserve(READ_BYTES);
        &mut self.buffer
    }

    /// The next whole line, if there is one.
    ///
    /// # Errors
    ///
    /// The line is longer than the limit, or has come so far without an end.
    pub fn next_line(&mut self) -> Result<Option<Line>, LineTooLong> {
        let unseen = self.buffer.get(self.scanned..).unwrap_or_default();
        let end = memchr::memchr(b'\n', unseen).map(|offset| self.scanned + offset);
        let n_bytes = end.unwrap_or(self.buffer.len()) - self.start;
        if n_bytes > self.max_line_bytes {
            let line = self.buffer.get(self.start..self.start + n_bytes).unwrap_or_default();
            return Err(LineTooLong { number: self.n_lines + 1, excerpt: excerpt(line) });
        }
        let Some(end) = end else {
            self.scanned = self.buffer.len();
            return Ok(None);
        };
        self.n_lines += 1;
        let bytes = if self.start == 0 && end + 1 == self.buffer.len() {
            // The usual case, one answer and nothing behind it: the buffer is the line.
            let mut line = std::mem::take(&mut self.buffer);
            line.pop();
            (self.start, self.scanned) = (0, 0);
            line
        } else {
            let line = self.buffer.get(self.start..end).unwrap_or_default().to_vec();
            (self.start, self.scanned) = (end + 1, end + 1);
            line
        };
        Ok(Some(Line { number: self.n_lines, bytes }))
    }

    /// How many lines there were.
    pub fn n_lines(&self) -> u64 {
        self.n_lines
    }

    /// What comes after the last line end.
    pub fn rest(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }
}

impl fmt::Display for LineTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is too long: {}", self.number, self.excerpt)
    }
}

/// A cut of a line for a message: in quotation marks, on one line, without control characters.
pub fn excerpt(line: &[u8]) -> String {
    // A character has at most four bytes, so that no more than these have to be looked at.
    let head = line.get(..4 * MAX_EXCERPT_CHARACTERS).unwrap_or(line);
    let head = String::from_utf8_lossy(head);
    let mut shown = String::new();
    for character in head.trim_end().chars().take(MAX_EXCERPT_CHARACTERS) {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    let is_cut = head.len() < line.len() || head.trim_end().chars().nth(MAX_EXCERPT_CHARACTERS).is_some();
    if is_cut { format!("`{shown}…`") } else { format!("`{shown}`") }
}
