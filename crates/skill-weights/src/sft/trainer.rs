//! The trainer: what a run needs, and whether a directory holds it.

use super::checkpoint::Checkpoint;
use super::data::SftData;
use super::run::SftRun;
use crate::policy::{PolicyGames, PolicyWriter, WeightsCaps};
use serde_json::json;
use skill_core::EpochIdx;
use skill_core::plan::EpochPlan;
use skill_pipeline::error::PipelineError;
use skill_pipeline::kind::RunKind;
use skill_pipeline::records::RunIdentity;
use skill_pipeline::records::sft::SftSummary;
use skill_pipeline::run_dir::RunDir;
use skill_pipeline::settings::SftSettings;
use skill_pipeline::shell::{RunShell, check_same_run, shell_methods};
use skill_train::checkpoint::StateStore;
use skill_train::examples::SftExample;
use skill_train::seam::{Row, TrainBackend};
use std::path::Path;
use std::sync::Arc;
use tracing::Span;

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
    pub(super) shell: RunShell,
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
            shell: RunShell::default(),
        }
    }

    shell_methods!(shell);

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
        let open = self.shell.open(path, |dir| self.claim(dir))?;
        let mut process = None;
        let work = async {
            let mut run = SftRun::open(self, &open)?;
            process = Some(open.begin_process(run.finished_steps())?);
            tokio::select! {
                biased;
                () = self.shell.stop.now.cancelled() => Err(run.stopped()),
                outcome = run.work() => outcome,
            }
        };
        let outcome = open.work(Span::none(), work).await;
        if let Some(Err(error)) = process.map(|mut process| process.write(&open.log)) {
            tracing::debug!(%error, "the timings could not be written");
        }
        open.close();
        outcome
    }

    /// Checks that the directory holds this run or none, and returns its identity.
    fn claim(&self, dir: &RunDir) -> Result<RunIdentity, PipelineError> {
        let mut identity: RunIdentity = self.shell.config.identity.iter().cloned().collect();
        identity.extend(self.settings.identity().map(|(key, value)| (key.to_owned(), value)));
        RunKind::Sft.name_in(&mut identity);
        identity.insert("data.examples".to_owned(), json!(self.data.hash()));
        let is_begun = Checkpoint::read(dir.path())?.is_some();
        check_same_run(dir, &identity, is_begun)?;
        Ok(identity)
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
