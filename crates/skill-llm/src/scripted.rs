//! A model whose replies are written down beforehand.
//!
//! For tests, for demonstrations, and for trying a set-up without paying: rules in a JSON file choose a reply by what
//! the request says, or a function answers. Tokens are estimated from the characters, so that they are the same on
//! every machine.

mod format;

use crate::call::CallCtx;
use crate::chat::{ChatModel, ChatReply, ChatRequest, FinishReason, ModelId};
use crate::error::{ErrorClass, LlmError};
use crate::text_file;
use async_trait::async_trait;
use serde::Deserialize;
use skill_core::{Role, Usage};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The provider in the identity of scripted models.
const SCRIPTED_PROVIDER: &str = "scripted";
/// The most bytes that a file of rules may have.
const MAX_SCRIPT_BYTES: u64 = 16 * 1024 * 1024;
/// How much of a message an error quotes.
const QUOTED_CHARS: usize = 80;
/// How many characters are taken for one token.
const CHARS_PER_TOKEN: u64 = 4;

/// Rules, and what answers when none fits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// The first rule that fits answers.
    pub rules: Vec<Rule>,
    /// The answer to everything else; `None` makes it an error.
    pub otherwise: Option<Answer>,
}

impl Script {
    /// Reads rules from JSON; `source` names the text in errors.
    ///
    /// ```json
    /// {
    ///   "version": 1,
    ///   "rules": [
    ///     {"when": {"user_contains": ["capital of France"]}, "reply": "Paris"},
    ///     {"when": {"system_contains": ["analyst"], "place_contains": "reflect"},
    ///      "replies": ["first", "second"], "after_last": "repeat"},
    ///     {"when": {"user_contains": ["long"]}, "reply": "cut he", "finish": "length"},
    ///     {"when": {"user_contains": ["busy"]}, "error": {"class": "rate_limited", "message": "slow down"}}
    ///   ],
    ///   "otherwise": {"reply": "I do not know."}
    /// }
    /// ```
    ///
    /// All conditions of `when` must hold; without any the rule always fits. An answer has one of `reply`,
    /// `replies` and `error`. `after_last` is `repeat` (the default) or `error`; `finish` is `stop` (the default),
    /// `length`, `tool_calls` or `content_filter`.
    ///
    /// # Errors
    ///
    /// [`LlmError::Configuration`] with `source` and the line or the number of the rule; unknown keys are errors.
    pub fn parse(source: &str, text: &str) -> Result<Self, LlmError> {
        format::parse(text).map_err(|message| configuration(format!("{source}: {message}")))
    }
}

/// A condition and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// When the rule fits.
    pub when: When,
    /// What it answers.
    pub answer: Answer,
}

/// What a request must say; all of it must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct When {
    /// Texts that are in the system messages.
    pub system_contains: Vec<String>,
    /// Texts that are in the user messages.
    pub user_contains: Vec<String>,
    /// A text that is in the place of the call.
    pub place_contains: Option<String>,
}

impl When {
    /// Whether the condition holds.
    pub fn fits(&self, request: &ChatRequest, call: &CallCtx) -> bool {
        let holds = |role, texts: &[String]| {
            let said = if texts.is_empty() { String::new() } else { request.text_of(role) };
            texts.iter().all(|text| said.contains(text))
        };
        self.place_contains.as_ref().is_none_or(|part| call.place.as_str().contains(part))
            && holds(Role::System, &self.system_contains)
            && holds(Role::User, &self.user_contains)
    }
}

/// What a rule answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Text.
    Replies {
        /// The replies, in the order of use. Calls that run at the same time take them in no certain order: give one
        /// reply, or tell the calls apart by their place, where that matters.
        texts: Vec<String>,
        /// What comes after the last one.
        after_last: AfterLast,
        /// Why each of them ends.
        finish: FinishReason,
    },
    /// A failure.
    Error {
        /// Its class.
        class: ErrorClass,
        /// The provider's words.
        message: String,
    },
}

impl Answer {
    /// One reply for every use.
    pub fn reply(text: impl Into<String>) -> Self {
        Self::Replies { texts: vec![text.into()], after_last: AfterLast::Repeat, finish: FinishReason::Stop }
    }
}

/// What comes after the last reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterLast {
    /// The last one again.
    #[default]
    Repeat,
    /// An error.
    Error,
}

type AnswerFn = dyn Fn(&ChatRequest, &CallCtx) -> Result<ChatReply, LlmError> + Send + Sync;

enum Source {
    Script { script: Script, rule_uses: Vec<AtomicUsize>, otherwise_uses: AtomicUsize },
    Function(Box<AnswerFn>),
}

/// A model whose replies are written down beforehand.
pub struct ScriptedModel {
    id: ModelId,
    source: Source,
}

impl ScriptedModel {
    /// A model of the rules in a file, see [`Script::parse`]; its name is the file's, with a hash of the content.
    ///
    /// # Errors
    ///
    /// [`LlmError::Configuration`] if the file cannot be read or is not a script.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, LlmError> {
        let path = path.as_ref();
        let shown = path.display();
        let text = text_file::read_up_to(path, MAX_SCRIPT_BYTES)
            .map_err(|error| configuration(format!("cannot read {shown}: {error}")))?;
        let script = Script::parse(&shown.to_string(), &text)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Self::from_rules(format!("{name}@{}", format::hash(&text)), script))
    }

    /// A model of these rules; `name` must differ from that of every model with other rules.
    pub fn from_rules(name: impl Into<String>, script: Script) -> Self {
        let rule_uses = script.rules.iter().map(|_| AtomicUsize::new(0)).collect();
        let source = Source::Script { script, rule_uses, otherwise_uses: AtomicUsize::new(0) };
        Self { id: ModelId::new(SCRIPTED_PROVIDER, name), source }
    }

    /// A model that answers by a function.
    pub fn from_fn(
        name: impl Into<String>,
        answer: impl Fn(&ChatRequest, &CallCtx) -> Result<ChatReply, LlmError> + Send + Sync + 'static,
    ) -> Self {
        Self { id: ModelId::new(SCRIPTED_PROVIDER, name), source: Source::Function(Box::new(answer)) }
    }

    /// A model that answers with whole replies by a function of the request.
    pub fn answering(
        name: impl Into<String>,
        answer: impl Fn(&ChatRequest) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::from_fn(name, move |request, _| {
            let text = answer(request);
            let usage = estimated_usage(request, &text);
            Ok(ChatReply::text(text, usage))
        })
    }

    fn unmatched(&self, request: &ChatRequest) -> LlmError {
        let user = request.text_of(Role::User);
        let start: String = user.chars().take(QUOTED_CHARS).collect();
        let dots = if start.len() < user.len() { ".." } else { "" };
        let name = &self.id.model;
        let message = format!(
            "no rule of the scripted model {name} fits the user message {start:?}{dots}, and it has no `otherwise`"
        );
        LlmError::NoRule { message }
    }

    fn answer(
        &self,
        answer: &Answer,
        uses: &AtomicUsize,
        asked: (&ChatRequest, &CallCtx),
    ) -> Result<ChatReply, LlmError> {
        let (request, call) = asked;
        match answer {
            Answer::Error { class, message } => Err(scripted_error(*class, message, call)),
            Answer::Replies { texts, after_last, finish } => {
                let use_idx = uses.fetch_add(1, Ordering::Relaxed);
                let text = match (texts.get(use_idx), after_last) {
                    (Some(text), _) => Some(text),
                    (None, AfterLast::Repeat) => texts.last(),
                    (None, AfterLast::Error) => None,
                };
                let text = text.ok_or_else(|| {
                    let (name, count) = (&self.id.model, texts.len());
                    let message = format!("a rule of the scripted model {name} has only {count} replies");
                    LlmError::NoRule { message }
                })?;
                let usage = estimated_usage(request, text);
                Ok(ChatReply { finish: finish.clone(), ..ChatReply::text(text.as_str(), usage) })
            }
        }
    }
}

#[async_trait]
impl ChatModel for ScriptedModel {
    fn id(&self) -> &ModelId {
        &self.id
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        if call.cancel.is_cancelled() {
            return Err(LlmError::Cancelled);
        }
        let (script, rule_uses, otherwise_uses) = match &self.source {
            Source::Function(answer) => return answer(request, call),
            Source::Script { script, rule_uses, otherwise_uses } => (script, rule_uses, otherwise_uses),
        };
        request.sampling.refuse_logprobs(&self.id)?;
        let mut rules = script.rules.iter().zip(rule_uses);
        let rule = rules.find(|(rule, _)| rule.when.fits(request, call));
        let found = rule.map(|(rule, uses)| (&rule.answer, uses));
        match found.or_else(|| script.otherwise.as_ref().map(|answer| (answer, otherwise_uses))) {
            Some((answer, uses)) => self.answer(answer, uses, (request, call)),
            None => Err(self.unmatched(request)),
        }
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Tokens from characters: one for every four, rounded up, for the prompt and for the reply.
pub fn estimated_usage(request: &ChatRequest, reply: &str) -> Usage {
    let chars = |text: &str| u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    let prompt = request.messages.iter().map(|message| chars(&message.text())).sum::<u64>();
    Usage {
        input: prompt.div_ceil(CHARS_PER_TOKEN),
        output: chars(reply).div_ceil(CHARS_PER_TOKEN),
        ..Usage::default()
    }
}

fn scripted_error(class: ErrorClass, message: &str, call: &CallCtx) -> LlmError {
    let (provider, message) = (SCRIPTED_PROVIDER.to_owned(), message.to_owned());
    match class {
        ErrorClass::RateLimited => {
            LlmError::RateLimited { provider, status: 429, message, retry_after: None }
        }
        ErrorClass::QuotaExhausted => LlmError::QuotaExhausted { provider, status: 429, message },
        ErrorClass::Authentication => LlmError::Authentication { provider, status: 401, message },
        ErrorClass::BadRequest => LlmError::BadRequest { provider, status: 400, message },
        ErrorClass::ContextTooLong => LlmError::ContextTooLong { provider, status: 400, message },
        ErrorClass::Refused => LlmError::Refused { provider, status: 400, message },
        ErrorClass::ServerError => {
            LlmError::ServerError { provider, status: 500, message, retry_after: None }
        }
        ErrorClass::Timeout => LlmError::Timeout { provider, after: call.timeout.unwrap_or(Duration::ZERO) },
        ErrorClass::Connection => LlmError::Connection { provider, message },
        ErrorClass::Truncated => LlmError::Truncated { provider, message },
        ErrorClass::InvalidReply => LlmError::InvalidReply { provider, message },
        ErrorClass::Budget => LlmError::BudgetExhausted {
            what: "calls",
            spent: message.into(),
            cap: "0".into(),
            next: None,
            failed: None,
        },
        ErrorClass::Journal => LlmError::Journal { message },
        ErrorClass::NotRecorded => LlmError::NotRecorded { place: call.place.to_string() },
        ErrorClass::Cancelled => LlmError::Cancelled,
        ErrorClass::Configuration => LlmError::Configuration { message },
    }
}

fn configuration(message: String) -> LlmError {
    LlmError::Configuration { message }
}

#[cfg(test)]
mod tests;
