//! What the caps and the pace of a run are asked for each attempt.
//!
//! Questions and answers are plain data: [`super::Budget`] and [`super::Pacer`] answer in this process, and a worker
//! elsewhere can put implementations that ask the driver of the run around its own models.

use super::Prices;
use super::estimate::PromptSize;
use crate::attempt::Bounds;
use crate::chat::ModelId;
use crate::error::LlmError;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use skill_core::Usage;
use std::time::Duration;

/// One attempt, as far as it decides what it may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AttemptSize {
    /// The model that is asked.
    pub model: ModelId,
    /// The size of its prompt.
    pub prompt: PromptSize,
    /// The most tokens of its reply; `None` where nothing limits them.
    pub max_reply_tokens: Option<u64>,
    /// What its tokens cost.
    pub prices: Prices,
}

impl AttemptSize {
    pub(super) fn new(
        model: ModelId,
        prompt: PromptSize,
        max_reply_tokens: Option<u64>,
        prices: Prices,
    ) -> Self {
        Self { model, prompt, max_reply_tokens, prices }
    }
}

/// What became of an attempt that had something reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptUse {
    /// A reply with these tokens.
    Replied(Usage),
    /// No reply, and so many tokens that may be billed.
    Billed(Usage),
    /// Nothing was sent.
    Unsent,
}

/// Keeps a run below its caps.
#[async_trait]
pub trait BudgetKeeper: Send + Sync {
    /// Reserves the most that this attempt may use, and waits where others may leave room; dropping the future reserves
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`LlmError::BudgetExhausted`], and failures of the way to anyone who keeps the budget.
    async fn reserve(&self, attempt: &AttemptSize) -> Result<Bounds, LlmError>;

    /// Gives back what was reserved for this attempt, and counts what it used.
    fn settle(&self, attempt: &AttemptSize, granted: Bounds, used: AttemptUse);
}

/// One request, as far as it decides when it may be sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PacedRequest {
    /// The model that is asked.
    pub model: ModelId,
    /// Whether a schema constrains the reply: such replies take longer.
    pub has_schema: bool,
    /// An estimate of its prompt.
    pub input_tokens: u64,
}

impl PacedRequest {
    pub(super) fn new(model: ModelId, has_schema: bool, input_tokens: u64) -> Self {
        Self { model, has_schema, input_tokens }
    }
}

/// A place among the requests in flight, with the tokens that the rates were charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaceGrant {
    /// An estimate of the tokens of prompt and reply.
    pub reserved_tokens: u64,
}

/// How a request in flight ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaceEnd {
    /// A reply.
    Replied {
        /// Its tokens.
        usage: Usage,
        /// The tokens that its latency is measured by.
        paced_tokens: u64,
        /// How long it took.
        took: Duration,
    },
    /// The provider limits the rate.
    RateLimited {
        /// How long the request had been out.
        took: Duration,
        /// How long the provider asks to wait.
        retry_after: Option<Duration>,
    },
    /// Anything else.
    Failed,
}

/// Keeps the pace of a provider.
#[async_trait]
pub trait PaceKeeper: Send + Sync {
    /// Waits for the turn of this request; dropping the future leaves the queue.
    ///
    /// # Errors
    ///
    /// Failures of the way to anyone who keeps the pace; a keeper in this process has none.
    async fn admit(&self, request: &PacedRequest) -> Result<PaceGrant, LlmError>;

    /// Gives the place of a request back and learns from how it ended.
    fn settle(&self, request: &PacedRequest, granted: PaceGrant, end: PaceEnd);
}

#[cfg(test)]
mod tests {
    use super::super::{Budget, BudgetCaps, Budgeted, PaceConfig, Paced, Pacer};
    use super::*;
    use crate::scripted::ScriptedModel;
    use crate::{CallCtx, ChatModel as _, ChatReply, ChatRequest, Message};
    use futures_util::future::join_all;
    use serde::de::DeserializeOwned;
    use std::sync::Arc;

    fn sent<T: Serialize + DeserializeOwned>(value: &T) -> T {
        serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
    }

    /// The driver's limits as a worker asks for them: every question and answer is a text.
    struct Elsewhere<K>(Arc<K>);

    #[async_trait]
    impl<K: BudgetKeeper> BudgetKeeper for Elsewhere<K> {
        async fn reserve(&self, attempt: &AttemptSize) -> Result<Bounds, LlmError> {
            self.0.reserve(&sent(attempt)).await.map(|granted| sent(&granted))
        }

        fn settle(&self, attempt: &AttemptSize, granted: Bounds, used: AttemptUse) {
            self.0.settle(&sent(attempt), sent(&granted), sent(&used));
        }
    }

    #[async_trait]
    impl<K: PaceKeeper> PaceKeeper for Elsewhere<K> {
        async fn admit(&self, request: &PacedRequest) -> Result<PaceGrant, LlmError> {
            self.0.admit(&sent(request)).await.map(|granted| sent(&granted))
        }

        fn settle(&self, request: &PacedRequest, granted: PaceGrant, end: PaceEnd) {
            self.0.settle(&sent(request), sent(&granted), sent(&end));
        }
    }

    #[tokio::test]
    async fn workers_elsewhere_keep_the_caps_and_the_pace_of_the_run() {
        let (budget, pacer) = (
            Budget::new(BudgetCaps { calls: Some(7), ..BudgetCaps::default() }),
            Pacer::new(PaceConfig::fixed(2)),
        );
        let worker = || {
            let pacer_seen = Arc::clone(&pacer);
            let model = ScriptedModel::from_fn("small", move |_, _| {
                assert!((1..=2).contains(&pacer_seen.snapshot().in_flight));
                let usage = Usage { input: 3, output: 1, ..Usage::default() };
                Ok(ChatReply::text("yes", usage))
            });
            let paced = Paced::new(Arc::new(model), Arc::new(Elsewhere(Arc::clone(&pacer))));
            let keeper = Arc::new(Elsewhere(Arc::clone(&budget)));
            Budgeted::new(Arc::new(paced), keeper, Prices::default())
        };
        let workers = [worker(), worker()];
        let call = |n: usize| {
            let request = ChatRequest::new(vec![Message::user(n.to_string())]);
            let model = &workers[n % 2];
            async move { model.chat(&request, &CallCtx::default()).await }
        };
        let outcomes = join_all((0..20).map(call)).await;
        let n_replies = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        let is_capped = |outcome: &Result<ChatReply, LlmError>| {
            matches!(outcome, Ok(_) | Err(LlmError::BudgetExhausted { what: "calls", .. }))
        };
        assert!(outcomes.iter().all(is_capped), "{outcomes:?}");
        assert_eq!((n_replies, budget.spent().calls, budget.spent().tokens), (7, 7, 28));
        assert_eq!(pacer.snapshot().in_flight, 0);
    }
}
