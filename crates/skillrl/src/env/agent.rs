//! The agent of one rollout, as a handle that owns what it needs.
//!
//! The future of the rollout makes the calls that its handles ask for. So a handle may go to another task or thread, all
//! calls end with the rollout, and each of them is at the rollout's place and counts toward its tokens. A thread that
//! waits for its reply makes the call itself where it can, which spares it two changes of threads.

use super::Score;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use skill_core::{RolloutResult, SkillDoc, Trajectory, TrajectoryMessage, Usage, thought};
use skill_envs::{EnvError, Item, RolloutCtx, SkillSource, record};
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, ErrorClass, LlmError, Message, Role};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

/// Asks the target of one rollout, with the skill that it is shown; copies ask the same one.
///
/// It records the conversation, each call with its exact request, and the tokens.
#[derive(Clone)]
pub struct Agent {
    skill: Arc<SkillDoc>,
    asks: mpsc::UnboundedSender<Ask>,
    record: Arc<Mutex<AgentRecord>>,
    direct: Option<Arc<Direct>>,
}

/// What a thread needs to make a call itself.
struct Direct {
    target: Arc<dyn ChatModel>,
    call: CallCtx,
    runtime: Handle,
}

/// A call that a handle wants made.
struct Ask {
    request: ChatRequest,
    /// A place inside that of the rollout, for calls that would otherwise be taken for the same one.
    part: Option<String>,
    reply: oneshot::Sender<Result<ChatReply, LlmError>>,
}

impl Agent {
    /// The skill, as an agent is shown it: without front matter.
    pub fn skill(&self) -> String {
        self.skill.agent_view().to_string()
    }

    /// The skill with all its files.
    pub fn document(&self) -> &SkillDoc {
        &self.skill
    }

    /// Asks this with the skill as the system message and returns the text of the reply, without what the model thought.
    ///
    /// # Errors
    ///
    /// As [`Agent::send`].
    pub async fn answer(&self, prompt: impl Into<String>) -> Result<String, EnvError> {
        let skill = self.skill();
        let system = (!skill.trim().is_empty()).then(|| Message::system(skill));
        let messages = system.into_iter().chain([Message::user(prompt)]).collect();
        let request = ChatRequest::new(messages);
        self.send(request.clone()).await.map(|reply| reply.without_thoughts(&request).text)
    }

    /// Sends these messages as they are: the skill is only in them if the caller put it there.
    ///
    /// # Errors
    ///
    /// As [`Agent::send`].
    pub async fn ask(&self, messages: Vec<Message>) -> Result<ChatReply, EnvError> {
        self.send(ChatRequest::new(messages)).await
    }

    /// Sends a request.
    ///
    /// # Errors
    ///
    /// A fault of the model, after which the rollout fails whatever else it returns; a request that the model does not
    /// take, such as one that is too long; and [`LlmError::Cancelled`] after the end of the rollout.
    pub async fn send(&self, request: ChatRequest) -> Result<ChatReply, EnvError> {
        self.send_at(request, None).await
    }

    /// As [`Agent::send`]; `part` tells calls apart whose requests are equal and whose replies may differ.
    ///
    /// # Errors
    ///
    /// As [`Agent::send`].
    pub async fn send_at(&self, request: ChatRequest, part: Option<String>) -> Result<ChatReply, EnvError> {
        let Some(direct) = &self.direct else {
            let reply = self.asked(request, part)?;
            return reply.await.unwrap_or(Err(LlmError::Cancelled)).map_err(EnvError::Model);
        };
        let outcome = tokio::select! {
            biased;
            () = self.asks.closed() => Err(LlmError::Cancelled),
            outcome = chat(direct.target.as_ref(), &request, &direct.call, part) => outcome,
        };
        if !self.asks.is_closed() {
            self.record.lock().note(&request, &outcome);
        }
        outcome.map_err(EnvError::Model)
    }

    /// As [`Agent::send_at`], for threads outside of the runtime.
    ///
    /// # Errors
    ///
    /// As [`Agent::send`].
    ///
    /// # Panics
    ///
    /// In an asynchronous task, which it would block.
    pub fn send_blocking(&self, request: ChatRequest, part: Option<String>) -> Result<ChatReply, EnvError> {
        match &self.direct {
            Some(direct) => direct.runtime.block_on(self.send_at(request, part)),
            None => {
                let reply = self.asked(request, part)?;
                reply.blocking_recv().unwrap_or(Err(LlmError::Cancelled)).map_err(EnvError::Model)
            }
        }
    }

    fn asked(
        &self,
        request: ChatRequest,
        part: Option<String>,
    ) -> Result<oneshot::Receiver<Result<ChatReply, LlmError>>, EnvError> {
        let (reply, asked) = oneshot::channel();
        let ended = |_| EnvError::Model(LlmError::Cancelled);
        self.asks.send(Ask { request, part, reply }).map_err(ended)?;
        Ok(asked)
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("is_over", &self.asks.is_closed()).finish_non_exhaustive()
    }
}

/// What the agent of a rollout said and used.
#[derive(Debug, Default)]
pub struct AgentRecord {
    /// Each message once, and each call with its exact request.
    pub trajectory: Trajectory,
    /// Tokens of all calls.
    pub usage: Usage,
    /// The number of calls that were answered.
    pub n_calls: u32,
    /// The system message of the first call.
    pub system: String,
    /// The user message of the first call.
    pub user: String,
    /// The text of the last reply, without what the model thought.
    pub last_reply: String,
    fault: Option<LlmError>,
}

impl AgentRecord {
    /// The record as the result of a rollout with this score.
    pub fn into_result(self, item: &Item, score: Score) -> RolloutResult {
        let mut result = RolloutResult::new(item.id.clone(), score.hard, score.soft);
        result.fail_reason = if result.is_success() { String::new() } else { score.reason };
        result.task_type.clone_from(&item.task_type);
        result.question.clone_from(&self.user);
        result.predicted_answer = score.answer.unwrap_or(self.last_reply);
        result.reference_text = score.reference;
        result.n_turns = self.n_calls;
        result.target_system_prompt = self.system;
        result.target_user_prompt = self.user;
        result.trajectory = self.trajectory;
        result.usage = self.usage;
        result
    }

    /// The record of an agent that asked at an endpoint.
    #[cfg(feature = "exec")]
    pub fn of_session(session: &skill_envs::endpoint::SessionRecord) -> Self {
        let last_reply = session.requests.last().map(|call| call.reply.answer().trim().to_owned());
        Self {
            trajectory: session.trajectory(),
            usage: session.usage,
            n_calls: session.n_calls,
            system: session.system_prompt(),
            user: session.user_prompt(),
            last_reply: last_reply.unwrap_or_default(),
            fault: None,
        }
    }

    /// Takes a reply, or the first fault.
    fn note(&mut self, request: &ChatRequest, outcome: &Result<ChatReply, LlmError>) {
        match outcome {
            Ok(reply) => self.add(request, reply),
            Err(error) if is_fault(error) && self.fault.is_none() => self.fault = Some(error.clone()),
            Err(_) => {}
        }
    }

    fn add(&mut self, request: &ChatRequest, reply: &ChatReply) {
        if self.n_calls == 0 {
            self.system = request.text_of(Role::System);
            self.user = request.text_of(Role::User);
        }
        for tool in &request.tools {
            self.trajectory.offer(record::tool(tool));
        }
        let places = request.messages.iter().map(|message| self.place(record::message(message))).collect();
        let said = self.trajectory.say(record::reply(reply));
        self.trajectory.turns.push(record::turn(places, said, reply));
        self.usage += reply.usage;
        self.n_calls = self.n_calls.saturating_add(1);
        self.last_reply = reply.answer().trim().to_owned();
    }

    /// The place of a message of a request; one that was not said before is said now.
    fn place(&mut self, message: TrajectoryMessage) -> u32 {
        let is_same = |known: &TrajectoryMessage| {
            // A reply is sent back without its reasoning, also without that which its server has left in the text.
            let is_same_text = known.content == message.content
                || known.role == Role::Assistant
                    && thought::answer(&known.content).trim() == message.content.trim();
            known.role == message.role
                && is_same_text
                && known.tool_calls == message.tool_calls
                && known.tool_call_id == message.tool_call_id
                && known.images == message.images
        };
        let known = self.trajectory.messages.iter().rposition(is_same);
        match known.and_then(|at| u32::try_from(at).ok()) {
            Some(at) => at,
            None => self.trajectory.say(message),
        }
    }
}

/// Runs a rollout that asks through an [`Agent`], and returns what it came to with the record of the agent.
///
/// # Errors
///
/// What `work` returns; and a fault of the model, even if `work` has made a result of it, since a fault is never a
/// score. What the model does not answer whoever asks it (a prompt that is too long, a refusal, a bad request) is left
/// to `work`.
pub async fn play<T, Fut>(
    item: &Item,
    source: &dyn SkillSource,
    target: &dyn ChatModel,
    ctx: &RolloutCtx,
    work: impl FnOnce(Agent) -> Fut + Send,
) -> Result<(T, AgentRecord), EnvError>
where
    Fut: Future<Output = Result<T, EnvError>> + Send,
    T: Send,
{
    let (skill, ctx) = ctx.show(source, item, "").await?;
    let (asks, mut asked) = mpsc::unbounded_channel::<Ask>();
    let record = Arc::new(Mutex::new(AgentRecord::default()));
    let direct = ctx
        .target
        .clone()
        .map(|target| Arc::new(Direct { target, call: ctx.call.clone(), runtime: Handle::current() }));
    let agent = Agent { skill: Arc::new(skill), asks, record: Arc::clone(&record), direct };
    let mut working = pin!(work(agent));
    let mut calls = FuturesUnordered::new();
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut working => break outcome,
            Some(Made { request, outcome, reply }) = calls.next(), if !calls.is_empty() => {
                record.lock().note(&request, &outcome);
                // Anyone who asked may have given up.
                let _ = reply.send(outcome);
            }
            Some(ask) = asked.recv() => calls.push(made(ask, target, &ctx.call)),
        }
    };
    // No thread adds anything from here on.
    asked.close();
    let mut record = std::mem::take(&mut *record.lock());
    match record.fault.take() {
        Some(fault) => Err(EnvError::Model(fault)),
        None => outcome.map(|outcome| (outcome, record)),
    }
}

/// A call that was made.
struct Made {
    request: ChatRequest,
    outcome: Result<ChatReply, LlmError>,
    reply: oneshot::Sender<Result<ChatReply, LlmError>>,
}

async fn made(Ask { request, part, reply }: Ask, target: &dyn ChatModel, call: &CallCtx) -> Made {
    let outcome = chat(target, &request, call, part).await;
    Made { request, outcome, reply }
}

async fn chat(
    target: &dyn ChatModel,
    request: &ChatRequest,
    call: &CallCtx,
    part: Option<String>,
) -> Result<ChatReply, LlmError> {
    match part {
        Some(part) => target.chat(request, &call.child(part)).await,
        None => target.chat(request, call).await,
    }
}

/// True if there is no reply for a reason that has nothing to do with what was asked.
fn is_fault(error: &LlmError) -> bool {
    !matches!(error.class(), ErrorClass::ContextTooLong | ErrorClass::Refused | ErrorClass::BadRequest)
}
