//! Embedding models: texts in, vectors out.
//!
//! [`EmbeddingModel`] is to texts what [`crate::ChatModel`] is to conversations: dialects and layers implement it. A
//! dialect without embeddings has no such model.
//!
//! ```
//! use skill_llm::{
//!     ApiKey, Batched, Budget, BudgetCaps, Budgeted, EmbeddingModel, OpenAiEmbeddings, OpenAiEmbeddingsConfig,
//!     PaceConfig, Paced, Pacer, Prices, Retried, RetryBudget, RetryPolicy, Traced,
//! };
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), skill_llm::LlmError> {
//! let config = OpenAiEmbeddingsConfig::new("https://api.openai.com/v1", "text-embedding-3-small")
//!     .with_key(ApiKey::new("sk-example")?)
//!     .with_dimensions(256)
//!     .with_max_texts(128);
//! let dialect = Arc::new(OpenAiEmbeddings::new(config)?);
//!
//! // One of these for a provider, one for the run; chat models share them.
//! let (pacer, retries) = (Pacer::new(PaceConfig::default()), Arc::new(RetryBudget::default()));
//! let budget = Budget::new(BudgetCaps { calls: Some(1_000), ..BudgetCaps::default() });
//!
//! let paced = Arc::new(Paced::embedding(dialect, pacer));
//! let budgeted = Arc::new(Budgeted::embedding(paced, budget, Prices { input: 0.02, ..Prices::default() }));
//! let retried = Arc::new(Retried::embedding(budgeted, RetryPolicy::default(), retries));
//! let traced = Arc::new(Traced::embedding(retried));
//! // Or `Journaled::embedding(traced, journal)`, which splits requests too and sends no text twice.
//! let model = Batched::new(traced);
//! assert_eq!(model.max_texts(), usize::MAX);
//! # Ok(())
//! # }
//! ```

use crate::call::CallCtx;
use crate::chat::ModelId;
use crate::error::LlmError;
use async_trait::async_trait;
use serde_json::Value;
use skill_core::Usage;
use std::sync::Arc;

/// A model that turns texts into vectors.
#[async_trait]
pub trait EmbeddingModel: Send + Sync {
    /// The identity of the model in records: two models with the same id and parameters give the same vectors.
    fn id(&self) -> &ModelId;

    /// The settings that decide its vectors, such as their length.
    ///
    /// They are a part of the key of each text in records, so they hold nothing secret and nothing about speed.
    fn parameters(&self) -> Value {
        Value::Null
    }

    /// The most texts of one request; a longer one is refused. [`crate::Batched`] and [`crate::Journaled`] split
    /// requests and take any number.
    fn max_texts(&self) -> usize {
        usize::MAX
    }

    /// Embeds texts: one vector for each, in their order. A request without texts sends nothing.
    ///
    /// # Errors
    ///
    /// Every error has a class, see [`LlmError`]. A text that is empty or blank is refused before anything is sent.
    async fn embed(&self, request: &EmbeddingRequest, call: &CallCtx) -> Result<EmbeddingReply, LlmError>;
}

/// Texts to embed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EmbeddingRequest {
    /// The texts; copies share them.
    pub texts: Vec<Arc<str>>,
}

impl EmbeddingRequest {
    /// A request for the vectors of these texts.
    pub fn new<T: Into<Arc<str>>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self { texts: texts.into_iter().map(Into::into).collect() }
    }

    /// Refuses a text without anything in it: servers reject it, or return a vector that means nothing.
    pub(crate) fn check(&self) -> Result<(), LlmError> {
        match self.texts.iter().position(|text| text.trim().is_empty()) {
            Some(index) => Err(LlmError::EmptyText { index }),
            None => Ok(()),
        }
    }
}

/// The vectors of a request.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct EmbeddingReply {
    /// One vector for each text, in the order of the texts; all have one length. They are as the model gives them, and
    /// not normalised.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of the texts; zeros if the provider does not say.
    pub usage: Usage,
}

impl EmbeddingReply {
    /// A reply of these vectors.
    pub fn new(vectors: Vec<Vec<f32>>, usage: Usage) -> Self {
        Self { vectors, usage }
    }

    /// The length of its vectors, which are as many as there are texts; 0 without texts. The error is a fragment that
    /// says why they cannot be used.
    pub(crate) fn check(&self, n_texts: usize) -> Result<usize, String> {
        if self.vectors.len() != n_texts {
            return Err(format!("it has {} vectors for {n_texts} texts", self.vectors.len()));
        }
        let length = self.vectors.first().map_or(0, Vec::len);
        for (index, vector) in self.vectors.iter().enumerate() {
            if vector.is_empty() {
                return Err(format!("the vector of text {index} is empty"));
            }
            if vector.len() != length {
                let own = vector.len();
                return Err(format!(
                    "the vector of text {index} has {own} numbers, that of text 0 has {length}"
                ));
            }
            if let Some(at) = vector.iter().position(|number| !number.is_finite()) {
                return Err(format!("number {at} of the vector of text {index} is not finite"));
            }
            if vector.iter().all(|number| *number == 0.0) {
                return Err(format!("the vector of text {index} is all zeros"));
            }
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(vectors: &[&[f32]], n_texts: usize, expect: Result<usize, [&str; 2]>) {
        let reply =
            EmbeddingReply::new(vectors.iter().map(|vector| vector.to_vec()).collect(), Usage::default());
        match (reply.check(n_texts), expect) {
            (Err(said), Err(parts)) => assert!(parts.iter().all(|part| said.contains(part)), "{said}"),
            (found, expect) => assert_eq!(found.ok(), expect.ok(), "{vectors:?}"),
        }
    }

    #[test]
    fn vectors_that_cannot_be_used_are_found() {
        check(&[], 0, Ok(0));
        check(&[&[1.0, 0.0], &[0.0, -2.0]], 2, Ok(2));
        check(&[&[f32::MIN_POSITIVE]], 1, Ok(1));
        check(&[&[1.0]], 2, Err(["1 vectors", "2 texts"]));
        check(&[&[1.0], &[1.0]], 1, Err(["2 vectors", "1 texts"]));
        check(&[&[]], 1, Err(["text 0", "empty"]));
        check(&[&[1.0], &[1.0, 2.0]], 2, Err(["text 1 has 2", "text 0 has 1"]));
        check(&[&[1.0, f32::NAN]], 1, Err(["number 1", "text 0"]));
        check(&[&[1.0], &[f32::NEG_INFINITY]], 2, Err(["number 0", "text 1"]));
        check(&[&[0.0, -0.0]], 1, Err(["text 0", "zeros"]));
    }

    #[test]
    fn a_blank_text_is_refused_with_its_index() {
        for (texts, expect) in
            [(vec![], None), (vec!["a", "b"], None), (vec!["a", " \n"], Some(1)), (vec![""], Some(0))]
        {
            let found = match EmbeddingRequest::new(texts.clone()).check() {
                Ok(()) => None,
                Err(LlmError::EmptyText { index }) => Some(index),
                Err(error) => panic!("{error:?}"),
            };
            assert_eq!(found, expect, "{texts:?}");
        }
    }
}
