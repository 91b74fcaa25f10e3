//! Errors of the directory of a measurement.

use std::path::PathBuf;

/// Why a directory cannot keep a measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasurementError {
    /// It is that of a run, whose summary and journal would become those of the measurement.
    #[error("{} is the directory of a run, which this would damage", path.display())]
    OfARun {
        /// The directory.
        path: PathBuf,
    },
    /// It holds something else.
    #[error("{} holds {what}, which this would replace", path.display())]
    Other {
        /// The directory, or the file in it.
        path: PathBuf,
        /// What it holds.
        what: String,
    },
    /// Its journal is empty or missing.
    #[error("{} is empty or missing, so the requests of {} would be paid for again", journal.display(), path.display())]
    LostCalls {
        /// The directory.
        path: PathBuf,
        /// The journal.
        journal: PathBuf,
    },
}

impl MeasurementError {
    /// What a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::OfARun { .. } => "name another directory with `--out`",
            Self::Other { .. } => "name another directory with `--out`, or replace it with --force",
            Self::LostCalls { .. } => {
                "bring it back from a copy, name another directory, or measure again with --force"
            }
        }
    }
}
