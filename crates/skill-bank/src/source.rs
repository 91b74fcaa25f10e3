//! A bank as a source of skills for agents: what each task is shown is selected from a view.
//!
//! # Invariants
//!
//! - The version of a source names everything that decides what it shows. Held by
//!   `everything_that_decides_the_text_is_in_the_version`.

use crate::error::BankError;
use crate::retrieve::{PreparedBank, Retrieval, RetrievalMode, Selection, SkillVectors, vectors_of};
use crate::view::BankView;
use async_trait::async_trait;
use serde_json::json;
use skill_core::SkillDoc;
use skill_core::canonical::{canonical_json, hex_sha256};
use skill_envs::{EnvError, Shown, SkillSource, TaskView};
use skill_llm::{CallCtx, EmbeddingModel};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Shows each task the skills of a view that are selected for it.
///
/// In embedding mode the skills are embedded once, before the first task, and the goal of each task. All requests go
/// through the model that is given, so its layers count, limit and record them.
pub struct BankSource {
    bank: PreparedBank,
    model: Option<Arc<dyn EmbeddingModel>>,
    vectors: Arc<OnceCell<SkillVectors>>,
    frame: Option<SkillDoc>,
    /// Names the view, the settings and the model.
    basis: String,
}

impl BankSource {
    /// A source of the skills of a view. The model is used in embedding mode only.
    ///
    /// # Errors
    ///
    /// [`BankError::NoEmbeddingModel`] and [`BankError::OtherModelsThreshold`], in embedding mode.
    pub fn new(
        view: BankView,
        retrieval: &Retrieval,
        model: Option<Arc<dyn EmbeddingModel>>,
    ) -> Result<Self, BankError> {
        Self::sharing(view, retrieval, model, Arc::default())
    }

    /// The same view by other settings, except for the mode: the skills are not embedded again.
    ///
    /// # Errors
    ///
    /// As [`BankSource::new`].
    pub fn with_retrieval(&self, retrieval: &Retrieval) -> Result<Self, BankError> {
        let vectors = Arc::clone(&self.vectors);
        let other = Self::sharing(self.bank.view().clone(), retrieval, self.model.clone(), vectors)?;
        Ok(Self { frame: self.frame.clone(), ..other })
    }

    fn sharing(
        view: BankView,
        retrieval: &Retrieval,
        model: Option<Arc<dyn EmbeddingModel>>,
        vectors: Arc<OnceCell<SkillVectors>>,
    ) -> Result<Self, BankError> {
        let model = match retrieval.settings().mode {
            RetrievalMode::Template => None,
            RetrievalMode::Embedding => Some(model.ok_or(BankError::NoEmbeddingModel)?),
        };
        if let (Some(model), Some(threshold)) = (&model, &retrieval.settings().threshold)
            && threshold.model != model.id().to_string()
        {
            let calibrated = threshold.model.clone();
            return Err(BankError::OtherModelsThreshold { calibrated, model: model.id().to_string() });
        }
        let of_model = model.as_ref().map(|model| json!([model.id(), model.parameters()]));
        let basis = canonical_json(&json!([view.version(), retrieval, of_model]));
        Ok(Self { bank: retrieval.prepare(view), model, vectors, frame: None, basis })
    }

    /// The same with a document before the selected skills; its files are carried along.
    #[must_use]
    pub fn with_frame(self, frame: SkillDoc) -> Self {
        Self { frame: Some(frame), ..self }
    }

    /// The view, prepared for selections.
    pub fn bank(&self) -> &PreparedBank {
        &self.bank
    }

    /// What a task is shown, and why, without showing it.
    ///
    /// # Errors
    ///
    /// In embedding mode, a model that cannot be called or whose vectors cannot be used.
    pub async fn selection(&self, task: &TaskView<'_>, call: &CallCtx) -> Result<Selection, EnvError> {
        let detected = self.bank.detect(task.task_type, task.goal);
        let similarities = match &self.model {
            Some(model) if !task.goal.trim().is_empty() => {
                let vectors =
                    self.vectors.get_or_try_init(|| self.embed_skills(model.as_ref(), call)).await?;
                let goal =
                    vectors_of(model.as_ref(), vec![Arc::from(task.goal)], &call.child("goal")).await?;
                let goal = goal.map_err(unusable)?;
                let goal = goal.first().map(Vec::as_slice).unwrap_or_default();
                Some(vectors.similarities(goal).map_err(unusable)?)
            }
            Some(_) | None => None,
        };
        Ok(self.bank.select_for(Some(task.item), detected, similarities.as_deref()))
    }

    async fn embed_skills(
        &self,
        model: &dyn EmbeddingModel,
        call: &CallCtx,
    ) -> Result<SkillVectors, EnvError> {
        let texts: Vec<Option<Arc<str>>> =
            self.bank.embedding_texts().map(|text| text.map(Arc::from)).collect();
        let with_text = texts.iter().flatten().cloned().collect();
        let vectors = vectors_of(model, with_text, &call.child("skills")).await?;
        let mut vectors = vectors.map_err(unusable)?.into_iter();
        let of_skills: Vec<Option<Vec<f32>>> =
            texts.iter().map(|text| text.as_ref().and_then(|_| vectors.next())).collect();
        SkillVectors::new(of_skills.iter().map(Option::as_deref)).map_err(unusable)
    }

    fn shown(&self, selection: &Selection) -> SkillDoc {
        match &self.frame {
            None => SkillDoc::new(selection.text.as_str()),
            Some(frame) if selection.shown.is_empty() => frame.clone(),
            Some(frame) => {
                let text = format!("{}\n\n{}", frame.source_text().trim_end(), selection.text);
                SkillDoc::new(text).with_carried(frame.carried().clone())
            }
        }
    }
}

#[async_trait]
impl SkillSource for BankSource {
    fn version(&self) -> String {
        let frame = self.frame.as_ref().map(SkillDoc::source_sha256);
        hex_sha256(canonical_json(&json!([self.basis, frame])).as_bytes())
    }

    async fn show(&self, task: &TaskView<'_>, call: &CallCtx) -> Result<Shown, EnvError> {
        let selection = self.selection(task, call).await?;
        Ok(Shown::new(self.shown(&selection), selection.parts()))
    }
}

fn unusable(error: BankError) -> EnvError {
    EnvError::Configuration { message: error.to_string() }
}
