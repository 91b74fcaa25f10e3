//! A directory of `eval --out`: its files against their hashes, and the journals of its calls.

use super::{Checking, Fault, Remedy};
use crate::error::PipelineError;
use crate::run_dir::JOURNAL_FILE;
use crate::run_dir::measurement::BANK_EVALUATION_FILE;
use crate::run_dir::policy_hashes::{HASHES_FILE, parse_hashes};
use crate::run_dir::read::read_bytes;

impl Checking<'_> {
    /// Checks a measurement.
    pub(super) fn measurement(&mut self) -> Result<(), PipelineError> {
        match read_bytes(&self.run.join(HASHES_FILE))? {
            None => self.check.is_unrecorded = true,
            Some(bytes) => match parse_hashes(&String::from_utf8_lossy(&bytes)) {
                None if bytes.is_empty() => self.damaged(HASHES_FILE, Fault::Empty, Remedy::Remeasure),
                None => self.damaged(HASHES_FILE, Fault::Changed, Remedy::Remeasure),
                Some(files) => {
                    self.whole(HASHES_FILE);
                    for (name, hash) in files {
                        self.hashed_with(name, hash, Remedy::Remeasure);
                    }
                }
            },
        }
        let of_bank = format!("{BANK_EVALUATION_FILE}.calls/{JOURNAL_FILE}");
        let is_of_bank = self.one_journal(&of_bank, 0, false)?;
        self.check.is_journal_whole = self.one_journal(JOURNAL_FILE, 0, false)? || is_of_bank;
        Ok(())
    }
}
