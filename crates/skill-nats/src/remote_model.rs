//! Requests that another process sends.
//!
//! All layers of a model stay where its run is: its journal, retries, caps and pace. [`RemoteModel`] is the innermost
//! part of such a model, and hands each request to the worker that has the call.

use async_trait::async_trait;
use serde_json::Value;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};
use std::sync::Arc;

/// An extension of a call: sends its requests; the id and parameters of this model are not read.
pub(crate) struct RemoteSend(pub(crate) Arc<dyn ChatModel>);

/// A model whose requests are sent by the worker that has the call, where one has it.
pub struct RemoteModel {
    inner: Arc<dyn ChatModel>,
}

impl RemoteModel {
    /// `inner` identifies the model, and sends the requests of calls that no worker has.
    pub fn new(inner: Arc<dyn ChatModel>) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl ChatModel for RemoteModel {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    fn parameters(&self) -> Value {
        self.inner.parameters()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        match call.get() {
            Some(RemoteSend(sender)) => sender.chat(request, call).await,
            None => self.inner.chat(request, call).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skill_llm::{Budget, BudgetCaps, Budgeted, Message, Prices, ScriptedModel};

    #[tokio::test]
    async fn a_call_with_a_sender_is_sent_by_it_under_the_layers_and_the_name_of_the_model() {
        let here = Arc::new(ScriptedModel::answering("small", |_| "here".to_owned()));
        let there = RemoteSend(Arc::new(ScriptedModel::answering("other", |_| "there".to_owned())));
        let budget = Budget::new(BudgetCaps { calls: Some(2), ..BudgetCaps::default() });
        let model = Budgeted::new(Arc::new(RemoteModel::new(here)), Arc::clone(&budget), Prices::default());
        assert_eq!(model.id().model, "small");
        let request = ChatRequest::new(vec![Message::user("where?")]);
        let sent = CallCtx::default().with(there);
        assert_eq!(model.chat(&request, &sent).await.unwrap().text, "there");
        assert_eq!(model.chat(&request, &CallCtx::default()).await.unwrap().text, "here");
        let third = model.chat(&request, &sent).await;
        assert!(matches!(third, Err(LlmError::BudgetExhausted { .. })), "{third:?}");
    }
}
