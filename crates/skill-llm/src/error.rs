//! Why there is no reply.

use serde::{Deserialize, Deserializer, Serialize};
use std::time::Duration;

skill_core::named_enum! {
    /// What kind of failure an [`LlmError`] is: retry policies and exit codes are decided by class, never by text.
    #[non_exhaustive]
    pub enum ErrorClass {
        /// Too many requests or tokens for now.
        RateLimited = "rate_limited",
        /// The account has no money or quota left: waiting does not help.
        QuotaExhausted = "quota_exhausted",
        /// The key is missing, wrong, or not allowed to use the model.
        Authentication = "authentication",
        /// The provider does not accept the request as it stands.
        BadRequest = "bad_request",
        /// The prompt does not fit the model's context.
        ContextTooLong = "context_too_long",
        /// The provider's policy refuses the request.
        Refused = "refused",
        /// The provider failed.
        ServerError = "server_error",
        /// No answer in time.
        Timeout = "timeout",
        /// No connection, or one that broke.
        Connection = "connection",
        /// An answer that ended before it was whole.
        Truncated = "truncated",
        /// An answer that is not what the protocol promises.
        InvalidReply = "invalid_reply",
        /// A cap of the run is reached: calls, tokens, money or time.
        Budget = "budget",
        /// The journal cannot be read or written.
        Journal = "journal",
        /// The journal has no reply to the call, and a replay sends nothing.
        NotRecorded = "not_recorded",
        /// The caller gave up.
        Cancelled = "cancelled",
        /// The model's configuration cannot work.
        Configuration = "configuration",
    }
}

/// A call that gave no reply.
///
/// Texts say what happened and where; they never hold a key, and bodies of servers are cut short. Serialized, it
/// keeps its class and whether it is retryable, so that a driver and a worker decide alike.
#[derive(Debug, Clone, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LlmError {
    /// HTTP 429, or the provider's equivalent.
    #[error("{provider} limits the rate of requests (HTTP {status}): {message}")]
    RateLimited {
        /// Who answered.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// The provider's words.
        message: String,
        /// How long the provider asks to wait.
        retry_after: Option<Duration>,
    },
    /// The account's quota is used up.
    #[error("the quota at {provider} is used up (HTTP {status}): {message}")]
    QuotaExhausted {
        /// Who answered.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// The provider's words.
        message: String,
    },
    /// HTTP 401 or 403.
    #[error("{provider} does not accept the key (HTTP {status}): {message}")]
    Authentication {
        /// Who answered.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// The provider's words.
        message: String,
    },
    /// HTTP 401 for a token that was held for a while; the next attempt gets a fresh one.
    #[error("{provider} no longer accepts the token (HTTP {status}): {message}")]
    StaleToken {
        /// Who answered.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// The provider's words.
        message: String,
    },
    /// The command that prints the key did not.
    #[error("no key for {provider}: {message}")]
    NoToken {
        /// Who needs the key.
        provider: String,
        /// The command, and what became of it.
        message: String,
    },
    /// A program that plays a model did not come to a reply.
    #[error("the program `{program}` {message}")]
    Program {
        /// The program.
        program: String,
        /// What kind of failure it is, as far as the program says.
        class: ErrorClass,
        /// What became of it, and what it said.
        message: String,
    },
    /// A client of the calling program, such as a function that it passed in, did not come to a reply.
    #[error("the client `{client}` {message}")]
    Client {
        /// The client's name.
        client: String,
        /// What became of the call, with everything that the client said.
        message: String,
    },
    /// Another 4xx status.
    #[error("{provider} does not accept the request{}: {message}", of_status(*status))]
    BadRequest {
        /// Who answered.
        provider: String,
        /// The HTTP status; 0 for a model of this process.
        status: u16,
        /// The provider's words.
        message: String,
    },
    /// The prompt is too long for the model.
    #[error("the prompt is too long for the model at {provider}{}: {message}", of_status(*status))]
    ContextTooLong {
        /// Who answered.
        provider: String,
        /// The HTTP status; 0 for a model of this process.
        status: u16,
        /// The provider's words.
        message: String,
    },
    /// The provider's policy refuses the request.
    #[error("{provider} refuses the request (HTTP {status}): {message}")]
    Refused {
        /// Who answered.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// The provider's words.
        message: String,
    },
    /// A 5xx status.
    #[error("{provider} failed (HTTP {status}): {message}")]
    ServerError {
        /// Who answered.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// The provider's words.
        message: String,
        /// How long the provider asks to wait.
        retry_after: Option<Duration>,
    },
    /// No reply in time.
    #[error("{provider} gave no reply within {} s", after.as_secs_f64())]
    Timeout {
        /// Who was asked.
        provider: String,
        /// The limit that was reached.
        after: Duration,
    },
    /// No connection could be made.
    #[error("cannot reach {provider}: {message}")]
    Unreachable {
        /// Who was asked.
        provider: String,
        /// What the network said, causes included.
        message: String,
    },
    /// A connection that broke before the answer began.
    #[error("cannot reach {provider}: {message}")]
    Connection {
        /// Who was asked.
        provider: String,
        /// What the network said, causes included.
        message: String,
    },
    /// A connection that broke in the middle of the answer.
    #[error("the answer of {provider} broke off: {message}")]
    Truncated {
        /// Who answered.
        provider: String,
        /// What the network said, causes included.
        message: String,
    },
    /// Every attempt failed, or no more may be made.
    #[error("gave up after {attempts} attempts in {} s ({why})", elapsed.as_secs())]
    GaveUp {
        /// How many requests were sent.
        attempts: u32,
        /// From the first attempt until now, waits included.
        elapsed: Duration,
        /// Which limit ended it.
        why: GiveUpReason,
        /// What the last attempt came to.
        #[source]
        last: Box<LlmError>,
    },
    /// A cap of the run is reached.
    #[error("the run's cap on {what} is reached: {spent} of {cap}{}{}", more(next.as_deref()), after_failure(failed.as_deref()))]
    BudgetExhausted {
        /// What is capped: `calls`, `tokens`, `money` or `time`.
        #[serde(deserialize_with = "capped")]
        what: Cap,
        /// What the run has used, over all its processes.
        spent: Box<str>,
        /// The cap.
        cap: Box<str>,
        /// What the next request may take and what is left, where that is more than a number of calls.
        next: Option<Box<Shortfall>>,
        /// What the call's attempt before came to, where that failed: failures may have used the cap up.
        #[serde(skip)]
        failed: Option<Box<LlmError>>,
    },
    /// The journal cannot be read or written.
    #[error("cannot keep the journal: {message}")]
    Journal {
        /// What happened, causes included.
        message: String,
    },
    /// Nothing may be sent, and the journal holds no reply.
    #[error("the journal holds no reply to the call at {place}")]
    NotRecorded {
        /// Where the call is.
        place: String,
    },
    /// A reply with a successful status and nothing in it: no content, no tool call and no refusal.
    #[error("{provider} replied with nothing: {message}")]
    NoContent {
        /// Who answered.
        provider: String,
        /// What is missing, and the finish reason.
        message: String,
    },
    /// A reply that does not follow the protocol.
    #[error("the reply of {provider} cannot be read: {message}")]
    InvalidReply {
        /// Who answered.
        provider: String,
        /// What is wrong with it.
        message: String,
    },
    /// A reply whose text holds half a character: its server cut it there, and the rest is missing.
    #[error("the reply of {provider} breaks off within a character: {text}")]
    HalfCharacter {
        /// Who answered.
        provider: String,
        /// The beginning of the text, without the half.
        text: String,
    },
    /// The caller gave up.
    #[error("the call was cancelled")]
    Cancelled,
    /// The environment variable with the key is not set.
    #[error("the environment variable {variable} with the key for {provider} is not set")]
    MissingKey {
        /// Who needs the key.
        provider: String,
        /// The variable that the configuration names.
        variable: String,
    },
    /// An embedding model gives vectors of another length than it has to: they cannot be compared with those that it
    /// gave before.
    #[error("the vectors of {model} at {provider} have {found} numbers where {expected_by} {expected}")]
    VectorLength {
        /// Who serves the model.
        provider: String,
        /// The model's name there.
        model: String,
        /// The length of the vectors that came.
        found: usize,
        /// The length that they have to have.
        expected: usize,
        /// Where that length comes from.
        expected_by: LengthSource,
    },
    /// A text to embed with nothing in it; nothing was sent.
    #[error("the text at index {index} of the embedding request is empty")]
    EmptyText {
        /// Its index, from 0.
        index: usize,
    },
    /// A scripted model has no reply to a request.
    #[error("{message}")]
    NoRule {
        /// Which model, and what it was asked.
        message: String,
    },
    /// The model's configuration cannot work.
    #[error("{message}")]
    Configuration {
        /// What is wrong and where.
        message: String,
    },
}

/// The caps that [`LlmError::BudgetExhausted`] names.
pub const CAPS: [&str; 4] = ["calls", "tokens", "money", "time"];

// A field of the type `&'static str` would make serde borrow it from the input; under another name it does not.
type Cap = &'static str;

/// The cap of this name; `calls` for a name that is none of [`CAPS`].
fn capped<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cap, D::Error> {
    let what = String::deserialize(deserializer)?;
    Ok(CAPS.into_iter().find(|cap| *cap == what).unwrap_or("calls"))
}

/// An error with everything that led to it, as one sentence.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The HTTP status as a part of a message; nothing for a model without HTTP.
fn of_status(status: u16) -> String {
    match status {
        0 => String::new(),
        status => format!(" (HTTP {status})"),
    }
}

/// What the request that a cap has no room for may take, and what is left, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall(pub String);

/// What to say of the request that a cap has no room for.
pub fn more(next: Option<&Shortfall>) -> String {
    next.map(|Shortfall(next)| format!("; {next}")).unwrap_or_default()
}

/// What to say of an attempt that failed before a cap was reached.
pub fn after_failure(failed: Option<&LlmError>) -> String {
    failed
        .map(|failed| format!("; the attempt before it failed: {}", with_causes(failed)))
        .unwrap_or_default()
}

/// Why no further attempt was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum GiveUpReason {
    /// The call has had all its attempts.
    Attempts,
    /// The call's deadline would pass before the next attempt.
    Deadline,
    /// The provider fails too often: no call may be repeated for now.
    RetryBudget,
    /// No connection could be made since the program was started.
    NeverReached,
    /// The provider asks for a longer wait than is allowed.
    ServerWait {
        /// What it asks for, in seconds.
        asked_s: u64,
        /// What is allowed, in seconds.
        allowed_s: u64,
    },
}

impl std::fmt::Display for GiveUpReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Attempts => f.write_str("no attempt is left"),
            Self::Deadline => f.write_str("the call's deadline is near"),
            Self::RetryBudget => f.write_str("too many calls fail: the provider seems to be down"),
            Self::NeverReached => f.write_str("no connection could be made since the program was started"),
            Self::ServerWait { asked_s, allowed_s } => {
                write!(f, "the provider asks to wait {asked_s} s, and at most {allowed_s} s are allowed")
            }
        }
    }
}

/// The source of the length that vectors are expected to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LengthSource {
    /// The configured `dimensions`.
    Configured,
    /// An earlier reply of the model to this process.
    EarlierReply,
    /// Vectors of the model in the journal.
    Journal,
}

impl std::fmt::Display for LengthSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Configured => "`dimensions` is",
            Self::EarlierReply => "its earlier vectors have",
            Self::Journal => "its vectors in the journal have",
        })
    }
}

/// A configuration that cannot work.
pub(crate) fn wrong(message: impl Into<String>) -> LlmError {
    LlmError::Configuration { message: message.into() }
}

impl LlmError {
    /// The class that decides what to do about the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::RateLimited { .. } => ErrorClass::RateLimited,
            Self::QuotaExhausted { .. } => ErrorClass::QuotaExhausted,
            Self::Authentication { .. }
            | Self::MissingKey { .. }
            | Self::StaleToken { .. }
            | Self::NoToken { .. } => ErrorClass::Authentication,
            Self::Program { class, .. } => *class,
            Self::BadRequest { .. } | Self::EmptyText { .. } => ErrorClass::BadRequest,
            Self::ContextTooLong { .. } => ErrorClass::ContextTooLong,
            Self::Refused { .. } => ErrorClass::Refused,
            Self::ServerError { .. } => ErrorClass::ServerError,
            Self::Timeout { .. } => ErrorClass::Timeout,
            Self::Connection { .. } | Self::Unreachable { .. } => ErrorClass::Connection,
            Self::Truncated { .. } => ErrorClass::Truncated,
            Self::InvalidReply { .. } | Self::NoContent { .. } | Self::HalfCharacter { .. } => {
                ErrorClass::InvalidReply
            }
            Self::GaveUp { last, .. } => last.class(),
            Self::BudgetExhausted { .. } => ErrorClass::Budget,
            Self::Journal { .. } => ErrorClass::Journal,
            Self::NotRecorded { .. } => ErrorClass::NotRecorded,
            Self::Cancelled => ErrorClass::Cancelled,
            Self::NoRule { .. }
            | Self::Configuration { .. }
            | Self::Client { .. }
            | Self::VectorLength { .. } => ErrorClass::Configuration,
        }
    }

    /// True for a reply that breaks off within a character, also where every attempt came to one.
    pub fn is_half_character(&self) -> bool {
        match self {
            Self::HalfCharacter { .. } => true,
            Self::GaveUp { last, .. } => last.is_half_character(),
            _ => false,
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self.class() {
            ErrorClass::Authentication => matches!(self, Self::StaleToken { .. }),
            ErrorClass::RateLimited
            | ErrorClass::ServerError
            | ErrorClass::Timeout
            | ErrorClass::Connection
            | ErrorClass::Truncated
            | ErrorClass::InvalidReply => true,
            ErrorClass::QuotaExhausted
            | ErrorClass::Budget
            | ErrorClass::Journal
            | ErrorClass::NotRecorded
            | ErrorClass::BadRequest
            | ErrorClass::ContextTooLong
            | ErrorClass::Refused
            | ErrorClass::Cancelled
            | ErrorClass::Configuration => false,
        }
    }

    /// Whether a provider may bill a request that was sent and ended like this: where no answer came, or one that cannot
    /// be read, at least the prompt.
    ///
    /// A status of the provider's own, such as one for too many requests, is not billed.
    pub(crate) fn is_billed(&self) -> bool {
        // A whole reply, which is of no use.
        if matches!(self, Self::VectorLength { .. }) {
            return true;
        }
        match self.class() {
            ErrorClass::Cancelled
            | ErrorClass::Timeout
            | ErrorClass::Truncated
            | ErrorClass::InvalidReply => true,
            ErrorClass::RateLimited
            | ErrorClass::QuotaExhausted
            | ErrorClass::Authentication
            | ErrorClass::BadRequest
            | ErrorClass::ContextTooLong
            | ErrorClass::Refused
            | ErrorClass::ServerError
            | ErrorClass::Connection
            | ErrorClass::Budget
            | ErrorClass::Journal
            | ErrorClass::NotRecorded
            | ErrorClass::Configuration => false,
        }
    }

    /// What a program that calls the model can do about it, as one sentence.
    ///
    /// It names no command, and no key of a configuration file but the fields of the model's own configuration: programs
    /// that have these say it in their own terms.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::RateLimited { .. } => "keep fewer calls in flight, or repeat the call later",
            Self::QuotaExhausted { .. } => "add credit at the provider, then repeat the call",
            Self::Authentication { .. } => "check the key",
            Self::StaleToken { .. } => "repeat the call: it asks for a fresh token",
            Self::NoToken { .. } => "run the command in a terminal: it has to print a key and nothing else",
            Self::Program { class, .. } => match class {
                ErrorClass::Authentication => "log the program in, or pass it the variable with its key",
                ErrorClass::Configuration => "check that the program is installed, or name it with `command`",
                ErrorClass::RateLimited | ErrorClass::QuotaExhausted => {
                    "repeat the call when the program's limit is over"
                }
                _ => "look at what the program printed, in its traces",
            },
            Self::Client { .. } => "fix the client, then repeat the call",
            Self::BadRequest { .. } => "check the model's name and its settings",
            Self::ContextTooLong { .. } => "send less, or take a model with a longer context",
            Self::Refused { .. } => "look at what the request was about, or take another model",
            Self::ServerError { .. } | Self::Truncated { .. } => "repeat the call later",
            Self::HalfCharacter { .. } => "repeat the call; update the server if it cuts characters again",
            Self::Timeout { .. } => "give the call more time, or repeat it later",
            // The words of the transport where no address belongs to the host's name.
            Self::Unreachable { message, .. } if message.contains("dns error") => {
                "check the network, and the proxy in `HTTPS_PROXY` if there is one; the host's name is in `base_url`"
            }
            Self::Connection { .. } | Self::Unreachable { .. } => {
                "check `base_url` and that the server is running"
            }
            Self::GaveUp { why: GiveUpReason::ServerWait { .. }, .. } => {
                "repeat the call later, or allow a longer wait"
            }
            Self::GaveUp { last, .. } => last.hint(),
            Self::BudgetExhausted { .. } => "raise the cap, then repeat the call",
            Self::Journal { .. } => "check the disk and the journal's file, then repeat the call",
            Self::NotRecorded { .. } => "let the model be asked, or see what has changed since the recording",
            Self::InvalidReply { .. } => {
                "check that `base_url` is an endpoint of the dialect, usually ending in /v1"
            }
            Self::NoContent { .. } => {
                "repeat the call once the server works; if it fails at the same request again, the model returns nothing for it"
            }
            Self::Cancelled => "repeat the call",
            Self::MissingKey { .. } => "set the variable, or name another one",
            Self::NoRule { .. } => "add a reply to its rules: with other rules it is another model",
            Self::VectorLength { expected_by: LengthSource::Configured, .. } => {
                "set `dimensions` to the length of the model's vectors, or leave it out"
            }
            Self::VectorLength { .. } => {
                "the server has another model under this name: restore the old one, or prune the old one's calls from the journal and embed everything again"
            }
            Self::EmptyText { .. } => "leave the empty text out",
            Self::Configuration { .. } => "fix the model's configuration",
        }
    }
}
