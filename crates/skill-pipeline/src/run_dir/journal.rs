//! The journal of a run, which a run that has measured something does not begin anew by accident.

use super::held::RunDir;
use crate::error::PipelineError;
use skill_llm::journal::was_written;
use skill_llm::{Journal, JournalOptions};

impl RunDir {
    /// Looks whether the journal is there that the run needs to go on; nothing is made or changed.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read, and one that is not there or has no entry where the run has measured something:
    /// its caps would begin anew, and what was paid would be paid again.
    pub fn check_journal(&self) -> Result<(), PipelineError> {
        let Some(state) = self.read_state()? else { return Ok(()) };
        let path = self.journal_path();
        // What a state stands on was committed before it was written.
        if was_written(&path)? {
            return Ok(());
        }
        Err(PipelineError::LostJournal { path, last_step: state.last_completed_step.0 })
    }

    /// Opens the journal of the run, and makes it if nothing of the run is measured yet; `may_be_new` makes it in any
    /// case.
    ///
    /// # Errors
    ///
    /// As [`RunDir::check_journal`], and a journal that cannot be opened.
    pub fn open_journal(&self, options: JournalOptions, may_be_new: bool) -> Result<Journal, PipelineError> {
        if !may_be_new {
            self.check_journal()?;
        }
        // Whoever goes on later without being asked finds one that was begun.
        let options = JournalOptions { begins_at_once: may_be_new, ..options };
        Ok(Journal::open(&self.journal_path(), options)?)
    }
}
