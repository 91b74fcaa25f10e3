//! The journals: whether each can be opened, is sound to SQLite, and holds as many requests as it is known to have held.

use super::{Checking, Fault, Remedy};
use crate::error::PipelineError;
use crate::run_dir::JOURNAL_FILE;
use skill_llm::error::with_causes;
use skill_llm::journal::{Closed, JournalError, JournalReader, compare_with_sum, sum_path};

impl Checking<'_> {
    /// `is_expected` of a run that has measured something.
    pub(super) fn journal(&mut self, is_expected: bool) -> Result<(), PipelineError> {
        let timings = self.timings()?;
        let n_noted = timings.requests.unwrap_or_default();
        self.check.is_journal_whole = self.one_journal(JOURNAL_FILE, n_noted, is_expected)?;
        for (name, n_noted) in &timings.journals {
            self.one_journal(name, *n_noted, true)?;
        }
        Ok(())
    }

    /// Returns whether there is a journal that is whole.
    pub(super) fn one_journal(
        &mut self,
        name: &str,
        n_noted: u64,
        is_expected: bool,
    ) -> Result<bool, PipelineError> {
        let path = self.run.join(name);
        let Ok(file) = path.metadata() else {
            if is_expected || n_noted > 0 || sum_path(&path).exists() {
                self.damaged(name, Fault::Missing, Remedy::Copy);
            }
            return Ok(false);
        };
        if file.is_file() && file.len() == 0 {
            self.damaged(name, Fault::Empty, Remedy::Copy);
            return Ok(false);
        }
        let sum = format!("{name}-sum");
        let found = compare_with_sum(&path).and_then(|closed| {
            match closed {
                Closed::Missing => self.damaged(&sum, Fault::Missing, Remedy::Resume),
                Closed::Damaged => {
                    let is_empty = sum_path(&path).metadata().is_ok_and(|file| file.len() == 0);
                    let fault = if is_empty { Fault::Empty } else { Fault::Changed };
                    self.damaged(&sum, fault, Remedy::Resume);
                }
                Closed::Same | Closed::Changed | Closed::Open => self.whole(&sum),
            }
            if closed == Closed::Changed {
                return Ok((vec!["has other bytes than when it was closed".to_owned()], None));
            }
            let journal = JournalReader::open_at_rest(&path)?;
            // What is as it was needs no other look at each of its pages.
            let faults = if closed == Closed::Same { Vec::new() } else { journal.faults()? };
            Ok((faults, journal.requests_written()?))
        });
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
