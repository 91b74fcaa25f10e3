//! What writes descriptions and drafts of queries: the agent's own program, or a model of a configuration.

use super::session::Session;
use async_trait::async_trait;
use skill_agents::measure::{Setup, Stop, StoreError, stop_before, write};
use skill_agents::train::Writer;
use skillrl::config::{Config, ModelRole};
use skillrl::engine::Engine;
use skillrl::llm::{CallCtx, ChatModel, ChatRequest, ErrorClass, LlmError, Message};
use std::path::Path;
use std::sync::Arc;

/// Who writes.
pub(crate) enum Optimizer {
    /// The agent's program, without tools and skills, with this model or the one that is measured.
    Program(Option<String>),
    /// The optimizer of a configuration.
    Model(Arc<dyn ChatModel>),
}

impl Optimizer {
    /// The optimizer that `--optimizer` names: a configuration file, or a model of the agent.
    pub(crate) fn of(name: Option<&str>) -> crate::Result<Self> {
        let Some(name) = name else { return Ok(Self::Program(None)) };
        if Path::new(name).extension().is_none_or(|extension| extension != "toml") {
            return Ok(Self::Program(Some(name.to_owned())));
        }
        let loaded = Config::load(Path::new(name), &[])?;
        Ok(Self::Model(Engine::new(&loaded).model(ModelRole::Optimizer)?))
    }
}

#[async_trait]
impl Writer for Session {
    async fn write(&self, prompt: &str) -> Result<Result<String, Stop>, StoreError> {
        match &self.optimizer {
            Optimizer::Program(model) => {
                let model = model.clone().or_else(|| self.setup.model.clone());
                let setup = Setup { model, ..self.setup.clone() };
                write(&setup, prompt, &self.store, &self.launcher, &self.caps).await
            }
            Optimizer::Model(model) => self.asked(model.as_ref(), prompt).await,
        }
    }
}

impl Session {
    /// The reply of a model; one that is on record is not asked for again.
    async fn asked(&self, model: &dyn ChatModel, prompt: &str) -> Result<Result<String, Stop>, StoreError> {
        let name = skill_agents::text_hash(&format!("{}\n{prompt}", model.id()));
        let path = self.store.directory().join("writes").join(format!("{name}.txt"));
        if let Ok(reply) = std::fs::read_to_string(&path) {
            return Ok(Ok(reply));
        }
        if let Some(stop) = stop_before(&self.store, &self.caps)? {
            return Ok(Err(stop));
        }
        self.store.note_start("write")?;
        let request = ChatRequest::new(vec![Message::user(prompt)]);
        let call = CallCtx { cancel: self.launcher.cancel.clone(), ..CallCtx::default() };
        match model.chat(&request, &call).await {
            Ok(reply) => {
                self.store.write(&path, reply.text.as_bytes())?;
                Ok(Ok(reply.text))
            }
            Err(error) => Ok(Err(stop_of(&error))),
        }
    }
}

fn stop_of(error: &LlmError) -> Stop {
    let said = skillrl::llm::error::with_causes(error);
    match (error, error.class()) {
        (LlmError::Cancelled, _) => Stop::Stopped,
        (_, ErrorClass::Authentication | ErrorClass::Configuration) => Stop::Refused(said),
        (_, ErrorClass::QuotaExhausted) => Stop::Limited(said),
        (_, ErrorClass::RateLimited) => Stop::Busy(said),
        _ => Stop::KeepsFailing(said),
    }
}
