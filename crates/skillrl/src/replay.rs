//! Replays: a recorded run made again from its journal, without a network or up to where it diverges.
//!
//! The configuration of a run is put together again from its directory; see [`Replay::prepare`]. A strict replay has
//! models that cannot send anything, so it needs no keys.

mod files;
mod recorded;
mod starts;

#[cfg(feature = "report")]
pub(crate) use recorded::{beside_config, recorded_amended};
pub use recorded::{recorded_config, recorded_loaded, recorded_with};

use crate::config::{LoadedConfig, ModelRole, TrainMode};
use crate::engine::{Engine, RunModels};
use crate::error::{Error, Failure, ReplayError};
use crate::trainer;
use async_trait::async_trait;
use files::{files_of, read};
use recorded::recorded_configuration;
use serde_json::Value;
use skill_llm::journal::JournalReader;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId, NotInRecording, Recording};
use skill_pipeline::identity::check_identity;
use skill_pipeline::records::ConfigFile;
use skill_pipeline::records::bank::{BankSummary, RECORD_FILE, ROUNDS_DIR};
use skill_pipeline::run_dir::notes::copy_notes_for_replay;
use skill_pipeline::run_dir::{JOURNAL_FILE, RunStatus, read_config, read_finished_step, run_status};
use skill_pipeline::{EventSink, NamedModels, PipelineError, RunReader, StopSignal, Summary, Trainer};
use starts::{Shorter, Starts, Until};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory in that of a run in which [`crate::transfer`] keeps its measurements.
pub(crate) const TRANSFER_DIR: &str = "transfer";

/// What is to be replayed.
#[derive(Debug, Clone, Default)]
pub struct ReplayOptions {
    /// The directory of the recorded run.
    pub run: PathBuf,
    /// The directory of the replay; `None` is `RUN-replay` beside it.
    pub into: Option<PathBuf>,
    /// The configuration file that the run was started with; `None` takes the run's copy.
    pub config: Option<PathBuf>,
    /// Settings that are changed, of the form `KEY=VALUE`.
    pub overrides: Vec<String>,
}

/// A replay that can begin.
#[derive(Debug)]
pub struct Replay {
    run: PathBuf,
    into: PathBuf,
    recorded: ConfigFile,
    loaded: LoadedConfig,
    recording: Arc<JournalReader>,
    /// The lengths that the run had before the last one.
    shorter: Vec<Shorter>,
}

/// How the calls of a replay were answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayCounts {
    /// From the recording.
    pub n_replayed: u64,
    /// By requests, failed ones included.
    pub n_sent: u64,
}

impl Replay {
    /// Puts the configuration of a run together again: its file, the overrides it was started with, then further
    /// ones. Paths in the file are relative to where it lay, which follows from where the run lies, unless
    /// [`ReplayOptions::config`] says it.
    ///
    /// # Errors
    ///
    /// No run, a configuration that cannot be put together, files that are not there, a journal that cannot be read.
    pub fn prepare(options: &ReplayOptions) -> Result<Self, Error> {
        let run = &options.run;
        let not_a_run = || ReplayError::NotARun { path: run.clone() };
        if run_status(run) == RunStatus::Absent {
            return Err(not_a_run().into());
        }
        let recorded = read_config(run).map_err(Error::Pipeline)?.ok_or_else(not_a_run)?;
        let sets = |is_meant: fn(&str) -> bool| {
            let mut keys = options.overrides.iter().filter_map(|text| text.split('=').next());
            keys.any(|key| is_meant(key.trim()))
        };
        if sets(|key| key == "run.dir") {
            return Err(ReplayError::RunDirIsSet.into());
        }
        let into = match &options.into {
            Some(into) => into.clone(),
            None => beside(run).ok_or_else(not_a_run)?,
        };
        if into.canonicalize().ok().is_some_and(|into| run.canonicalize().ok() == Some(into)) {
            return Err(ReplayError::IntoItself { path: into }.into());
        }
        let starts = Starts::of(run);
        let loaded = recorded_configuration(run, &recorded, options, &starts)?;
        loaded.check_paths()?;
        let recording = JournalReader::open(&run.join(JOURNAL_FILE)).map_err(PipelineError::Journal)?;
        // With other data or batches a step is another one.
        let trains_bank = loaded.config.train.mode == TrainMode::Bank;
        let is_as_long = !trains_bank && !sets(|key| key.starts_with("train.") || key.starts_with("env."));
        let shorter = if is_as_long { starts.shorter(loaded.config.train.epochs) } else { Vec::new() };
        Ok(Self { run: run.clone(), into, recorded, loaded, recording: Arc::new(recording), shorter })
    }

    /// The recorded run.
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// The directory of the replay.
    pub fn into_dir(&self) -> &Path {
        &self.into
    }

    /// The configuration of the replay.
    pub fn loaded(&self) -> &LoadedConfig {
        &self.loaded
    }

    /// Makes the run again, as long as it was at each of its steps: a run that was extended had another schedule before.
    ///
    /// A strict replay does one thing at a time, so that it stops at the first call that is not recorded.
    ///
    /// # Errors
    ///
    /// As [`trainer::document`], where keys are asked for only if something may be sent, and as [`Trainer::train`]: a
    /// call that is not recorded is [`ReplayError::Diverged`].
    pub async fn train(
        &self,
        otherwise: NotInRecording,
        events: Arc<dyn EventSink>,
        stop: StopSignal,
    ) -> Result<Summary, Error> {
        // What people noted is read again by the steps that read it.
        let recorded = RunReader::open(&self.run).map_err(Error::Pipeline)?;
        copy_notes_for_replay(&recorded, &self.into).map_err(Error::Pipeline)?;
        for Shorter { epochs, until } in &self.shorter {
            let n_done = read_finished_step(&self.into)?.unwrap_or_default();
            if n_done >= *until {
                continue;
            }
            let mut loaded = self.loaded.clone();
            loaded.config.train.epochs = *epochs;
            let part = StopSignal { after_step: stop.after_step.child_token(), ..stop.clone() };
            let until = Until { step: *until, stop: part.clone(), events: Arc::clone(&events) };
            let trainer = self.trainer(&loaded, otherwise, Arc::new(until), part.clone())?;
            match trainer.train(&self.into).await {
                Ok(_) => {}
                Err(PipelineError::Stopped { .. })
                    if part.after_step.is_cancelled() && !stop.after_step.is_cancelled() => {}
                Err(error) => return Err(self.explain(error)),
            }
        }
        let trainer = self.trainer(&self.loaded, otherwise, events, stop)?;
        trainer.train(&self.into).await.map_err(|error| self.explain(error))
    }

    /// True if the run trains a bank: then [`train_bank`](Self::train_bank) makes it again.
    pub fn trains_bank(&self) -> bool {
        self.loaded.config.train.mode == TrainMode::Bank
    }

    /// As [`train`](Self::train), of a run that trains a bank. What a person did to the bank of the recorded run is not
    /// done again.
    ///
    /// # Errors
    ///
    /// As [`trainer::bank`] and [`train`](Self::train).
    pub async fn train_bank(
        &self,
        otherwise: NotInRecording,
        events: Arc<dyn EventSink>,
        stop: StopSignal,
    ) -> Result<BankSummary, Error> {
        let recording = Recording { journal: Arc::clone(&self.recording), otherwise };
        let trainer = match otherwise {
            NotInRecording::Send => trainer::bank(&self.loaded, events, stop)?.0,
            NotInRecording::Fail => {
                let mut loaded = self.loaded.clone();
                loaded.config.run.workers = 1;
                let mut engine = Engine::without_keys(&loaded);
                let embedding = engine.retrieval_model()?;
                let base = trainer::document_with(&loaded, mute(&loaded, ModelRole::Teacher)?, events, stop)?;
                trainer::bank_over(&loaded.config, base, embedding)?
            }
        };
        let trained = trainer.with_recording(recording).train(&self.into).await;
        trained.map_err(|error| self.explain(error))
    }

    fn trainer(
        &self,
        loaded: &LoadedConfig,
        otherwise: NotInRecording,
        events: Arc<dyn EventSink>,
        stop: StopSignal,
    ) -> Result<Trainer, Error> {
        let recording = Recording { journal: Arc::clone(&self.recording), otherwise };
        let trainer = match otherwise {
            NotInRecording::Send => trainer::document(loaded, events, stop)?.0,
            NotInRecording::Fail => {
                let mut loaded = loaded.clone();
                loaded.config.run.workers = 1;
                let models = mute(&loaded, ModelRole::Optimizer)?;
                trainer::document_with(&loaded, models, events, stop)?.with_targets(
                    loaded.config.train.targets_score.unwrap_or_default(),
                    mute_targets(&loaded)?,
                )
            }
        };
        Ok(trainer.with_recording(recording))
    }

    /// How the calls of the replay were answered, over all its processes.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn counts(&self) -> Result<ReplayCounts, Error> {
        let journal = JournalReader::open(&self.into.join(JOURNAL_FILE)).map_err(PipelineError::Journal)?;
        let rows = journal.by_stage().map_err(PipelineError::Journal)?;
        Ok(ReplayCounts {
            n_replayed: rows.iter().map(|row| row.copied).sum(),
            n_sent: rows.iter().map(|row| row.requests).sum(),
        })
    }

    /// What to say of an error that ended the replay: a call that is not recorded is a divergence.
    fn explain(&self, error: PipelineError) -> Error {
        let place = match &error {
            PipelineError::Rollout { place, .. } | PipelineError::Optimizer { place, .. } => place.clone(),
            _ => return Error::Pipeline(error),
        };
        let error = Error::Pipeline(error);
        if error.failure() != Failure::Diverged {
            return error;
        }
        let n_replayed = self.counts().unwrap_or_default().n_replayed;
        let n_steps = match self.trains_bank() {
            true => n_rounds(&self.into),
            false => read_finished_step(&self.into).ok().flatten().map_or(0, |step| step.0),
        };
        let (run, into) = (self.run.clone(), self.into.clone());
        ReplayError::Diverged { place, run, n_replayed, n_steps, into }.into()
    }

    /// The settings in which the replay differs from the recorded run, one phrase each.
    ///
    /// # Errors
    ///
    /// A `config.json` that cannot be read.
    pub fn changes(&self) -> Result<Vec<String>, Error> {
        let Some(replayed) = read_config(&self.into).map_err(Error::Pipeline)? else { return Ok(Vec::new()) };
        let mut changes = match check_identity(&self.run, &self.recorded.identity, &replayed.identity) {
            Err(PipelineError::Mismatch { changes, .. }) => changes.iter().map(ToString::to_string).collect(),
            Ok(()) | Err(_) => Vec::new(),
        };
        if changes.is_empty() && self.recorded.config != replayed.config {
            changes.push("a setting that says how far the run goes, or a path".to_owned());
        }
        Ok(changes)
    }

    /// Compares the files of a finished replay of the same settings with those of the run, all but those that hold
    /// times; returns how many there are.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Differs`] names the first file that differs.
    pub fn compare(&self) -> Result<usize, Error> {
        let (recorded, replayed) = (files_of(&self.run)?, files_of(&self.into)?);
        for file in recorded.union(&replayed) {
            let in_both = recorded.contains(file) && replayed.contains(file);
            if in_both && file == Path::new("config.json") && self.changes()?.is_empty() {
                // A run of an earlier version names fewer settings.
                continue;
            }
            if !in_both || read(&self.run.join(file))? != read(&self.into.join(file))? {
                return Err(ReplayError::Differs { file: file.clone(), into: self.into.clone() }.into());
            }
        }
        Ok(recorded.len())
    }

    /// Whether the recorded run is finished.
    pub fn is_recording_finished(&self) -> bool {
        run_status(&self.run) == RunStatus::Finished
    }
}

/// Finished rounds of a run that trains a bank.
fn n_rounds(run: &Path) -> u32 {
    let is_finished =
        |round: &u32| run.join(ROUNDS_DIR).join(format!("round_{round:04}")).join(RECORD_FILE).is_file();
    (0..u32::MAX).find(|round| !is_finished(round)).unwrap_or(u32::MAX)
}

/// `RUN-replay` beside the run.
fn beside(run: &Path) -> Option<PathBuf> {
    // `.` and `..` have a name only when it is looked up.
    let run = if run.file_name().is_some() { run.to_owned() } else { run.canonicalize().ok()? };
    let mut name = run.file_name()?.to_owned();
    name.push("-replay");
    Some(run.with_file_name(name))
}

/// The models of a configuration, none of which can send anything; the optimizer is that of this role.
fn mute(loaded: &LoadedConfig, optimizer: ModelRole) -> Result<RunModels, Error> {
    let RunModels { target, optimizer, judge } = Engine::without_keys(loaded).run_models(optimizer)?;
    Ok(RunModels {
        target: Mute::of(target.as_ref()),
        optimizer: Mute::of(optimizer.as_ref()),
        judge: judge.map(|judge| Mute::of(judge.as_ref())),
    })
}

/// The same of the targets of evaluations.
fn mute_targets(loaded: &LoadedConfig) -> Result<NamedModels, Error> {
    let targets = Engine::without_keys(loaded).evaluation_targets()?;
    Ok(targets.into_iter().map(|(name, model)| (name, Mute::of(model.as_ref()))).collect())
}

/// A model that is known by what identifies it, and cannot send anything.
struct Mute {
    id: ModelId,
    parameters: Value,
}

impl Mute {
    fn of(model: &dyn ChatModel) -> Arc<dyn ChatModel> {
        Arc::new(Self { id: model.id().clone(), parameters: model.parameters() })
    }
}

#[async_trait]
impl ChatModel for Mute {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn parameters(&self) -> Value {
        self.parameters.clone()
    }

    async fn chat(&self, _request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        Err(LlmError::NotRecorded { place: call.place.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_lies_beside_its_run() {
        assert_eq!(beside(Path::new("runs/qa")), Some(PathBuf::from("runs/qa-replay")));
        assert_eq!(beside(Path::new("qa/")), Some(PathBuf::from("qa-replay")));
        let dir = tempfile::tempdir().unwrap();
        let expect = dir.path().canonicalize().unwrap().display().to_string() + "-replay";
        assert_eq!(
            beside(&dir.path().join("..").join(dir.path())),
            Some(PathBuf::from(dir.path().display().to_string() + "-replay"))
        );
        assert_eq!(beside(&dir.path().join("x/..")), None, "what is not there has no name");
        std::fs::create_dir(dir.path().join("x")).unwrap();
        assert_eq!(beside(&dir.path().join("x/..")), Some(PathBuf::from(expect)));
    }

    #[tokio::test]
    async fn a_mute_model_never_answers() {
        let mute = Mute { id: ModelId::new("p", "m"), parameters: Value::Null };
        let error = mute.chat(&ChatRequest::default(), &CallCtx::default()).await.unwrap_err();
        assert!(matches!(error, LlmError::NotRecorded { .. }));
    }
}
