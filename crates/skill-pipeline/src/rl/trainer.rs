//! The trainer: what a run needs, and whether a directory holds it.

use super::bank::RlBank;
use super::run::{RlCheckpoint, RlRun};
use super::settings::RlSettings;
use crate::bank::gives_small_types_a_task;
use crate::error::PipelineError;
use crate::event::{Event, EventSink, NoEvents};
use crate::identity::{MODE, check_identity};
use crate::kind::RunKind;
use crate::records::rl::{RlSummary, RlTimes, TIMES_FILE};
use crate::records::{ConfigFile, RunIdentity};
use crate::run_dir::event_log::EventLog;
use crate::run_dir::vacant::check_vacant;
use crate::run_dir::{RunDir, atomic, withdraw_stop};
use crate::settings::StopSignal;
use crate::trainer::RunConfig;
use crate::warning::{Advice, OwnHints};
use crate::weights::{PolicyGames, PolicyText, PolicyWriter, WeightsCaps};
use serde_json::json;
use skill_envs::{Env, SkillSource};
use skill_llm::error::with_causes;
use skill_train::checkpoint::StateStore;
use skill_train::seam::TrainBackend;
use std::path::Path;
use std::sync::Arc;

/// Trains a policy by GRPO.
#[derive(Clone)]
pub struct RlTrainer {
    pub(super) env: Arc<dyn Env>,
    pub(super) source: Arc<dyn SkillSource>,
    pub(super) backend: Arc<dyn TrainBackend>,
    pub(super) store: StateStore,
    pub(super) writer: Arc<dyn PolicyWriter>,
    pub(super) text: PolicyText,
    pub(super) settings: RlSettings,
    pub(super) caps: WeightsCaps,
    pub(super) games: Option<Arc<dyn PolicyGames>>,
    pub(super) bank: Option<RlBank>,
    pub(super) events: Arc<dyn EventSink>,
    pub(super) advice: Arc<dyn Advice>,
    pub(super) stop: StopSignal,
    pub(super) config: RunConfig,
}

impl RlTrainer {
    /// A trainer of this back end on the training tasks of an environment, whose prompts hold what `source` selects.
    ///
    /// The states are in `store`, which belongs to the run alone.
    pub fn new(
        env: Arc<dyn Env>,
        source: Arc<dyn SkillSource>,
        backend: Arc<dyn TrainBackend>,
        store: StateStore,
        writer: Arc<dyn PolicyWriter>,
        text: PolicyText,
    ) -> Self {
        Self {
            env,
            source,
            backend,
            store,
            writer,
            text,
            settings: RlSettings::default(),
            caps: WeightsCaps::default(),
            games: None,
            bank: None,
            events: Arc::new(NoEvents),
            advice: Arc::new(OwnHints),
            stop: StopSignal::default(),
            config: RunConfig::default(),
        }
    }

    /// Trains with these settings.
    #[must_use]
    pub fn with_settings(self, settings: RlSettings) -> Self {
        Self { settings, ..self }
    }

    /// Ends at these caps.
    #[must_use]
    pub fn with_caps(self, caps: WeightsCaps) -> Self {
        Self { caps, ..self }
    }

    /// Plays games before the first iteration, at each interval and after the last one.
    #[must_use]
    pub fn with_games(self, games: Arc<dyn PolicyGames>) -> Self {
        Self { games: Some(games), ..self }
    }

    /// Puts a bank into the loop, whose skills are shown in place of the trainer's source.
    #[must_use]
    pub fn with_bank(self, bank: RlBank) -> Self {
        Self { bank: Some(bank), ..self }
    }

    /// Tells what happens to this reader.
    #[must_use]
    pub fn with_events(self, events: Arc<dyn EventSink>) -> Self {
        Self { events, ..self }
    }

    /// Says what a person can do in these terms.
    #[must_use]
    pub fn with_advice(self, advice: Arc<dyn Advice>) -> Self {
        Self { advice, ..self }
    }

    /// Ends when this signal says so.
    #[must_use]
    pub fn with_stop(self, stop: StopSignal) -> Self {
        Self { stop, ..self }
    }

    /// Keeps this configuration with the run; its identity names the first policy and the way in which it is trained.
    #[must_use]
    pub fn with_config(self, config: RunConfig) -> Self {
        Self { config, ..self }
    }

    /// Starts the run in this directory, or continues it from its last checkpoint.
    ///
    /// A run that was killed anywhere ends with the same bytes as one that was not, on the same machine with the same
    /// number of threads.
    ///
    /// # Errors
    ///
    /// Settings that cannot work, a directory that holds another run or cannot be written, and faults of the model or
    /// the environment. The last checkpoint stays, and the same call continues from there.
    pub async fn train(&self, path: &Path) -> Result<RlSummary, PipelineError> {
        self.settings.validate()?;
        check_vacant(path)?;
        let dir = RunDir::open(path)?;
        self.claim(&dir)?;
        withdraw_stop(path)?;
        let log = EventLog::open(path, self.events.as_ref())?;
        let outcome = match RlRun::open(self, &dir, &log) {
            Ok(mut run) => tokio::select! {
                biased;
                () = self.stop.now.cancelled() => Err(run.stopped()),
                outcome = run.work() => outcome,
            },
            Err(error) => Err(error),
        };
        if let Err(error) = &outcome {
            let hint = self.advice.on_error(error);
            log.emit(&Event::RunStopped { reason: with_causes(error), hint });
        }
        if let Err(error) = withdraw_stop(path) {
            tracing::warn!(%error, "the request to stop could not be taken away");
        }
        outcome
    }

    /// Checks that the directory holds this run or none, and writes what is asked now.
    fn claim(&self, dir: &RunDir) -> Result<(), PipelineError> {
        let mut identity: RunIdentity = self.config.identity.iter().cloned().collect();
        identity.extend(self.settings.identity().map(|(key, value)| (key.to_owned(), value)));
        identity.insert(MODE.to_owned(), json!(RunKind::Rl.as_str()));
        identity.insert("skills".to_owned(), json!(self.source.version()));
        identity.extend(self.bank.iter().flat_map(|bank| bank.identity(self.settings.validation_interval)));
        let small =
            self.bank.as_ref().and_then(|bank| gives_small_types_a_task(self.env.as_ref(), &bank.settings));
        identity.extend(small);
        let is_begun = RlCheckpoint::read(dir.path())?.is_some();
        if let Some(stored) = dir.read_config()?
            && (is_begun || dir.read_state()?.is_some() || stored.identity.get(MODE) != identity.get(MODE))
        {
            check_identity(dir.path(), &stored.identity, &identity)?;
        }
        let config = ConfigFile::new(self.config.resolved.clone(), identity);
        dir.write_config(&config, self.config.source_text.as_deref())?;
        // From here on the directory is known as that of a run of reinforcement learning, with a bank in it or not.
        let times = dir.path().join(TIMES_FILE);
        if times.exists() { Ok(()) } else { atomic::write_json(&times, &RlTimes::default()) }
    }
}
