//! Verifies that every file of a run of any kind is as the run wrote it, for `skillrl check`.
//!
//! Nothing is written and no lock is taken, so a run may be looked at while it is being trained: what the state of that
//! moment names is checked. A file is held against its hash in `files.jsonl`, a skill against the hash in the state,
//! the lines and the weights of a checkpoint against the marks and hashes in it, a policy against the hashes in its
//! folder, a bank against the hashes in its log, logs against their marks in `timings.jsonl`; states, configuration and
//! lines carry their own checksums. Imported runs have no hashes: their files are read, and what can be read is taken for
//! whole; the page of a run, its warnings and its times carry checksums, except in runs of earlier versions. What
//! nothing is known of is listed as not checked.
//!
//! # Invariants
//!
//! - A file of another format is refused by name with its version. Held by `no_run_is_an_error_and_no_damage`.

mod bank;
mod beside;
mod checkpoint;
mod document;
mod journal;
mod kinds;
mod logs;
mod measurement;
mod skills;
mod unchecked;

use super::files::{FILES_FILE, FilesLine, RunPart};
use super::line_log::whole_lines;
use super::measurement::is_measurement;
use super::path::{CONFIG_FILE, HISTORY_FILE, SUMMARY_FILE};
use super::read::{is_held, is_run, read_bytes, read_versioned};
use super::timings::{TIMINGS_FILE, TIMINGS_LOG};
use crate::error::PipelineError;
use crate::records::ConfigFile;
use logs::EVENTS_FILE;
use serde::Serialize;
use serde::de::DeserializeOwned;
use skill_core::canonical::hex_sha256;
use skill_llm::journal::JOURNAL_FILE;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RunCheck {
    /// The directory.
    pub path: PathBuf,
    /// True while a process works on the run.
    pub is_training: bool,
    /// Steps that are finished.
    pub finished_steps: u32,
    /// Files that are as the run wrote them.
    pub n_whole: usize,
    /// Steps whose files have no recorded hash, as those of an imported run; of these it is known that they can be read.
    pub n_unrecorded_steps: u32,
    /// True if an earlier version of the program made the run, which recorded no hashes for runs of its kind.
    #[serde(skip_serializing_if = "is_false")]
    pub is_unrecorded: bool,
    /// Files that are not, in the order in which they were looked at.
    pub damage: Vec<Damage>,
    /// Files of which nothing is known, in order, and directories, with `/` at the end, of which that is true of every
    /// file: what people put there, and pages, warnings and times of earlier versions.
    pub not_checked: Vec<String>,
    /// True if the journal is whole, so that files can be rebuilt from it.
    pub is_journal_whole: bool,
}

impl RunCheck {
    /// The outcome for a directory without a checked file.
    pub fn of(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            is_training: false,
            finished_steps: 0,
            n_whole: 0,
            n_unrecorded_steps: 0,
            is_unrecorded: false,
            damage: Vec::new(),
            not_checked: Vec::new(),
            is_journal_whole: true,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands the field by reference")]
fn is_false(is: &bool) -> bool {
    !*is
}

/// A file that is not as the run wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Its path below the run directory, with `/` between names.
    pub file: String,
    /// Its fault.
    pub fault: Fault,
    /// More about the fault, as a fragment of a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The way to bring it back.
    pub remedy: Remedy,
}

skill_core::named_enum! {
    /// A way in which a file is not as the run wrote it.
    pub enum Fault {
        /// It does not exist.
        Missing = "missing",
        /// It has no bytes.
        Empty = "empty",
        /// It has other bytes than the run wrote.
        Changed = "changed",
        /// It cannot be read.
        Unreadable = "unreadable",
    }
}

/// The way to bring a damaged file back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// The command that started the run writes it again; what is there of a skill is kept beside it.
    Resume,
    /// The run is repeated from its journal, if that is whole.
    Rebuild,
    /// Only a copy of it; of a journal, or a new one.
    Copy,
    /// Only a copy of it, or another run.
    OnlyCopy,
    /// The command that measured, told to replace what is there; its calls are kept.
    Remeasure,
    /// `skillrl report` writes it again.
    Report,
    /// Nothing: no result depends on it.
    NotNeeded,
}

/// Checks the files of a run, or of a measurement.
///
/// # Errors
///
/// A directory without a run or a measurement, and a run of another format.
pub fn check(run: &Path) -> Result<RunCheck, PipelineError> {
    if !is_run(run) && [CONFIG_FILE, FILES_FILE].into_iter().all(|name| !run.join(name).exists()) {
        return match is_measurement(run) {
            true => checked(run, Checking::measurement),
            false => Err(PipelineError::NoRun { path: run.to_owned() }),
        };
    }
    checked(run, Checking::all)
}

fn checked<'run>(
    run: &'run Path,
    check: impl FnOnce(&mut Checking<'run>) -> Result<(), PipelineError>,
) -> Result<RunCheck, PipelineError> {
    let mut checking = Checking::new(run);
    check(&mut checking)?;
    checking.beside();
    checking.note_unchecked();
    Ok(RunCheck { n_whole: checking.whole.len(), ..checking.check })
}

/// A check that is under way.
struct Checking<'run> {
    run: &'run Path,
    check: RunCheck,
    /// Files that are as the run wrote them.
    whole: BTreeSet<String>,
    /// What brings back the files of `files.jsonl` that the end of a run does not write again.
    remedy: Remedy,
}

/// What the lines of `files.jsonl` say.
#[derive(Default)]
struct Recorded {
    /// The hash of each file.
    hashes: BTreeMap<String, String>,
    /// The parts of the lines.
    parts: Vec<RunPart>,
}

impl Recorded {
    /// True if this part of the run has its line.
    fn has(&self, part: &RunPart) -> bool {
        self.parts.contains(part)
    }
}

impl<'run> Checking<'run> {
    fn new(run: &'run Path) -> Self {
        let check = RunCheck { is_training: is_held(run), is_journal_whole: false, ..RunCheck::of(run) };
        Self { run, check, whole: BTreeSet::new(), remedy: Remedy::Rebuild }
    }

    fn all(&mut self) -> Result<(), PipelineError> {
        let config: Option<ConfigFile> = self.versioned(CONFIG_FILE, Remedy::Rebuild)?;
        if config.is_none() && !self.run.join(CONFIG_FILE).exists() {
            self.damaged(CONFIG_FILE, Fault::Missing, Remedy::Rebuild);
        }
        self.of_kind(config.as_ref())
    }

    /// Reads a file that carries its version, and its checksum if it is sealed.
    fn versioned<T: DeserializeOwned>(
        &mut self,
        name: &str,
        remedy: Remedy,
    ) -> Result<Option<T>, PipelineError> {
        match read_versioned(&self.run.join(name)) {
            Ok(Some(value)) => {
                self.whole(name);
                Ok(Some(value))
            }
            Ok(None) => Ok(None),
            Err(error @ PipelineError::OtherFormat { .. }) => Err(error),
            Err(error) => {
                self.unreadable(name, &error, remedy);
                Ok(None)
            }
        }
    }

    /// Notes a file that its reader refused.
    fn unreadable(&mut self, name: &str, error: &PipelineError, remedy: Remedy) {
        let (fault, detail) = match error {
            PipelineError::RunDir { source, .. } => (Fault::Unreadable, Some(source.to_string())),
            PipelineError::Corrupt { message, .. } => (Fault::Changed, Some(message.clone())),
            _ => (Fault::Changed, None),
        };
        let is_empty = self.run.join(name).metadata().is_ok_and(|file| file.is_file() && file.len() == 0);
        match is_empty {
            true => self.damaged(name, Fault::Empty, remedy),
            false => self.damage_of(name, fault, remedy, detail.as_deref()),
        }
    }

    /// The lines of `files.jsonl` that hold for the run as it is: the first `n_lines`, all where a state that names them
    /// cannot be read, and those that no state names.
    fn recorded(&mut self, n_lines: u64) -> Recorded {
        let mut recorded = Recorded::default();
        let Some(bytes) = self.bytes_of(FILES_FILE, self.remedy) else { return recorded };
        let (mut n_read, mut damaged, mut is_complete) = (0, None, false);
        for (number, line) in (1_u64..).zip(whole_lines(&bytes)) {
            n_read = number;
            let line = FilesLine::read(number, line);
            is_complete = line.as_ref().is_some_and(|line| line.part.is_last());
            match line {
                Some(line) if number <= n_lines || line.part.holds_by_itself(self.check.is_training) => {
                    recorded.hashes.extend(line.files);
                    recorded.parts.push(line.part);
                }
                // A step that is not finished, or the end of a run that is being trained.
                Some(_) => break,
                None => {
                    damaged.get_or_insert(number);
                }
            }
        }
        match damaged {
            Some(number) => self.files_changed(&format!("line {number} is damaged")),
            None if n_lines != u64::MAX && n_read < n_lines => {
                self.files_changed(&format!("has {n_read} of {n_lines} lines"));
            }
            // Nothing follows on the last line of a run.
            None if is_complete && !self.check.is_training && !bytes.ends_with(b"\n") => {
                self.files_changed("has more than its lines");
            }
            None => self.whole(FILES_FILE),
        }
        recorded
    }

    fn files_changed(&mut self, detail: &str) {
        self.damage_of(FILES_FILE, Fault::Changed, self.remedy, Some(detail));
    }

    /// Holds a file against its hash.
    fn hashed(&mut self, name: &str, hash: &str) {
        // A resumed run writes these again from its other files.
        let is_of_end = [SUMMARY_FILE, HISTORY_FILE].contains(&name) || name.starts_with("best_skill/");
        self.hashed_with(name, hash, if is_of_end { Remedy::Resume } else { self.remedy });
    }

    /// As [`hashed`](Self::hashed), of a file that is brought back in this way.
    fn hashed_with(&mut self, name: &str, hash: &str, remedy: Remedy) {
        self.file(name, remedy, |bytes| hex_sha256(bytes) == hash);
    }

    /// Checks a file with `is_whole`, and returns its bytes if it is; one that fails and is empty is reported as empty.
    fn file(&mut self, name: &str, remedy: Remedy, is_whole: impl FnOnce(&[u8]) -> bool) -> Option<Vec<u8>> {
        match read_bytes(&self.run.join(name)) {
            Ok(Some(bytes)) if is_whole(&bytes) => {
                self.whole(name);
                return Some(bytes);
            }
            Ok(Some(bytes)) if bytes.is_empty() => self.damaged(name, Fault::Empty, remedy),
            Ok(Some(_)) => self.damaged(name, Fault::Changed, remedy),
            Ok(None) => self.damaged(name, Fault::Missing, remedy),
            Err(error) => self.unreadable(name, &error, remedy),
        }
        None
    }

    /// What a file holds; `None` for one that is empty, missing or unreadable, which is noted.
    fn bytes_of(&mut self, name: &str, remedy: Remedy) -> Option<Vec<u8>> {
        match read_bytes(&self.run.join(name)) {
            Ok(Some(bytes)) if !bytes.is_empty() => return Some(bytes),
            Ok(Some(_)) => self.damaged(name, Fault::Empty, remedy),
            Ok(None) => self.damaged(name, Fault::Missing, remedy),
            Err(error) => self.unreadable(name, &error, remedy),
        }
        None
    }

    /// Whether a process has trained here; an imported run has no logs, no journal and not every file of a step.
    fn has_trained(&self) -> bool {
        [EVENTS_FILE, TIMINGS_FILE, TIMINGS_LOG, JOURNAL_FILE].iter().any(|name| self.run.join(name).exists())
    }

    fn has_lines(&self, name: &str) -> bool {
        self.run.join(name).metadata().is_ok_and(|file| file.len() > 0)
    }

    fn is_known(&self, name: &str) -> bool {
        self.check.damage.iter().any(|damage| damage.file == name)
    }

    fn whole(&mut self, name: &str) {
        self.whole.insert(name.to_owned());
    }

    fn damaged(&mut self, name: &str, fault: Fault, remedy: Remedy) {
        self.damage_of(name, fault, remedy, None);
    }

    fn damage_of(&mut self, name: &str, fault: Fault, remedy: Remedy, detail: Option<&str>) {
        let (file, detail) = (name.to_owned(), detail.map(str::to_owned));
        self.whole.remove(name);
        self.check.damage.push(Damage { file, fault, detail, remedy });
    }
}
