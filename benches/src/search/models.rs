//! The two models and the environment of a world, as a trainer takes them.

use crate::search::optimizer;
use crate::search::statement::Statement;
use crate::search::world::{Task, World};
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_core::{Role, RolloutResult, SkillDoc, Trajectory, TrajectoryMessage, Usage};
use skill_envs::{Env, EnvError, Item, RolloutCtx, SkillSource, Split};
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, Message, ModelId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What an agent without rules is told.
pub const INITIAL_SKILL: &str = "# How to fill in forms\n\nFill in every field that is due.\n";

/// Calls and tokens of a model.
#[derive(Debug, Default)]
pub struct Count {
    calls: AtomicU64,
    tokens: AtomicU64,
}

impl Count {
    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Tokens of prompts and replies so far.
    pub fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }

    /// Counts a call with a prompt and a reply of so many characters.
    pub fn add(&self, prompt_chars: usize, reply_chars: usize) -> Usage {
        let tokens = |chars: usize| (chars as u64).div_ceil(4);
        let usage = Usage { input: tokens(prompt_chars), output: tokens(reply_chars), ..Usage::default() };
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.tokens.fetch_add(usage.input + usage.output, Ordering::Relaxed);
        usage
    }
}

/// Which of the two models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Target,
    Optimizer,
}

/// A model of a world.
pub struct SimModel {
    id: ModelId,
    world: Arc<World>,
    part: Part,
    /// What it was asked.
    pub count: Arc<Count>,
}

impl SimModel {
    /// The agent.
    pub fn target(world: &Arc<World>) -> Self {
        Self::new(world, Part::Target, "search-target")
    }

    /// The optimizer.
    pub fn optimizer(world: &Arc<World>) -> Self {
        Self::new(world, Part::Optimizer, "search-optimizer")
    }

    fn new(world: &Arc<World>, part: Part, name: &str) -> Self {
        let id = ModelId::new("simulated", name);
        Self { id, world: Arc::clone(world), part, count: Arc::default() }
    }
}

#[async_trait]
impl ChatModel for SimModel {
    fn id(&self) -> &ModelId {
        &self.id
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let user = request.text_of(Role::User);
        let throw = call.place.as_str();
        let reply = match self.part {
            Part::Target => {
                let said = Statement::all_in(&request.text_of(Role::System));
                let id = user.strip_prefix("Task ").and_then(|rest| rest.split_once(' ')).map(|(id, _)| id);
                match id.and_then(|id| self.world.task(id)) {
                    Some(task) => answer_text(&self.world.attempt(task, &said, throw).answer),
                    None => "Which task?".to_owned(),
                }
            }
            Part::Optimizer => optimizer::answer(&self.world, &user, throw),
        };
        let n_asked = request.messages.iter().map(|message| message.text().len()).sum();
        let usage = self.count.add(n_asked, reply.len());
        Ok(ChatReply::text(reply, usage))
    }
}

/// An answer as the agent writes it.
pub fn answer_text(answer: &[crate::search::statement::Mark]) -> String {
    answer.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// The tasks of a world.
pub struct SimEnv {
    world: Arc<World>,
    splits: [Vec<Item>; 3],
    name: String,
}

impl SimEnv {
    /// The environment of a world.
    pub fn new(world: &Arc<World>) -> Self {
        let items = |tasks: &Vec<Task>| -> Vec<Item> {
            let item = |task: &Task| Item {
                task_type: task.kind.clone(),
                ..Item::new(task.id.as_str(), json!(task.question()))
            };
            tasks.iter().map(item).collect()
        };
        let [train, val, test] = world.splits();
        Self {
            splits: [items(train), items(val), items(test)],
            name: format!("search-{}", world.family.as_str()),
            world: Arc::clone(world),
        }
    }
}

#[async_trait]
impl Env for SimEnv {
    fn name(&self) -> &str {
        &self.name
    }

    fn items(&self, split: Split) -> &[Item] {
        let [train, val, test] = &self.splits;
        match split {
            Split::Train => train,
            Split::Val => val,
            Split::Test => test,
        }
    }

    fn settings(&self) -> Value {
        json!({"family": self.world.family.as_str(), "seed": self.world.seed})
    }

    fn initial_skill(&self) -> Option<SkillDoc> {
        Some(SkillDoc::new(INITIAL_SKILL))
    }

    fn goal(&self, item: &Item) -> Option<String> {
        item.data.as_str().map(str::to_owned)
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let question = item.data.as_str().unwrap_or_default().to_owned();
        let (skill, ctx) = ctx.show(source, item, &question).await?;
        let request =
            ChatRequest::new(vec![Message::system(skill.agent_view()), Message::user(question.as_str())]);
        let reply = target.chat(&request, &ctx.call).await?;
        let Some(task) = self.world.task(item.id.as_str()) else {
            return Err(EnvError::Broken { item: item.id.clone(), message: "no such task".to_owned() });
        };
        Ok(scored(&self.world, task, &reply.text, question))
    }
}

/// The result that an answer is.
pub fn scored(world: &World, task: &Task, answer: &str, question: String) -> RolloutResult {
    let attempt = world.read(task, answer);
    let soft = attempt.n_right as f64 / task.fields.len().max(1) as f64;
    let hard = f64::from(u8::from(attempt.is_solved));
    let mut result =
        RolloutResult::new(task.id.as_str().into(), hard, if hard < 1.0 { soft * 0.9 } else { 1.0 });
    result.n_turns = 1;
    result.task_type.clone_from(&task.kind);
    result.question = question;
    let turns = world.turns(task, &attempt);
    if turns.is_empty() {
        result.reference_text = answer_text(&world.wanted(task));
        answer.clone_into(&mut result.predicted_answer);
    } else {
        let message = |(role, text): (&str, String)| {
            TrajectoryMessage::new(if role == "user" { Role::User } else { Role::Assistant }, text)
        };
        result.trajectory = Trajectory::of_messages(turns.into_iter().map(message));
    }
    if !attempt.is_solved {
        result.fail_reason = "a field is wrong".to_owned();
    }
    result
}
