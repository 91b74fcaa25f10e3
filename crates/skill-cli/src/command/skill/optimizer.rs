//! What writes descriptions and drafts of queries: the agent's own program, or a model of a configuration.

use super::session::Session;
use async_trait::async_trait;
use skill_agents::measure::{Setup, Stop, StoreError, stop_before, write};
use skill_agents::train::Writer;
use skillrl::config::{Config, ModelRole};
use skillrl::engine::Engine;
use skillrl::llm::{CallCtx, ChatModel, ChatRequest, ErrorClass, LlmError, Message, regular_file};
use std::io;
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
        if let Some(reply) = on_record(&path)? {
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

/// The reply in a file. One that cannot be read is not requested again: it was paid for.
fn on_record(path: &Path) -> Result<Option<String>, StoreError> {
    let fault = |source| StoreError::File { path: path.to_owned(), source };
    let Some(bytes) = regular_file::read_if_there(path).map_err(fault)? else { return Ok(None) };
    let not_text = |error| fault(io::Error::new(io::ErrorKind::InvalidData, error));
    String::from_utf8(bytes).map(Some).map_err(not_text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_on_record_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("writes/reply.txt");
        let found = || on_record(&path).map_err(|error| error.path().to_owned());
        assert_eq!(found(), Ok(None));
        std::fs::create_dir_all(&path).unwrap();
        assert_eq!(found(), Err(path.clone()));
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, "A reply.").unwrap();
        assert_eq!(found(), Ok(Some("A reply.".to_owned())));
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(found(), Err(path.clone()));
    }
}
