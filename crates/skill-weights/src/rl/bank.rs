//! What a bank needs to take part in the training of its policy.

use serde_json::{Value, json};
use skill_bank::Bank;
use skill_bank::distill::TeacherPrompts;
use skill_bank::format::BankFormat;
use skill_bank::retrieve::Retrieval;
use skill_core::SkillDoc;
use skill_core::canonical::{canonical_hash, hex_sha256};
use skill_llm::{Budget, ChatModel, EmbeddingModel, ModelId, Prices};
use skill_pipeline::bank::BankSettings;
use skill_pipeline::shell::{CallSettings, RunBudget};
use std::sync::Arc;

/// A bank in the loop: its skills are in the prompts, its candidates are tried in the groups, and a teacher proposes more
/// where a type of task is weak.
#[derive(Clone)]
pub struct RlBank {
    pub(super) initial: Bank,
    pub(super) source: Option<(BankFormat, String)>,
    pub(super) retrieval: Retrieval,
    pub(super) prompts: TeacherPrompts,
    pub(super) settings: BankSettings,
    pub(super) embedding: Option<Arc<dyn EmbeddingModel>>,
    pub(super) frame: Option<SkillDoc>,
    pub(super) teacher: Option<Arc<dyn ChatModel>>,
    pub(super) max_reply_tokens: u32,
    pub(super) calls: CallSettings,
}

impl RlBank {
    /// This bank, without a teacher: the candidates that it has are tried, and none is proposed.
    pub fn new(initial: Bank, retrieval: Retrieval, prompts: TeacherPrompts) -> Self {
        Self {
            initial,
            source: None,
            retrieval,
            prompts,
            settings: BankSettings::default(),
            embedding: None,
            frame: None,
            teacher: None,
            max_reply_tokens: 16_384,
            calls: CallSettings::default(),
        }
    }

    /// What decides a run, by name; the bank evolves after each so many iterations.
    pub(super) fn identity(&self, interval: u64) -> impl Iterator<Item = (String, Value)> + use<> {
        let settings = &self.settings;
        let evolution = json!({
            "trial_share": settings.trial_share,
            "max_active": settings.max_active,
            "max_new_skills": settings.max_new_skills,
            "weak_below": settings.weak_below,
            "min_rollouts": settings.min_rollouts,
            "max_analysis": [settings.max_analysis_deep, settings.max_analysis_shallow],
            "max_admissions": settings.max_admissions,
            "trial": settings.trial,
            "alpha": settings.alpha,
            "max_trial_rollouts": settings.max_trial_rollouts,
            "hide_share": settings.hide_share,
        });
        let types = serde_json::to_value(self.retrieval.types()).expect("task types serialize");
        let retrieval = json!({"settings": self.retrieval.settings(), "types": canonical_hash(&types)});
        let of_model = |id: &ModelId| json!(id.to_string());
        [
            ("bank.initial", Some(json!(hex_sha256(self.initial.log_text().as_bytes())))),
            ("bank.evolution", Some(evolution)),
            ("rl.validation_interval", Some(json!(interval))),
            ("bank.retrieval", Some(retrieval)),
            ("models.teacher", self.teacher.as_ref().map(|model| of_model(model.id()))),
            ("models.embedding", self.embedding.as_ref().map(|model| of_model(model.id()))),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .chain(self.prompts.hashes().into_iter().map(|(name, hash)| (format!("prompts.{name}"), json!(hash))))
        .collect::<Vec<_>>()
        .into_iter()
    }

    /// The text that the bank was read from, where it came from another system.
    #[must_use]
    pub fn with_source(self, source: Option<(BankFormat, String)>) -> Self {
        Self { source, ..self }
    }

    /// Evolves with these settings; rounds and samples are those of the training of the policy.
    #[must_use]
    pub fn with_settings(self, settings: BankSettings) -> Self {
        Self { settings: settings.effective(), ..self }
    }

    /// Embeds goals and skills with this model.
    #[must_use]
    pub fn with_embedding(self, embedding: Option<Arc<dyn EmbeddingModel>>) -> Self {
        Self { embedding, ..self }
    }

    /// Shows this skill before those of the bank.
    #[must_use]
    pub fn with_frame(self, frame: Option<SkillDoc>) -> Self {
        Self { frame, ..self }
    }

    /// Asks this teacher for new skills; its replies have at most so many tokens.
    #[must_use]
    pub fn with_teacher(self, teacher: Arc<dyn ChatModel>, max_reply_tokens: u32) -> Self {
        Self { teacher: Some(teacher), max_reply_tokens, ..self }
    }

    /// Counts what the run's journal has paid for already against this budget of the teacher.
    #[must_use]
    pub fn with_budget(mut self, budget: Arc<Budget>, prices: Vec<(ModelId, Prices)>) -> Self {
        self.calls.budget = Some(RunBudget { budget, prices });
        self
    }
}
