//! `events.jsonl`, `config.toml` and the timings, against the marks in `timings.jsonl`.

use super::{Checking, Fault, Remedy};
use crate::error::PipelineError;
use crate::run_dir::line_log::whole_lines;
use crate::run_dir::read::read_bytes;
use crate::run_dir::timings::{FileMark, TIMINGS_FILE, TIMINGS_LOG, Timings, TimingsLine};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::path::Path;

pub(super) const EVENTS_FILE: &str = "events.jsonl";

/// The names of the events that end a run.
const ENDED: [&str; 4] = ["run_finished", "bank_finished", "sft_finished", "rl_finished"];

/// Whether the log of events says that the run has come to its end, and nothing has begun since.
pub(super) fn has_ended(run: &Path) -> bool {
    #[derive(Deserialize)]
    struct Named {
        event: String,
    }
    let bytes = read_bytes(&run.join(EVENTS_FILE)).ok().flatten().unwrap_or_default();
    let last = whole_lines(&bytes).last().and_then(|line| serde_json::from_slice::<Named>(line).ok());
    last.is_some_and(|last| ENDED.contains(&last.event.as_str()))
}

impl Checking<'_> {
    /// `is_expected` of a run that has written its first line of `timings.jsonl`.
    pub(super) fn logs(&mut self, is_expected: bool, has_ended: bool) -> Result<(), PipelineError> {
        self.timings()?;
        let marks = self.marks(is_expected)?;
        for (name, mark) in &marks {
            let grows = name == EVENTS_FILE;
            // It is replaced before its mark is written.
            if self.check.is_training && !grows {
                continue;
            }
            let remedy = if name == "config.toml" { Remedy::Resume } else { Remedy::NotNeeded };
            self.marked(name, mark, grows, remedy);
        }
        if !marks.contains_key(EVENTS_FILE) && self.run.join(EVENTS_FILE).exists() {
            self.file(EVENTS_FILE, Remedy::NotNeeded, |bytes| !bytes.is_empty() && are_json_lines(bytes));
        }
        if !marks.contains_key(TIMINGS_FILE) && self.run.join(TIMINGS_FILE).exists() {
            let bytes = read_bytes(&self.run.join(TIMINGS_FILE));
            let is_whole = bytes
                .is_ok_and(|bytes| serde_json::from_slice::<Timings>(&bytes.unwrap_or_default()).is_ok());
            // A run that has ended says what it holds.
            let lacks_its_mark =
                has_ended && self.run.join(TIMINGS_LOG).exists() && !self.is_known(TIMINGS_LOG);
            match is_whole && !lacks_its_mark {
                true => self.whole(TIMINGS_FILE),
                false if lacks_its_mark => {
                    let detail = Some("the last line is missing");
                    self.damage_of(TIMINGS_LOG, Fault::Changed, Remedy::NotNeeded, detail);
                }
                false => self.damaged(TIMINGS_FILE, Fault::Changed, Remedy::NotNeeded),
            }
        }
        Ok(())
    }

    /// The timings as far as they are whole: what is damaged, or cannot be read, is noted by its name.
    ///
    /// # Errors
    ///
    /// A file of another format.
    pub(super) fn timings(&self) -> Result<Timings, PipelineError> {
        match Timings::read_or_new(self.run) {
            Err(PipelineError::RunDir { .. }) => Ok(Timings::new()),
            read => read,
        }
    }

    /// The last mark of each file.
    fn marks(&mut self, is_expected: bool) -> Result<BTreeMap<String, FileMark>, PipelineError> {
        let mut marks = BTreeMap::new();
        if !is_expected && !self.run.join(TIMINGS_LOG).exists() {
            return Ok(marks);
        }
        let Some(bytes) = self.bytes_of(TIMINGS_LOG, Remedy::NotNeeded) else { return Ok(marks) };
        let mut damaged = None;
        for (number, line) in (1_u32..).zip(whole_lines(&bytes)) {
            match TimingsLine::read(line) {
                Some(line) => marks.extend(line.files),
                None => {
                    damaged.get_or_insert(number);
                }
            }
        }
        match damaged {
            Some(number) => {
                let detail = format!("line {number} is damaged");
                self.damage_of(TIMINGS_LOG, Fault::Changed, Remedy::NotNeeded, Some(&detail));
            }
            None => self.whole(TIMINGS_LOG),
        }
        Ok(marks)
    }

    fn marked(&mut self, name: &str, mark: &FileMark, grows: bool, remedy: Remedy) {
        self.file(name, remedy, |bytes| {
            let n_marked = usize::try_from(mark.bytes).unwrap_or(usize::MAX);
            let marked = bytes.get(..n_marked).filter(|_| grows || bytes.len() == n_marked);
            let rest = bytes.get(n_marked..).unwrap_or_default();
            marked.is_some_and(|marked| FileMark::of(marked) == *mark) && are_json_lines(rest)
        });
    }
}

/// Whether each whole line is JSON; one without its end belongs to a process that works or was killed.
fn are_json_lines(bytes: &[u8]) -> bool {
    whole_lines(bytes).all(|line| serde_json::from_slice::<IgnoredAny>(line).is_ok())
}
