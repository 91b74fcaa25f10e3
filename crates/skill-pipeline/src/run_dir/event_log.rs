//! `events.jsonl`: what happened in a run, and when.

use super::atomic::failed;
use super::read::hash_of_file;
use super::timings::FileMark;
use crate::error::PipelineError;
use crate::event::{Event, EventSink};
use parking_lot::Mutex;
use serde_json::json;
use skill_core::canonical::RunningSha256;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes events to `events.jsonl`, each with its time, and passes them on.
///
/// Progress inside a stage is passed on but not written: it would be most of the file.
pub struct EventLog<'run> {
    file: Mutex<(File, RunningSha256)>,
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
        let file = cut_half_a_line_of(&path)
            .and_then(|()| {
                let file = File::options().create(true).append(true).open(&path)?;
                Ok((file, hash_of_file(&path)?))
            })
            .map_err(failed("write", &path))?;
        Ok(Self { file: Mutex::new(file), sink })
    }

    /// The length and the hash of the log so far.
    pub fn mark(&self) -> FileMark {
        let file = self.file.lock();
        FileMark { bytes: file.1.n_bytes(), sha256: file.1.hex() }
    }

    fn write(&self, event: &Event) -> std::io::Result<()> {
        let mut line = serde_json::to_value(event)?;
        if let Some(fields) = line.as_object_mut() {
            fields.insert("unix_ms".to_owned(), json!(unix_millis()));
        }
        let mut file = self.file.lock();
        let line = format!("{line}\n");
        file.0.write_all(line.as_bytes())?;
        file.1.update(line.as_bytes());
        Ok(())
    }
}

/// Takes away what a machine that died, or a full disk, left of a line, so that every line stays JSON.
fn cut_half_a_line_of(path: &Path) -> std::io::Result<()> {
    match File::options().read(true).write(true).open(path) {
        Ok(mut file) => cut_half_a_line(&mut file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes an unfinished last line: its writer was killed, and appending to it would damage the next line too.
pub(super) fn cut_half_a_line(file: &mut File) -> std::io::Result<()> {
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

pub(super) fn unix_millis() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}
