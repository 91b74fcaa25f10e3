//! Tasks of one call as a world of one step: the action is the answer.

use crate::env::{Env, RolloutCtx};
use crate::episode::{Episode, Observation, World};
use crate::error::EnvError;
use crate::item::{Item, Split};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use skill_core::{SkillDoc, Usage};
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, Message, ModelId};
use std::sync::Arc;

/// The items of an environment that asks its agent once, as episodes of one step.
///
/// The first observation is what the agent is asked, without a skill. The action is the agent's reply, and is scored as
/// in a rollout.
pub struct AnswerWorld {
    env: Arc<dyn Env>,
}

impl AnswerWorld {
    /// The items of this environment.
    pub fn new(env: Arc<dyn Env>) -> Self {
        Self { env }
    }
}

impl World for AnswerWorld {
    fn name(&self) -> &str {
        self.env.name()
    }

    fn items(&self, split: Split) -> &[Item] {
        self.env.items(split)
    }

    fn settings(&self) -> Value {
        self.env.settings()
    }

    fn goal(&self, item: &Item) -> Option<String> {
        self.env.goal(item)
    }

    fn instructions(&self) -> &str {
        "The reply is the answer and is scored."
    }

    fn episode(&self, item: &Item) -> Result<Box<dyn Episode>, EnvError> {
        Ok(Box::new(Question { env: Arc::clone(&self.env), item: item.clone(), is_over: false }))
    }
}

/// One question.
struct Question {
    env: Arc<dyn Env>,
    item: Item,
    is_over: bool,
}

#[async_trait]
impl Episode for Question {
    async fn reset(&mut self) -> Result<Observation, EnvError> {
        self.is_over = false;
        let agent = Answering::with(None);
        let outcome =
            self.env.rollout(&self.item, &SkillDoc::default(), &agent, &RolloutCtx::default()).await;
        let Some(asked) = agent.asked() else {
            return Err(outcome.err().unwrap_or_else(|| EnvError::Broken {
                item: self.item.id.clone(),
                message: "the agent was asked nothing".to_owned(),
            }));
        };
        let texts: Vec<String> = asked.iter().map(Message::text).collect();
        let shown = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
        Ok(Observation::new(shown.collect::<Vec<_>>().join("\n\n")))
    }

    async fn step(&mut self, action: &str) -> Result<Observation, EnvError> {
        if std::mem::replace(&mut self.is_over, true) {
            let done = Observation::new("The answer has been given.");
            return Ok(Observation { done: true, understood: false, ..done });
        }
        let agent = Answering::with(Some(action.to_owned()));
        let result =
            self.env.rollout(&self.item, &SkillDoc::default(), &agent, &RolloutCtx::default()).await?;
        let won = result.is_success();
        let said = if won { "right".to_owned() } else { result.fail_reason };
        let text = format!("hard {}, soft {}: {said}", result.hard, result.soft);
        Ok(Observation { reward: result.soft, done: true, won, ..Observation::new(text) })
    }
}

/// An agent whose one reply is known; without it, one that only listens.
struct Answering {
    id: ModelId,
    reply: Option<String>,
    asked: Mutex<Option<Vec<Message>>>,
}

impl Answering {
    fn with(reply: Option<String>) -> Self {
        Self { id: ModelId::new("trainer", "agent"), reply, asked: Mutex::default() }
    }

    fn asked(self) -> Option<Vec<Message>> {
        self.asked.into_inner()
    }
}

#[async_trait]
impl ChatModel for Answering {
    fn id(&self) -> &ModelId {
        &self.id
    }

    async fn chat(&self, request: &ChatRequest, _: &CallCtx) -> Result<ChatReply, LlmError> {
        let mut asked = self.asked.lock();
        asked.get_or_insert_with(|| request.messages.clone());
        match &self.reply {
            Some(reply) => Ok(ChatReply::text(reply.clone(), Usage::default())),
            None => Err(LlmError::Cancelled),
        }
    }
}
