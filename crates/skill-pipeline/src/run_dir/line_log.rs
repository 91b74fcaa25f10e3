//! A file that grows by lines: what is kept of it is never written again.
//!
//! A killed process may leave lines that no state names, and a last line without a line break. The next process to append
//! keeps those that equal what it would write, and cuts the file at the first that differs. So a resumed run leaves the
//! same bytes as one that was not interrupted.

use super::atomic::failed;
use crate::error::PipelineError;
use serde::{Deserialize, Serialize};
use skill_core::canonical::{RunningSha256, hex_sha256};
use skill_llm::regular_file;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// The beginning of a file of lines, as a checkpoint relies on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogMark {
    /// Its lines.
    pub lines: u64,
    /// Its SHA-256 in 64 hexadecimal digits.
    pub sha256: String,
}

impl LogMark {
    /// The bytes of the lines that the mark is of, at the beginning of these; `None` if they are others.
    pub(super) fn of_beginning<'bytes>(&self, bytes: &'bytes [u8]) -> Option<&'bytes [u8]> {
        let n_lines = usize::try_from(self.lines).unwrap_or(usize::MAX);
        let n_bytes = whole_lines(bytes).take(n_lines).map(|line| line.len() + 1).sum();
        let beginning = bytes.get(..n_bytes)?;
        (whole_lines(beginning).count() == n_lines && hex_sha256(beginning) == self.sha256)
            .then_some(beginning)
    }
}

/// The end of a file of lines.
#[derive(Debug)]
pub struct LineLog {
    path: PathBuf,
    /// Lines that are kept.
    n_lines: u64,
    /// The hash and the number of the bytes of these lines.
    kept: RunningSha256,
    /// Whole lines behind them, without their ends.
    later: VecDeque<Vec<u8>>,
}

impl LineLog {
    /// Opens a log that may not exist and keeps its first `n_kept` lines, which are returned without their ends; there
    /// are fewer if the file has fewer whole lines.
    ///
    /// # Errors
    ///
    /// A file that cannot be read.
    pub fn open(path: &Path, n_kept: u64) -> Result<(Self, Vec<Vec<u8>>), PipelineError> {
        let bytes = match regular_file::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed("read", path)(error)),
        };
        let mut lines = whole_lines(&bytes).map(<[u8]>::to_vec);
        let n_wanted = usize::try_from(n_kept).unwrap_or(usize::MAX);
        let kept: Vec<Vec<u8>> = lines.by_ref().take(n_wanted).collect();
        let mut hash = RunningSha256::default();
        kept.iter().for_each(|line| add_line(&mut hash, line));
        let log =
            Self { path: path.to_owned(), n_lines: kept.len() as u64, kept: hash, later: lines.collect() };
        Ok((log, kept))
    }

    /// As [`LineLog::open`], of a log on whose first `n_kept` lines a checkpoint relies; one of an earlier version has no
    /// `mark` of them.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, has fewer lines, or begins with others.
    pub fn open_kept(
        path: &Path,
        n_kept: u64,
        mark: Option<&LogMark>,
    ) -> Result<(Self, Vec<Vec<u8>>), PipelineError> {
        let (log, lines) = Self::open(path, n_kept)?;
        let corrupt = |message: String| PipelineError::Corrupt { path: path.to_owned(), message };
        if log.n_lines() < n_kept {
            return Err(corrupt(format!(
                "has {} of the {n_kept} lines that the checkpoint counts",
                log.n_lines()
            )));
        }
        if mark.is_some_and(|mark| *mark != log.mark()) {
            return Err(corrupt(format!(
                "was changed: its first {n_kept} lines are not those of the checkpoint"
            )));
        }
        Ok((log, lines))
    }

    /// The mark of the lines that are kept.
    pub fn mark(&self) -> LogMark {
        LogMark { lines: self.n_lines, sha256: self.kept.hex() }
    }

    /// Adds a record as a line of JSON.
    ///
    /// # Errors
    ///
    /// As [`LineLog::append`].
    pub fn append_record(&mut self, record: &impl serde::Serialize) -> Result<(), PipelineError> {
        // Records have texts as keys, which is all that JSON asks for.
        self.append(serde_json::to_string(record).expect("a record serializes").as_bytes())
    }

    /// The record of one of the log's lines.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Corrupt`] for a line that is not such a record.
    pub fn record<T: serde::de::DeserializeOwned>(
        &self,
        line: Option<&Vec<u8>>,
    ) -> Result<Option<T>, PipelineError> {
        let read = line.map(|line| serde_json::from_slice(line)).transpose();
        read.map_err(|error| PipelineError::Corrupt { path: self.path.clone(), message: error.to_string() })
    }

    /// Waits until all lines are on the disk.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn flush(&self) -> Result<(), PipelineError> {
        match File::options().write(true).open(&self.path).and_then(|file| file.sync_all()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("write", &self.path)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lines that are kept.
    pub fn n_lines(&self) -> u64 {
        self.n_lines
    }

    /// Whole lines behind those that are kept.
    pub(super) fn later(&self) -> impl Iterator<Item = &[u8]> {
        self.later.iter().map(Vec::as_slice)
    }

    /// Adds a line behind those that are kept; nothing is written where it is the next one already. Nothing waits for
    /// the disk.
    ///
    /// # Errors
    ///
    /// A file that cannot be written; the lines that were kept are untouched.
    pub fn append(&mut self, line: &[u8]) -> Result<(), PipelineError> {
        if self.later.front().is_some_and(|next| next == line) {
            self.later.pop_front();
        } else {
            self.later.clear();
            self.write(line).map_err(failed("write", &self.path))?;
        }
        self.n_lines += 1;
        add_line(&mut self.kept, line);
        Ok(())
    }

    /// Takes away what is behind the lines that are kept.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn cut(&mut self) -> Result<(), PipelineError> {
        self.later.clear();
        match File::options().write(true).open(&self.path).and_then(|file| file.set_len(self.kept.n_bytes()))
        {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("write", &self.path)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut file = File::options().create(true).truncate(false).write(true).open(&self.path)?;
        let n_bytes = self.kept.n_bytes();
        if file.seek(SeekFrom::End(0))? != n_bytes {
            file.set_len(n_bytes)?;
            file.seek(SeekFrom::Start(n_bytes))?;
        }
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
        file.write_all(&bytes)
    }
}

fn add_line(hash: &mut RunningSha256, line: &[u8]) {
    hash.update(line);
    hash.update(b"\n");
}

/// The lines of a file that have an end, without it.
pub(super) fn whole_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// What a file holds after lines were added behind the first `n_kept` of these bytes.
    fn after(bytes: &str, n_kept: u64, add: &[&str]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, bytes).unwrap();
        let (mut log, _) = LineLog::open(&path, n_kept).unwrap();
        for line in add {
            log.append(line.as_bytes()).unwrap();
        }
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn what_is_kept_is_not_written_again_and_the_rest_is_replaced() {
        for (before, n_kept, add, expect, why) in [
            ("", 0, &["a", "b"][..], "a\nb\n", "a new file"),
            ("a\nb\n", 2, &["c"], "a\nb\nc\n", "all lines are kept"),
            ("a\nb\nold\n", 2, &["c"], "a\nb\nc\n", "a line behind those that are kept"),
            ("a\nb\nc\nd\n", 1, &["b"], "a\nb\nc\nd\n", "as long as they are equal"),
            ("a\nb\nc\nd\n", 1, &["b", "x"], "a\nb\nx\n", "from the first that differs"),
            ("a\nhal", 1, &["b"], "a\nb\n", "a torn line"),
            ("a\nhalf a line", 1, &[], "a\nhalf a line", "nobody has added anything"),
            ("a\n", 5, &["b"], "a\nb\n", "fewer than expected"),
        ] {
            assert_eq!(after(before, n_kept, add), expect, "{why}");
        }
    }

    #[test]
    fn a_mark_is_of_the_first_lines_alone() {
        let (log, _) = {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("log");
            fs::write(&path, "a\nb\nrest\n").unwrap();
            LineLog::open(&path, 2).unwrap()
        };
        let mark = LogMark { lines: log.n_lines, sha256: log.kept.hex() };
        assert_eq!(mark.of_beginning(b"a\nb\nother"), Some(&b"a\nb\n"[..]));
        for changed in ["", "a\n", "a\nb", "a\nc\n", "a\n\nb\n", "ab\n\n"] {
            assert_eq!(mark.of_beginning(changed.as_bytes()), None, "{changed:?}");
        }
    }
}
