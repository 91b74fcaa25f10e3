//! The journal: whether it can be opened, is sound to SQLite, and holds as many requests as it is known to have held.

use super::{Checking, Fault, Remedy};
use crate::error::PipelineError;
use crate::records::document::RuntimeState;
use crate::run_dir::JOURNAL_FILE;
use crate::run_dir::timings::Timings;
use skill_llm::error::with_causes;
use skill_llm::journal::{JournalError, JournalReader, requests_written};

impl Checking<'_> {
    pub(super) fn journal(&mut self, state: Option<&RuntimeState>) -> Result<(), PipelineError> {
        let n_noted = Timings::read_or_new(self.run)?.requests.unwrap_or_default();
        let path = self.run.join(JOURNAL_FILE);
        let Ok(file) = path.metadata() else {
            // An imported run has neither.
            if self.has_trained() && state.is_some() || n_noted > 0 {
                self.damaged(JOURNAL_FILE, Fault::Missing, Remedy::Copy);
            }
            return Ok(());
        };
        if file.is_file() && file.len() == 0 {
            self.damaged(JOURNAL_FILE, Fault::Empty, Remedy::Copy);
            return Ok(());
        }
        let found = JournalReader::open_at_rest(&path)
            .and_then(|journal| journal.faults())
            .and_then(|faults| Ok((faults, requests_written(&path)?)));
        match found {
            Err(JournalError::OtherSchema { path, found }) => {
                return Err(PipelineError::Journal(JournalError::OtherSchema { path, found }));
            }
            Err(error) => {
                let detail = with_causes(&error);
                self.damage_of(JOURNAL_FILE, Fault::Changed, Remedy::Copy, Some(&detail));
            }
            Ok((faults, _)) if !faults.is_empty() => {
                let detail = faults.first().map(String::as_str);
                self.damage_of(JOURNAL_FILE, Fault::Changed, Remedy::Copy, detail);
            }
            Ok((_, n_found)) if n_found.unwrap_or_default() < n_noted => {
                let detail = format!("holds {} of {n_noted} requests", n_found.unwrap_or_default());
                self.damage_of(JOURNAL_FILE, Fault::Changed, Remedy::Copy, Some(&detail));
            }
            Ok(_) => {
                self.check.n_whole += 1;
                self.check.is_journal_whole = true;
            }
        }
        Ok(())
    }
}
