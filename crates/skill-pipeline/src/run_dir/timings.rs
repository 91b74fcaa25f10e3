//! `timings.json` and `timings.jsonl`: how long the parts of a run took, and how many requests its journal has held.
//!
//! The second one grows by a line for each part; the first one is the sum of its lines, written when a process ends.

use super::atomic;
use super::event_log::unix_millis;
use super::line_log::LineLog;
use super::read::{read_bytes, read_versioned};
use crate::error::PipelineError;
use crate::event::Stage;
use crate::records;
use crate::records::FORMAT_VERSION;
use serde::{Deserialize, Serialize};
use skill_core::StepIdx;
use skill_core::canonical::hex_sha256;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// The file that holds the sum.
pub const TIMINGS_FILE: &str = "timings.json";

/// The file that grows.
pub const TIMINGS_LOG: &str = "timings.jsonl";

/// `timings.json`: seconds by step and stage, and the processes that worked on the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// See [`FORMAT_VERSION`].
    pub format_version: String,
    /// One entry per process that took up the run, in order.
    pub processes: Vec<ProcessTiming>,
    /// Seconds by stage, for each step; step `0` holds the stages outside of steps.
    pub steps: BTreeMap<u32, BTreeMap<String, f64>>,
    /// Requests in the journal when this was written, those of pruned calls too: a journal that holds fewer was cut, or
    /// is an older copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// The same of further journals, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub journals: BTreeMap<String, u64>,
}

/// The work of one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessTiming {
    /// When it started, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Steps that were finished when it started.
    pub finished_steps: u32,
    /// Model calls in flight at most.
    pub workers: usize,
    /// How long it has worked, in seconds, as of the last step it finished, or its end.
    pub seconds: f64,
}

/// The length and the hash of a file, or of its beginning if it grows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMark {
    /// Bytes.
    pub bytes: u64,
    /// Their SHA-256 in 64 hexadecimal digits.
    pub sha256: String,
}

impl FileMark {
    /// The mark of a file with these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.len() as u64, sha256: hex_sha256(bytes) }
    }
}

/// A line of `timings.jsonl`: what has changed since the line before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimingsLine {
    /// See [`FORMAT_VERSION`].
    pub format_version: String,
    /// The number of the process among those of the run, from 0.
    pub process: usize,
    /// The process until now.
    pub timing: ProcessTiming,
    /// Seconds by stage, for each step that has new ones; `0` is what is outside of steps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub steps: BTreeMap<u32, BTreeMap<String, f64>>,
    /// Requests in the journal, those of pruned calls too.
    pub requests: u64,
    /// The same of each further journal, by its path below the run directory: those of the phases of a run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub journals: BTreeMap<String, u64>,
    /// Files that have no other record of their hash, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, FileMark>,
    /// The SHA-256 of the fields before it as a JSON array.
    pub checksum: String,
}

impl TimingsLine {
    fn sealed(mut self) -> Self {
        self.checksum = self.own_checksum();
        self
    }

    fn own_checksum(&self) -> String {
        let Self { format_version, process, timing, steps, requests, journals, files, checksum: _ } = self;
        let fields = (format_version, process, timing, steps, journals, requests, files);
        hex_sha256(&serde_json::to_vec(&fields).expect("timings serialize"))
    }

    /// Reads a line; `None` if it is damaged.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let line: Self = serde_json::from_slice(bytes).ok()?;
        (line.checksum == line.own_checksum()).then_some(line)
    }
}

impl Timings {
    pub(super) fn new() -> Self {
        Self {
            format_version: FORMAT_VERSION.to_owned(),
            processes: Vec::new(),
            steps: BTreeMap::new(),
            requests: None,
            journals: BTreeMap::new(),
        }
    }

    /// Reads the timings of a run; damaged timings count as empty, and say nothing about the journal.
    ///
    /// # Errors
    ///
    /// A file of another format, and one that cannot be read.
    pub fn read_or_new(run_dir: &Path) -> Result<Self, PipelineError> {
        let mut timings = match read_versioned(&run_dir.join(TIMINGS_FILE)) {
            Ok(timings) => timings.unwrap_or_else(Self::new),
            Err(PipelineError::Corrupt { .. } | PipelineError::ChangedFile { .. }) => Self::new(),
            Err(error) => return Err(error),
        };
        for line in read_lines(run_dir)? {
            timings.add(line);
        }
        FORMAT_VERSION.clone_into(&mut timings.format_version);
        Ok(timings)
    }

    fn add(&mut self, line: TimingsLine) {
        // A line of a process that `timings.json` no longer knows comes behind those that it knows.
        match self.processes.get_mut(line.process) {
            Some(process) => *process = line.timing,
            None => self.processes.push(line.timing),
        }
        for (step, seconds) in line.steps {
            self.steps.entry(step).or_default().extend(seconds);
        }
        // A new journal holds fewer requests than the one before it.
        self.requests = Some(line.requests);
        self.journals.extend(line.journals);
    }
}

/// The whole lines of `timings.jsonl` that are not damaged.
///
/// # Errors
///
/// A line of another format, and a file that cannot be read.
pub(super) fn read_lines(run_dir: &Path) -> Result<Vec<TimingsLine>, PipelineError> {
    let path = run_dir.join(TIMINGS_LOG);
    let bytes = read_bytes(&path)?.unwrap_or_default();
    let mut lines = Vec::new();
    for line in super::line_log::whole_lines(&bytes) {
        if let Some(found) = other_version(line) {
            let supported = FORMAT_VERSION.to_owned();
            return Err(PipelineError::OtherFormat { path, found, supported });
        }
        lines.extend(TimingsLine::read(line));
    }
    Ok(lines)
}

fn other_version(line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Versioned {
        format_version: String,
    }
    let versioned: Versioned = serde_json::from_slice(line).ok()?;
    Some(versioned.format_version).filter(|version| !records::is_supported(version))
}

/// The timings of a run that a process works on.
#[derive(Debug)]
pub struct TimingsLog {
    run_dir: PathBuf,
    timings: Timings,
    log: LineLog,
    /// Steps with seconds that no line has yet.
    changed: BTreeSet<u32>,
}

impl TimingsLog {
    /// Reads the timings of a run, to be continued.
    ///
    /// # Errors
    ///
    /// A file of another format, and one that cannot be read.
    pub fn open(run_dir: &Path) -> Result<Self, PipelineError> {
        Ok(Self {
            run_dir: run_dir.to_owned(),
            timings: Timings::read_or_new(run_dir)?,
            log: LineLog::open(&run_dir.join(TIMINGS_LOG), u64::MAX)?.0,
            changed: BTreeSet::new(),
        })
    }

    /// Notes that a process takes up the run.
    pub fn begin_process(&mut self, finished_steps: StepIdx, workers: usize) {
        self.timings.processes.push(ProcessTiming {
            started_unix_ms: unix_millis(),
            finished_steps: finished_steps.0,
            workers,
            seconds: 0.0,
        });
    }

    /// Notes how long a stage took; a step that is run again counts its last time only.
    pub fn record(&mut self, step: Option<StepIdx>, stage: Stage, seconds: f64) {
        let (step, rounded) = (step.unwrap_or_default().0, (seconds * 1000.0).round() / 1000.0);
        self.timings.steps.entry(step).or_default().insert(format!("{}_s", stage.as_str()), rounded);
        self.changed.insert(step);
    }

    /// Adds to the time of a stage, for stages that have several parts, in one process or over several.
    pub fn add(&mut self, step: Option<StepIdx>, stage: Stage, seconds: f64) {
        let step = step.unwrap_or_default().0;
        let of_step = self.timings.steps.entry(step).or_default();
        let sum = of_step.entry(format!("{}_s", stage.as_str())).or_default();
        *sum = ((*sum + seconds) * 1000.0).round() / 1000.0;
        self.changed.insert(step);
    }

    /// Adds a line with all that has changed, with how long this process has worked, what the journal holds by now, and
    /// the marks of some files.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn append(
        &mut self,
        process_seconds: f64,
        requests: u64,
        files: BTreeMap<String, FileMark>,
    ) -> Result<(), PipelineError> {
        self.append_with_journals(process_seconds, requests, BTreeMap::new(), files)
    }

    /// As [`TimingsLog::append`], with what further journals hold.
    pub(super) fn append_with_journals(
        &mut self,
        process_seconds: f64,
        requests: u64,
        journals: BTreeMap<String, u64>,
        files: BTreeMap<String, FileMark>,
    ) -> Result<(), PipelineError> {
        self.timings.requests = Some(requests);
        let Some(timing) = self.timings.processes.last_mut() else { return Ok(()) };
        timing.seconds = (process_seconds * 1000.0).round() / 1000.0;
        let timing = timing.clone();
        let line = TimingsLine {
            format_version: FORMAT_VERSION.to_owned(),
            process: self.timings.processes.len() - 1,
            timing,
            steps: of_keys(&self.timings.steps, &self.changed),
            requests,
            journals,
            files,
            checksum: String::new(),
        };
        let bytes = serde_json::to_vec(&line.sealed())
            .map_err(|error| atomic::failed("write", self.log.path())(io::Error::from(error)))?;
        // Nobody waits for the disk here: an older file says less about the journal, and nothing wrong.
        self.log.append(&bytes)?;
        self.changed.clear();
        Ok(())
    }

    /// Writes `timings.json`, and returns its mark.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub(crate) fn write_sum(&self) -> Result<FileMark, PipelineError> {
        let path = self.run_dir.join(TIMINGS_FILE);
        let bytes = atomic::json_bytes(&path, &self.timings)?;
        atomic::write_unflushed(&path, &bytes)?;
        Ok(FileMark::of(&bytes))
    }
}

fn of_keys<T: Clone>(all: &BTreeMap<u32, T>, keys: &BTreeSet<u32>) -> BTreeMap<u32, T> {
    keys.iter().filter_map(|key| Some((*key, all.get(key)?.clone()))).collect()
}
