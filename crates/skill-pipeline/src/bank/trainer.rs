//! The trainer of a bank: what a run needs, and whether a directory holds it.

use super::BankSettings;
use super::live::LiveBank;
use super::run::BankRun;
use super::sets::{gives_small_types_a_task, item_sets, types_without_trials};
use super::teach::forbid_items;
use crate::error::PipelineError;
use crate::identity::{PARAMETERS, check_items, run_identity};
use crate::kind::RunKind;
use crate::records::RunIdentity;
use crate::records::bank::{BANK_DIR, BankSummary};
use crate::run_dir::RunDir;
use crate::run_dir::bank_dir::is_bank;
use crate::run_dir::timings::TimingsLog;
use crate::shell::{RunBase, check_same_run, metered, spans};
use indexmap::IndexMap;
use serde_json::json;
use skill_bank::Bank;
use skill_bank::distill::TeacherPrompts;
use skill_bank::format::BankFormat;
use skill_bank::lint::Forbidden;
use skill_bank::retrieve::Retrieval;
use skill_bank::trial::{Standing, TaskRates, TrialOutcome};
use skill_core::canonical::{canonical_hash, hex_sha256};
use skill_llm::{EmbeddingModel, Recording};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Trains a bank: the environment, the target, the settings that both kinds of training share and everything around
/// them come from a [`RunBase`], such as that of a `Trainer`, whose optimizer is the teacher.
#[derive(Clone)]
pub struct BankTrainer {
    pub(super) base: RunBase,
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
    pub fn new(base: impl Into<RunBase>, retrieval: Retrieval, prompts: TeacherPrompts) -> Self {
        let (settings, initial) = (BankSettings::default(), Bank::new());
        let base = base.into();
        Self { base, settings, retrieval, prompts, embedding: None, initial, source: None }
    }

    /// Trains with these settings.
    #[must_use]
    pub fn with_settings(self, settings: BankSettings) -> Self {
        Self { settings: settings.effective(), ..self }
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
    pub fn with_recording(mut self, recording: Recording) -> Self {
        self.base.calls.recording = Some(recording);
        self
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
        let open = base.shell.open(path, |dir| self.claim(dir))?;
        let untried = types_without_trials(base.env.as_ref(), &self.settings);
        if !untried.is_empty() {
            tracing::warn!(
                "types of one training task have none for trials, so none of their skills is admitted: {}",
                untried.join(", ")
            );
        }
        let calls = base.calls.open(&open.dir)?;
        let mut forbidden = Forbidden::new();
        forbid_items(&mut forbidden, base.env.as_ref());
        let source = self.source.as_ref().map(|(format, text)| (*format, text.as_str()));
        let mut run = BankRun {
            trainer: self,
            env: base.env.as_ref(),
            rollouts: base.rollouts(&calls),
            teacher: metered(&base.optimizer, &calls),
            embedding: self.embedding.as_ref().map(|model| calls.embedding(model)),
            sets,
            forbidden,
            bank: LiveBank::open(&path.join(BANK_DIR), &self.initial, source)?,
            frame: base.first_skill(),
            timings: TimingsLog::open(path)?,
            started: Instant::now(),
            journal: calls.journal,
            item_hashes: Arc::default(),
            open: &open,
            dir: &open.dir,
            log: &open.log,
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
        let outcome = open.work(span, run.work()).await;
        run.rollouts.settle().await;
        if run.journal.flush().await.is_ok()
            && let Err(error) = run.write_timings()
        {
            tracing::debug!(%error, "the timings could not be written");
        }
        open.close();
        outcome
    }

    /// Checks that the directory holds this run or none, and returns its identity.
    fn claim(&self, dir: &RunDir) -> Result<RunIdentity, PipelineError> {
        let base = &self.base;
        let models = [("target", base.target.as_ref()), ("teacher", base.optimizer.as_ref())];
        let mut identity: RunIdentity = run_identity(
            &base.shell.config.identity,
            &base.settings,
            base.env.as_ref(),
            models,
            &crate::prompts::PromptLibrary::embedded()?,
            &base.first_skill().unwrap_or_default(),
        );
        identity.retain(|key, _| !key.starts_with("prompts."));
        for (name, hash) in self.prompts.hashes() {
            identity.insert(format!("prompts.{name}"), json!(hash));
        }
        RunKind::Bank.name_in(&mut identity);
        // Candidates, pins and numbers decide as well as what is shown.
        identity.insert("bank.initial".to_owned(), json!(hex_sha256(self.initial.log_text().as_bytes())));
        identity.extend(gives_small_types_a_task(base.env.as_ref(), &self.settings));
        let types = serde_json::to_value(self.retrieval.types()).expect("task types serialize");
        let retrieval = json!({"settings": self.retrieval.settings(), "types": canonical_hash(&types)});
        identity.insert(format!("retrieval{PARAMETERS}"), retrieval);
        if let Some(model) = &self.embedding {
            identity.insert("models.embedding".to_owned(), json!(model.id().to_string()));
        }
        // Before the bank has a log there is nothing that other settings could spoil.
        check_same_run(dir, &identity, is_bank(&dir.path().join(BANK_DIR)))?;
        base.calls.check_journal(dir)?;
        Ok(identity)
    }
}
