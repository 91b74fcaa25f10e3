//! The bank of a run: it is built from the run's journal again by each process, beside the log on the disk.

use crate::error::PipelineError;
use crate::records::bank::LOG_FILE;
use crate::run_dir::bank_dir::BankDir;
use skill_bank::format::BankFormat;
use skill_bank::{Author, Bank, BankError, BankEvent, Record};
use std::path::{Path, PathBuf};

/// A bank that grows as its log says, and beyond it.
///
/// A process that goes on with a run comes to the events that are on the disk again, one by one: each is compared, and
/// only what comes after them is written. What a person did to the bank in between counts from the same place on.
pub struct LiveBank {
    path: PathBuf,
    dir: BankDir,
    log: Vec<Record>,
    bank: Bank,
}

impl LiveBank {
    /// The bank in this directory, or a new one that starts as `initial`.
    ///
    /// # Errors
    ///
    /// A directory that holds another bank, or cannot be read or written.
    pub fn open(
        path: &Path,
        initial: &Bank,
        source: Option<(BankFormat, &str)>,
    ) -> Result<Self, PipelineError> {
        let dir = match crate::run_dir::bank_dir::is_bank(path) {
            true => BankDir::open(path).map_err(of_run)?,
            false => BankDir::create_in_run(path, initial.clone(), source)?,
        };
        dir.refresh()?;
        let log = dir.bank().log().to_vec();
        if log.get(..initial.log().len()) != Some(initial.log()) {
            return Err(Self::differs(path, 0));
        }
        let mut live = Self { path: path.to_owned(), dir, log, bank: initial.clone() };
        live.follow_people()?;
        Ok(live)
    }

    /// The bank in this directory as it was after so many events.
    ///
    /// # Errors
    ///
    /// A directory that holds no bank, and a log that cannot be read or has fewer events.
    pub fn first_events(path: &Path, n_events: u64) -> Result<Bank, PipelineError> {
        let dir = BankDir::open(path).map_err(of_run)?;
        let log = dir.bank().log();
        let events = usize::try_from(n_events).ok().and_then(|n| log.get(..n));
        let events = events.ok_or_else(|| PipelineError::Corrupt {
            path: path.join(LOG_FILE),
            message: format!("has {} of the {n_events} events that the checkpoint counts", log.len()),
        })?;
        let mut bank = Bank::new();
        for Record { round, by, event, .. } in events.iter().cloned() {
            bank.record(round, by, event)
                .map_err(|source| PipelineError::Bank { path: path.to_owned(), source })?;
        }
        Ok(bank)
    }

    /// The bank as it is now.
    pub fn bank(&self) -> &Bank {
        &self.bank
    }

    /// Adds events of the run.
    ///
    /// A process that was killed may have written some of them alone, and a person may have decided something behind
    /// these: what is no longer possible then is left out.
    ///
    /// # Errors
    ///
    /// An event that does not follow, a log that says something else, or one that cannot be written.
    pub fn record(
        &mut self,
        round: u32,
        events: impl IntoIterator<Item = BankEvent>,
    ) -> Result<(), PipelineError> {
        let mut new = Vec::new();
        let mut is_interrupted = false;
        for (idx, event) in events.into_iter().enumerate() {
            is_interrupted |= self.follow_people()? && idx > 0;
            match self.bank.record(round, Author::Process, event.clone()) {
                Ok(_) => {}
                Err(error) if is_interrupted => {
                    tracing::warn!(%error, "an event is left out, since a person has changed the bank");
                    continue;
                }
                Err(source) => return Err(PipelineError::Bank { path: self.path.clone(), source }),
            }
            let at = self.bank.log().len();
            match self.log.get(at - 1) {
                Some(known) if Some(known) == self.bank.log().last() => {}
                Some(_) => return Err(Self::differs(&self.path, at)),
                None => new.push(event),
            }
        }
        if !new.is_empty() {
            self.dir.record(round, Author::Process, new)?;
            self.log = self.bank.log().to_vec();
        }
        self.follow_people()?;
        Ok(())
    }

    /// Takes over what people did next, as far as the log goes; returns whether they did anything.
    fn follow_people(&mut self) -> Result<bool, PipelineError> {
        let n_before = self.bank.log().len();
        while let Some(record) = self.log.get(self.bank.log().len()).filter(|next| next.by == Author::Person)
        {
            let Record { round, by, event, .. } = record.clone();
            self.bank
                .record(round, by, event)
                .map_err(|source| PipelineError::Bank { path: self.path.clone(), source })?;
        }
        Ok(self.bank.log().len() > n_before)
    }

    fn differs(path: &Path, event: usize) -> PipelineError {
        PipelineError::Corrupt {
            path: path.to_owned(),
            message: format!("its log differs from what the run comes to, from event {} on", event.max(1)),
        }
    }
}

/// A log that is damaged is a damaged file of the run, and not data that somebody wrote.
fn of_run(error: PipelineError) -> PipelineError {
    match error {
        PipelineError::Bank {
            path,
            source: source @ (BankError::BadLog { .. } | BankError::NotABank { .. }),
        } => PipelineError::Corrupt { path, message: source.to_string() },
        other => other,
    }
}
