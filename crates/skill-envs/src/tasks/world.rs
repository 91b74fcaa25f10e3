//! Tasks played by hand: a line is a call of a tool, or else the answer.

use super::TasksEnv;
use super::files::{FileAccess, ToolFormat};
use super::rollout::Attempt;
use super::talk::Talk;
use super::task::{Asked, Task};
use crate::env::Env as _;
use crate::episode::{Episode, Observation, World};
use crate::error::EnvError;
use crate::item::{Item, Split};
use async_trait::async_trait;
use skill_core::SkillDoc;
use skill_llm::{CallCtx, ChatReply, ChatRequest, Message, Usage};
use std::sync::Arc;

/// Items as episodes, for people who want to see what an agent sees.
pub struct TasksWorld {
    env: Arc<TasksEnv>,
}

impl TasksWorld {
    /// The items of this environment.
    pub fn new(env: Arc<TasksEnv>) -> Self {
        Self { env }
    }
}

impl World for TasksWorld {
    fn name(&self) -> &str {
        self.env.name()
    }

    fn items(&self, split: Split) -> &[Item] {
        self.env.items(split)
    }

    fn goal(&self, item: &Item) -> Option<String> {
        self.env.goal(item)
    }

    fn instructions(&self) -> &str {
        "A reply that is a JSON object with a member `tool` calls that tool; any other is the answer and is scored."
    }

    fn episode(&self, item: &Item) -> Result<Box<dyn Episode>, EnvError> {
        let task = self.env.task(item)?.task.clone();
        // A line is all that a person has.
        let access = self.env.files.clone().map(|access| FileAccess { format: ToolFormat::Text, ..access });
        Ok(Box::new(TaskEpisode {
            env: Arc::clone(&self.env),
            item: item.clone(),
            task,
            access,
            n_calls: 0,
            is_over: false,
        }))
    }
}

struct TaskEpisode {
    env: Arc<TasksEnv>,
    item: Item,
    task: Task,
    access: Option<FileAccess>,
    n_calls: u32,
    is_over: bool,
}

impl TaskEpisode {
    fn asked(&self) -> Asked<'_> {
        Asked { item: &self.item, task: &self.task }
    }

    fn request(&self) -> Result<ChatRequest, EnvError> {
        let request = ChatRequest {
            tools: Vec::new(),
            ..self.env.agenda.messages(self.asked(), &SkillDoc::default())?
        };
        match &self.access {
            Some(access) => Ok(Talk::new(access, Arc::clone(&self.task.files), request)?.into_request()),
            None => Ok(request),
        }
    }
}

#[async_trait]
impl Episode for TaskEpisode {
    async fn reset(&mut self) -> Result<Observation, EnvError> {
        (self.n_calls, self.is_over) = (0, false);
        let texts = self.request()?.messages.iter().map(Message::text).collect::<Vec<_>>();
        let shown = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
        Ok(Observation::new(shown.collect::<Vec<_>>().join("\n\n")))
    }

    async fn step(&mut self, action: &str) -> Result<Observation, EnvError> {
        if self.is_over {
            let done = Observation::new("The answer has been given.");
            return Ok(Observation { done: true, understood: false, ..done });
        }
        if let Some(access) = self.access.as_ref().filter(|access| self.n_calls < access.max_turns)
            && let Some((text, understood)) = Talk::line(access, &self.task.files, action).await
        {
            self.n_calls += 1;
            return Ok(Observation { understood, ..Observation::new(text) });
        }
        let reply = ChatReply::text(action, Usage::default());
        let attempt = Attempt::single(self.request()?, &reply);
        let judge = self.env.judge.as_deref();
        let result = self.env.agenda.result(self.asked(), attempt, reply, judge, &CallCtx::default()).await?;
        self.is_over = true;
        let won = result.is_success();
        let said = if won { "right".to_owned() } else { result.fail_reason };
        let text = format!("hard {}, soft {}: {said}", result.hard, result.soft);
        Ok(Observation { reward: result.soft, done: true, won, ..Observation::new(text) })
    }
}
