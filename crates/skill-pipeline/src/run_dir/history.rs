//! The records of a run's steps: `history.jsonl`, which grows by a line for each step, and `history.json`, which is
//! written once the run is finished.
//!
//! Imported runs have the second one alone. A line is a copy of the step's
//! `step_record.json`, so one that is torn or damaged is made from that.
//!
//! # Invariants
//!
//! - The size of what a step writes does not grow with the steps before it. Held by
//!   `a_run_writes_at_most_three_times_its_size`.

use super::atomic::{self, failed};
use super::files::FileHashes;
use super::line_log::LineLog;
use super::path::{HISTORY_FILE, HISTORY_LOG, step_path};
use super::read::{not_readable, parse, read_bytes, read_json};
use crate::error::PipelineError;
use crate::records::document::StepRecord;
use serde::Deserialize;
use serde::Deserializer as _;
use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use skill_core::StepIdx;
use skill_core::canonical::hex_sha256;
use skill_llm::regular_file;
use std::fmt;
use std::io::{self, BufRead as _, BufReader};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// The file of a step's directory that holds its record.
pub(super) const STEP_RECORD: &str = "step_record.json";

/// The file that holds the records of a run that may be under way.
pub(super) fn history_path(run: &Path) -> PathBuf {
    let log = run.join(HISTORY_LOG);
    if log.exists() { log } else { run.join(HISTORY_FILE) }
}

fn is_log(path: &Path) -> bool {
    path.ends_with(HISTORY_LOG)
}

/// The records of the steps up to `last`, in order, for those who only look.
pub(super) fn read_history(run: &Path, last: StepIdx) -> Result<Vec<StepRecord>, PipelineError> {
    let mut history: Vec<StepRecord> = Vec::new();
    let path = for_each(run, |record: StepRecord| {
        if record.step <= last {
            history.push(record);
        }
        history.len() < last.0 as usize
    })?;
    check_order(path, &history, last)?;
    Ok(history)
}

fn check_order(path: PathBuf, history: &[StepRecord], last: StepIdx) -> Result<(), PipelineError> {
    let in_order = history.iter().zip(1..).all(|(record, step)| record.step == StepIdx(step));
    if in_order && history.len() == last.0 as usize {
        return Ok(());
    }
    Err(lacks_a_step(path, last))
}

pub(super) fn lacks_a_step(path: PathBuf, last: StepIdx) -> PipelineError {
    let message = format!("does not hold each of the steps 1 to {last} once");
    PipelineError::Corrupt { path, message }
}

/// Hands over the records that a run has, one at a time, as long as `take` asks for more; returns the file that they
/// come from. A run without records has none.
///
/// # Errors
///
/// A file that cannot be read, and a record that is asked for and is not what it should be.
pub(super) fn for_each<T: DeserializeOwned>(
    run: &Path,
    mut take: impl FnMut(T) -> bool,
) -> Result<PathBuf, PipelineError> {
    let path = history_path(run);
    let file = match regular_file::open(&path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(path);
        }
        Err(error) => return Err(failed("read", &path)(error)),
    };
    let mut reader = BufReader::new(file);
    if !is_log(&path) {
        let mut json = serde_json::Deserializer::from_reader(reader);
        let rows = json.deserialize_seq(Rows { take: &mut take, row: PhantomData });
        rows.and_then(|()| json.end()).map_err(|error| not_readable(path.clone(), &error))?;
        return Ok(path);
    }
    let mut line = Vec::new();
    loop {
        line.clear();
        reader.read_until(b'\n', &mut line).map_err(failed("read", &path))?;
        // A line without its end is being written, or belongs to a process that died.
        let Some(whole) = line.strip_suffix(b"\n") else { return Ok(path) };
        if !take(parse(&path, whole)?) {
            return Ok(path);
        }
    }
}

/// The rows of a list, one in memory at a time.
struct Rows<'a, T, F> {
    take: &'a mut F,
    row: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> bool> Visitor<'de> for Rows<'_, T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the records of steps")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        let mut asks_for_more = true;
        // The list is read to its end, so that one that is cut off is never taken for a whole one.
        while let Some(row) = rows.next_element::<T>()? {
            asks_for_more = asks_for_more && (self.take)(row);
        }
        Ok(())
    }
}

/// The records of the steps up to `last`, in order, each as its recorded hash has it: a line that is not is replaced by
/// the step's own record.
///
/// # Errors
///
/// A file that cannot be read; a step of which neither is as the run left it.
pub(super) fn read_verified(
    run: &Path,
    last: StepIdx,
    hashes: &FileHashes,
) -> Result<Vec<StepRecord>, PipelineError> {
    let mut of_lines = found(run, last)?.into_iter();
    (1..=last.0)
        .map(|step| {
            let step = StepIdx(step);
            let line = of_lines.next().flatten().filter(|record| record.step == step);
            let recorded = hashes.of(&record_name(step));
            match (line, recorded) {
                (Some(record), None) => Ok(record),
                (Some(record), Some(hash)) if is_hash_of(run, &record, hash) => Ok(record),
                (_, recorded) => {
                    let path = step_path(run, step).join(STEP_RECORD);
                    let bytes = read_bytes(&path)?.ok_or_else(|| lacks_a_step(history_path(run), last))?;
                    if recorded.is_some_and(|hash| hex_sha256(&bytes) != hash) {
                        return Err(PipelineError::ChangedFile { path });
                    }
                    let record: StepRecord = parse(&path, &bytes)?;
                    if record.step == step { Ok(record) } else { Err(lacks_a_step(path, last)) }
                }
            }
        })
        .collect()
}

fn record_name(step: StepIdx) -> String {
    format!("steps/step_{:04}/{STEP_RECORD}", step.0)
}

/// True if a record, written as the file of its step, has this hash.
pub(super) fn is_hash_of(run: &Path, record: &StepRecord, hash: &str) -> bool {
    let path = step_path(run, record.step).join(STEP_RECORD);
    atomic::json_bytes(&path, record).is_ok_and(|bytes| hex_sha256(&bytes) == hash)
}

/// What the history holds for each step up to `last`; `None` for what cannot be read.
fn found(run: &Path, last: StepIdx) -> Result<Vec<Option<StepRecord>>, PipelineError> {
    let path = history_path(run);
    if !is_log(&path) {
        let whole: Result<Option<Vec<StepRecord>>, _> = read_json(&path);
        return match whole {
            Ok(history) => Ok(history.unwrap_or_default().into_iter().map(Some).collect()),
            Err(PipelineError::Corrupt { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        };
    }
    let (_, lines) = LineLog::open(&path, u64::from(last.0))?;
    Ok(lines.iter().map(|line| serde_json::from_slice(line).ok()).collect())
}

/// The growing file of a process that holds the run.
#[derive(Debug)]
pub(super) struct HistoryLog {
    log: LineLog,
}

impl HistoryLog {
    /// Opens the file; its lines are compared with the records that are appended.
    ///
    /// # Errors
    ///
    /// A file that cannot be read.
    pub(super) fn open(run: &Path) -> Result<Self, PipelineError> {
        Ok(Self { log: LineLog::open(&run.join(HISTORY_LOG), 0)?.0 })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        self.log.path()
    }

    /// Adds the records that are not there yet, without waiting for the disk; returns whether the file exists then.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub(super) fn append(&mut self, history: &[StepRecord]) -> Result<bool, PipelineError> {
        let n_there = usize::try_from(self.log.n_lines()).unwrap_or(usize::MAX);
        for record in history.iter().skip(n_there) {
            self.log.append(&self.line_of(record)?)?;
        }
        Ok(self.log.n_lines() > 0)
    }

    fn line_of(&self, record: &StepRecord) -> Result<Vec<u8>, PipelineError> {
        serde_json::to_vec(record)
            .map_err(|error| atomic::failed("write", self.log.path())(io::Error::from(error)))
    }
}
