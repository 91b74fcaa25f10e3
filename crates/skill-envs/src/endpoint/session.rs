//! One rollout's side of the endpoint: the calls of its agent run inside the rollout's own future.

use super::presence::{SkillLines, replaced};
use super::problem::{Problem, ProblemKind};
use super::registry::{Asked, Registry, SessionKey};
use super::states::States;
use super::trajectory::{Reach, Recorder, RefusedCall, SessionRecord};
use crate::env::RolloutCtx;
use crate::error::EnvError;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use skill_core::Role;
use skill_llm::error::{ErrorClass, with_causes};
use skill_llm::{ChatModel, ChatReply, ChatRequest, ContentPart, LlmError, Message};
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// How many requests of one agent a session takes by default.
pub(crate) const DEFAULT_MAX_REQUESTS: u32 = 1_000;
/// How many requests of one agent are with the target at the same time by default; further ones wait.
pub const DEFAULT_MAX_IN_FLIGHT: usize = 32;

/// How the skill reaches the agent through the endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SkillInPrompt {
    /// Not at all: it stands where the agent finds it by itself, as in a `SKILL.md`.
    #[default]
    Absent,
    /// Before the agent's own system prompt, in every request.
    Prepended(String),
    /// After the agent's own system prompt, in every request.
    Appended(String),
    /// In the place of a text that the agent's own prompt holds.
    Replacing {
        /// What the prompt holds; space between words makes no difference.
        held: String,
        /// What takes its place.
        skill: String,
    },
    /// The agent puts it there itself: a request that does not hold it is counted.
    Expected(String),
}

/// What a session is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSettings {
    /// How the skill reaches the agent.
    pub skill: SkillInPrompt,
    /// The names that the list of models shows; the target answers whatever model the agent names.
    pub models: Vec<String>,
    /// The most requests of the agent; what comes after them is answered by an error, and the rollout goes on.
    pub max_requests: u32,
    /// The most requests that are with the target at the same time; at least 1.
    pub max_in_flight: usize,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            skill: SkillInPrompt::default(),
            models: vec!["target".to_owned()],
            max_requests: DEFAULT_MAX_REQUESTS,
            max_in_flight: DEFAULT_MAX_IN_FLIGHT,
        }
    }
}

/// An agent's access to the target, for one rollout.
///
/// Its requests wait until somebody polls [`EndpointSession::serve`]. When the session is dropped or finished, its
/// token is refused and anyone who still waits gets an error.
pub struct EndpointSession {
    token: String,
    address: SocketAddr,
    settings: SessionSettings,
    asked: mpsc::Receiver<Asked>,
    recorder: Recorder,
    states: States,
    /// Replies that were no longer awaited.
    unclaimed: Vec<(Arc<ChatRequest>, ChatReply)>,
    reach: Reach,
    lines: SkillLines,
    n_asked: u64,
    failure: Option<LlmError>,
    failed: CancellationToken,
    /// Last, so that the token is refused only once nothing can be asked any more.
    open: OpenSession,
}

/// The session's entry in the registry, for as long as it lives.
pub(super) struct OpenSession {
    pub(super) key: SessionKey,
    pub(super) registry: Arc<Registry>,
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.registry.close(&self.key);
    }
}

/// A call that is with the target.
struct OpenCall {
    number: u64,
    request: Arc<ChatRequest>,
    waiting: oneshot::Sender<Result<ChatReply, Problem>>,
}

impl EndpointSession {
    pub(super) fn new(
        token: String,
        address: SocketAddr,
        settings: SessionSettings,
        asked: mpsc::Receiver<Asked>,
        open: OpenSession,
    ) -> Self {
        let lines = match &settings.skill {
            SkillInPrompt::Absent => SkillLines::default(),
            SkillInPrompt::Prepended(skill)
            | SkillInPrompt::Appended(skill)
            | SkillInPrompt::Replacing { skill, .. }
            | SkillInPrompt::Expected(skill) => SkillLines::of(skill),
        };
        Self {
            token,
            address,
            settings,
            reach: Reach::default(),
            lines,
            asked,
            recorder: Recorder::default(),
            states: States::default(),
            unclaimed: Vec::new(),
            n_asked: 0,
            failure: None,
            failed: CancellationToken::new(),
            open,
        }
    }

    /// What a client of the OpenAI dialect is given as its base URL, such as `http://127.0.0.1:4711/v1`.
    pub fn base_url_openai(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// What a client of the Anthropic dialect is given as its base URL, such as `http://127.0.0.1:4711`.
    pub fn base_url_anthropic(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What the agent is given in the place of a key; it opens this session and nothing else.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Is cancelled when the target has failed: the rollout cannot become a score any more, so nothing is gained by
    /// letting the agent run on.
    pub fn failed(&self) -> CancellationToken {
        self.failed.clone()
    }

    /// Answers the agent's requests by the target, several at once, for as long as it is polled.
    ///
    /// It never ends by itself: poll it beside the agent, as in `tokio::select!`, and drop it when the agent is done.
    /// Dropping it cancels the calls that are with the target; their requests get an error. So anyone who selects in a
    /// loop pins one future before it.
    ///
    /// All calls are at one place, `agent`, inside the rollout's: the order in which requests arrive is not certain
    /// where an agent has several under way, so a number in the place would make other calls of the same requests
    /// when the run is resumed. What tells the calls apart is what they ask, and for equal ones how often it was
    /// asked before, which the rollout's [`skill_llm::CallScope`] counts. So an agent that makes the same requests again is
    /// answered from the journal.
    ///
    /// A request that does not fit the model's context, or that the provider's policy refuses, is the agent's own
    /// affair: it gets the error that the provider would have given it, and may go on with another request. After any
    /// other error of the target no further call is made.
    pub async fn serve(&mut self, target: &dyn ChatModel, ctx: &RolloutCtx) -> Infallible {
        let call = ctx.call.child("agent");
        let max_in_flight = self.settings.max_in_flight.max(1);
        let mut under_way = FuturesUnordered::new();
        let mut calls: Vec<OpenCall> = Vec::new();
        loop {
            let asked = tokio::select! {
                // Replies first: what an agent asks next may depend on them.
                biased;
                Some((number, outcome)) = under_way.next(), if !under_way.is_empty() => {
                    self.land(&mut calls, number, outcome);
                    continue;
                }
                Some(asked) = self.asked.recv(), if under_way.len() < max_in_flight => asked,
                // The door that hands requests in stands until the session is dropped, so this is never the end.
                else => std::future::pending().await,
            };
            let Some((number, request)) = self.take(&mut calls, asked) else { continue };
            let call = call.with_own_attempts();
            under_way.push(async move { (number, target.chat(&request, &call).await) });
        }
    }

    /// Ends the session: its token is refused from now on.
    ///
    /// # Errors
    ///
    /// [`EnvError::Model`] with the first error of the target: what the agent did without its model is no score. What
    /// the model would not answer is none of these: see [`SessionRecord::refused`].
    pub fn finish(self) -> Result<SessionRecord, EnvError> {
        let limit_reached = self.open.registry.limit_reached(&self.open.key);
        let n_requests = self.open.registry.heard(&self.open.key);
        match self.failure {
            Some(error) => Err(EnvError::Model(error)),
            None => {
                let reach = Reach { n_requests, ..self.reach };
                Ok(SessionRecord { reach, ..self.recorder.finish(limit_reached) })
            }
        }
    }

    /// Takes a request; what it returns has to be asked.
    fn take(&mut self, calls: &mut Vec<OpenCall>, asked: Asked) -> Option<(u64, Arc<ChatRequest>)> {
        let Asked { mut request, waiting } = asked;
        if let Some(error) = &self.failure {
            // Anyone who is gone needs no answer.
            drop(waiting.send(Err(target_problem(error))));
            return None;
        }
        self.put_skill(&mut request);
        self.states.restore(&mut request.messages);
        let number = self.n_asked;
        self.n_asked += 1;
        // A client that gave up waiting sends the same request again. It gets the reply of the first, which was or
        // will be paid for, instead of a second one.
        let given_up = calls.iter_mut().find(|call| call.waiting.is_closed() && *call.request == request);
        if let Some(call) = given_up {
            call.waiting = waiting;
            return None;
        }
        if let Some(idx) = self.unclaimed.iter().position(|(unclaimed, _)| **unclaimed == request) {
            let (request, reply) = self.unclaimed.swap_remove(idx);
            self.deliver(OpenCall { number, request, waiting }, reply);
            return None;
        }
        let request = Arc::new(request);
        calls.push(OpenCall { number, request: Arc::clone(&request), waiting });
        Some((number, request))
    }

    /// Has the skill in a request, and counts where it is not, or is twice.
    fn put_skill(&mut self, request: &mut ChatRequest) {
        let is_sought = !self.lines.is_empty();
        match &self.settings.skill {
            SkillInPrompt::Absent => {}
            SkillInPrompt::Prepended(skill) | SkillInPrompt::Appended(skill) => {
                self.reach.is_twice |= is_sought && self.lines.is_in(&prompt_of(request));
                let is_first = matches!(self.settings.skill, SkillInPrompt::Prepended(_));
                add_skill(&mut request.messages, skill, is_first);
            }
            SkillInPrompt::Replacing { held, skill } => {
                if !replace_skill(&mut request.messages, held, skill) {
                    self.reach.n_without_skill = self.reach.n_without_skill.saturating_add(1);
                }
            }
            SkillInPrompt::Expected(_) if is_sought => {
                let prompt = prompt_of(request);
                self.reach.is_twice |= self.lines.is_twice_in(&prompt);
                if !self.lines.is_in(&prompt) {
                    self.reach.n_without_skill = self.reach.n_without_skill.saturating_add(1);
                }
            }
            SkillInPrompt::Expected(_) => {}
        }
    }

    /// Takes what came of a call.
    fn land(&mut self, calls: &mut Vec<OpenCall>, number: u64, outcome: Result<ChatReply, LlmError>) {
        let Some(idx) = calls.iter().position(|call| call.number == number) else { return };
        let call = calls.swap_remove(idx);
        match outcome {
            Ok(reply) => {
                self.recorder.count(&reply);
                self.states.keep(&reply);
                self.deliver(call, reply);
            }
            Err(error) => {
                if let Some((kind, refused)) = refusal(&error) {
                    tracing::debug!(
                        class = refused.class.as_str(),
                        "the target does not answer an agent's call"
                    );
                    // What nobody heard makes no difference to what the agent did.
                    if call.waiting.send(Err(Problem::new(kind, refused.message.clone()))).is_ok() {
                        self.recorder.refuse(call.number, &call.request, refused);
                    }
                    return;
                }
                tracing::debug!(class = error.class().as_str(), "the target of an agent's call failed");
                drop(call.waiting.send(Err(target_problem(&error))));
                self.failure.get_or_insert(error);
                self.failed.cancel();
            }
        }
    }

    fn deliver(&mut self, call: OpenCall, reply: ChatReply) {
        // The agent reads the text itself, as that of a server which keeps thoughts apart; the record has all of it.
        match call.waiting.send(Ok(reply.without_thoughts(&call.request))) {
            Ok(()) => self.recorder.record(call.number, &call.request, &reply),
            Err(_) => self.unclaimed.push((call.request, reply)),
        }
    }
}

impl fmt::Debug for EndpointSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token is a key for as long as the session lives.
        f.debug_struct("EndpointSession").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What the agent hears of a request that the model does not answer whoever asks it, in words that agents know; `None`
/// for errors that are not the agent's affair.
fn refusal(error: &LlmError) -> Option<(ProblemKind, RefusedCall)> {
    let (kind, class, message) = match error {
        LlmError::GaveUp { last, .. } => return refusal(last),
        LlmError::ContextTooLong { message, .. } => {
            let message = format!("prompt is too long: {message}");
            (ProblemKind::ContextTooLong, ErrorClass::ContextTooLong, message)
        }
        LlmError::Refused { message, .. } => {
            let message = format!("the provider refuses this request: {message}");
            (ProblemKind::Refused, ErrorClass::Refused, message)
        }
        _ => return None,
    };
    Some((kind, RefusedCall { class, message }))
}

/// What the agent hears of an error; it names the provider's words, which hold no key.
fn target_problem(error: &LlmError) -> Problem {
    let message =
        format!("the rollout has failed, since its model could not be asked: {}", with_causes(error));
    Problem::new(ProblemKind::Target, message)
}

/// Puts the skill into the system prompt; an agent without one gets one.
fn add_skill(messages: &mut Vec<Message>, text: &str, is_first: bool) {
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    // Of several system messages at the start, the skill comes before the first or after the last.
    let n_system = messages.iter().take_while(|message| message.role == Role::System).count();
    let at = if is_first { 0 } else { n_system.saturating_sub(1) };
    match messages.get_mut(at).filter(|message| message.role == Role::System) {
        Some(message) => {
            let own = message.text();
            let both = if is_first { format!("{text}\n\n{own}") } else { format!("{own}\n\n{text}") };
            message.content = vec![ContentPart::Text(both.trim().into())];
        }
        None => messages.insert(0, Message::system(text)),
    }
}

/// Puts the skill in the place of a text of the first message that holds it; false if none does.
fn replace_skill(messages: &mut Vec<Message>, held: &str, skill: &str) -> bool {
    let asks = |message: &Message| matches!(message.role, Role::System | Role::User);
    let found = messages.iter().enumerate().filter(|(_, message)| asks(message));
    let found = found.filter_map(|(at, message)| Some((at, replaced(&message.text(), held, skill)?))).next();
    let Some((at, text)) = found else { return false };
    if text.trim().is_empty() {
        // A provider takes no empty message.
        messages.remove(at);
    } else if let Some(message) = messages.get_mut(at) {
        message.content.retain(|part| !matches!(part, ContentPart::Text(_)));
        message.content.insert(0, ContentPart::Text(text.into()));
    }
    true
}

/// What a request says to the model besides its conversation: where an agent puts a skill.
fn prompt_of(request: &ChatRequest) -> String {
    let messages = request.messages.iter();
    let n_first = messages.clone().take_while(|message| message.role != Role::Assistant).count();
    let mut prompt: Vec<String> = messages.take(n_first).map(Message::text).collect();
    for tool in &request.tools {
        prompt.extend([tool.description.clone(), tool.parameters.to_string()]);
    }
    prompt.join("\n")
}
