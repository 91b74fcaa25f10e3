//! `events.jsonl` and `timings.json`: the only files of a run that know what time it is. The second one knows too how
//! many requests the journal has held.

use super::atomic;
use super::format::FORMAT_VERSION;
use crate::error::PipelineError;
use crate::event::{Event, EventSink, Stage};
use serde::{Deserialize, Serialize};
use serde_json::json;
use skill_core::StepIdx;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes events to `events.jsonl`, each with its time, and passes them on.
///
/// Progress inside a stage is passed on but not written: it would be most of the file.
pub struct EventLog<'run> {
    file: Mutex<File>,
    sink: &'run dyn EventSink,
}

impl<'run> EventLog<'run> {
    /// Opens the log of a run directory for adding to it; a last line that was never finished is taken away.
    ///
    /// # Errors
    ///
    /// A file that cannot be opened, read or cut.
    pub fn open(run_dir: &Path, sink: &'run dyn EventSink) -> Result<Self, PipelineError> {
        let path = run_dir.join("events.jsonl");
        let file = cut_half_a_line(&path)
            .and_then(|()| File::options().create(true).append(true).open(&path))
            .map_err(|source| PipelineError::RunDir { action: "write", path, source })?;
        Ok(Self { file: Mutex::new(file), sink })
    }

    fn write(&self, event: &Event) -> std::io::Result<()> {
        let mut line = serde_json::to_value(event)?;
        if let Some(fields) = line.as_object_mut() {
            fields.insert("unix_ms".to_owned(), json!(unix_millis()));
        }
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.write_all(format!("{line}\n").as_bytes())
    }
}

/// Takes away what a machine that died, or a full disk, left of a line, so that every line stays JSON.
fn cut_half_a_line(path: &Path) -> std::io::Result<()> {
    let mut file = match File::options().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let n_bytes = file.seek(SeekFrom::End(0))?;
    let mut kept = n_bytes;
    let mut byte = [b'\n'];
    while kept > 0 {
        file.seek(SeekFrom::Start(kept - 1))?;
        file.read_exact(&mut byte)?;
        if byte == *b"\n" {
            break;
        }
        kept -= 1;
    }
    if kept < n_bytes { file.set_len(kept) } else { Ok(()) }
}

impl EventSink for EventLog<'_> {
    fn emit(&self, event: &Event) {
        if !matches!(event, Event::StageProgress { .. })
            && let Err(error) = self.write(event)
        {
            tracing::warn!(%error, "an event could not be written to events.jsonl");
        }
        self.sink.emit(event);
    }
}

/// `timings.json`: seconds by step and stage, and the processes that worked on the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// See [`FORMAT_VERSION`].
    pub format_version: String,
    /// One entry per process that took up the run, in order.
    pub processes: Vec<ProcessTiming>,
    /// Seconds by stage, for each step; `0` stands for what is outside of steps.
    pub steps: BTreeMap<u32, BTreeMap<String, f64>>,
    /// What was begun ahead, by the step during whose evaluation it was.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub speculation: BTreeMap<u32, SpeculationTiming>,
    /// Requests in the journal when this was written, those of pruned calls too: a journal that holds fewer was cut, or
    /// is an older copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

/// What speculation did during one evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpeculationTiming {
    /// Rollouts of the next step that were finished, or found finished.
    pub rollouts: usize,
    /// Whether the candidate was rejected: then the next step uses them; else they were paid for and are not used.
    pub is_used: bool,
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

impl Timings {
    /// Reads the timings of a run; what cannot be read begins anew, and says nothing about the journal.
    pub fn read_or_new(run_dir: &Path) -> Self {
        std::fs::read(run_dir.join("timings.json"))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_else(|| Self {
                format_version: FORMAT_VERSION.to_owned(),
                processes: Vec::new(),
                steps: BTreeMap::new(),
                speculation: BTreeMap::new(),
                requests: None,
            })
    }

    /// Notes that a process takes up the run.
    pub fn begin_process(&mut self, finished_steps: StepIdx, workers: usize) {
        self.processes.push(ProcessTiming {
            started_unix_ms: unix_millis(),
            finished_steps: finished_steps.0,
            workers,
            seconds: 0.0,
        });
    }

    /// Notes how long a stage took; a step that is run again counts its last time only.
    pub fn record(&mut self, step: Option<StepIdx>, stage: Stage, seconds: f64) {
        let rounded = (seconds * 1000.0).round() / 1000.0;
        self.steps
            .entry(step.unwrap_or_default().0)
            .or_default()
            .insert(format!("{}_s", stage.as_str()), rounded);
    }

    /// Notes what was begun ahead during the evaluation of a step.
    pub fn record_speculation(&mut self, step: StepIdx, speculation: SpeculationTiming) {
        self.speculation.insert(step.0, speculation);
    }

    /// Writes the file, with how long this process has worked and what the journal holds by now.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write(
        &mut self,
        run_dir: &Path,
        process_seconds: f64,
        requests: u64,
    ) -> Result<(), PipelineError> {
        self.requests = Some(requests);
        if let Some(process) = self.processes.last_mut() {
            process.seconds = (process_seconds * 1000.0).round() / 1000.0;
        }
        let path = run_dir.join("timings.json");
        // Nobody waits for the disk here: an older file says less about the journal, and nothing wrong.
        atomic::write_unflushed(&path, &atomic::json_bytes(&path, self)?)
    }
}

pub(super) fn unix_millis() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}
