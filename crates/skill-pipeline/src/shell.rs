//! The shell of a run of any kind: directory, identity, event log, stop signal and model calls.
//!
//! `RunShell` holds what the caller configures. `RunShell::open` claims a directory and returns an `OpenRun`, through
//! which a trainer logs events, warns, checks for a stop and ends. Nothing here depends on the kind of run: the trainer
//! supplies the identity and does the work.

mod base;
mod calls;
pub(crate) mod spans;
mod trouble;

pub use base::RunBase;
pub(crate) use base::metered;
pub use calls::CallSettings;
pub(crate) use calls::spent_by;
pub use calls::{RunBudget, RunCalls};
pub use calls::{count_spent, count_spent_since};
pub use trouble::ReadTrouble;

use crate::error::PipelineError;
use crate::event::{Event, EventSink, NoEvents};
use crate::identity::check_identity;
use crate::kind;
use crate::records::{ConfigFile, RunIdentity};
use crate::run_dir::config_copy::config_copy;
use crate::run_dir::event_log::EventLog;
use crate::run_dir::process_log::ProcessLog;
use crate::run_dir::process_log::file_marks;
use crate::run_dir::timings::FileMark;
use crate::run_dir::vacant::check_vacant;
use crate::run_dir::{RunDir, is_stop_requested, way_to, withdraw_stop};
use crate::settings::StopSignal;
use crate::warning::{Advice, OwnHints, Warning};
use serde_json::{Map, Value};
use skill_core::StepIdx;
use skill_llm::error::with_causes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{Instrument as _, Span};

/// What a configuration file says, for the run directory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunConfig {
    /// The text of the file, kept as `config.toml`.
    pub source_text: Option<String>,
    /// The settings in which the resolved configuration differs from the file, such as those of the command line, as
    /// `KEY=VALUE`.
    pub set: Vec<String>,
    /// The resolved settings without secrets and without what only changes speed or cost, kept as `config.json`.
    pub resolved: Value,
    /// Settings that decide results and that only the caller knows, by name.
    pub identity: Vec<(String, Value)>,
    /// The directory of the file.
    pub dir: Option<PathBuf>,
    /// The models that are simulated, by their names in the configuration: the results say so.
    pub simulated_models: Vec<String>,
    /// Settings by the names that another program knows them by: `config.json` has them beside its own fields, and the
    /// summary beside the sections. They decide nothing.
    pub named: Map<String, Value>,
}

impl RunConfig {
    /// The resolved settings, with those that have another name too.
    pub fn told(&self) -> Value {
        let mut told = self.resolved.clone();
        if let Some(sections) = told.as_object_mut() {
            sections.extend(self.named.clone());
        }
        told
    }
}

/// What the caller of a trainer configures around a run.
#[derive(Clone)]
pub struct RunShell {
    /// Who is told what happens.
    pub events: Arc<dyn EventSink>,
    /// What people can do about errors and warnings.
    pub advice: Arc<dyn Advice>,
    /// Whether to stop.
    pub stop: StopSignal,
    /// What the run directory keeps of the configuration.
    pub config: RunConfig,
    /// What troubles the models, for warnings while it lasts.
    pub trouble: Option<ReadTrouble>,
}

impl Default for RunShell {
    fn default() -> Self {
        Self {
            events: Arc::new(NoEvents),
            advice: Arc::new(OwnHints),
            stop: StopSignal::default(),
            config: RunConfig::default(),
            trouble: None,
        }
    }
}

/// The builder methods of every trainer for its [`RunShell`], which is the field at this path.
#[macro_export]
#[doc(hidden)]
macro_rules! shell_methods {
    ($($shell:ident).+) => {
        /// Tells this reader what happens.
        #[must_use]
        pub fn with_events(mut self, events: std::sync::Arc<dyn $crate::event::EventSink>) -> Self {
            self.$($shell).+.events = events;
            self
        }

        /// Adds to errors and warnings, in events and in `events.jsonl`, what people can do about them in this program.
        #[must_use]
        pub fn with_advice(mut self, advice: std::sync::Arc<dyn $crate::warning::Advice>) -> Self {
            self.$($shell).+.advice = advice;
            self
        }

        /// Stops when told to.
        #[must_use]
        pub fn with_stop(mut self, stop: $crate::settings::StopSignal) -> Self {
            self.$($shell).+.stop = stop;
            self
        }

        /// Keeps this configuration in the run directory; its identity names what decides results and is known to the
        /// caller alone, such as the first policy and the way in which it is trained.
        #[must_use]
        pub fn with_config(mut self, config: $crate::shell::RunConfig) -> Self {
            self.$($shell).+.config = config;
            self
        }
    };
}
pub use shell_methods;

impl RunShell {
    /// Claims the directory for a run, writes its configuration, and opens its event log.
    ///
    /// `claim` checks that the directory holds this run or none, and returns the identity of the run; see
    /// [`check_same_run`].
    ///
    /// # Errors
    ///
    /// A directory that holds another run or something else, cannot be written, or that another process works on.
    pub fn open(
        &self,
        path: &Path,
        claim: impl FnOnce(&RunDir) -> Result<RunIdentity, PipelineError>,
    ) -> Result<OpenRun<'_>, PipelineError> {
        check_vacant(path)?;
        let dir = RunDir::open(path)?;
        let identity = claim(&dir)?;
        let has_hashes = kind::has_hashes(&identity);
        let copy = self.config.source_text.as_deref();
        let copy = copy.map(|text| config_copy(text, &self.config.set, &identity));
        let config = ConfigFile::new(self.config.resolved.clone(), identity)
            .with_simulated_models(&self.config.simulated_models)
            .with_named(self.config.named.clone())
            .with_hashes(has_hashes);
        dir.write_config(&config, copy.as_deref())?;
        if has_hashes {
            dir.commit_start()?;
        }
        // A stop request is addressed to the process that ran then.
        withdraw_stop(path)?;
        let log = EventLog::open(path, self.events.as_ref())?;
        Ok(OpenRun { shell: self, dir, log, copy })
    }
}

/// Refuses to resume another run: one with other settings once it has results (`is_begun`, or a state in the directory),
/// and one of another kind from the start where either of the two trains weights.
///
/// # Errors
///
/// [`PipelineError::Mismatch`], and files that cannot be read.
pub fn check_same_run(dir: &RunDir, identity: &RunIdentity, is_begun: bool) -> Result<(), PipelineError> {
    let Some(stored) = dir.read_config()? else { return Ok(()) };
    // A trainer knows by its own files that a run has begun, and does not look for those of another kind.
    let is_other = kind::is_other_with_weights(&stored.identity, identity);
    if is_other || is_begun || dir.read_state()?.is_some() {
        check_identity(dir.path(), &stored.identity, identity)?;
    }
    Ok(())
}

/// A run that this process holds.
pub struct OpenRun<'run> {
    /// What the caller configured.
    pub shell: &'run RunShell,
    /// The directory, held.
    pub dir: RunDir,
    /// The log of events.
    pub log: EventLog<'run>,
    /// The text of `config.toml`.
    copy: Option<String>,
}

impl OpenRun<'_> {
    /// Does the work of the run in this span, warns while trouble lasts, and logs the reason if the run stops early.
    ///
    /// # Errors
    ///
    /// Those of the work.
    pub async fn work<T>(
        &self,
        span: Span,
        work: impl Future<Output = Result<T, PipelineError>>,
    ) -> Result<T, PipelineError> {
        let outcome = tokio::select! {
            biased;
            outcome = work.instrument(span.clone()) => outcome,
            never = trouble::warn(self.shell.trouble.as_ref(), &self.log) => match never {},
        };
        if let Err(error) = &outcome {
            spans::fail(&span);
            let hint = self.shell.advice.on_error(error);
            self.log.emit(&Event::RunStopped { reason: with_causes(error), hint });
        }
        outcome
    }

    /// Withdraws a stop request: it was obeyed, or came too late.
    pub fn close(&self) {
        if let Err(error) = withdraw_stop(self.dir.path()) {
            tracing::warn!(%error, "the request to stop could not be taken away");
        }
    }

    /// True if the run is to end after the step under way.
    pub fn is_told_to_stop(&self) -> bool {
        let StopSignal { after_step, soon, .. } = &self.shell.stop;
        after_step.is_cancelled() || soon.is_cancelled() || is_stop_requested(self.dir.path())
    }

    /// An error if the run is to end before its next step.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Stopped`].
    pub fn check_stop(&self, last_step: u32, total_steps: u32) -> Result<(), PipelineError> {
        if self.shell.stop.now.is_cancelled() || self.is_told_to_stop() {
            return Err(PipelineError::Stopped { last_step, total_steps });
        }
        Ok(())
    }

    /// The error to report for work that ended early: a stop or a cap if that caused it, otherwise the fault itself.
    pub fn or_stopped(&self, error: PipelineError, last_step: u32, total_steps: u32) -> PipelineError {
        let StopSignal { soon, now, .. } = &self.shell.stop;
        if error.is_stop() && (soon.is_cancelled() || now.is_cancelled()) {
            return PipelineError::Stopped { last_step, total_steps };
        }
        error.or_capped(last_step, total_steps)
    }

    /// The marks of the files that differ between two equal runs, for `timings.jsonl`.
    pub fn file_marks(&self) -> BTreeMap<String, FileMark> {
        file_marks(self.copy.as_deref(), &self.log)
    }

    /// Begins the lines of this process in `timings.jsonl`, for a run that writes no times of stages.
    ///
    /// # Errors
    ///
    /// As [`ProcessLog::begin`].
    pub fn begin_process(&self, finished_steps: u64) -> Result<ProcessLog, PipelineError> {
        let finished_steps = u32::try_from(finished_steps).unwrap_or(u32::MAX);
        ProcessLog::begin(self.dir.path(), &self.log, self.copy.as_deref(), finished_steps, &[])
    }

    /// The directory of the configuration file, relative to the run directory.
    pub fn config_dir(&self) -> Option<String> {
        let config = self.shell.config.dir.as_deref()?;
        way_to(self.dir.path(), config)
    }

    /// Logs a warning with its advice.
    pub fn warn(&self, step: Option<StepIdx>, warning: Warning) {
        let advice = self.shell.advice.on_warning(&warning);
        self.log.emit(&Event::warning(step, warning, advice));
    }
}
