//! What a run has sent: the one count behind the spend that `status`, `watch`, `serve` and reports show.

use super::{JOURNAL_FILE, RunReader, journal_if_there};
use crate::error::PipelineError;
use crate::records::{StageTokens, TokensByStage};
use skill_llm::journal::{JournalError, JournalReader, ModelSpent};
use std::path::Path;

/// What a run has sent, over all its processes.
#[derive(Debug, Clone, PartialEq)]
pub enum Sent {
    /// By its journal: every request, also retries, cancelled calls, and the requests of `doctor`, `prune` and `try`. A
    /// reply that was copied from a recording is not among them.
    Journal {
        /// Requests and tokens of each model.
        by_model: Vec<ModelSpent>,
        /// How long the processes of the run worked, until their last commit.
        seconds: f64,
    },
    /// By its files, where it has no journal, such as an imported run: the calls that its results are made from.
    Files(TokensByStage),
    /// A part of it, since a journal cannot be read.
    Partial {
        /// What is known without that journal.
        counted: Box<Self>,
        /// The journal, and what is wrong with it.
        problem: String,
    },
}

impl Sent {
    /// How long the processes of the run worked; `None` without a journal.
    pub fn seconds(&self) -> Option<f64> {
        match self {
            Self::Journal { seconds, .. } => Some(*seconds),
            Self::Files(_) => None,
            Self::Partial { counted, .. } => counted.seconds(),
        }
    }

    /// Counts what a run has sent.
    ///
    /// # Errors
    ///
    /// Without a journal that can be read: files of the run that cannot be read.
    pub fn of(run: &RunReader) -> Result<Self, PipelineError> {
        match Self::at(&run.path().join(JOURNAL_FILE)) {
            Ok(Some(sent)) => Ok(sent),
            Ok(None) => run.used().map(Self::Files),
            Err(error) => Ok(Self::Files(run.used()?).without_journal(&error)),
        }
    }

    /// Counts the requests of the journal at this path; `None` if there is none, or it holds neither requests nor replies.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn at(path: &Path) -> Result<Option<Self>, JournalError> {
        let Some(journal) = journal_if_there(path)? else { return Ok(None) };
        Self::of_journal(&journal, journal.spent()?)
    }

    /// The same, without what a journal holds that cannot be read.
    #[must_use]
    pub fn without_journal(self, error: &JournalError) -> Self {
        match self {
            Self::Partial { counted, problem } => {
                Self::Partial { counted, problem: format!("{problem}; {error}") }
            }
            whole => Self::Partial { counted: Box::new(whole), problem: error.to_string() },
        }
    }

    /// What is wrong with the journals that are not counted.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Partial { problem, .. } => Some(problem),
            Self::Journal { .. } | Self::Files(_) => None,
        }
    }

    /// Counts these requests of a journal; `None` if the journal holds neither requests nor replies.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn of_journal(
        journal: &JournalReader,
        by_model: Vec<ModelSpent>,
    ) -> Result<Option<Self>, JournalError> {
        let has_requests = by_model.iter().any(|spent| spent.requests > 0);
        if !has_requests && !journal.has_copies()? {
            return Ok(None);
        }
        Ok(Some(Self::Journal { by_model, seconds: journal.elapsed()?.as_secs_f64() }))
    }

    /// Requests that were sent, every attempt counted.
    pub fn requests(&self) -> u64 {
        match self {
            Self::Journal { by_model, .. } => {
                by_model.iter().map(|spent| spent.requests).fold(0, u64::saturating_add)
            }
            Self::Files(stages) => StageTokens::of_all(stages).calls,
            Self::Partial { counted, .. } => counted.requests(),
        }
    }

    /// Tokens of these requests, prompts and replies.
    pub fn tokens(&self) -> u64 {
        match self {
            Self::Journal { by_model, .. } => by_model
                .iter()
                .map(|spent| spent.usage.input.saturating_add(spent.usage.output))
                .fold(0, u64::saturating_add),
            Self::Files(stages) => StageTokens::of_all(stages).tokens(),
            Self::Partial { counted, .. } => counted.tokens(),
        }
    }

    /// True if the run has replies and its journal records no request for them: a replay, for example.
    pub fn is_replay(&self) -> bool {
        matches!(self, Self::Journal { .. }) && self.requests() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{ConfigFile, RunIdentity};
    use crate::run_dir::RunDir;
    use serde_json::Value;
    use std::fs;

    /// True if a journal of these bytes is one that cannot be read.
    #[track_caller]
    fn check(journal: Option<&[u8]>, is_unread: bool) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::open(dir.path()).unwrap();
        run.write_config(&ConfigFile::new(Value::Null, RunIdentity::default()), None).unwrap();
        if let Some(bytes) = journal {
            fs::write(dir.path().join(JOURNAL_FILE), bytes).unwrap();
        }
        let sent = Sent::of(&RunReader::open(dir.path()).unwrap()).unwrap();
        assert_eq!(sent.problem().is_some_and(|problem| problem.contains(JOURNAL_FILE)), is_unread);
        assert_eq!(matches!(sent, Sent::Files(_)), !is_unread, "{sent:?}");
    }

    #[test]
    fn a_journal_that_cannot_be_read_is_no_missing_one() {
        check(None, false);
        check(Some(b""), false);
        check(Some(&[b'x'; 4096]), true);
    }
}
