//! Reasons that a teacher writes for the actions of a demonstration.
//!
//! The teacher is shown what the agent had seen before an action, and the action; never what came after it. A reason is
//! refused if it knows more than that: a name that nobody had seen yet, or words of what came later. The action stays
//! that of the demonstration, whatever the teacher replies.

use serde::Serialize;
use skill_core::canonical::hex_sha256;
use skill_core::json::read_object;
use skill_core::{Trajectory, TrajectoryMessage};
use skill_llm::{
    CallCtx, ChatModel, ChatRequest, LlmError, Message, PromptError, PromptTemplate, ResponseSchema, Sampling,
};
use skill_pipeline::prompts::{REASON_PROMPT, REASON_PROMPT_NAME};
use skill_pipeline::text::escape_closing;
use std::sync::Arc;

/// The most characters of a reason.
pub const MAX_REASON_CHARS: usize = 400;
/// The most tokens of a reply.
const MAX_REPLY_TOKENS: u32 = 600;
/// Characters of a conversation in a prompt: those of its beginning, with the task, and those before the action.
const BEGINNING_CHARS: usize = 8_000;
const RECENT_CHARS: usize = 16_000;
/// So many words in a row of what came later are no coincidence.
const LATER_WORDS: usize = 4;

/// A teacher that writes reasons.
#[derive(Clone)]
pub struct Reasoner {
    model: Arc<dyn ChatModel>,
    prompt: PromptTemplate,
    workers: usize,
}

#[derive(Serialize)]
struct ReasonContext<'a> {
    conversation: String,
    action: &'a str,
    max_chars: usize,
}

/// Why a reason is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The reply has no reason, or an empty one.
    Unreadable,
    /// It names another action.
    OtherAction,
    /// It is too long.
    TooLong,
    /// It holds tags, which would be read as a part of the reply's form.
    Tags,
    /// It knows what the agent could not know yet.
    Future,
}

impl Reasoner {
    /// Has this model write reasons, with so many calls at once; at least one is made.
    ///
    /// # Errors
    ///
    /// None in a released version: a test renders the prompt.
    pub fn new(model: Arc<dyn ChatModel>, workers: usize) -> Result<Self, PromptError> {
        let prompt = PromptTemplate::parse(REASON_PROMPT_NAME, REASON_PROMPT)?;
        Ok(Self { model, prompt, workers: workers.max(1) })
    }

    /// The same with another prompt.
    ///
    /// # Errors
    ///
    /// A text that is not a template, or that cannot be rendered.
    pub fn with_prompt(self, source: &str) -> Result<Self, PromptError> {
        let prompt = PromptTemplate::parse(REASON_PROMPT_NAME, source)?;
        let sample = ReasonContext { conversation: "user: look".to_owned(), action: "look", max_chars: 1 };
        prompt.render(sample)?;
        Ok(Self { prompt, ..self })
    }

    /// What decides the reasons: the teacher and its prompt, as a text for the identity of a run.
    pub fn identity(&self) -> String {
        format!("{} with prompt {}", self.model.id(), hex_sha256(self.prompt.source().as_bytes()))
    }

    pub(super) fn workers(&self) -> usize {
        self.workers
    }

    /// The messages that ask for the reason of the action of a turn.
    ///
    /// # Errors
    ///
    /// A prompt that cannot be rendered.
    pub fn messages(&self, seen: &[&TrajectoryMessage], action: &str) -> Result<Vec<Message>, PromptError> {
        let conversation = shortened(&conversation(seen));
        self.prompt.render(ReasonContext { conversation, action, max_chars: MAX_REASON_CHARS })
    }

    /// The reason of the action of this turn; an inner error where it is refused.
    ///
    /// # Errors
    ///
    /// A teacher that fails.
    pub(super) async fn reason(
        &self,
        trajectory: &Trajectory,
        turn: usize,
        call: &CallCtx,
    ) -> Result<Result<String, Refusal>, LlmError> {
        let Some(of_turn) = trajectory.turns.get(turn) else { return Ok(Err(Refusal::Unreadable)) };
        let action = of_turn.action.as_deref().unwrap_or_default();
        let seen: Vec<&TrajectoryMessage> = trajectory.request(of_turn).collect();
        let messages = self.messages(&seen, action).map_err(|error| LlmError::Configuration {
            message: format!("the prompt {REASON_PROMPT_NAME} cannot be rendered: {error}"),
        })?;
        let schema = serde_json::json!({
            "type": "object", "additionalProperties": false, "required": ["reason", "action"],
            "properties": {"reason": {"type": "string"}, "action": {"type": "string"}},
        });
        let request = ChatRequest {
            messages,
            sampling: Sampling { max_tokens: Some(MAX_REPLY_TOKENS), ..Sampling::default() },
            response_schema: Some(ResponseSchema { name: "reason".to_owned(), schema, strict: false }),
            ..ChatRequest::default()
        };
        let reply = self.model.chat(&request, call).await?;
        let past = seen.iter().map(|message| message.content.as_str()).chain([action]);
        let later = trajectory.turns.get(turn..).unwrap_or_default();
        let observed = later.iter().filter_map(|turn| turn.observation.as_deref());
        let done = later.iter().skip(1).filter_map(|turn| turn.action.as_deref());
        Ok(checked(&reply.text, action, past, observed.chain(done)))
    }
}

/// The reason in a reply, if it can be used: `past` is what the agent had seen, `later` what came after.
fn checked<'a>(
    reply: &str,
    action: &str,
    past: impl Iterator<Item = &'a str>,
    later: impl Iterator<Item = &'a str>,
) -> Result<String, Refusal> {
    let read = read_object(reply, "reason").ok_or(Refusal::Unreadable)?;
    let text = |key: &str| read.value.get(key).and_then(|value| value.as_str()).map(str::trim);
    let reason = text("reason").filter(|reason| !reason.is_empty()).ok_or(Refusal::Unreadable)?;
    if text("action").is_some_and(|repeated| repeated != action.trim()) {
        return Err(Refusal::OtherAction);
    }
    if reason.chars().count() > MAX_REASON_CHARS {
        return Err(Refusal::TooLong);
    }
    if reason.contains(['<', '>']) {
        return Err(Refusal::Tags);
    }
    let past = padded(&past.flat_map(words).collect::<Vec<_>>());
    let said = words(reason);
    let is_unseen = |names: &[String]| !past.contains(&padded(names));
    if numbered(&said).any(is_unseen) {
        return Err(Refusal::Future);
    }
    let said = padded(&said);
    let is_told = |later: &str| {
        let later = words(later);
        let length = LATER_WORDS.min(later.len());
        // A single word is a word of the language.
        length > 1 && later.windows(length).any(|run| is_unseen(run) && said.contains(&padded(run)))
    };
    match later.into_iter().any(is_told) {
        true => Err(Refusal::Future),
        false => Ok(reason.split_whitespace().collect::<Vec<_>>().join(" ")),
    }
}

/// A word with the number behind it, and words that hold digits: names of single objects and products.
fn numbered(words: &[String]) -> impl Iterator<Item = &[String]> {
    let has_digit = |word: &String| word.chars().any(|sign| sign.is_ascii_digit());
    let is_number = |word: &String| word.chars().all(|sign| sign.is_ascii_digit());
    let pairs = words.windows(2).filter(move |pair| pair.last().is_some_and(is_number));
    let alone = words
        .chunks(1)
        .filter(move |word| word.first().is_some_and(|word| has_digit(word) && !is_number(word)));
    pairs.chain(alone)
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Words with a blank on each side, so that whole words are found.
fn padded(words: &[String]) -> String {
    format!(" {} ", words.join(" "))
}

fn conversation(seen: &[&TrajectoryMessage]) -> String {
    let texts: Vec<String> = seen
        .iter()
        .map(|message| {
            let text = escape_closing(message.content.trim(), "</message");
            format!("<message role=\"{}\">\n{text}\n</message>", message.role.as_str())
        })
        .collect();
    texts.join("\n")
}

/// The beginning and the end of a text that is too long.
fn shortened(text: &str) -> String {
    let n_chars = text.chars().count();
    if n_chars <= BEGINNING_CHARS + RECENT_CHARS {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(BEGINNING_CHARS).collect();
    let recent: String = text.chars().skip(n_chars - RECENT_CHARS).collect();
    format!("{beginning}\n[{} characters are left out]\n{recent}", n_chars - BEGINNING_CHARS - RECENT_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use skill_core::Role;
    use skill_llm::scripted::ScriptedModel;

    const PAST: [&str; 2] = ["Your task is to: put a mug in cabinet 2.", "You see a desk 1 and a drawer 3."];
    const LATER: [&str; 2] = ["You open the drawer 3. In it, you see a mug 4.", "go to shelf 7"];

    #[track_caller]
    fn check(reason: &str, action: &str, expected: Result<(), Refusal>) {
        let reply = serde_json::json!({"reason": reason, "action": action}).to_string();
        let found = checked(&reply, "open drawer 3", PAST.into_iter(), LATER.into_iter());
        assert_eq!(found.map(|_| ()), expected, "{reason}");
    }

    #[test]
    fn a_reason_knows_what_the_agent_had_seen_and_no_more() {
        let action = "open drawer 3";
        check("I need a mug, and drawer 3 may hold one.", action, Ok(()));
        check("The task is to put a mug in cabinet 2, so I look in closed places first.", action, Ok(()));
        check("In drawer 3 there is mug 4.", action, Err(Refusal::Future));
        check("Shelf 7 comes later.", action, Err(Refusal::Future));
        check("In it you see a mug.", action, Err(Refusal::Future));
        check("Product b07xyz is what I want.", action, Err(Refusal::Future));
        check("I need a mug.", "open drawer 2", Err(Refusal::OtherAction));
        check("", action, Err(Refusal::Unreadable));
        check("I think.</think><action>look</action>", action, Err(Refusal::Tags));
        check(&"long ".repeat(100), action, Err(Refusal::TooLong));
        assert_eq!(checked("no JSON", action, PAST.into_iter(), LATER.into_iter()), Err(Refusal::Unreadable));
    }

    #[test]
    fn the_prompt_of_a_reason() {
        let teacher = Arc::new(ScriptedModel::answering("teacher", |_| String::new()));
        let reasoner = Reasoner::new(teacher, 1).unwrap();
        let seen = [
            TrajectoryMessage::new(Role::System, "You are an agent. Skill: look in closed places."),
            TrajectoryMessage::new(Role::User, "Your task is to: find a mug.</message>\nYou see a drawer 3."),
        ];
        let messages = reasoner.messages(&seen.iter().collect::<Vec<_>>(), "open drawer 3").unwrap();
        let text = messages.iter().map(|message| format!("## {}\n{}", message.role.as_str(), message.text()));
        insta::assert_snapshot!(text.collect::<Vec<_>>().join("\n\n"));
        assert!(shortened(&"x".repeat(30_000)).contains("6000 characters"));
    }
}
