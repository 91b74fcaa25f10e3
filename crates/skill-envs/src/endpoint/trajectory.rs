//! From the calls of an agent to what it did.
//!
//! An agent sends its whole history with every request, and may run several conversations at once (subagents, a
//! summary of its history). A request goes on with the conversation whose latest reply is its last assistant message:
//! so histories may grow, slide, or be rewritten before that point.

use crate::record;
use skill_core::{Role, TrajectoryMessage, Usage, thought};
use skill_llm::error::ErrorClass;
use skill_llm::{ChatReply, ChatRequest, ContentPart, FinishReason, ImageSource, Message, ToolCall};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

/// What an agent did in a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionRecord {
    /// Every message: one conversation after the other, in the order in which they began. What the agent resends is here
    /// once.
    pub conversation: Vec<TrajectoryMessage>,
    /// Where in `conversation` each conversation begins.
    pub conversation_starts: Vec<usize>,
    /// How many calls the target has answered, those included whose reply was no longer awaited.
    pub n_calls: u32,
    /// Tokens of all these calls.
    pub usage: Usage,
    /// Each call whose reply the agent got, in the order in which they were made.
    pub requests: Vec<AgentCall>,
    /// Whether the agent asked more often than it may; the requests above the limit were answered by an error.
    pub limit_reached: bool,
    /// The requests that the model would not answer, in the order in which the agent heard of it; in `conversation`
    /// each is followed by what it heard.
    pub refused: Vec<RefusedCall>,
    /// Whether the last that the agent heard of its model was such a refusal.
    pub ends_refused: bool,
    /// Whether what the agent asked had the skill in it.
    pub reach: Reach,
}

/// Whether what an agent asks has the skill in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reach {
    /// How many requests came for the model, those included that could not be honoured.
    pub n_requests: u32,
    /// How many of them had no skill where one was to be.
    pub n_without_skill: u32,
    /// Whether a request had it twice: the agent's own prompt holds it, too.
    pub is_twice: bool,
}

/// A request that the model would not answer, regardless of who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedCall {
    /// [`ErrorClass::ContextTooLong`] or [`ErrorClass::Refused`].
    pub class: ErrorClass,
    /// What the agent was told.
    pub message: String,
}

impl SessionRecord {
    /// The messages of each conversation.
    pub fn conversations(&self) -> impl Iterator<Item = &[TrajectoryMessage]> {
        let ends = self.conversation_starts.iter().skip(1).copied().chain([self.conversation.len()]);
        let bounds = self.conversation_starts.iter().copied().zip(ends);
        bounds.filter_map(|(start, end)| self.conversation.get(start..end))
    }

    /// The system prompt of the first call; empty if there is none.
    pub fn system_prompt(&self) -> String {
        self.first_text(Role::System)
    }

    /// The user messages of the first call; empty if there are none.
    pub fn user_prompt(&self) -> String {
        self.first_text(Role::User)
    }

    /// What an agent that gave up gave up at: the refusal that it heard last, or that it may not ask any more.
    ///
    /// An agent that ends by an error of its own after this has failed its task; without it, it broke.
    pub fn last_refusal(&self) -> Option<&str> {
        let refused =
            self.refused.last().filter(|_| self.ends_refused).map(|refused| refused.message.as_str());
        refused.or(self.limit_reached.then_some("the agent has asked its model as often as it may"))
    }

    /// Why the last reply ended.
    pub fn last_finish(&self) -> Option<&FinishReason> {
        self.requests.last().map(|call| &call.reply.finish)
    }

    /// What the agent did, as records keep it: its conversations, and each call with its exact request.
    pub fn trajectory(&self) -> skill_core::Trajectory {
        let mut recorded = skill_core::Trajectory::of_messages(self.conversation.iter().cloned());
        let place = |at: &usize| u32::try_from(*at).unwrap_or(u32::MAX);
        recorded.breaks = self.conversation_starts.iter().skip(1).map(place).collect();
        // A message that is resent is one message, wherever it is.
        let mut known: HashMap<*const Message, u32> = HashMap::new();
        for tool in self.requests.iter().flat_map(|call| &call.frame.tools) {
            recorded.offer(record::tool(tool));
        }
        for call in &self.requests {
            let sent = call.messages.iter().map(|message| {
                *known
                    .entry(Arc::as_ptr(message))
                    .or_insert_with(|| recorded.intern(record::message(message)))
            });
            let request: Vec<u32> = sent.collect();
            let reply = recorded.intern(record::reply(&call.reply));
            recorded.turns.push(record::turn(request, reply, &call.reply));
        }
        recorded
    }

    fn first_text(&self, role: Role) -> String {
        self.requests.first().map_or_else(String::new, |call| {
            let messages = call.messages.iter().filter(|message| message.role == role);
            messages.map(|message| message.text()).collect::<Vec<_>>().join("\n\n")
        })
    }
}

/// A call of the agent that was answered.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentCall {
    /// Which conversation it belongs to, from 0.
    pub conversation: usize,
    /// The messages as the target got them, with the skill; equal ones are shared between calls.
    pub messages: Vec<Arc<Message>>,
    /// The rest of the request; it has no messages.
    pub frame: Arc<ChatRequest>,
    /// What the target said.
    pub reply: ChatReply,
}

impl AgentCall {
    /// The exact request.
    pub fn request(&self) -> ChatRequest {
        let messages = self.messages.iter().map(|message| message.as_ref().clone()).collect();
        ChatRequest { messages, ..self.frame.as_ref().clone() }
    }
}

/// Folds calls into conversations as they are answered.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    threads: Vec<Thread>,
    calls: Vec<(u64, AgentCall)>,
    pool: HashMap<u64, Vec<Arc<Message>>>,
    n_calls: u32,
    usage: Usage,
    refused: Vec<RefusedCall>,
    ends_refused: bool,
}

/// A conversation.
#[derive(Debug)]
struct Thread {
    /// The number of its first request.
    began: u64,
    /// The messages of its latest request.
    sent: Vec<Arc<Message>>,
    /// Its latest reply; there is none where every request was refused.
    reply: Option<Said>,
    /// What is in `turns` of requests that were refused since then.
    unanswered: Vec<Arc<Message>>,
    turns: Vec<TrajectoryMessage>,
}

/// A reply, for finding it again in what the agent sends.
#[derive(Debug)]
pub(super) struct Said {
    text: String,
    tool_calls: Vec<ToolCall>,
}

impl Recorder {
    /// Counts a reply, whether the agent gets it or not.
    pub(super) fn count(&mut self, reply: &ChatReply) {
        self.n_calls = self.n_calls.saturating_add(1);
        self.usage += reply.usage;
    }

    /// Takes a reply that the agent gets; `number` is that of the request, by arrival.
    pub(super) fn record(&mut self, number: u64, request: &ChatRequest, reply: &ChatReply) {
        let messages: Vec<_> = request.messages.iter().map(|message| self.shared(message)).collect();
        let thread_idx = self.place(number, &messages);
        if let Some(thread) = self.threads.get_mut(thread_idx) {
            thread.turns.push(record::reply(reply));
            thread.reply = Some(Said::of(reply));
            thread.unanswered.clear();
        }
        self.ends_refused = false;
        let frame = ChatRequest { messages: Vec::new(), ..request.clone() };
        let last = self.calls.last().map(|(_, call)| &call.frame).filter(|last| ***last == frame);
        let frame = last.map_or_else(|| Arc::new(frame), Arc::clone);
        let mut reply = reply.clone();
        // Whether it came from a journal must not change the trajectory.
        reply.is_recorded = false;
        self.calls.push((number, AgentCall { conversation: thread_idx, messages, frame, reply }));
    }

    /// Takes a request that the agent hears was refused.
    pub(super) fn refuse(&mut self, number: u64, request: &ChatRequest, refused: RefusedCall) {
        let messages: Vec<_> = request.messages.iter().map(|message| self.shared(message)).collect();
        let thread_idx = self.place(number, &messages);
        if let Some(thread) = self.threads.get_mut(thread_idx) {
            let heard = format!("[no reply of the model] {}", refused.message);
            thread.turns.push(TrajectoryMessage::new(Role::User, heard));
        }
        self.refused.push(refused);
        self.ends_refused = true;
    }

    /// The conversation of a request, begun if there is none, with what is new of its messages as turns.
    fn place(&mut self, number: u64, messages: &[Arc<Message>]) -> usize {
        let (thread_idx, n_known) = self.continued(messages).unwrap_or((self.threads.len(), 0));
        if thread_idx == self.threads.len() {
            let (sent, unanswered, turns) = Default::default();
            self.threads.push(Thread { began: number, sent, reply: None, unanswered, turns });
        }
        if let Some(thread) = self.threads.get_mut(thread_idx) {
            let new = messages.get(n_known..).unwrap_or_default();
            // An agent that was refused sends what it had sent, or a part of it.
            let n_shown = n_common(&thread.unanswered, new);
            thread.turns.extend(new.iter().skip(n_shown).map(|message| record::message(message)));
            thread.unanswered = new.to_vec();
            thread.sent = messages.to_vec();
        }
        thread_idx
    }

    /// What the agent did.
    pub(super) fn finish(mut self, limit_reached: bool) -> SessionRecord {
        // Replies may have come in another order than the requests.
        let mut order: Vec<usize> = (0..self.threads.len()).collect();
        order.sort_by_key(|&idx| self.threads.get(idx).map(|thread| thread.began));
        let mut places = vec![0; order.len()];
        for (place, &idx) in order.iter().enumerate() {
            if let Some(slot) = places.get_mut(idx) {
                *slot = place;
            }
        }
        self.threads.sort_by_key(|thread| thread.began);
        self.calls.sort_by_key(|(number, _)| *number);
        let mut trajectory = SessionRecord {
            n_calls: self.n_calls,
            usage: self.usage,
            limit_reached,
            ..SessionRecord::default()
        };
        (trajectory.refused, trajectory.ends_refused) = (self.refused, self.ends_refused);
        for thread in self.threads {
            trajectory.conversation_starts.push(trajectory.conversation.len());
            trajectory.conversation.extend(thread.turns);
        }
        let placed = |(_, call): (u64, AgentCall)| {
            let conversation = places.get(call.conversation).copied().unwrap_or(call.conversation);
            AgentCall { conversation, ..call }
        };
        trajectory.requests = self.calls.into_iter().map(placed).collect();
        trajectory
    }

    /// The conversation that a request goes on with, and how many of its messages are known there.
    fn continued(&self, messages: &[Arc<Message>]) -> Option<(usize, usize)> {
        let threads = || self.threads.iter().enumerate();
        if let Some(last) = messages.iter().rposition(|message| message.role == Role::Assistant)
            && let Some(message) = messages.get(last)
        {
            let is_reply = |thread: &Thread| thread.reply.as_ref().is_some_and(|reply| reply.is(message));
            let same = threads().filter(|(_, thread)| is_reply(thread));
            // Two conversations may have come to the same words; the one that begins alike is meant.
            let nearest = same.max_by_key(|(idx, thread)| (n_common(&thread.sent, messages), *idx));
            if let Some((idx, _)) = nearest {
                return Some((idx, last + 1));
            }
        }
        // An agent that rewrites what the model said, or leaves it out, still resends what it said itself.
        let resent = threads().filter(|(_, thread)| {
            // Where nothing was answered there is nothing to go on from but the same messages.
            let is_longer = thread.sent.len() < messages.len() || thread.reply.is_none();
            is_longer && n_common(&thread.sent, messages) == thread.sent.len()
        });
        let (idx, thread) = resent.max_by_key(|(idx, thread)| (thread.sent.len(), *idx))?;
        let n_sent = thread.sent.len();
        let rewritten = messages.get(n_sent).is_some_and(|message| message.role == Role::Assistant);
        Some((idx, n_sent + usize::from(rewritten)))
    }

    /// The one copy of a message, however often it is sent.
    fn shared(&mut self, message: &Message) -> Arc<Message> {
        let same = self.pool.entry(hash(message)).or_default();
        if let Some(known) = same.iter().find(|known| known.as_ref() == message) {
            return Arc::clone(known);
        }
        let shared = Arc::new(message.clone());
        same.push(Arc::clone(&shared));
        shared
    }
}

impl Said {
    pub(super) fn of(reply: &ChatReply) -> Self {
        Self { text: reply.text.clone(), tool_calls: reply.tool_calls.clone() }
    }

    /// Whether a message is this reply, as agents resend it: identifiers of tool calls say enough, texts may have lost
    /// the space around them, and arguments may be rewritten.
    pub(super) fn is(&self, message: &Message) -> bool {
        if self.tool_calls.len() != message.tool_calls.len() {
            return false;
        }
        let mut calls = self.tool_calls.iter().zip(&message.tool_calls);
        if self.tool_calls.is_empty() {
            let sent = message.text();
            return self.text.trim() == sent.trim() || thought::answer(&self.text).trim() == sent.trim();
        }
        let same_arguments = |left: &str, right: &str| {
            let read = |text| serde_json::from_str::<serde_json::Value>(text).ok();
            left == right || read(left).is_some_and(|value| Some(value) == read(right))
        };
        calls.all(|(said, sent)| {
            said.id == sent.id && said.name == sent.name && same_arguments(&said.arguments, &sent.arguments)
        })
    }
}

/// How many messages two lists have in common at their start; equal messages are one copy.
fn n_common(left: &[Arc<Message>], right: &[Arc<Message>]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| Arc::ptr_eq(left, right)).count()
}

fn hash(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.role.hash(&mut hasher);
    message.tool_call_id.hash(&mut hasher);
    for part in &message.content {
        match part {
            ContentPart::Text(text) => text.hash(&mut hasher),
            ContentPart::Image(ImageSource::Url(url)) => url.hash(&mut hasher),
            ContentPart::Image(ImageSource::Base64 { data, .. }) => data.hash(&mut hasher),
        }
    }
    for call in &message.tool_calls {
        (&call.id, &call.name, &call.arguments).hash(&mut hasher);
    }
    hasher.finish()
}
