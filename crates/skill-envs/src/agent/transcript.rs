//! What was said in an episode, and what of it the next request holds.

use super::action::{ACTION_FIELD, ACTION_TOOL};
use crate::record;
use serde_json::json;
use skill_core::tokens::estimate_tokens;
use skill_core::{Role, Trajectory, TrajectoryMessage};
use skill_llm::{ChatReply, Message, ToolSpec};

/// What is in the prompt for turns that are left out.
pub const OMITTED: &str = "(Turns in between are left out.)";
/// What is in the prompt for a reply without text.
const NO_TEXT: &str = "(no text)";
/// The answer to a tool call that was not carried out.
const NOT_DONE: &str = "Only the first action of a turn is carried out.";

/// What the agent is shown in one turn.
#[derive(Debug)]
pub(super) struct Shown {
    /// As the prompt of its own turn has it.
    pub(super) now: String,
    /// As the prompts of later turns have it: without the possible actions.
    pub(super) later: String,
}

/// A turn that is over.
#[derive(Debug)]
struct Past {
    reply: Message,
    /// The place of the reply in the trajectory.
    place: u32,
}

/// What a turn came to.
#[derive(Debug)]
pub(super) struct TurnOutcome<'a> {
    /// The action that was taken; `None` if there was none in the reply.
    pub(super) action: Option<&'a str>,
    /// What the world showed then.
    pub(super) observation: &'a str,
    pub(super) reward: f64,
    pub(super) understood: bool,
}

/// The conversation of an episode.
#[derive(Debug)]
pub(super) struct Transcript {
    system: String,
    shown: Vec<Shown>,
    past: Vec<Past>,
    trajectory: Trajectory,
    /// The request under way, as places in the trajectory.
    request: Vec<u32>,
}

impl Transcript {
    pub(super) fn new(system: String) -> Self {
        Self {
            system,
            shown: Vec::new(),
            past: Vec::new(),
            trajectory: Trajectory::default(),
            request: Vec::new(),
        }
    }

    /// Begins a turn.
    pub(super) fn show(&mut self, shown: Shown) {
        self.shown.push(shown);
    }

    /// The messages of the turn under way, with so many turns before it, and fewer where they have too many tokens.
    pub(super) fn request(&mut self, history_turns: Option<usize>, max_tokens: Option<u64>) -> Vec<Message> {
        let messages = self.messages_within(history_turns, max_tokens);
        self.request =
            messages.iter().map(|message| self.trajectory.intern(record::message(message))).collect();
        messages
    }

    /// The messages with as many turns as fit. Only turns are left out: without the skill they would be worth nothing.
    fn messages_within(&self, history_turns: Option<usize>, max_tokens: Option<u64>) -> Vec<Message> {
        let n_past = self.past.len();
        let most = history_turns.map_or(n_past, |turns| turns.min(n_past));
        let messages = self.messages_of(history_turns);
        let Some(max_tokens) = max_tokens.filter(|max_tokens| tokens_of(&messages) > *max_tokens) else {
            return messages;
        };
        let fitting = |turns: usize| {
            let messages = self.messages_of(Some(turns));
            (turns == 0 || tokens_of(&messages) <= max_tokens).then_some(messages)
        };
        (0..most).rev().find_map(fitting).unwrap_or(messages)
    }

    fn messages_of(&self, history_turns: Option<usize>) -> Vec<Message> {
        let last = self.past.len();
        let first_kept = history_turns.map_or(0, |turns| last.saturating_sub(turns));
        let text = |turn: usize| {
            let shown = self.shown.get(turn);
            shown
                .map(|shown| if turn == last { &shown.now } else { &shown.later })
                .cloned()
                .unwrap_or_default()
        };
        let opening = match first_kept {
            0 => text(0),
            // The task is in the first observation of many worlds, so that one stays.
            kept => format!("{}\n\n{OMITTED}\n\n{}", text(0), text(kept)),
        };
        let mut messages = vec![Message::system(self.system.as_str()), Message::user(opening)];
        for (turn, past) in self.past.iter().enumerate().skip(first_kept) {
            let tool_calls = &past.reply.tool_calls;
            messages.push(past.reply.clone());
            let seen = text(turn + 1);
            match tool_calls.iter().position(|call| call.name == ACTION_TOOL) {
                Some(done) => messages.extend(tool_calls.iter().enumerate().map(|(number, call)| {
                    let answer = if number == done { seen.as_str() } else { NOT_DONE };
                    Message::tool_result(call.id.as_str(), answer)
                })),
                None => {
                    // Every call wants an answer, whatever was called.
                    messages.extend(
                        tool_calls
                            .iter()
                            .map(|call| Message::tool_result(call.id.as_str(), "There is no such tool.")),
                    );
                    messages.push(Message::user(seen));
                }
            }
        }
        messages
    }

    /// Ends the turn under way.
    pub(super) fn end_turn(&mut self, reply: &ChatReply, outcome: &TurnOutcome<'_>) {
        let place = self.trajectory.intern(record::reply(reply));
        let mut turn = record::turn(std::mem::take(&mut self.request), place, reply);
        turn.action = outcome.action.map(str::to_owned);
        turn.observation = Some(outcome.observation.to_owned());
        turn.reward = Some(outcome.reward);
        turn.understood = Some(outcome.understood);
        self.trajectory.turns.push(turn);
        let mut message = Message::reply(reply);
        if reply.text.is_empty() && reply.tool_calls.is_empty() {
            message = Message::assistant(NO_TEXT);
        }
        self.past.push(Past { reply: message, place });
    }

    /// The first messages, for records.
    pub(super) fn opening(&self) -> (&str, &str) {
        (&self.system, self.shown.first().map_or("", |shown| &shown.now))
    }

    /// What was said and done, with the conversation as a person reads it: what the agent was shown, and what it said.
    pub(super) fn into_trajectory(self, last_observation: Option<&str>) -> Trajectory {
        let Self { system, shown, past, mut trajectory, .. } = self;
        let mut text = |role: Role, text: &str| trajectory.intern(TrajectoryMessage::new(role, text));
        let mut conversation = vec![text(Role::System, &system)];
        for (turn, shown) in shown.iter().enumerate() {
            conversation.push(text(Role::User, &shown.later));
            conversation.extend(past.get(turn).map(|past| past.place));
        }
        // What was seen last has no turn of its own, since the episode ended with it.
        conversation.extend(last_observation.map(|seen| text(Role::User, seen)));
        trajectory.set_conversation(conversation);
        trajectory
    }
}

/// The estimate of a prompt's tokens.
fn tokens_of(messages: &[Message]) -> u64 {
    let of_calls = |message: &Message| -> u64 {
        let calls = message.tool_calls.iter();
        calls.map(|call| estimate_tokens(&call.name) + estimate_tokens(&call.arguments)).sum()
    };
    messages.iter().map(|message| estimate_tokens(&message.text()) + of_calls(message)).sum()
}

/// The tool that an agent calls to act.
pub(super) fn tool() -> ToolSpec {
    ToolSpec {
        name: ACTION_TOOL.to_owned(),
        description: "Takes one action in the world.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {ACTION_FIELD: {"type": "string", "description": "the action, as the instructions say"}},
            "required": [ACTION_FIELD],
            "additionalProperties": false,
        }),
    }
}
