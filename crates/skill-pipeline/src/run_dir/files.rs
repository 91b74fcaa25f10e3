//! `files.jsonl`: the hash of every file that a run has written, one line for each part of the run.
//!
//! In a run of a document, or of several phases, the line of a part is on the disk before the state that says that the
//! part is done, and the state names how many lines it relies on. In other runs a line is on the disk after the files
//! that it names, and holds from then on.
//!
//! Files that another process writes (journal, logs, reports) and those that are replaced in every step are not listed:
//! states and configuration carry a checksum of their own, a checkpoint has the marks of files that grow by lines and the
//! hashes of its weights, the log of a bank is chained, and the state of a document names the hashes of the two skills.

use super::history::STEP_RECORD;
use super::line_log::LineLog;
use super::path::STATE_FILE;
use super::read::read_versioned;
use crate::error::PipelineError;
use crate::records::phases::{PHASES_FILE, Phase};
use serde::{Deserialize, Serialize};
use skill_core::canonical::hex_sha256;
use skill_core::{EpochIdx, StepIdx};
use std::collections::BTreeMap;
use std::path::{Component, Path};

/// The name of the file.
pub(crate) const FILES_FILE: &str = "files.jsonl";

/// A line of `files.jsonl`: the files that one part of the run has written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesLine {
    /// The number of the line, from 1.
    pub line: u64,
    /// The part of the run.
    pub part: RunPart,
    /// The SHA-256 of each file in 64 hexadecimal digits, by its path below the run directory.
    pub files: BTreeMap<String, String>,
    /// The SHA-256 of the fields before it as a JSON array, so that damage to the line is told from damage to a file.
    pub checksum: String,
}

/// A part of a run that writes files: of a document, or of a run of another kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunPart {
    /// What a run has before its first work.
    Start,
    /// The examples of a run that fine-tunes.
    Data,
    /// A round of the training of a bank; the first one, 0, comes with the evaluation without a bank.
    Round {
        /// The round.
        round: u32,
    },
    /// A phase of a run of several phases.
    Phase {
        /// The phase.
        phase: Phase,
    },
    /// The evaluation of the initial skill.
    Baseline,
    /// A step.
    Step {
        /// The step, from 1.
        step: StepIdx,
    },
    /// The end of an epoch.
    EpochEnd {
        /// The epoch, from 1.
        epoch: EpochIdx,
    },
    /// An evaluation after the last step.
    Evaluation {
        /// Its directory.
        dir: String,
    },
    /// The end of the run.
    End,
}

impl RunPart {
    /// True if nothing is added behind the part before the run is extended.
    pub(super) fn is_last(&self) -> bool {
        matches!(self, Self::End | Self::Phase { phase: Phase::Test })
    }

    /// True if the state commits the part; others are committed by the files themselves.
    pub(crate) fn is_of_state(&self) -> bool {
        match self {
            Self::Baseline | Self::Step { .. } | Self::EpochEnd { .. } | Self::Phase { .. } => true,
            Self::Start | Self::Data | Self::Round { .. } | Self::Evaluation { .. } | Self::End => false,
        }
    }

    /// True if a line that no state names holds, also while a process works on the run.
    pub(super) fn holds_by_itself(&self, is_training: bool) -> bool {
        match self {
            Self::Start | Self::Data | Self::Round { .. } => true,
            // A process that goes on replaces these.
            Self::Evaluation { .. } | Self::End => !is_training,
            Self::Baseline | Self::Step { .. } | Self::EpochEnd { .. } | Self::Phase { .. } => false,
        }
    }
}

impl FilesLine {
    /// Makes a line with its checksum.
    pub(super) fn new(line: u64, part: RunPart, files: BTreeMap<String, String>) -> Self {
        let mut made = Self { line, part, files, checksum: String::new() };
        made.checksum = made.own_checksum();
        made
    }

    fn own_checksum(&self) -> String {
        // Maps have an order and names are texts, so a value has one spelling.
        let bytes = serde_json::to_vec(&(self.line, &self.part, &self.files)).expect("hashes serialize");
        hex_sha256(&bytes)
    }

    /// Reads a line that has the number `line`; `None` if it is damaged or another one.
    pub(super) fn read(line: u64, bytes: &[u8]) -> Option<Self> {
        let read: Self = serde_json::from_slice(bytes).ok()?;
        (read.line == line && read.checksum == read.own_checksum()).then_some(read)
    }
}

/// The lines that the state of a run names: that of a document, or of several phases; `None` for a run without a state,
/// and one whose state names none.
///
/// # Errors
///
/// A state that cannot be read.
pub(super) fn lines_of_state(run: &Path) -> Result<Option<u64>, PipelineError> {
    #[derive(Deserialize)]
    struct State {
        files_lines: Option<u64>,
    }
    for name in [STATE_FILE, PHASES_FILE] {
        if let Some(State { files_lines }) = read_versioned(&run.join(name))? {
            return Ok(files_lines);
        }
    }
    Ok(None)
}

/// What a process that holds a run knows of the hashes of its files.
#[derive(Debug)]
pub(super) struct FileHashes {
    log: LineLog,
    /// The hashes that hold, by path.
    known: BTreeMap<String, String>,
    /// Files that were written and are in no line yet.
    pending: BTreeMap<String, String>,
    /// The part of the last line that is kept.
    last: Option<RunPart>,
}

impl FileHashes {
    /// Reads the lines that a state relies on; lines behind them are of parts that it does not name.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, lacks one of these lines, or has a damaged one.
    pub(super) fn open(run: &Path, n_lines: u64) -> Result<Self, PipelineError> {
        let path = run.join(FILES_FILE);
        let (log, kept) = LineLog::open(&path, n_lines)?;
        let corrupt = |message: String| PipelineError::Corrupt { path: path.clone(), message };
        if log.n_lines() < n_lines {
            let found = log.n_lines();
            return Err(corrupt(format!(
                "has {found} of the {n_lines} lines that the state of the run names"
            )));
        }
        let (mut known, mut last) = (BTreeMap::new(), None);
        for (number, bytes) in (1..).zip(&kept) {
            let line = FilesLine::read(number, bytes);
            let line = line.ok_or_else(|| corrupt(format!("line {number} is damaged")))?;
            known.extend(line.files);
            last = Some(line.part);
        }
        // Evaluations after the last step are there before anything says so; of others the files may be half there.
        for (number, bytes) in (n_lines + 1..).zip(log.later()) {
            match FilesLine::read(number, bytes) {
                Some(line) if !line.part.is_of_state() => known.extend(line.files),
                Some(_) | None => break,
            }
        }
        Ok(Self { log, known, pending: BTreeMap::new(), last })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        self.log.path()
    }

    /// Notes a file that was written.
    pub(super) fn note(&mut self, name: String, hash: String) {
        self.pending.insert(name, hash);
    }

    /// Takes back what was noted of files below a directory.
    pub(super) fn forget(&mut self, dir: &str) {
        self.pending.retain(|name, _| !name.strip_prefix(dir).is_some_and(|below| below.starts_with('/')));
    }

    /// The recorded hash of a file; `None` if nobody has recorded one.
    pub(super) fn of(&self, name: &str) -> Option<&str> {
        self.pending.get(name).or_else(|| self.known.get(name)).map(String::as_str)
    }

    /// Lines that are kept.
    pub(super) fn n_lines(&self) -> u64 {
        self.log.n_lines()
    }

    /// Removes the lines that the state does not rely on; the hashes in them stay known here.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub(super) fn cut(&mut self) -> Result<(), PipelineError> {
        self.log.cut()
    }

    /// Adds the line of a part with all files that were noted, without waiting for the disk; returns how many lines
    /// there are then. A part that has its line and has written nothing more gets no second one.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub(super) fn commit(&mut self, part: RunPart) -> Result<u64, PipelineError> {
        if self.pending.is_empty() && self.last.as_ref() == Some(&part) {
            return Ok(self.log.n_lines());
        }
        let line = FilesLine::new(self.log.n_lines() + 1, part, self.pending.clone());
        let bytes = serde_json::to_vec(&line)
            .map_err(|error| super::atomic::failed("write", self.log.path())(std::io::Error::from(error)))?;
        self.log.append(&bytes)?;
        self.known.append(&mut self.pending);
        self.last = Some(line.part);
        Ok(self.log.n_lines())
    }
}

/// The step whose record has this name.
pub(super) fn step_of_record(name: &str) -> Option<StepIdx> {
    let step = name.strip_prefix("steps/step_")?.strip_suffix(STEP_RECORD)?.strip_suffix('/')?;
    step.parse().ok().map(StepIdx)
}

/// The path of a file below the run directory with `/` between names; `None` for one that is elsewhere.
pub(super) fn name_below(run: &Path, path: &Path) -> Option<String> {
    let below = path.strip_prefix(run).ok()?;
    let names: Option<Vec<&str>> = below
        .components()
        .map(|component| match component {
            Component::Normal(name) => name.to_str(),
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
        })
        .collect();
    names.filter(|names| !names.is_empty()).map(|names| names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> BTreeMap<String, String> {
        names.iter().map(|name| ((*name).to_owned(), hex_sha256(name.as_bytes()))).collect()
    }

    #[test]
    fn any_change_to_a_line_is_found() {
        let line = FilesLine::new(3, RunPart::Step { step: StepIdx(2) }, files(&["a", "b/c"]));
        let bytes = serde_json::to_vec(&line).unwrap();
        assert_eq!(FilesLine::read(3, &bytes), Some(line));
        assert_eq!(FilesLine::read(4, &bytes), None);
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert_eq!(FilesLine::read(3, &changed), None, "byte {place}");
        }
    }

    #[test]
    fn a_part_that_is_begun_again_replaces_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let mut hashes = FileHashes::open(dir.path(), 0).unwrap();
        for (part, name) in [(RunPart::Baseline, "a"), (RunPart::Step { step: StepIdx(1) }, "b")] {
            hashes.note(name.to_owned(), "1".to_owned());
            hashes.commit(part).unwrap();
        }
        let path = dir.path().join(FILES_FILE);
        let undisturbed = std::fs::read(&path).unwrap();
        for hash in ["2", "1"] {
            // The state names the baseline alone.
            let mut hashes = FileHashes::open(dir.path(), 1).unwrap();
            assert_eq!((hashes.of("a"), hashes.of("b")), (Some("1"), None));
            hashes.note("b".to_owned(), hash.to_owned());
            assert_eq!(hashes.commit(RunPart::Step { step: StepIdx(1) }).unwrap(), 2);
        }
        assert_eq!(std::fs::read(&path).unwrap(), undisturbed);
        let missing = FileHashes::open(dir.path(), 3);
        assert!(matches!(missing, Err(PipelineError::Corrupt { .. })), "{missing:?}");
    }
}
