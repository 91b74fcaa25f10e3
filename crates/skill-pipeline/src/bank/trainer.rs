//! The trainer of a bank: what a run needs, and whether a directory holds it.

use super::BankSettings;
use super::live::LiveBank;
use super::run::BankRun;
use super::sets::{gives_small_types_a_task, item_sets, types_without_trials};
use super::teach::forbid_items;
use crate::bank_dir::is_bank;
use crate::error::PipelineError;
use crate::event::{Event, EventSink as _};
use crate::identity::{MODE, PARAMETERS, check_identity, check_items, run_identity};
use crate::kind::RunKind;
use crate::records::bank::{BANK_DIR, BankSummary};
use crate::records::{ConfigFile, RunIdentity};
use crate::run_dir::event_log::EventLog;
use crate::run_dir::timings::TimingsLog;
use crate::run_dir::vacant::check_vacant;
use crate::run_dir::{RunDir, withdraw_stop};
use crate::stage::rollout::Rollouts;
use crate::trainer::{Trainer, spans, trouble};
use indexmap::IndexMap;
use serde_json::json;
use skill_bank::Bank;
use skill_bank::distill::TeacherPrompts;
use skill_bank::format::BankFormat;
use skill_bank::lint::Forbidden;
use skill_bank::retrieve::Retrieval;
use skill_bank::trial::{Standing, TaskRates, TrialOutcome};
use skill_core::canonical::{canonical_hash, hex_sha256};
use skill_llm::error::with_causes;
use skill_llm::{ChatModel, EmbeddingModel, Journaled, Metered, Recording};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tracing::Instrument as _;

/// Trains a bank: the environment, the target, the settings that both kinds of training share and everything around
/// them come from a [`Trainer`], whose optimizer is the teacher.
#[derive(Clone)]
pub struct BankTrainer {
    pub(super) base: Trainer,
    pub(super) settings: BankSettings,
    pub(super) retrieval: Retrieval,
    pub(super) prompts: TeacherPrompts,
    pub(super) embedding: Option<Arc<dyn EmbeddingModel>>,
    pub(super) initial: Bank,
    pub(super) source: Option<(BankFormat, String)>,
}

impl BankTrainer {
    /// A trainer that starts without a bank. The initial skill of `base`, if there is one, is shown before the skills of
    /// the bank.
    pub fn new(base: Trainer, retrieval: Retrieval, prompts: TeacherPrompts) -> Self {
        let (settings, initial) = (BankSettings::default(), Bank::new());
        Self { base, settings, retrieval, prompts, embedding: None, initial, source: None }
    }

    /// Trains with these settings.
    #[must_use]
    pub fn with_settings(self, settings: BankSettings) -> Self {
        Self { settings, ..self }
    }

    /// Embeds goals and skills with this model.
    #[must_use]
    pub fn with_embedding(self, model: Arc<dyn EmbeddingModel>) -> Self {
        Self { embedding: Some(model), ..self }
    }

    /// Starts from this bank; `source` is the text that it was read from, where it came from another system.
    #[must_use]
    pub fn with_initial_bank(self, initial: Bank, source: Option<(BankFormat, String)>) -> Self {
        Self { initial, source, ..self }
    }

    /// Takes replies and vectors from an older journal too, before anything is sent.
    #[must_use]
    pub fn with_recording(self, recording: Recording) -> Self {
        Self { base: self.base.with_recording(recording), ..self }
    }

    /// Starts or resumes the run in this directory. No call whose reply is in the run's journal is repeated.
    ///
    /// # Errors
    ///
    /// Settings that cannot work, a directory that holds another run or cannot be written, and faults of the models or
    /// the environment. What was paid for stays, and the same call goes on from there.
    pub async fn train(&self, path: &Path) -> Result<BankSummary, PipelineError> {
        let base = &self.base;
        base.settings.validate()?;
        check_items(base.env.as_ref(), base.settings.eval_test)?;
        let sets = item_sets(base.env.as_ref(), &self.settings, base.settings.seed)?;
        check_vacant(path)?;
        let dir = RunDir::open(path)?;
        self.claim(&dir)?;
        withdraw_stop(path)?;
        let untried = types_without_trials(base.env.as_ref(), &self.settings);
        if !untried.is_empty() {
            tracing::warn!(
                "types of one training task have none for trials, so none of their skills is admitted: {}",
                untried.join(", ")
            );
        }
        let log = EventLog::open(path, base.events.as_ref())?;
        let journal = dir.open_journal(base.journal.clone(), base.may_have_lost_journal)?;
        if let Some(budget) = &base.budget {
            budget.begin(&journal);
        }
        let kept = |model: &Arc<dyn ChatModel>| {
            let kept = Journaled::new(Arc::clone(model), journal.clone());
            Metered::new(Arc::new(match &base.recording {
                Some(recording) => kept.with_recording(recording.clone()),
                None => kept,
            }))
        };
        let judge = base.env.judge().map(|judge| Arc::new(kept(judge)) as Arc<dyn ChatModel>);
        let rollouts = Rollouts::local(Arc::clone(&base.env), Arc::new(kept(&base.target)), judge);
        let embedding = self.embedding.as_ref().map(|model| {
            let kept = Journaled::embedding(Arc::clone(model), journal.clone());
            Arc::new(match &base.recording {
                Some(recording) => kept.with_recording(recording.clone()),
                None => kept,
            }) as Arc<dyn EmbeddingModel>
        });
        let mut forbidden = Forbidden::new();
        forbid_items(&mut forbidden, base.env.as_ref());
        let source = self.source.as_ref().map(|(format, text)| (*format, text.as_str()));
        let mut run = BankRun {
            trainer: self,
            env: base.env.as_ref(),
            rollouts: match &base.runner {
                Some(runner) => rollouts.with_runner(Arc::clone(runner)),
                None => rollouts,
            },
            teacher: Arc::new(kept(&base.optimizer)),
            embedding,
            sets,
            forbidden,
            bank: LiveBank::open(&path.join(BANK_DIR), &self.initial, source)?,
            frame: base.initial_skill.clone().or_else(|| base.env.initial_skill()),
            timings: TimingsLog::open(path)?,
            started: Instant::now(),
            journal: journal.clone(),
            item_hashes: Arc::default(),
            log: &log,
            dir,
            standing: Standing::default(),
            outcome: TrialOutcome::default(),
            rates: TaskRates::default(),
            pooled: BTreeMap::new(),
            n_trials: 0,
            e_before: BTreeMap::new(),
            n_tried: BTreeMap::new(),
            n_admitted_since_validation: 0,
            tokens: IndexMap::new(),
            trial_rollouts: 0,
            n_admissions: 0,
            n_told: self.initial.log().len(),
            retirements: Vec::new(),
            preflights: Vec::new(),
        };
        let span = spans::of_run(path, base.env.name(), run.rounds());
        let outcome = tokio::select! {
            biased;
            outcome = run.work().instrument(span.clone()) => outcome,
            never = trouble::warn(base.trouble.as_ref(), &log) => match never {},
        };
        if let Err(error) = &outcome {
            spans::fail(&span);
            let hint = base.advice.on_error(error);
            run.log.emit(&Event::RunStopped { reason: with_causes(error), hint });
        }
        run.rollouts.settle().await;
        if run.journal.flush().await.is_ok()
            && let Err(error) = run.write_timings()
        {
            tracing::debug!(%error, "the timings could not be written");
        }
        if let Err(error) = withdraw_stop(path) {
            tracing::warn!(%error, "the request to stop could not be taken away");
        }
        outcome
    }

    /// Checks that the directory holds this run or none, and writes what is asked now.
    fn claim(&self, dir: &RunDir) -> Result<(), PipelineError> {
        let base = &self.base;
        let models = [("target", base.target.as_ref()), ("teacher", base.optimizer.as_ref())];
        let mut identity: RunIdentity = run_identity(
            &base.config.identity,
            &base.settings,
            base.env.as_ref(),
            models,
            &crate::prompts::PromptLibrary::embedded()?,
            &base.initial_skill.clone().or_else(|| base.env.initial_skill()).unwrap_or_default(),
        );
        identity.retain(|key, _| !key.starts_with("prompts."));
        for (name, hash) in self.prompts.hashes() {
            identity.insert(format!("prompts.{name}"), json!(hash));
        }
        identity.insert(MODE.to_owned(), json!(RunKind::Bank.as_str()));
        // Candidates, pins and numbers decide as well as what is shown.
        identity.insert("bank.initial".to_owned(), json!(hex_sha256(self.initial.log_text().as_bytes())));
        identity.extend(gives_small_types_a_task(base.env.as_ref(), &self.settings));
        let types = serde_json::to_value(self.retrieval.types()).unwrap_or_default();
        let retrieval = json!({"settings": self.retrieval.settings(), "types": canonical_hash(&types)});
        identity.insert(format!("retrieval{PARAMETERS}"), retrieval);
        if let Some(model) = &self.embedding {
            identity.insert("models.embedding".to_owned(), json!(model.id().to_string()));
        }
        // Before the bank has a log there is nothing that other settings could spoil.
        if let Some(stored) = dir.read_config()?
            && (is_bank(&dir.path().join(BANK_DIR)) || dir.read_state()?.is_some())
        {
            check_identity(dir.path(), &stored.identity, &identity)?;
        }
        match dir.check_journal() {
            Err(PipelineError::LostJournal { .. }) if base.may_have_lost_journal => {}
            checked => checked?,
        }
        let config = ConfigFile::new(base.config.resolved.clone(), identity)
            .with_simulated_models(&base.config.simulated_models);
        dir.write_config(&config, base.config.source_text.as_deref())
    }
}
