//! The conversation about an item with files: calls of tools and what comes of them, until there is an answer.

use super::files::{FileAccess, FileTool, ToolFormat};
use super::rollout::{Attempt, Call};
use crate::error::EnvError;
use serde_json::{Map, Value};
use skill_core::canonical::canonical_json;
use skill_core::json::{extract_answer, read_object};
use skill_core::{Role, ToolUse};
use skill_llm::{
    CallCtx, ChatModel, ChatReply, ChatRequest, ContentPart, ErrorClass, Message, ToolCall, ToolChoice, Usage,
};
use std::sync::Arc;

/// The most calls of one reply that are carried out.
const MAX_CALLS: usize = 8;
/// The member that names the tool of a call in text.
const TOOL_MEMBER: &str = "tool";
/// What an agent is told that has used all its turns.
const LAST_TURN: &str = "You cannot use more tools. Give your answer now.";

/// What an agent asked for.
struct Asked {
    tool: String,
    /// The arguments, or what is wrong with them.
    arguments: Result<Map<String, Value>, String>,
}

/// A conversation that is over, or one that is played by hand.
pub(super) struct Talk<'a> {
    access: &'a FileAccess,
    files: Arc<[String]>,
    request: ChatRequest,
    n_opening: usize,
    usage: Usage,
    calls: Vec<Call>,
}

impl<'a> Talk<'a> {
    /// Begins with what any item is asked.
    pub(super) fn new(
        access: &'a FileAccess,
        files: Arc<[String]>,
        mut request: ChatRequest,
    ) -> Result<Self, EnvError> {
        let [system, user] = access.shown(&files)?;
        for (role, text) in [(Role::System, system), (Role::User, user)] {
            let found = request.messages.iter_mut().rfind(|message| message.role == role);
            if let Some(message) = found.filter(|_| !text.is_empty()) {
                // Images follow the text.
                let at = message.content.iter().rposition(|part| matches!(part, ContentPart::Text(_)));
                match at.and_then(|at| message.content.get_mut(at)) {
                    Some(ContentPart::Text(own)) => *own = format!("{own}\n\n{text}").trim().into(),
                    Some(_) | None => message.content.insert(0, ContentPart::Text(text.into())),
                }
            }
        }
        if access.format == ToolFormat::Calls {
            request.tools = access.tools.iter().map(|tool| tool.spec()).collect();
        }
        let n_opening = request.messages.len();
        Ok(Self { access, files, request, n_opening, usage: Usage::default(), calls: Vec::new() })
    }

    /// Lets the agent use tools until it answers or may no longer use them.
    ///
    /// A conversation that no longer fits the model, or that its policy refuses, after the agent has read files is the
    /// agent's own doing, and so a failed task.
    pub(super) async fn run(
        mut self,
        target: &dyn ChatModel,
        call: &CallCtx,
    ) -> Result<(Attempt, ChatReply), EnvError> {
        loop {
            let turn = self.calls.len() + 1;
            let may_use_tools = u32::try_from(turn).is_ok_and(|turn| turn <= self.access.max_turns);
            if !may_use_tools {
                self.request.messages.push(Message::user(LAST_TURN));
                // The tools stay named, since the conversation is about them.
                self.request.tool_choice = (!self.request.tools.is_empty()).then_some(ToolChoice::Never);
            }
            let n_sent = self.request.messages.len();
            let place = call.child(format!("turn {turn}"));
            let reply = match target.chat(&self.request, &place).await {
                Ok(reply) => reply,
                Err(error)
                    if turn > 1
                        && matches!(error.class(), ErrorClass::ContextTooLong | ErrorClass::Refused) =>
                {
                    let why = format!("the model does not take what the agent has read: {error}");
                    return Ok((self.attempt(turn, Some(why)), ChatReply::text("", Usage::default())));
                }
                Err(error) => return Err(error.into()),
            };
            self.usage += reply.usage;
            let asked = if may_use_tools { self.asked(&reply) } else { Vec::new() };
            let mut call = Call::new(n_sent, &reply);
            if asked.is_empty() {
                self.calls.push(call);
                return Ok((self.attempt(turn, None), reply));
            }
            let results = self.results(asked).await;
            let (tools, texts) = results.into_iter().unzip();
            call.turn.tools = tools;
            self.calls.push(call);
            self.reply_with(reply, texts);
        }
    }

    /// What is asked first.
    pub(super) fn into_request(self) -> ChatRequest {
        self.request
    }

    /// What a person's line comes to; `None` if it calls no tool, and so is the answer.
    pub(super) async fn line(
        access: &FileAccess,
        files: &Arc<[String]>,
        line: &str,
    ) -> Option<(String, bool)> {
        let asked = in_text(line)?;
        let is_good = asked.arguments.is_ok();
        Some((carry_out(access, files, asked).await, is_good))
    }

    fn asked(&self, reply: &ChatReply) -> Vec<Asked> {
        match self.access.format {
            ToolFormat::Calls => reply.tool_calls.iter().map(in_call).collect(),
            ToolFormat::Text => in_text(&reply.answer()).into_iter().collect(),
        }
    }

    /// What the calls come to, each with what is kept of it in the record.
    async fn results(&self, asked: Vec<Asked>) -> Vec<(ToolUse, String)> {
        let mut results = Vec::new();
        for (call_idx, asked) in asked.into_iter().enumerate() {
            let arguments =
                asked.arguments.as_ref().ok().map(|fields| canonical_json(&Value::Object(fields.clone())));
            let tool = asked.tool.clone();
            let result = if call_idx < MAX_CALLS {
                carry_out(self.access, &self.files, asked).await
            } else {
                format!("error: not done; at most {MAX_CALLS} calls of a reply are")
            };
            let failed = result.starts_with("error: ");
            results.push((ToolUse::new(tool, arguments, failed), result));
        }
        results
    }

    /// Adds a reply and what came of its calls.
    fn reply_with(&mut self, reply: ChatReply, results: Vec<String>) {
        match self.access.format {
            ToolFormat::Calls => {
                self.request.messages.push(Message::reply(&reply));
                let answers = reply.tool_calls.iter().zip(results);
                let answers = answers.map(|(call, result)| Message::tool_result(call.id.as_str(), result));
                self.request.messages.extend(answers);
            }
            ToolFormat::Text => {
                self.request.messages.push(Message::assistant(reply.text.as_str()));
                self.request.messages.push(Message::user(results.join("\n\n")));
            }
        }
    }

    fn attempt(self, n_turns: usize, gave_out: Option<String>) -> Attempt {
        let mut opening = self.request;
        let later = opening.messages.split_off(self.n_opening.min(opening.messages.len()));
        Attempt {
            opening,
            later,
            n_turns: u32::try_from(n_turns).unwrap_or(u32::MAX),
            usage: self.usage,
            calls: self.calls,
            gave_out,
        }
    }
}

/// A call by the model's interface.
fn in_call(call: &ToolCall) -> Asked {
    let text = call.arguments.trim();
    let arguments = match extract_answer(text, Value::is_object).map(|found| found.value) {
        Some(Value::Object(arguments)) => Ok(arguments),
        // A call without arguments.
        None if text.is_empty() => Ok(Map::new()),
        Some(_) | None => Err("the arguments are no JSON object".to_owned()),
    };
    Asked { tool: call.name.clone(), arguments }
}

/// A call in a text: a JSON object in the last tag, or the text as a whole.
fn in_text(text: &str) -> Option<Asked> {
    let tagged = text.rfind("<tool>").and_then(|at| text.get(at + "<tool>".len()..));
    let inner = match tagged {
        // A model that stops at its closing tag does not write it.
        Some(rest) => rest.split("</tool>").next().unwrap_or(rest),
        None if text.trim_start().starts_with('{') => text,
        None => return None,
    };
    let Some(found) = read_object(inner, TOOL_MEMBER) else {
        let fault = format!("the text in <tool> is not a JSON object with the key `{TOOL_MEMBER}`");
        return tagged.map(|_| Asked { tool: String::new(), arguments: Err(fault) });
    };
    let Value::Object(mut arguments) = found.value else { return None };
    match arguments.remove(TOOL_MEMBER) {
        Some(Value::String(tool)) => Some(Asked { tool, arguments: Ok(arguments) }),
        Some(_) | None => {
            let fault = format!("`{TOOL_MEMBER}` is no text; expected the name of a tool");
            Some(Asked { tool: String::new(), arguments: Err(fault) })
        }
    }
}

/// Carries out a call; files are read apart from what else goes on.
async fn carry_out(access: &FileAccess, files: &Arc<[String]>, asked: Asked) -> String {
    let arguments = match asked.arguments {
        Ok(arguments) => arguments,
        Err(fault) => return format!("error: {fault}"),
    };
    let Some(tool) = FileTool::parse(&asked.tool).ok().filter(|tool| access.tools.contains(tool)) else {
        let known: Vec<&str> = access.tools.iter().map(|tool| tool.as_str()).collect();
        return format!("error: there is no tool {:?}; there are {}", asked.tool, known.join(", "));
    };
    let (folder, files) = (Arc::clone(&access.folder), Arc::clone(files));
    let done = tokio::task::spawn_blocking(move || tool.run(&arguments, &folder, &files));
    done.await.unwrap_or_else(|error| format!("error: the tool broke: {error}"))
}
