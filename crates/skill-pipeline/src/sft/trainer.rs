//! The trainer: what a run needs, and whether a directory holds it.

use super::checkpoint::Checkpoint;
use super::data::SftData;
use super::run::SftRun;
use super::settings::SftSettings;
use crate::error::PipelineError;
use crate::event::{Event, EventSink, NoEvents};
use crate::identity::{MODE, check_identity};
use crate::kind::RunKind;
use crate::records::sft::SftSummary;
use crate::records::{ConfigFile, RunIdentity};
use crate::run_dir::event_log::EventLog;
use crate::run_dir::vacant::check_vacant;
use crate::run_dir::{RunDir, withdraw_stop};
use crate::settings::StopSignal;
use crate::trainer::RunConfig;
use crate::warning::{Advice, OwnHints};
use crate::weights::{PolicyGames, PolicyWriter, WeightsCaps};
use serde_json::json;
use skill_core::EpochIdx;
use skill_core::plan::EpochPlan;
use skill_llm::error::with_causes;
use skill_train::checkpoint::StateStore;
use skill_train::examples::SftExample;
use skill_train::seam::{Row, TrainBackend};
use std::path::Path;
use std::sync::Arc;

/// Fine-tunes a model on examples.
#[derive(Clone)]
pub struct SftTrainer {
    pub(super) backend: Arc<dyn TrainBackend>,
    pub(super) store: StateStore,
    pub(super) writer: Arc<dyn PolicyWriter>,
    pub(super) data: Arc<SftData>,
    pub(super) settings: SftSettings,
    pub(super) caps: WeightsCaps,
    pub(super) games: Option<Arc<dyn PolicyGames>>,
    pub(super) events: Arc<dyn EventSink>,
    pub(super) advice: Arc<dyn Advice>,
    pub(super) stop: StopSignal,
    pub(super) config: RunConfig,
}

impl SftTrainer {
    /// A trainer of this back end, whose states are in `store`; the store belongs to the run alone.
    pub fn new(
        backend: Arc<dyn TrainBackend>,
        store: StateStore,
        writer: Arc<dyn PolicyWriter>,
        data: SftData,
    ) -> Self {
        Self {
            backend,
            store,
            writer,
            data: Arc::new(data),
            settings: SftSettings::default(),
            caps: WeightsCaps::default(),
            games: None,
            events: Arc::new(NoEvents),
            advice: Arc::new(OwnHints),
            stop: StopSignal::default(),
            config: RunConfig::default(),
        }
    }

    /// Trains with these settings, which should be those that the examples were made with.
    #[must_use]
    pub fn with_settings(self, settings: SftSettings) -> Self {
        Self { settings, ..self }
    }

    /// Ends at these caps.
    #[must_use]
    pub fn with_caps(self, caps: WeightsCaps) -> Self {
        Self { caps, ..self }
    }

    /// Plays games before the first step, and whenever the validation part is measured.
    #[must_use]
    pub fn with_games(self, games: Arc<dyn PolicyGames>) -> Self {
        Self { games: Some(games), ..self }
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

    /// Keeps this configuration with the run; its identity names the base model and the way in which it is trained.
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
    /// Settings that cannot work, a directory that holds another run or cannot be written, and faults of the model. The
    /// last checkpoint stays, and the same call continues from there.
    pub async fn train(&self, path: &Path) -> Result<SftSummary, PipelineError> {
        self.settings.validate()?;
        check_vacant(path)?;
        let dir = RunDir::open(path)?;
        self.claim(&dir)?;
        withdraw_stop(path)?;
        let log = EventLog::open(path, self.events.as_ref())?;
        let outcome = match SftRun::open(self, &dir, &log) {
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
        identity.insert(MODE.to_owned(), json!(RunKind::Sft.as_str()));
        identity.insert("data.examples".to_owned(), json!(self.data.hash()));
        let is_begun = Checkpoint::read(dir.path())?.is_some();
        if let Some(stored) = dir.read_config()?
            && (is_begun || dir.read_state()?.is_some() || stored.identity.get(MODE) != identity.get(MODE))
        {
            check_identity(dir.path(), &stored.identity, &identity)?;
        }
        let config = ConfigFile::new(self.config.resolved.clone(), identity);
        dir.write_config(&config, self.config.source_text.as_deref())
    }
}

/// The examples of a step, counted from 1: each epoch has an order of its own, by the seed and its number.
pub(super) fn batch_of<'data>(
    train: &'data [SftExample],
    settings: &SftSettings,
    step: u64,
) -> Vec<&'data SftExample> {
    let (epoch, batch) = place_of(settings, train.len(), step);
    let plan = EpochPlan::train(train.len(), EpochIdx(epoch), 1, settings.batch_size, settings.seed);
    let batch = plan.batches.get(usize::try_from(batch).unwrap_or(usize::MAX));
    batch.into_iter().flat_map(|batch| &batch.item_idx).filter_map(|place| train.get(*place)).collect()
}

/// The epoch of a step, from 1, and its batch in the epoch, from 0.
pub(super) fn place_of(settings: &SftSettings, n_train: usize, step: u64) -> (u32, u64) {
    let per_epoch = settings.steps_per_epoch(n_train).max(1);
    let before = step.saturating_sub(1);
    (u32::try_from(before / per_epoch + 1).unwrap_or(u32::MAX), before % per_epoch)
}

/// The rows of these examples.
pub(super) fn rows_of<'data>(examples: &[&'data SftExample]) -> impl Iterator<Item = Row> + use<'data> {
    let examples: Vec<&SftExample> = examples.to_vec();
    examples.into_iter().map(|example| Row {
        tokens: example.tokens.clone(),
        weights: example.weights.clone(),
        ..Row::default()
    })
}
