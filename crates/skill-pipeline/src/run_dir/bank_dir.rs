//! Banks on the disk: a directory with the log, and files for people and for other programs that follow from it.
//!
//! | file | what it holds |
//! |---|---|
//! | `log.jsonl` | the bank: every event, one per line |
//! | `bank.json` | the active skills in the format that the bank was imported from, else in that of the SkillRL paper |
//! | `measurements.json` | what is known of each skill besides its text: state, versions, worth, evidence |
//! | `source.json` | the file that the bank was imported from, as it was |
//!
//! Each line of the log has a hash of itself and of those before it. What that cannot show, that lines at its end are
//! missing, is seen by `measurements.json`, which is written after them and counts the events.

use super::atomic::{self, failed};
use super::is_run;
use super::vacant::check_vacant;
use crate::error::PipelineError;
use crate::records::bank::LOG_FILE;
use serde::Deserialize;
use serde_json::{Value, json};
use skill_bank::format::{self, BankFormat, Note, ReadBank};
use skill_bank::{Author, Bank, BankError, BankEvent, LogChain, ReadLog};
use skill_core::canonical::hex_sha256;
use skill_llm::regular_file;
use skill_llm::text_file;
use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The active skills, for other programs.
pub const BANK_FILE: &str = "bank.json";
/// What is known of the skills.
pub const MEASUREMENTS_FILE: &str = "measurements.json";
/// The file that the bank was imported from.
pub const SOURCE_FILE: &str = "source.json";

/// Whether a directory holds a bank.
pub fn is_bank(dir: &Path) -> bool {
    dir.join(LOG_FILE).is_file()
}

/// Reads a bank: a directory of this program, or a file of any format.
///
/// # Errors
///
/// [`PipelineError::RunDir`] for what cannot be read, [`PipelineError::Bank`] for what is not a bank.
pub fn read_bank(path: &Path) -> Result<ReadBank, PipelineError> {
    check_is_bank(path)?;
    let file = if path.is_dir() { path.join(LOG_FILE) } else { path.to_owned() };
    // Before the log, which another process may be writing: it is never behind.
    let n_measured = measured_events(path);
    let bad = |source: BankError| PipelineError::Bank { path: file.clone(), source };
    let text = text_file::read(&file).map_err(|source| match text_file::fault_of(&source) {
        Some(fault) => bad(BankError::NotJson { message: format!("it {fault}") }),
        None => failed("read", &file)(source),
    })?;
    let whole = if path.is_dir() { whole_lines(&text) } else { &text };
    let mut read = format::read(whole).map_err(bad)?;
    if path.is_dir() {
        check_has_its_end(path, &read.bank, n_measured)?;
    }
    if whole.len() < text.len() {
        read.notes.push(Note::CutLog { bytes: text.len() - whole.len() });
    }
    Ok(read)
}

/// The text that a bank was imported from, with its format: that of the file itself, or what its directory keeps.
///
/// `bank` is what [`read_bank`] has read there. `None` for a bank that was never in another format.
///
/// # Errors
///
/// [`PipelineError::RunDir`] for a file that is there and cannot be read, [`PipelineError::ChangedFile`] for one in a
/// directory that is not as it was, [`PipelineError::Bank`] for a format that this version does not know.
pub fn read_source(path: &Path, bank: &Bank) -> Result<Option<(BankFormat, String)>, PipelineError> {
    let bad = |source| PipelineError::Bank { path: path.join(LOG_FILE), source };
    let Some((format, sha256)) = imported(bank).map_err(bad)? else { return Ok(None) };
    let file = if path.is_dir() { path.join(SOURCE_FILE) } else { path.to_owned() };
    match text_file::read(&file) {
        Ok(text) if path.is_dir() && hex_sha256(text.as_bytes()) != sha256 => {
            Err(PipelineError::ChangedFile { path: file })
        }
        Ok(text) => Ok(Some((format, text))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", &file)(error)),
    }
}

/// Refuses a directory that holds no bank.
fn check_is_bank(path: &Path) -> Result<(), PipelineError> {
    if !path.is_dir() || is_bank(path) {
        return Ok(());
    }
    let source = BankError::NotABank { message: format!("the directory holds no {LOG_FILE}") };
    Err(PipelineError::Bank { path: path.to_owned(), source })
}

/// How many events `measurements.json` knows of; `None` where it cannot be read, or an earlier version wrote it.
fn measured_events(dir: &Path) -> Option<u64> {
    #[derive(Deserialize)]
    struct Measured {
        events: u64,
    }
    let bytes = regular_file::read(&dir.join(MEASUREMENTS_FILE)).ok()?;
    serde_json::from_slice::<Measured>(&bytes).ok().map(|measured| measured.events)
}

/// Refuses a log that lacks events which `measurements.json` knows of: that is written after them.
fn check_has_its_end(dir: &Path, bank: &Bank, n_measured: Option<u64>) -> Result<(), PipelineError> {
    let n_found = u64::try_from(bank.log().len()).unwrap_or(u64::MAX);
    let Some(n_measured) = n_measured.filter(|n_measured| *n_measured > n_found) else { return Ok(()) };
    let message = format!(
        "the log ends after event {n_found}, but {MEASUREMENTS_FILE} was written after event {n_measured}"
    );
    let source = BankError::BadLog { line: n_found.saturating_add(2), message };
    Err(PipelineError::Bank { path: dir.join(LOG_FILE), source })
}

/// The lines that were written whole: what comes after the last line feed was under way when a process was killed.
fn whole_lines(text: &str) -> &str {
    text.rfind('\n').and_then(|end| text.get(..=end)).unwrap_or_default()
}

/// A bank's directory that is being changed; other processes wait or are refused meanwhile.
#[derive(Debug)]
pub struct BankDir {
    path: PathBuf,
    bank: Bank,
    /// The hash of the log.
    chain: LogChain,
    source: Option<(BankFormat, String)>,
    log: File,
}

impl BankDir {
    /// Makes a directory of a bank, which must not be there yet or be empty.
    ///
    /// `source` is the text that the bank was read from, where it came from another system.
    ///
    /// # Errors
    ///
    /// [`PipelineError::NotVacant`] for a directory that holds something, [`PipelineError::RunDir`] for one that cannot
    /// be written.
    pub fn create(
        path: &Path,
        bank: Bank,
        source: Option<(BankFormat, &str)>,
    ) -> Result<Self, PipelineError> {
        check_vacant(path)?;
        if is_run(path) || path.join("config.json").exists() {
            let found = "a run".to_owned();
            return Err(PipelineError::NotVacant { path: path.to_owned(), found });
        }
        Self::create_in_run(path, bank, source)
    }

    /// As [`create`](Self::create), in the directory of a run that this process holds.
    pub fn create_in_run(
        path: &Path,
        bank: Bank,
        source: Option<(BankFormat, &str)>,
    ) -> Result<Self, PipelineError> {
        atomic::create_dir(path)?;
        if let Some((_, text)) = source {
            atomic::write(&path.join(SOURCE_FILE), text.as_bytes())?;
        }
        atomic::write(&path.join(LOG_FILE), bank.chained_log_text().0.as_bytes())?;
        let dir = Self::open(path)?;
        dir.refresh()?;
        Ok(dir)
    }

    /// Opens a bank to change it.
    ///
    /// # Errors
    ///
    /// [`PipelineError::BankLocked`] while another process changes it, and as [`read_bank`].
    pub fn open(path: &Path) -> Result<Self, PipelineError> {
        check_is_bank(path)?;
        let file = path.join(LOG_FILE);
        let log = File::options().read(true).append(true).open(&file).map_err(failed("read", &file))?;
        match log.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(PipelineError::BankLocked { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(failed("lock", &file)(source)),
        }
        let text = regular_file::read_to_string(&file).map_err(failed("read", &file))?;
        let whole = whole_lines(&text);
        if whole.len() < text.len() {
            let n_bytes = u64::try_from(whole.len()).unwrap_or(u64::MAX);
            log.set_len(n_bytes).map_err(failed("write", &file))?;
        }
        let ReadLog { bank, chain, .. } =
            Bank::read_log(whole).map_err(|source| PipelineError::Bank { path: file.clone(), source })?;
        check_has_its_end(path, &bank, measured_events(path))?;
        let source = read_source(path, &bank)?;
        Ok(Self { path: path.to_owned(), bank, chain, source, log })
    }

    /// The bank.
    pub fn bank(&self) -> &Bank {
        &self.bank
    }

    /// Adds events, all of them or none, and writes the files that follow from them.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Bank`] for an event that does not follow, [`PipelineError::RunDir`] for what cannot be written.
    pub fn record(
        &mut self,
        round: u32,
        by: Author,
        events: impl IntoIterator<Item = BankEvent>,
    ) -> Result<(), PipelineError> {
        let file = self.path.join(LOG_FILE);
        let (mut bank, mut chain) = (self.bank.clone(), self.chain.clone());
        let mut lines = String::new();
        for event in events {
            let record = bank
                .record(round, by, event)
                .map_err(|source| PipelineError::Bank { path: file.clone(), source })?;
            lines.push_str(&chain.line(record));
        }
        let written = self.log.write_all(lines.as_bytes()).and_then(|()| self.log.sync_data());
        written.map_err(failed("write", &file))?;
        (self.bank, self.chain) = (bank, chain);
        self.refresh()
    }

    /// Writes the files that follow from the log, where they differ from it, as a process that was killed leaves them.
    ///
    /// # Errors
    ///
    /// [`PipelineError::RunDir`] for what cannot be written.
    pub fn refresh(&self) -> Result<(), PipelineError> {
        let source = self.source.as_ref().map(|(format, text)| (*format, text.as_str()));
        for (name, text) in views(&self.bank, source)
            .map_err(|source| PipelineError::Bank { path: self.path.join(BANK_FILE), source })?
        {
            let path = self.path.join(name);
            if regular_file::read(&path).ok().as_deref() != Some(text.as_bytes()) {
                atomic::write(&path, text.as_bytes())?;
            }
        }
        Ok(())
    }
}

/// The files that follow from the log as it was when `measurements.json` was written; `None` if that says nothing.
pub(super) fn views_when_measured(
    dir: &Path,
    bank: &Bank,
    source: Option<(BankFormat, &str)>,
) -> Option<[(&'static str, String); 2]> {
    let n_events = usize::try_from(measured_events(dir)?).ok()?;
    let mut earlier = Bank::new();
    for record in bank.log().get(..n_events)? {
        earlier.record(record.round, record.by, record.event.clone()).ok()?;
    }
    views(&earlier, source).ok()
}

/// The files that follow from a log, with their names.
pub(super) fn views(
    bank: &Bank,
    source: Option<(BankFormat, &str)>,
) -> Result<[(&'static str, String); 2], BankError> {
    let (format, original) = source.map_or((BankFormat::Paper, None), |(format, text)| (format, Some(text)));
    let written = format::write(bank, format, original, UNKNOWN_TIME)?;
    let measurements =
        serde_json::to_string_pretty(&measurements(bank)).expect("measurements serialize") + "\n";
    Ok([(BANK_FILE, written.text), (MEASUREMENTS_FILE, measurements)])
}

/// What new entries of krill's history get: a bank's files do not depend on when they were written.
pub const UNKNOWN_TIME: &str = "1970-01-01T00:00:00Z";

/// The format that a bank was imported from, and the SHA-256 of the text.
fn imported(bank: &Bank) -> Result<Option<(BankFormat, &str)>, BankError> {
    // The log begins with a header.
    let imported = (2_u64..).zip(bank.log()).find_map(|(line, record)| match &record.event {
        BankEvent::Imported { format, sha256 } => Some((line, format, sha256)),
        _ => None,
    });
    let Some((line, format, sha256)) = imported else { return Ok(None) };
    let unknown = || BankError::BadLog { line, message: format!("the format `{format}` is not known") };
    Ok(Some((BankFormat::parse(format).ok_or_else(unknown)?, sha256)))
}

/// What is known of each skill besides the text of its active version, in the order of the bank.
pub fn measurements(bank: &Bank) -> Value {
    let skills: Vec<Value> = bank
        .skills()
        .map(|skill| {
            let versions: Vec<Value> = skill
                .versions
                .iter()
                .map(|version| {
                    json!({
                        "version": version.number,
                        "state": version.state.as_str(),
                        "source": version.source.as_str(),
                        "round": version.round,
                        "content_sha256": version.content.sha256(),
                        "parents": version.parents,
                        "evidence": version.evidence,
                        "utility": version.utility,
                    })
                })
                .collect();
            json!({
                "id": skill.id,
                "tier": skill.tier,
                "state": skill.state().as_str(),
                "pinned": skill.is_pinned,
                "measured": skill.active().is_some_and(|version| version.utility.is_some()),
                "versions": versions,
            })
        })
        .collect();
    json!({
        "format_version": 1,
        "bank_version": bank.view().version(),
        "events": bank.log().len(),
        "skills": skills,
    })
}
