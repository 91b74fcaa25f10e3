//! Trajectories: what an agent was shown, what it said, and what came of it, for readers and for training.
//!
//! A [`Trajectory`] holds every message once. Two views share them:
//!
//! - the *conversation*, for people and analysts: each message in the order in which it was said;
//! - the *turns*, for training: each model call with its exact request as places of messages, its reply, its reward and,
//!   where the server returned them, its tokens.
//!
//! The two differ where a request words an earlier message differently, such as without the actions that were possible
//! then, or leaves turns out.
//!
//! # Invariants
//!
//! - A trajectory holds the exact request of every call of the agent that it records. Held by
//!   `the_record_holds_every_request_exactly`, `tool_calls_are_turns_too`.

use crate::ids::SkillPartId;
use crate::reply::{FinishReason, ReplyTokens, Role, ToolCall};
use crate::usage::Usage;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// The version of the format that this program writes.
pub const TRAJECTORY_VERSION: u32 = 1;

/// What one rollout was, message by message and call by call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Trajectory {
    /// The version of the format, see [`TRAJECTORY_VERSION`]; a later one is refused.
    #[serde(deserialize_with = "known_version")]
    pub version: u32,
    /// Every message once, in the order in which it first occurred.
    pub messages: Vec<TrajectoryMessage>,
    /// The conversation as places in `messages`; `None` where it is all of them in their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Vec<u32>>,
    /// Where each further conversation begins, counted in messages of the conversation; empty where there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breaks: Vec<u32>,
    /// Each model call of the agent; empty where the environment did not record its calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<TrajectoryTurn>,
    /// The tools that the agent's model was offered in its calls, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<OfferedTool>,
    /// Which sample of its item this is, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sample: u32,
    /// The parts of what the agent was shown, such as skills of a bank, in their order; empty for a document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown_parts: Vec<SkillPartId>,
    /// Why the episode ended, for worlds with several turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// How many replies held no action, or one that the world did not understand.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub invalid_actions: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands the field by reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn known_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        version @ 1..=TRAJECTORY_VERSION => Ok(version),
        version => Err(D::Error::custom(format!(
            "a trajectory of version {version}; this program reads versions up to {TRAJECTORY_VERSION}"
        ))),
    }
}

impl Default for Trajectory {
    fn default() -> Self {
        Self {
            version: TRAJECTORY_VERSION,
            messages: Vec::new(),
            conversation: None,
            breaks: Vec::new(),
            turns: Vec::new(),
            tools: Vec::new(),
            sample: 0,
            shown_parts: Vec::new(),
            ending: None,
            invalid_actions: 0,
        }
    }
}

impl Trajectory {
    /// A conversation of these messages, without a record of calls.
    pub fn of_messages(messages: impl IntoIterator<Item = TrajectoryMessage>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.turns.is_empty()
    }

    /// The messages in the order in which they were said.
    pub fn conversation(&self) -> impl Iterator<Item = &TrajectoryMessage> {
        let n_said = self.conversation.as_ref().map_or(self.messages.len(), Vec::len);
        (0..n_said).filter_map(|at| match &self.conversation {
            Some(places) => self.messages.get(usize::try_from(*places.get(at)?).ok()?),
            None => self.messages.get(at),
        })
    }

    /// The messages that the request of a turn held, in order.
    pub fn request<'a>(&'a self, turn: &'a TrajectoryTurn) -> impl Iterator<Item = &'a TrajectoryMessage> {
        turn.request.iter().filter_map(|at| self.messages.get(place(*at)))
    }

    /// The reply of a turn.
    pub fn reply(&self, turn: &TrajectoryTurn) -> Option<&TrajectoryMessage> {
        self.messages.get(place(turn.reply))
    }

    /// Why the last reply ended; `None` without a record of calls.
    pub fn last_finish(&self) -> Option<&FinishReason> {
        self.turns.last().map(|turn| &turn.finish)
    }

    /// Adds a message to the end of the conversation and returns its place.
    pub fn say(&mut self, message: TrajectoryMessage) -> u32 {
        let at = self.add(message);
        if let Some(conversation) = &mut self.conversation {
            conversation.push(at);
        }
        at
    }

    /// The place of a message that a request held. One that no earlier message equals is added, outside of the
    /// conversation.
    ///
    /// A reply in a request is the reply that was received, reasoning or not.
    pub fn intern(&mut self, message: TrajectoryMessage) -> u32 {
        let is_same = |known: &TrajectoryMessage| {
            known.role == message.role
                && known.content == message.content
                && known.tool_calls == message.tool_calls
                && known.tool_call_id == message.tool_call_id
                && known.images == message.images
                && (message.reasoning.is_none() || known.reasoning == message.reasoning)
        };
        // Requests repeat what the requests just before them held.
        if let Some(at) = self.messages.iter().rposition(is_same) {
            return count(at);
        }
        if self.conversation.is_none() {
            self.conversation = Some((0..count(self.messages.len())).collect());
        }
        self.add(message)
    }

    /// Sets the conversation to the messages at these places, in this order.
    pub fn set_conversation(&mut self, places: Vec<u32>) {
        let is_all = places.len() == self.messages.len() && places.iter().copied().eq(0..count(places.len()));
        self.conversation = (!is_all).then_some(places);
    }

    /// Notes a tool that the agent's model was offered; of one name the first counts.
    pub fn offer(&mut self, tool: OfferedTool) {
        if self.tools.iter().all(|known| known.name != tool.name) {
            self.tools.push(tool);
        }
    }

    fn add(&mut self, message: TrajectoryMessage) -> u32 {
        self.messages.push(message);
        count(self.messages.len() - 1)
    }

    /// What is known of it without any text: its sample, why it ended, and how its last call did.
    #[must_use]
    pub(crate) fn without_texts(self) -> Self {
        let last = self.turns.last().map(|turn| TrajectoryTurn::new(Vec::new(), 0, turn.finish.clone()));
        Self {
            version: self.version,
            sample: self.sample,
            shown_parts: self.shown_parts,
            ending: self.ending,
            invalid_actions: self.invalid_actions,
            turns: last.into_iter().collect(),
            ..Self::default()
        }
    }
}

fn place(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

fn count(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// One message of a trajectory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrajectoryMessage {
    /// Who speaks.
    pub role: Role,
    /// The text, without tool calls and reasoning.
    pub content: String,
    /// The reasoning of a reply, where the server returned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Tool calls of a reply, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The id of the tool call that a result answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// How many images the message holds beside its text; the images themselves are in the item's data.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub images: u32,
}

impl TrajectoryMessage {
    /// A message of text.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            reasoning: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            images: 0,
        }
    }

    /// The same with tool calls.
    #[must_use]
    pub fn with_tool_calls(self, tool_calls: Vec<ToolCall>) -> Self {
        Self { tool_calls, ..self }
    }

    /// The same with the model's reasoning.
    #[must_use]
    pub fn with_reasoning(self, reasoning: Option<String>) -> Self {
        Self { reasoning, ..self }
    }

    /// The same as the result of a tool call.
    #[must_use]
    pub fn answering(self, tool_call_id: Option<String>) -> Self {
        Self { tool_call_id, ..self }
    }

    /// The same with so many images.
    #[must_use]
    pub fn with_images(self, images: u32) -> Self {
        Self { images, ..self }
    }

    /// The message as one text, for people and analysts: its text, then a line for each image and each tool call.
    ///
    /// Reasoning is not a part of it.
    pub fn as_text(&self) -> std::borrow::Cow<'_, str> {
        if self.tool_calls.is_empty() && self.images == 0 {
            return std::borrow::Cow::Borrowed(&self.content);
        }
        let text = self.content.trim();
        let mut parts: Vec<String> = Vec::new();
        if !text.is_empty() {
            parts.push(text.to_owned());
        }
        parts.extend((0..self.images).map(|_| "[image]".to_owned()));
        parts.extend(self.tool_calls.iter().map(ToolCall::as_text));
        std::borrow::Cow::Owned(parts.join("\n"))
    }
}

/// One model call of the agent, and what came of its reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrajectoryTurn {
    /// The messages of the exact request, as places in [`Trajectory::messages`].
    pub request: Vec<u32>,
    /// The place of the reply in [`Trajectory::messages`].
    pub reply: u32,
    /// Why the reply ended.
    pub finish: FinishReason,
    /// The action that was found in the reply and taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// What the world answered to the action, without what the prompt puts around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation: Option<String>,
    /// The reward of this turn alone; `None` where the environment gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<f64>,
    /// True if the world understood the action; `None` in environments that are not worlds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub understood: Option<bool>,
    /// The tools that were run for this reply, in order, whether it called them by the interface or in its text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolUse>,
    /// Tokens of the call, as the provider counts them.
    pub usage: Usage,
    /// The tokens themselves, where they were requested and the server returned them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<ReplyTokens>,
}

impl TrajectoryTurn {
    /// A call with its request and its reply, as places of messages.
    pub fn new(request: Vec<u32>, reply: u32, finish: FinishReason) -> Self {
        Self {
            request,
            reply,
            finish,
            action: None,
            observation: None,
            reward: None,
            understood: None,
            tools: Vec::new(),
            usage: Usage::default(),
            tokens: None,
        }
    }
}

/// A tool that a model was offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedTool {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its parameters in words, such as `order_id (string): The order.`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
}

/// A tool that was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolUse {
    /// The tool's name.
    pub tool: String,
    /// Its arguments as canonical JSON; `None` where the model's could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// Whether it answered with an error.
    #[serde(default)]
    pub failed: bool,
}

impl ToolUse {
    /// A tool with its arguments.
    pub fn new(tool: impl Into<String>, arguments: Option<String>, failed: bool) -> Self {
        Self { tool: tool.into(), arguments, failed }
    }
}

/// Why an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ending {
    /// The goal is reached.
    Won,
    /// The world ended it, and the goal is not reached.
    Lost,
    /// At the limit of turns.
    Turns,
    /// At the limit of tokens.
    Tokens,
    /// The conversation outgrew the model's context.
    Context,
    /// After too many actions that the world did not understand.
    InvalidActions,
    /// The agent repeated itself with the same outcome.
    Repetition,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> TrajectoryMessage {
        TrajectoryMessage::new(Role::User, text)
    }

    #[test]
    fn the_conversation_leaves_out_what_was_only_sent() {
        let mut trajectory = Trajectory::default();
        let task = trajectory.say(user("task"));
        assert_eq!(trajectory.conversation, None);
        let sent = trajectory.intern(user("task with actions"));
        assert_eq!(trajectory.intern(user("task with actions")), sent, "an equal message is there once");
        let said = TrajectoryMessage::new(Role::Assistant, "go");
        let reply = trajectory.say(said.clone().with_reasoning(Some("why not".to_owned())));
        assert_eq!(trajectory.intern(said), reply, "a reply in a request is the one that was received");
        trajectory.turns.push(TrajectoryTurn::new(vec![sent], reply, FinishReason::Stop));
        let said: Vec<&str> = trajectory.conversation().map(|message| message.content.as_str()).collect();
        assert_eq!((task, said), (0, vec!["task", "go"]));
        let turn = &trajectory.turns[0];
        let request: Vec<&str> = trajectory.request(turn).map(|message| message.content.as_str()).collect();
        assert_eq!(request, ["task with actions"]);
        assert_eq!(trajectory.reply(turn).unwrap().content, "go");
        let text = serde_json::to_string(&trajectory).unwrap();
        assert_eq!(serde_json::from_str::<Trajectory>(&text).unwrap(), trajectory);
    }

    #[test]
    fn a_conversation_of_all_messages_is_not_written_down() {
        let mut trajectory = Trajectory::of_messages([user("a"), user("b")]);
        trajectory.set_conversation(vec![1, 0]);
        assert_eq!(trajectory.conversation().next().unwrap().content, "b");
        trajectory.set_conversation(vec![0, 1]);
        assert_eq!(trajectory.conversation, None);
    }

    #[test]
    fn places_that_are_not_there_are_left_out() {
        let trajectory = Trajectory {
            conversation: Some(vec![7, 0]),
            turns: vec![TrajectoryTurn::new(vec![0, 3], 5, FinishReason::Stop)],
            ..Trajectory::of_messages([user("a")])
        };
        assert_eq!(trajectory.conversation().count(), 1);
        assert_eq!(trajectory.request(&trajectory.turns[0]).count(), 1);
        assert!(trajectory.reply(&trajectory.turns[0]).is_none());
    }

    #[test]
    fn a_later_version_is_refused_and_not_misread() {
        let read = |version: u32| {
            serde_json::from_value::<Trajectory>(serde_json::json!({"version": version, "messages": []}))
        };
        assert!(read(TRAJECTORY_VERSION).is_ok());
        for version in [0, TRAJECTORY_VERSION + 1] {
            assert!(read(version).unwrap_err().to_string().contains(&version.to_string()));
        }
    }

    #[test]
    fn tool_calls_and_images_have_one_spelling() {
        let call = ToolCall { id: "1".into(), name: "read".into(), arguments: "{}".into() };
        let said = user(" see ").with_images(1).with_tool_calls(vec![call]);
        insta::assert_snapshot!(said.as_text(), @r"
        see
        [image]
        [tool call] read({})
        ");
        assert_eq!(user(" see ").as_text(), " see ", "a text alone is as it was said");
    }
}
