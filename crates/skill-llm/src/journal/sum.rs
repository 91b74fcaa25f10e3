//! The hash of a journal that nobody writes, in a small file beside it (`journal.sqlite-sum`).
//!
//! SQLite finds damage to the structure of a database, and none inside a text. So whoever closes a journal writes down
//! what it holds. While it is open the file says so, and what a killed process leaves says it too.
//!
//! # Invariants
//!
//! - A changed byte of a journal that was closed does not go unseen, and a killed process leaves no wrong hash. Held by
//!   `every_changed_byte_of_a_closed_journal_is_seen`.

use super::error::JournalError;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// What is added to the name of the journal.
const SUFFIX: &str = "-sum";

/// How much of a journal is read at a time.
const BUFFER_BYTES: usize = 64 * 1024;

/// What the file holds while the journal is open.
const OPEN: &str = "open\n";

/// How a journal compares with what it was when it was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// It has the bytes that it had then.
    Same,
    /// It has others.
    Changed,
    /// It is open, or a process that had opened it was killed.
    Open,
    /// The file that would say it does not exist.
    Missing,
    /// The file that would say it is damaged.
    Damaged,
}

/// The file beside a journal.
pub fn sum_path(journal: &Path) -> PathBuf {
    let mut path = journal.as_os_str().to_owned();
    path.push(SUFFIX);
    PathBuf::from(path)
}

/// Compares a journal with what it was when it was closed; all of it is read.
///
/// # Errors
///
/// A file that cannot be read.
pub fn compare_with_sum(journal: &Path) -> Result<Closed, JournalError> {
    let path = sum_path(journal);
    let noted = match std::fs::read(&path) {
        Ok(noted) => noted,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Closed::Missing),
        Err(error) => return Err(JournalError::sent("read", path, &error)),
    };
    if noted == OPEN.as_bytes() {
        return Ok(Closed::Open);
    }
    let Some(hash) = read_line(&noted) else { return Ok(Closed::Damaged) };
    let found = hash_of(journal).map_err(|error| JournalError::sent("read", journal.to_owned(), &error))?;
    Ok(if found.to_hex().as_str() == hash { Closed::Same } else { Closed::Changed })
}

/// Notes that a journal is about to be opened for writing.
pub(super) fn note_open(journal: &Path) -> Result<(), JournalError> {
    write(journal, OPEN).map_err(|error| JournalError::sent("write", sum_path(journal), &error))
}

/// Notes what a journal holds that was closed.
pub(super) fn note_closed(journal: &Path) {
    // Without it the journal is checked as one that a killed process has left.
    if let Err(error) = hash_of(journal).and_then(|hash| write(journal, &line(hash.to_hex().as_str()))) {
        tracing::debug!(%error, "the hash of the journal could not be written");
    }
}

fn write(journal: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(sum_path(journal))?;
    file.write_all(text.as_bytes())?;
    // An older hash may not outlive the first change after it.
    file.sync_data()
}

fn hash_of(journal: &Path) -> io::Result<blake3::Hash> {
    let (mut hasher, mut file, mut buffer) =
        (blake3::Hasher::new(), File::open(journal)?, vec![0; BUFFER_BYTES]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finalize()),
            Ok(n_read) => {
                hasher.update(buffer.get(..n_read).unwrap_or_default());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The hash, with a hash of itself.
fn line(hash: &str) -> String {
    format!("{hash} {}\n", blake3::hash(hash.as_bytes()).to_hex())
}

fn read_line(noted: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(noted).ok()?;
    let (hash, _) = text.split_once(' ')?;
    (text == line(hash)).then_some(hash)
}
