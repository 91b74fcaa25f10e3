//! Text files of people and other programs.
//!
//! All data, configurations, skills, banks, prompts and lists that a person names are read here, so that a byte-order
//! mark is passed over and UTF-16 read in each of them, and so that bytes which are not text are named with their place.
//! What this program has written itself may be read without it.

use crate::regular_file::{bytes_up_to, too_large};
use skill_core::encoding::{self, EncodingFault};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Cursor, ErrorKind, Read};
use std::path::Path;

/// The most bytes of a file that is read without another limit: 1 GiB.
pub const MAX_BYTES: u64 = 1 << 30;

/// The text of a file.
///
/// # Errors
///
/// Those of [`read_up_to`].
pub fn read(path: &Path) -> io::Result<String> {
    read_up_to(path, MAX_BYTES)
}

/// The text of a file with at most this many bytes.
///
/// # Errors
///
/// A file that cannot be read, of [`ErrorKind::FileTooLarge`], or of [`ErrorKind::InvalidData`] with an
/// [`EncodingFault`], which [`fault_of`] finds.
pub fn read_up_to(path: &Path, max_bytes: u64) -> io::Result<String> {
    // People may name a pipe.
    encoding::decode(bytes_up_to(File::open(path)?, max_bytes)?).map_err(not_text)
}

/// What is wrong with the bytes of a file, where that is why it could not be read.
pub fn fault_of(error: &io::Error) -> Option<EncodingFault> {
    error.get_ref()?.downcast_ref::<EncodingFault>().copied()
}

fn not_text(fault: EncodingFault) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, fault)
}

/// The lines of a text file, which is never in memory as a whole unless it is UTF-16.
pub struct Lines {
    bytes: BufReader<Box<dyn Read>>,
    buffer: Vec<u8>,
    n_lines: usize,
    n_bytes: u64,
    max_bytes: u64,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("n_lines", &self.n_lines).finish_non_exhaustive()
    }
}

impl Lines {
    /// Opens a file of at most this many bytes.
    ///
    /// # Errors
    ///
    /// Those of [`read_up_to`], the bytes of lines that come later left aside.
    pub fn open(path: &Path, max_bytes: u64) -> io::Result<Self> {
        let mut file = BufReader::new(File::open(path)?);
        let bytes: Box<dyn Read> = if encoding::is_utf16(file.fill_buf()?) {
            Box::new(Cursor::new(read_up_to(path, max_bytes)?.into_bytes()))
        } else {
            Box::new(file)
        };
        let bytes = BufReader::new(bytes);
        Ok(Self { bytes, buffer: Vec::new(), n_lines: 0, n_bytes: 0, max_bytes })
    }

    /// The next line without its line feed, and its number from 1; `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// Those of [`read_up_to`]; the line of an [`EncodingFault`] is that of the file.
    pub fn next_line(&mut self) -> io::Result<Option<(usize, String)>> {
        self.buffer.clear();
        let room = self.max_bytes.saturating_sub(self.n_bytes).saturating_add(1);
        let n_read = self.bytes.by_ref().take(room).read_until(b'\n', &mut self.buffer)?;
        if n_read == 0 {
            return Ok(None);
        }
        self.n_lines += 1;
        self.n_bytes = self.n_bytes.saturating_add(u64::try_from(n_read).unwrap_or(u64::MAX));
        if self.n_bytes > self.max_bytes {
            return Err(too_large(self.max_bytes));
        }
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        }
        let bytes = std::mem::take(&mut self.buffer);
        // A mark belongs to the file; in the midst of it, it is a character.
        let line = if self.n_lines == 1 {
            encoding::decode(bytes)
        } else {
            encoding::utf8(bytes).map_err(|fault| fault.from_line(self.n_lines))
        };
        line.map(|line| Some((self.n_lines, line))).map_err(not_text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_of(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        (dir, path)
    }

    fn lines(path: &Path, max_bytes: u64) -> io::Result<Vec<(usize, String)>> {
        let mut lines = Lines::open(path, max_bytes)?;
        let mut all = Vec::new();
        while let Some(line) = lines.next_line()? {
            all.push(line);
        }
        Ok(all)
    }

    #[track_caller]
    fn check(bytes: &[u8], expect: &[&str]) {
        let (_dir, path) = file_of(bytes);
        let expect: Vec<(usize, String)> = (1..).zip(expect.iter().map(|line| (*line).to_owned())).collect();
        assert_eq!(lines(&path, 100).unwrap(), expect, "{bytes:?}");
        let text = read(&path).unwrap();
        let whole = text.split_terminator('\n').map(str::to_owned);
        let whole: Vec<(usize, String)> = (1..).zip(whole).collect();
        assert_eq!(whole, expect, "{bytes:?}");
    }

    #[test]
    fn lines_are_those_of_the_text() {
        check(b"", &[]);
        check(b"a\r\n\nb", &["a\r", "", "b"]);
        check(b"\xef\xbb\xbfa\nb\n", &["a", "b"]);
        check("a\n\u{feff}b\n".as_bytes(), &["a", "\u{feff}b"]);
        check(b"\xff\xfea\0\r\0\n\0b\0", &["a\r", "b"]);
        check(b"\xfe\xff\0a\0\n\0b", &["a", "b"]);
    }

    #[test]
    fn bytes_that_are_not_text_have_a_place_and_large_files_a_limit() {
        let (_dir, path) = file_of(b"a\nb\xff\n");
        for error in [read(&path).unwrap_err(), lines(&path, 100).unwrap_err()] {
            let expect = EncodingFault::NotUtf8 { line: 2, column: 2, byte: 0xff };
            assert_eq!((error.kind(), fault_of(&error)), (ErrorKind::InvalidData, Some(expect)));
        }
        let (_dir, path) = file_of(b"abc\nd");
        assert_eq!(lines(&path, 5).unwrap().len(), 2);
        for error in [read_up_to(&path, 4).unwrap_err(), lines(&path, 4).unwrap_err()] {
            assert_eq!((error.kind(), fault_of(&error)), (ErrorKind::FileTooLarge, None));
        }
    }
}
