//! The journal of a run, which a run that has sent or measured something does not begin again by accident.

use super::held::RunDir;
use super::timings::Timings;
use crate::error::PipelineError;
use skill_llm::journal::{JournalError, JournalReader, requests_written};
use skill_llm::{Journal, JournalOptions};
use std::path::Path;

/// Opens a journal to read what it holds; `None` if nothing was ever committed to it, as of an imported run, or of a
/// process that died before its first commit.
///
/// # Errors
///
/// A journal that cannot be read.
pub fn journal_if_there(path: &Path) -> Result<Option<JournalReader>, JournalError> {
    match JournalReader::open_at_rest(path) {
        Ok(journal) => Ok(Some(journal)),
        Err(JournalError::Missing { .. } | JournalError::Empty { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl RunDir {
    /// Looks whether the journal is whole that the run needs to go on; nothing is made or changed.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read; one that is not there or has no entry where the run has measured something; one
    /// with fewer requests than it is known to have had. With these its caps would begin again, and what was paid would
    /// be paid again.
    pub fn check_journal(&self) -> Result<(), PipelineError> {
        let state = self.read_state()?;
        // Both were written after what they tell of was committed.
        let n_noted = Timings::read_or_new(self.path())?.requests.unwrap_or_default();
        if state.is_none() && n_noted == 0 {
            return Ok(());
        }
        let path = self.journal_path();
        let n_found = requests_written(&path)?;
        if n_found.is_some_and(|n_found| n_found >= n_noted) {
            return Ok(());
        }
        let last_step = state.map_or(0, |state| state.last_completed_step.0);
        Err(PipelineError::LostJournal { path, last_step, n_found, n_noted })
    }

    /// Opens the journal of the run, and makes it if nothing of the run is known; `may_have_lost` takes it as it is in
    /// any case.
    ///
    /// # Errors
    ///
    /// As [`RunDir::check_journal`], and a journal that cannot be opened.
    pub fn open_journal(
        &self,
        options: JournalOptions,
        may_have_lost: bool,
    ) -> Result<Journal, PipelineError> {
        if !may_have_lost {
            self.check_journal()?;
        }
        // Anyone who goes on later without being asked finds one that was begun.
        let options = JournalOptions { begins_at_once: may_have_lost, ..options };
        Ok(Journal::open(&self.journal_path(), options)?)
    }
}
