//! What a process that trains weights writes to `timings.jsonl`: when it worked, and the marks of the files that differ
//! between two equal runs, so that `skillrl check` knows them.

use super::JOURNAL_FILE;
use super::event_log::EventLog;
use super::timings::{FileMark, Timings, TimingsLog};
use crate::error::PipelineError;
use skill_core::StepIdx;
use skill_llm::journal::requests_written;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The marks of the configuration file, if there is a text of it, and of the events so far.
pub(crate) fn file_marks(source_text: Option<&str>, log: &EventLog<'_>) -> BTreeMap<String, FileMark> {
    let source = source_text.map(|text| ("config.toml".to_owned(), FileMark::of(text.as_bytes())));
    source.into_iter().chain([("events.jsonl".to_owned(), log.mark())]).collect()
}

/// The lines of one process.
pub struct ProcessLog {
    timings: TimingsLog,
    run: PathBuf,
    source_text: Option<String>,
    journals: Vec<String>,
    began: Instant,
}

impl ProcessLog {
    /// Writes the first line of a process, which finds so many finished steps. `journals` are those of the run besides
    /// `journal.sqlite`, by their paths below its directory.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or written, or is of another format.
    pub fn begin(
        run: &Path,
        log: &EventLog<'_>,
        source_text: Option<&str>,
        finished_steps: u32,
        journals: &[&str],
    ) -> Result<Self, PipelineError> {
        let mut timings = TimingsLog::open(run)?;
        timings.begin_process(StepIdx(finished_steps), 1);
        let mut begun = Self {
            timings,
            run: run.to_owned(),
            source_text: source_text.map(str::to_owned),
            journals: journals.iter().map(|name| (*name).to_owned()).collect(),
            began: Instant::now(),
        };
        begun.write(log)?;
        Ok(begun)
    }

    /// Writes what is known by now.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or written.
    pub fn write(&mut self, log: &EventLog<'_>) -> Result<(), PipelineError> {
        let known = Timings::read_or_new(&self.run)?;
        // What is known of a journal that was lost stays known.
        let of_run = self.requests(JOURNAL_FILE).max(known.requests.unwrap_or_default());
        let further = self.journals.iter().map(|name| {
            let known = known.journals.get(name).copied().unwrap_or_default();
            (name.clone(), self.requests(name).max(known))
        });
        let further = further.filter(|(_, requests)| *requests > 0).collect();
        let marks = file_marks(self.source_text.as_deref(), log);
        self.timings.append_with_journals(self.began.elapsed().as_secs_f64(), of_run, further, marks)
    }

    /// The requests in a journal; 0 where it does not exist or cannot be read.
    fn requests(&self, name: &str) -> u64 {
        requests_written(&self.run.join(name)).ok().flatten().unwrap_or_default()
    }
}
