//! The hash of a closed journal, in a small file beside it (`journal.sqlite-sum`).
//!
//! SQLite detects damage to the structure of a database, but not inside a text. The hash is therefore written when a
//! journal is closed. While the journal is open, the file contains `open` instead; a killed process leaves it that way.
//!
//! # Invariants
//!
//! - A changed byte of a journal that was closed does not go unseen, and a killed process leaves no wrong hash. Held by
//!   `every_changed_byte_of_a_closed_journal_is_seen`.

use super::error::JournalError;
use crate::regular_file;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The suffix of the journal's name.
const SUFFIX: &str = "-sum";

/// How much of a journal is read at a time.
const BUFFER_BYTES: usize = 64 * 1024;

/// The content of the file while the journal is open.
const OPEN: &str = "open\n";

/// How a journal compares with its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// Its bytes are those that were hashed.
    Same,
    /// Its bytes have changed.
    Changed,
    /// It is open, or a process that had opened it was killed.
    Open,
    /// There is no file with a hash.
    Missing,
    /// The file with the hash is damaged.
    Damaged,
}

/// The file beside a journal.
pub fn sum_path(journal: &Path) -> PathBuf {
    let mut path = journal.as_os_str().to_owned();
    path.push(SUFFIX);
    PathBuf::from(path)
}

/// Compares a journal with the hash taken when it was closed, by reading all of it.
///
/// # Errors
///
/// A file that cannot be read.
pub fn compare_with_sum(journal: &Path) -> Result<Closed, JournalError> {
    let path = sum_path(journal);
    let noted = match regular_file::read(&path) {
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

/// Writes the hash of a journal that was closed.
pub(super) fn note_closed(journal: &Path) {
    // On failure the journal is checked like one that a killed process left open.
    if let Err(error) = hash_of(journal).and_then(|hash| write(journal, &line(hash.to_hex().as_str()))) {
        tracing::debug!(%error, "the hash of the journal could not be written");
    }
}

fn write(journal: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(sum_path(journal))?;
    file.write_all(text.as_bytes())?;
    // An old hash must be gone from the disk before the first change to the journal.
    file.sync_data()
}

fn hash_of(journal: &Path) -> io::Result<blake3::Hash> {
    let (mut hasher, mut file, mut buffer) =
        (blake3::Hasher::new(), regular_file::open(journal)?, vec![0; BUFFER_BYTES]);
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
