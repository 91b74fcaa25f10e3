//! Requests for embeddings of any number of texts, in batches that a server takes.

use super::layered::Answer;
use crate::call::CallCtx;
use crate::chat::ModelId;
use crate::embedding::{EmbeddingModel, EmbeddingReply, EmbeddingRequest};
use crate::error::LlmError;
use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use skill_core::Usage;
use std::sync::Arc;

/// The most batches of one request that are under way at the same time; the pace of the provider may allow fewer.
const MAX_UNDER_WAY: usize = 16;

/// An embedding model that takes any number of texts, and sends them in batches of at most
/// [`EmbeddingModel::max_texts`] of the model inside.
///
/// It goes around all other layers, so that each batch is retried and counted by itself. [`crate::Journaled`] does the
/// same for the texts that the journal does not have.
pub struct Batched {
    inner: Arc<dyn EmbeddingModel>,
}

impl Batched {
    /// Splits the requests to `inner`.
    pub fn new(inner: Arc<dyn EmbeddingModel>) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl EmbeddingModel for Batched {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    fn parameters(&self) -> Value {
        self.inner.parameters()
    }

    async fn embed(&self, request: &EmbeddingRequest, call: &CallCtx) -> Result<EmbeddingReply, LlmError> {
        request.check().inspect_err(|_| call.attempts.note_unsent())?;
        if request.texts.is_empty() {
            return Ok(EmbeddingReply::default());
        }
        let most = self.inner.max_texts().max(1);
        if request.texts.len() <= most {
            return self.inner.embed(request, call).await;
        }
        let batches: Vec<EmbeddingRequest> =
            request.texts.chunks(most).map(|texts| EmbeddingRequest { texts: texts.to_vec() }).collect();
        let replies =
            all_batches(batches.iter().map(|batch| self.inner.embed(batch, call)).collect()).await?;
        let mut whole = EmbeddingReply::new(Vec::with_capacity(request.texts.len()), Usage::default());
        for (reply, batch) in replies.into_iter().zip(&batches) {
            let (n_vectors, n_texts) = (reply.vectors.len(), batch.texts.len());
            if n_vectors != n_texts {
                return Err(LlmError::InvalidReply {
                    provider: self.id().provider.clone(),
                    message: format!("it has {n_vectors} vectors for {n_texts} texts"),
                });
            }
            whole.vectors.extend(reply.vectors);
            whole.usage += reply.usage;
        }
        Ok(whole)
    }
}

/// The outcomes of all batches in order, or the first failure.
///
/// After a failure no further batch begins, and those under way are waited for: they are paid for.
pub(crate) async fn all_batches<T>(batches: Vec<Answer<'_, T>>) -> Result<Vec<T>, LlmError> {
    let mut outcomes: Vec<Option<T>> = Vec::new();
    outcomes.resize_with(batches.len(), || None);
    let mut waiting = batches.into_iter().enumerate();
    let mut under_way = FuturesUnordered::new();
    let mut failed: Option<(usize, LlmError)> = None;
    loop {
        while failed.is_none() && under_way.len() < MAX_UNDER_WAY {
            let Some((number, batch)) = waiting.next() else { break };
            under_way.push(async move { (number, batch.await) });
        }
        match under_way.next().await {
            None => break,
            Some((number, Ok(outcome))) => {
                if let Some(slot) = outcomes.get_mut(number) {
                    *slot = Some(outcome);
                }
            }
            Some((number, Err(error))) => {
                if failed.as_ref().is_none_or(|(first, _)| number < *first) {
                    failed = Some((number, error));
                }
            }
        }
    }
    match failed {
        Some((_, error)) => Err(error),
        None => Ok(outcomes.into_iter().flatten().collect()),
    }
}
