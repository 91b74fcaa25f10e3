//! Why a journal cannot be used.

use crate::error::LlmError;
use std::path::{Path, PathBuf};

/// A journal that cannot be opened, read or written.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// SQLite cannot do what it was asked.
    #[error("cannot {action} {}: {message}", path.display())]
    Sqlite {
        /// `open`, `read`, `write`.
        action: &'static str,
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        message: String,
        /// Whether the disk, or the size that the journal may have, is full.
        is_full: bool,
    },
    /// The file of requests in flight, beside the journal, cannot be used.
    #[error("cannot {action} {}: {message}", path.display())]
    Sent {
        /// `read`, `write`, `remove`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        message: String,
        /// Whether the disk is full.
        is_full: bool,
    },
    /// There is no such file.
    #[error("{} is not there", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The file is not a journal.
    #[error("{} is not a journal of skillrl", path.display())]
    NotAJournal {
        /// The file.
        path: PathBuf,
    },
    /// An older or a newer program wrote the journal.
    #[error("{} has schema version {found}, this program reads version {}", path.display(), super::SCHEMA_VERSION)]
    OtherSchema {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
    },
    /// The journal has no tables, as of a process that died before its first commit, and is opened for reading only.
    #[error("{} is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A row does not hold what it should.
    #[error("{}: {message}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        message: String,
    },
    /// The thread that writes is gone.
    #[error("cannot write {}: the writer has ended", path.display())]
    Closed {
        /// The file.
        path: PathBuf,
    },
}

impl JournalError {
    pub(super) fn sqlite(action: &'static str, path: &Path, source: rusqlite::Error) -> Self {
        if source.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) {
            return Self::NotAJournal { path: path.to_owned() };
        }
        if source.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt) {
            return Self::Corrupt { path: path.to_owned(), message: source.to_string() };
        }
        let is_full = source.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
        let message = source.to_string();
        Self::Sqlite { action, path: path.to_owned(), message, is_full }
    }

    pub(super) fn sent(action: &'static str, path: PathBuf, source: &std::io::Error) -> Self {
        let is_full = source.kind() == std::io::ErrorKind::StorageFull;
        Self::Sent { action, path, message: source.to_string(), is_full }
    }

    /// What a program that opens the journal, or who runs it, can do about it, as one sentence.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Sqlite { is_full: true, .. } | Self::Sent { is_full: true, .. } => {
                "make room, then open it again"
            }
            Self::Sqlite { .. } | Self::Sent { .. } => "check the file, its permissions and the disk",
            Self::Missing { .. } => "name the directory of a run",
            // A run has no journal of another name: somebody named another file.
            Self::NotAJournal { path } if path.file_name().is_none_or(|name| name != super::JOURNAL_FILE) => {
                "name the directory of a run, or the journal.sqlite in it"
            }
            Self::NotAJournal { .. } => {
                "bring the journal back from a copy, or move the file away: calls that only it holds are then sent again"
            }
            Self::OtherSchema { .. } => "use the version that wrote it",
            Self::Empty { .. } => "open it for writing, which makes its tables",
            Self::Corrupt { .. } => {
                "bring it back from a copy, recover it with `sqlite3 FILE .recover`, or move it away; calls that it no longer holds are sent again"
            }
            Self::Closed { .. } => "open it again",
        }
    }
}

impl From<JournalError> for LlmError {
    fn from(error: JournalError) -> Self {
        Self::Journal { message: error.to_string() }
    }
}
