//! Verifies that every file of a run is as the run wrote it, for `skillrl check`.
//!
//! Nothing is written and no lock is taken, so a run may be looked at while it is being trained: what the state of that
//! moment names is checked. A file is held against its hash in `files.jsonl`, a skill against the hash in the state,
//! logs against their marks in `timings.jsonl`; state, configuration and lines carry their own checksums. Imported runs
//! have no hashes: their files are read, and what can be read is taken for whole.
//!
//! # Invariants
//!
//! - A file of another format is refused by name with its version. Held by `no_run_is_an_error_and_no_damage`.

mod journal;
mod logs;
mod skills;

use super::files::{FILES_FILE, FilesLine};
use super::history::{self, STEP_RECORD, is_hash_of, lacks_a_step};
use super::line_log::whole_lines;
use super::path::{CONFIG_FILE, HISTORY_FILE, HISTORY_LOG, STATE_FILE, SUMMARY_FILE};
use super::read::{is_held, is_run, read_bytes, read_versioned};
use super::timings::{TIMINGS_FILE, TIMINGS_LOG};
use super::whole::damaged_files;
use crate::error::PipelineError;
use crate::records::ConfigFile;
use crate::records::document::{RuntimeState, StepRecord};
use crate::records::summary::Summary;
use logs::EVENTS_FILE;
use serde::Serialize;
use serde::de::DeserializeOwned;
use skill_core::StepIdx;
use skill_core::canonical::hex_sha256;
use skill_llm::journal::JOURNAL_FILE;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use strum::IntoStaticStr;

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
    /// Files that are not, in the order in which they were looked at.
    pub damage: Vec<Damage>,
    /// True if the journal is whole, so that files can be rebuilt from it.
    pub is_journal_whole: bool,
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

/// A way in which a file is not as the run wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Fault {
    /// It does not exist.
    Missing,
    /// It has no bytes.
    Empty,
    /// It has other bytes than the run wrote.
    Changed,
    /// It cannot be read.
    Unreadable,
}

impl Fault {
    /// The name used in files.
    pub fn as_str(self) -> &'static str {
        self.into()
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
    /// Only a copy of it.
    Copy,
    /// Nothing: no result depends on it.
    NotNeeded,
}

/// Checks the files of a run.
///
/// # Errors
///
/// A directory without a run, and a run of another format.
pub fn check(run: &Path) -> Result<RunCheck, PipelineError> {
    if !run.join(CONFIG_FILE).exists() && !is_run(run) {
        return Err(PipelineError::NoRun { path: run.to_owned() });
    }
    let mut checking = Checking {
        run,
        check: RunCheck {
            path: run.to_owned(),
            is_training: is_held(run),
            finished_steps: 0,
            n_whole: 0,
            n_unrecorded_steps: 0,
            damage: Vec::new(),
            is_journal_whole: false,
        },
    };
    checking.all()?;
    Ok(checking.check)
}

/// A check that is under way.
struct Checking<'run> {
    run: &'run Path,
    check: RunCheck,
}

/// What the lines of `files.jsonl` say.
#[derive(Default)]
struct Recorded {
    /// The hash of each file.
    hashes: BTreeMap<String, String>,
    /// True if the end of the run has its line.
    has_end: bool,
}

impl Checking<'_> {
    fn all(&mut self) -> Result<(), PipelineError> {
        let config: Option<ConfigFile> = self.versioned(CONFIG_FILE, Remedy::Rebuild)?;
        if config.is_none() && !self.run.join(CONFIG_FILE).exists() {
            self.damaged(CONFIG_FILE, Fault::Missing, Remedy::Rebuild);
        }
        let state: Option<RuntimeState> = self.versioned(STATE_FILE, Remedy::Rebuild)?;
        let is_state_there = self.run.join(STATE_FILE).exists();
        if !is_state_there && (self.run.join(HISTORY_FILE).exists() || self.has_lines(HISTORY_LOG)) {
            self.damaged(STATE_FILE, Fault::Missing, Remedy::Rebuild);
        }
        let has_ended = logs::has_ended(self.run);
        let summary: Option<Summary> = self.versioned(SUMMARY_FILE, Remedy::Resume)?;
        let recorded = self.recorded(state.as_ref(), is_state_there)?;
        for (name, hash) in &recorded.hashes {
            // A process that was killed before it wrote the summary is not one whose summary was lost.
            if name == SUMMARY_FILE && !has_ended && !self.run.join(name).exists() {
                continue;
            }
            if !self.is_known(name) {
                self.hashed(name, hash);
            }
        }
        if summary.is_some()
            && state.as_ref().is_some_and(|state| state.files_lines.is_some())
            && !recorded.has_end
            && !self.check.is_training
            && !self.is_known(FILES_FILE)
        {
            self.damage_of(
                FILES_FILE,
                Fault::Changed,
                Remedy::Rebuild,
                Some("the line of the end is missing"),
            );
        }
        if let Some(state) = &state {
            self.check.finished_steps = state.last_completed_step.0;
            self.histories(state, &recorded)?;
            self.skills(state, summary.as_ref());
        }
        self.logs(state.as_ref(), has_ended)?;
        self.journal(state.as_ref())
    }

    /// Reads a file that carries its version, and its checksum if it is sealed.
    fn versioned<T: DeserializeOwned>(
        &mut self,
        name: &str,
        remedy: Remedy,
    ) -> Result<Option<T>, PipelineError> {
        match read_versioned(&self.run.join(name)) {
            Ok(Some(value)) => {
                self.check.n_whole += usize::from(name != SUMMARY_FILE);
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

    /// The lines of `files.jsonl` that hold for the run as it is.
    fn recorded(
        &mut self,
        state: Option<&RuntimeState>,
        is_state_there: bool,
    ) -> Result<Recorded, PipelineError> {
        let mut recorded = Recorded::default();
        let n_lines = match state {
            Some(state) => state.files_lines,
            // Without a state that can be read all lines are taken for those that it would name.
            None if is_state_there => Some(u64::MAX),
            None => None,
        };
        let Some(n_lines) = n_lines else { return Ok(recorded) };
        let bytes = match read_bytes(&self.run.join(FILES_FILE)) {
            Ok(Some(bytes)) if !bytes.is_empty() => bytes,
            Ok(Some(_)) => {
                self.damaged(FILES_FILE, Fault::Empty, Remedy::Rebuild);
                return Ok(recorded);
            }
            Ok(None) => {
                self.damaged(FILES_FILE, Fault::Missing, Remedy::Rebuild);
                return Ok(recorded);
            }
            Err(error) => {
                self.unreadable(FILES_FILE, &error, Remedy::Rebuild);
                return Ok(recorded);
            }
        };
        let (mut n_read, mut damaged) = (0, None);
        for (number, line) in (1_u64..).zip(whole_lines(&bytes)) {
            n_read = number;
            let line = FilesLine::read(number, line);
            let is_named = number <= n_lines;
            match line {
                Some(line) if is_named || !line.part.is_of_state() && !self.check.is_training => {
                    recorded.has_end |= line.part == super::files::RunPart::End;
                    recorded.hashes.extend(line.files);
                }
                // A step that is not finished, or the end of a run that is being trained.
                Some(_) => break,
                None => {
                    damaged.get_or_insert(number);
                }
            }
        }
        let is_cut = state.is_some() && n_read < n_lines;
        match damaged {
            Some(number) => {
                let detail = format!("line {number} is damaged");
                self.damage_of(FILES_FILE, Fault::Changed, Remedy::Rebuild, Some(&detail));
            }
            None if is_cut => {
                let detail = format!("has {n_read} of {n_lines} lines");
                self.damage_of(FILES_FILE, Fault::Changed, Remedy::Rebuild, Some(&detail));
            }
            None => self.check.n_whole += 1,
        }
        Ok(recorded)
    }

    /// Holds a file against its hash.
    fn hashed(&mut self, name: &str, hash: &str) {
        // A resumed run writes these again from its other files.
        let is_of_end = [SUMMARY_FILE, HISTORY_FILE].contains(&name) || name.starts_with("best_skill/");
        let remedy = if is_of_end { Remedy::Resume } else { Remedy::Rebuild };
        match read_bytes(&self.run.join(name)) {
            Ok(Some(bytes)) if hex_sha256(&bytes) == hash => self.check.n_whole += 1,
            Ok(Some(bytes)) if bytes.is_empty() => self.damaged(name, Fault::Empty, remedy),
            Ok(Some(_)) => self.damaged(name, Fault::Changed, remedy),
            Ok(None) => self.damaged(name, Fault::Missing, remedy),
            Err(error) => self.unreadable(name, &error, remedy),
        }
    }

    /// The records of steps, and the files of those that have no hashes.
    fn histories(&mut self, state: &RuntimeState, recorded: &Recorded) -> Result<(), PipelineError> {
        let last = state.last_completed_step;
        let is_recorded = |step: StepIdx| {
            recorded.hashes.get(&format!("steps/step_{:04}/{STEP_RECORD}", step.0)).map(String::as_str)
        };
        let has_log = self.run.join(HISTORY_LOG).exists();
        let name = if has_log || state.files_lines.is_some() { HISTORY_LOG } else { HISTORY_FILE };
        if last == StepIdx(0) {
            return Ok(());
        }
        if !self.run.join(name).exists() {
            self.damaged(name, Fault::Missing, Remedy::Resume);
            return Ok(());
        }
        let mut history: Vec<StepRecord> = Vec::new();
        let mut changed = None;
        let read = history::for_each(self.run, |record: StepRecord| {
            let step = StepIdx(u32::try_from(history.len()).unwrap_or(u32::MAX).saturating_add(1));
            let is_whole = record.step == step
                && is_recorded(step).is_none_or(|hash| is_hash_of(self.run, &record, hash));
            if !is_whole {
                changed = Some(step);
            }
            history.push(record);
            changed.is_none() && step < last
        });
        let found = match (read, changed) {
            (Err(error), _) => Err(error),
            (Ok(_), Some(step)) => {
                let message = format!("is not the record of step {step} at its place");
                Err(PipelineError::Corrupt { path: self.run.join(name), message })
            }
            (Ok(path), None) if history.len() < last.0 as usize => Err(lacks_a_step(path, last)),
            (Ok(_), None) => Ok(()),
        };
        match found {
            Ok(()) => self.check.n_whole += usize::from(!recorded.hashes.contains_key(name)),
            Err(error) => self.unreadable(name, &error, Remedy::Resume),
        }
        history.retain(|record| record.step <= last && is_recorded(record.step).is_none());
        // A damaged state may name any number of steps; the hashes are as many as there are.
        let of_steps = recorded.hashes.keys().filter_map(|name| super::files::step_of_record(name));
        let n_recorded = of_steps.filter(|step| *step <= last).count();
        let n_recorded = u32::try_from(n_recorded).unwrap_or(u32::MAX);
        self.check.n_unrecorded_steps = last.0.saturating_sub(n_recorded);
        if self.has_trained() {
            self.unrecorded(&history, recorded);
        }
        Ok(())
    }

    /// Looks at the files of steps without hashes: what is there can be read, and what has to be there is.
    fn unrecorded(&mut self, history: &[StepRecord], recorded: &Recorded) {
        for path in damaged_files(self.run, history) {
            let Some(name) = super::files::name_below(self.run, &path) else { continue };
            if recorded.hashes.contains_key(&name) || self.is_known(&name) {
                continue;
            }
            let fault = match path.metadata() {
                Ok(file) if file.len() == 0 => Fault::Empty,
                Ok(_) => Fault::Changed,
                Err(_) => Fault::Missing,
            };
            self.damaged(&name, fault, Remedy::Rebuild);
        }
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

    fn damaged(&mut self, name: &str, fault: Fault, remedy: Remedy) {
        self.damage_of(name, fault, remedy, None);
    }

    fn damage_of(&mut self, name: &str, fault: Fault, remedy: Remedy, detail: Option<&str>) {
        let (file, detail) = (name.to_owned(), detail.map(str::to_owned));
        self.check.damage.push(Damage { file, fault, detail, remedy });
    }
}
