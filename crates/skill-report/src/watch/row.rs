//! One run in short: what a list of runs shows of it.

use super::discover::Found;
use super::signature::changed_unix_ms;
use super::spend::{Ledger, Spent};
use crate::{RunOverview, RunPhase};
use serde::Serialize;
use skill_pipeline::RunReader;
use skill_pipeline::run_dir::is_stop_requested;
use skill_pipeline::run_dir::live::WorkerPulse;
use std::path::Path;

/// A run in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The way to it from the root directory.
    pub name: String,
    /// How it is.
    pub state: RunPhase,
    /// What is wrong with its files.
    pub problem: Option<String>,
    /// Somebody asked for a stop, and the process has not come to it yet.
    pub is_stop_requested: bool,
    /// What is in its files.
    pub files: RunOverview,
    /// What it has spent; `None` where nobody can say.
    pub spent: Option<Spent>,
    /// The workers on other machines, while a process works on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerPulse>,
    /// When one of its files changed last, in milliseconds since 1970.
    pub changed_unix_ms: u64,
}

impl Row {
    /// The row of a run, whose files may be known.
    pub(crate) fn of(found: &Found, files: Result<RunOverview, String>, ledger: &Ledger) -> Self {
        let path = &found.path;
        let (mut files, problem) = match files {
            Ok(files) => (files, None),
            Err(problem) => (RunOverview::unknown(path), Some(problem)),
        };
        let state = match &problem {
            Some(_) => RunPhase::Damaged,
            None => RunPhase::of(path, files.phase == RunPhase::Finished),
        };
        let spent = match state {
            RunPhase::Damaged => None,
            RunPhase::Training => ledger.spent_now(path),
            RunPhase::Finished | RunPhase::Stopped | RunPhase::Interrupted => ledger.spent_at_rest(path),
        };
        files.cautions = spent.as_ref().map(|spent| spent.cautions.clone()).unwrap_or_default();
        let workers = match state {
            RunPhase::Training => workers_of(path),
            RunPhase::Damaged | RunPhase::Finished | RunPhase::Stopped | RunPhase::Interrupted => Vec::new(),
        };
        Self {
            name: found.name.clone(),
            state,
            problem,
            is_stop_requested: state == RunPhase::Training && is_stop_requested(path),
            files,
            spent,
            workers,
            changed_unix_ms: changed_unix_ms(path),
        }
    }
}

/// The workers of a run that a process works on.
fn workers_of(path: &Path) -> Vec<WorkerPulse> {
    let live = RunReader::open(path).ok().and_then(|reader| reader.live());
    live.map(|live| live.pulse.workers).unwrap_or_default()
}

/// Reads the files of a run; errors become text.
pub(crate) fn read_files(found: &Found) -> Result<RunOverview, String> {
    if let Some(link) = &found.leaving {
        return Err(format!(
            "{link} is a link that leaves the served directory; nothing of this run is read"
        ));
    }
    RunOverview::of_files(&found.path).map_err(|error| found.problem(&error))
}
