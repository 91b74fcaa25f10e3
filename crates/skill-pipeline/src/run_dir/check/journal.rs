//! The journals: whether each can be opened, is sound to SQLite, and holds as many requests as it is known to have held.

use super::{Checking, Fault, Remedy};
use crate::error::PipelineError;
use crate::run_dir::JOURNAL_FILE;
use crate::run_dir::timings::Timings;
use skill_llm::error::with_causes;
use skill_llm::journal::{JournalError, JournalReader, requests_written};

impl Checking<'_> {
    /// `is_expected` of a run that has measured something.
    pub(super) fn journal(&mut self, is_expected: bool) -> Result<(), PipelineError> {
        let timings = Timings::read_or_new(self.run)?;
        let n_noted = timings.requests.unwrap_or_default();
        self.check.is_journal_whole = self.one_journal(JOURNAL_FILE, n_noted, is_expected)?;
        for (name, n_noted) in &timings.journals {
            self.one_journal(name, *n_noted, true)?;
        }
        Ok(())
    }

    /// Returns whether there is a journal that is whole.
    fn one_journal(&mut self, name: &str, n_noted: u64, is_expected: bool) -> Result<bool, PipelineError> {
        let path = self.run.join(name);
        let Ok(file) = path.metadata() else {
            if is_expected || n_noted > 0 {
                self.damaged(name, Fault::Missing, Remedy::Copy);
            }
            return Ok(false);
        };
        if file.is_file() && file.len() == 0 {
            self.damaged(name, Fault::Empty, Remedy::Copy);
            return Ok(false);
        }
        let found = JournalReader::open_at_rest(&path)
            .and_then(|journal| journal.faults())
            .and_then(|faults| Ok((faults, requests_written(&path)?)));
        let detail = match found {
            Err(JournalError::OtherSchema { path, found }) => {
                return Err(PipelineError::Journal(JournalError::OtherSchema { path, found }));
            }
            Err(error) => with_causes(&error),
            Ok((faults, n_found)) => {
                let n_found = n_found.unwrap_or_default();
                match faults.into_iter().next() {
                    Some(fault) => fault,
                    None if n_found < n_noted => format!("holds {n_found} of {n_noted} requests"),
                    None => {
                        self.whole(name);
                        return Ok(true);
                    }
                }
            }
        };
        self.damage_of(name, Fault::Changed, Remedy::Copy, Some(&detail));
        Ok(false)
    }
}
