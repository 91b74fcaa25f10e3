//! What several modules of tests use.

use crate::recorded::folder;
use skill_bank::episode::{Episode, TrainEpisode, TrainItems};
use skill_core::{ItemId, Usage};
use skill_llm::{CallCtx, EmbeddingModel, EmbeddingReply, EmbeddingRequest, LlmError, ModelId};
use std::sync::Arc;

/// A file of the recorded data.
pub(crate) fn conformance(path: &str) -> String {
    let path = folder().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn conformance_json(path: &str) -> serde_json::Value {
    serde_json::from_str(&conformance(path)).unwrap()
}

/// An episode of a task of its own.
pub(crate) fn episode(id: &str, task_type: &str, success: bool) -> Episode {
    let mut episode =
        Episode::new(id, ItemId::new(id), format!("reach goal of {id}"), success, f64::from(success));
    task_type.clone_into(&mut episode.task_type);
    episode
}

/// All of them as episodes for training.
pub(crate) fn train(episodes: Vec<Episode>) -> Vec<TrainEpisode> {
    TrainItems::of_collection(&episodes).take(episodes).0
}

/// Texts that begin with the same letter have the same vector.
pub(crate) struct FirstLetter(ModelId);

impl FirstLetter {
    pub(crate) fn new() -> Self {
        Self(ModelId::new("test", "letters"))
    }
}

#[async_trait::async_trait]
impl EmbeddingModel for FirstLetter {
    fn id(&self) -> &ModelId {
        &self.0
    }

    async fn embed(&self, request: &EmbeddingRequest, _: &CallCtx) -> Result<EmbeddingReply, LlmError> {
        let vector = |text: &Arc<str>| {
            let mut vector = vec![0.0; 256];
            vector[usize::from(text.as_bytes()[0])] = 2.0;
            vector
        };
        Ok(EmbeddingReply::new(request.texts.iter().map(vector).collect(), Usage::default()))
    }
}
