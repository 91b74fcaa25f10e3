//! What a request comes to, whichever dialect it was written in.

use super::fields::{Field, Object};
use super::problem::{Dialect, Problem};
use skill_core::Role;
use skill_llm::{ChatRequest, ContentPart, Message, ToolChoice, ToolSpec};

/// A request of the agent, understood.
#[derive(Debug, Clone)]
pub(super) struct AgentRequest {
    /// What the target is asked; the skill is not in it yet.
    pub(super) chat: ChatRequest,
    /// How the reply is to be written.
    pub(super) form: ReplyForm,
}

/// How a reply is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReplyForm {
    pub(super) dialect: Dialect,
    /// The model that the agent named; the target answers whatever it is.
    pub(super) model: String,
    /// As events instead of one object.
    pub(super) stream: bool,
    /// Whether the events of the OpenAI dialect tell the tokens.
    pub(super) include_usage: bool,
}

impl ReplyForm {
    /// Reads what all dialects write in the same way.
    pub(super) fn read(body: &Object<'_>, dialect: Dialect) -> Result<Self, Problem> {
        Ok(Self {
            dialect,
            model: body.need("model")?.text()?.to_owned(),
            stream: body.read("stream", Field::flag)?.unwrap_or(false),
            include_usage: true,
        })
    }
}

/// Texts that are several parts on the wire and one here, as [`Message::text`] joins them: small servers take no lists.
pub(super) fn joined(texts: &[&str]) -> Vec<ContentPart> {
    match texts {
        [] | [""] => Vec::new(),
        texts => vec![ContentPart::Text(texts.join("\n").into())],
    }
}

/// Checks what every provider checks of a conversation, so that the agent hears of it and the rollout goes on.
///
/// `path` is the name of the list in the request.
pub(super) fn check_conversation(messages: &[Message], path: &str) -> Result<(), Problem> {
    if messages.iter().all(|message| message.role == Role::System) {
        return Err(Problem::field(path, "holds no message of a user or an assistant"));
    }
    let mut unanswered: Vec<&str> = Vec::new();
    for message in messages {
        if let Some(id) = &message.tool_call_id {
            let call = unanswered.iter().position(|call| call == id);
            let call = call.ok_or_else(|| {
                Problem::field(path, format!("holds a result for {id:?}, which no tool call before it has"))
            })?;
            unanswered.remove(call);
            continue;
        }
        all_answered(&unanswered, path)?;
        unanswered = message.tool_calls.iter().map(|call| call.id.as_str()).collect();
    }
    all_answered(&unanswered, path)
}

fn all_answered(unanswered: &[&str], path: &str) -> Result<(), Problem> {
    match unanswered.first() {
        Some(id) => Err(Problem::field(path, format!("holds no result for the tool call {id:?}"))),
        None => Ok(()),
    }
}

/// Checks that tools have names that can be told apart.
pub(super) fn check_tools(tools: &[ToolSpec]) -> Result<(), Problem> {
    let mut names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    names.sort_unstable();
    if names.first().is_some_and(|name| name.is_empty()) {
        return Err(Problem::field("tools", "holds a tool without a name"));
    }
    match names.windows(2).find(|pair| pair.first() == pair.last()).and_then(<[&str]>::first) {
        Some(name) => Err(Problem::field("tools", format!("holds two tools of the name {name:?}"))),
        None => Ok(()),
    }
}

/// The tool of this name.
pub(super) fn chosen_tool(name: &Field<'_>, tools: &[ToolSpec]) -> Result<ToolChoice, Problem> {
    let text = name.text()?;
    if !tools.iter().any(|tool| tool.name == text) {
        return Err(name.problem(format!("is {text:?}, which is none of the tools")));
    }
    Ok(ToolChoice::Tool(text.to_owned()))
}
