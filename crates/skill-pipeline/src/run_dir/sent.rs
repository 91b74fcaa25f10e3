//! What a run has sent: the one count behind the spend that `status`, `watch`, `serve` and reports show.

use super::{JOURNAL_FILE, RunReader};
use crate::error::PipelineError;
use crate::records::{StageTokens, TokensByStage};
use skill_llm::journal::{JournalError, JournalReader, ModelSpent};

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
}

impl Sent {
    /// How long the processes of the run worked; `None` without a journal.
    pub fn seconds(&self) -> Option<f64> {
        match self {
            Self::Journal { seconds, .. } => Some(*seconds),
            Self::Files(_) => None,
        }
    }

    /// Counts what a run has sent.
    ///
    /// # Errors
    ///
    /// Without a journal that can be read: files of the run that cannot be read.
    pub fn of(run: &RunReader) -> Result<Self, PipelineError> {
        let journal = JournalReader::open_at_rest(&run.path().join(JOURNAL_FILE));
        let by_journal = journal.and_then(|journal| Self::of_journal(&journal, journal.spent()?));
        match by_journal {
            Ok(Some(sent)) => Ok(sent),
            Ok(None) | Err(_) => run.used().map(Self::Files),
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
        }
    }

    /// True if the run has replies and its journal records no request for them: a replay, for example.
    pub fn is_replay(&self) -> bool {
        matches!(self, Self::Journal { .. }) && self.requests() == 0
    }
}
