//! What was said in an episode, and what of it the next request holds.

use super::action::{ACTION_FIELD, ACTION_TOOL};
use serde_json::{Map, Value, json};
use skill_core::{Role, Turn, Usage};
use skill_llm::{ChatReply, Message, ToolCall, ToolSpec};

/// What stands in the prompt for turns that are left out.
pub(super) const OMITTED: &str = "(Turns in between are left out.)";
/// What stands in the prompt for a reply without text.
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
    reply: ReplyText,
    record: Map<String, Value>,
}

#[derive(Debug)]
struct ReplyText {
    text: String,
    tool_calls: Vec<ToolCall>,
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
    pub(super) usage: Usage,
}

/// The conversation of an episode.
#[derive(Debug)]
pub(super) struct Transcript {
    system: String,
    shown: Vec<Shown>,
    past: Vec<Past>,
    /// Every message of a request, once.
    messages: Vec<Value>,
    /// The request under way, as places in `messages`.
    request: Vec<usize>,
}

impl Transcript {
    pub(super) fn new(system: String) -> Self {
        Self { system, shown: Vec::new(), past: Vec::new(), messages: Vec::new(), request: Vec::new() }
    }

    /// Begins a turn.
    pub(super) fn show(&mut self, shown: Shown) {
        self.shown.push(shown);
    }

    /// The messages of the turn under way, with so many turns before it.
    pub(super) fn request(&mut self, history_turns: Option<usize>) -> Vec<Message> {
        let messages = self.messages_of(history_turns);
        self.request = messages.iter().map(|message| place_of(&mut self.messages, message)).collect();
        messages
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
            // The task stands in the first observation of many worlds, so that one stays.
            kept => format!("{}\n\n{OMITTED}\n\n{}", text(0), text(kept)),
        };
        let mut messages = vec![Message::system(self.system.as_str()), Message::user(opening)];
        for (turn, past) in self.past.iter().enumerate().skip(first_kept) {
            let ReplyText { text: said, tool_calls } = &past.reply;
            let said = if said.is_empty() && tool_calls.is_empty() { NO_TEXT } else { said };
            let mut reply = Message::assistant(said);
            if said.is_empty() {
                reply.content.clear();
            }
            reply.tool_calls.clone_from(tool_calls);
            messages.push(reply);
            let seen = text(turn + 1);
            match tool_calls.iter().position(|call| call.name == ACTION_TOOL) {
                Some(done) => messages.extend(tool_calls.iter().enumerate().map(|(number, call)| {
                    let answer = if number == done { seen.as_str() } else { NOT_DONE };
                    Message {
                        tool_call_id: Some(call.id.clone()),
                        ..Message::text_message(Role::Tool, answer)
                    }
                })),
                None => {
                    // Every call wants an answer, whatever was called.
                    messages.extend(tool_calls.iter().map(|call| Message {
                        tool_call_id: Some(call.id.clone()),
                        ..Message::text_message(Role::Tool, "There is no such tool.")
                    }));
                    messages.push(Message::user(seen));
                }
            }
        }
        messages
    }

    /// Ends the turn under way.
    pub(super) fn end_turn(&mut self, reply: ChatReply, outcome: &TurnOutcome<'_>) {
        let TurnOutcome { action, observation, reward, understood, usage } = outcome;
        let mut record = Map::new();
        record.insert("request".to_owned(), json!(self.request));
        record.insert("action".to_owned(), json!(action));
        record.insert("observation".to_owned(), json!(observation));
        record.insert("reward".to_owned(), json!(reward));
        record.insert("understood".to_owned(), json!(understood));
        record.insert("usage".to_owned(), json!(usage));
        let ChatReply { text, tool_calls, .. } = reply;
        self.past.push(Past { reply: ReplyText { text, tool_calls }, record });
    }

    /// The first messages, for records.
    pub(super) fn opening(&self) -> (&str, &str) {
        (&self.system, self.shown.first().map_or("", |shown| &shown.now))
    }

    /// The conversation as a person reads it: what the agent was shown, and what it said.
    pub(super) fn conversation(&self, last_observation: Option<&str>) -> Vec<Turn> {
        let mut turns = vec![Turn::new(Role::System, self.system.as_str())];
        for (turn, shown) in self.shown.iter().enumerate() {
            turns.push(Turn::new(Role::User, shown.later.as_str()));
            if let Some(Past { reply, .. }) = self.past.get(turn) {
                turns.push(Turn::new(Role::Assistant, said(reply)));
            }
        }
        // What was seen last has no turn of its own, since the episode ended with it.
        turns.extend(last_observation.map(|seen| Turn::new(Role::User, seen)));
        turns
    }

    /// Every message that was sent, once, and every turn with the places of its messages.
    pub(super) fn into_records(self) -> (Vec<Value>, Vec<Value>) {
        (self.messages, self.past.into_iter().map(|past| Value::Object(past.record)).collect())
    }
}

/// A reply as one text.
fn said(reply: &ReplyText) -> String {
    let calls = reply.tool_calls.iter().map(|call| format!("[{}] {}", call.name, call.arguments));
    let texts = Some(reply.text.trim().to_owned()).into_iter().filter(|text| !text.is_empty());
    texts.chain(calls).collect::<Vec<_>>().join("\n")
}

/// The place of a message among those that were sent before; a new one is added.
fn place_of(messages: &mut Vec<Value>, message: &Message) -> usize {
    let mut written = json!({"role": message.role.as_str(), "content": message.text()});
    if let Some(fields) = written.as_object_mut() {
        if !message.tool_calls.is_empty() {
            fields.insert("tool_calls".to_owned(), json!(message.tool_calls));
        }
        if let Some(id) = &message.tool_call_id {
            fields.insert("tool_call_id".to_owned(), json!(id));
        }
    }
    match messages.iter().rposition(|known| *known == written) {
        Some(place) => place,
        None => {
            messages.push(written);
            messages.len() - 1
        }
    }
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
