//! The trainer: what a run needs, and whether a directory holds it.

use super::bank::RlBank;
use super::run::{RlCheckpoint, RlRun};
use crate::policy::{PolicyGames, PolicyText, PolicyWriter, WeightsCaps};
use serde_json::json;
use skill_envs::{Env, SkillSource};
use skill_pipeline::bank::gives_small_types_a_task;
use skill_pipeline::error::PipelineError;
use skill_pipeline::kind::RunKind;
use skill_pipeline::records::RunIdentity;
use skill_pipeline::records::rl::{RlSummary, RlTimes, TIMES_FILE};
use skill_pipeline::run_dir::{RunDir, atomic};
use skill_pipeline::settings::RlSettings;
use skill_pipeline::shell::{RunShell, check_same_run, shell_methods};
use skill_train::checkpoint::StateStore;
use skill_train::seam::TrainBackend;
use std::path::Path;
use std::sync::Arc;
use tracing::Span;

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
    pub(super) shell: RunShell,
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
            shell: RunShell::default(),
        }
    }

    shell_methods!(shell);

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
        let open = self.shell.open(path, |dir| self.claim(dir))?;
        // From here on the directory is known as that of a run of reinforcement learning, with a bank in it or not.
        let times = path.join(TIMES_FILE);
        if !times.exists() {
            atomic::write_json(&times, &RlTimes::default())?;
        }
        let mut process = None;
        let work = async {
            let mut run = RlRun::open(self, &open)?;
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
        RunKind::Rl.name_in(&mut identity);
        identity.insert("skills".to_owned(), json!(self.source.version()));
        identity.extend(self.bank.iter().flat_map(|bank| bank.identity(self.settings.validation_interval)));
        let small =
            self.bank.as_ref().and_then(|bank| gives_small_types_a_task(self.env.as_ref(), &bank.settings));
        identity.extend(small);
        let is_begun = RlCheckpoint::read(dir.path())?.is_some();
        check_same_run(dir, &identity, is_begun)?;
        Ok(identity)
    }
}
