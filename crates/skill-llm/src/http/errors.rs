//! What went wrong, by class: from the status, and from the words where the status says too little.

use super::address::Endpoint;
use super::wait;
#[cfg(feature = "process")]
use crate::error::ErrorClass;
use crate::error::LlmError;
use crate::secret::{ApiKey, Secrets};
use crate::transport::{BodyFault, HttpResponse, TransportError};
use serde_json::Value;
use skill_core::python_json;
use std::time::Duration;

/// The most characters of a provider's words that an error holds.
const MAX_MESSAGE_CHARS: usize = 500;
/// The most characters of a body that is not what it should be.
const MAX_BODY_CHARS: usize = 200;

const QUOTA_CODES: [&str; 8] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "credit_balance_exhausted",
    // Anthropic's monthly cap, which comes with 429 all the same.
    "enforced_spend_limit_reached",
    "quota_exceeded",
    // Alibaba's, for Qwen.
    "arrearage",
];
const QUOTA_WORDS: [&str; 8] = [
    "insufficient_quota",
    "billing",
    "insufficient balance",
    "insufficient credit",
    "credit balance is too low",
    "specified api usage limits",
    "out of credits",
    "key limit exceeded",
];
/// Servers say these with 400, where the looser words above would be found in what a user wrote.
const QUOTA_WORDS_OF_BAD_REQUESTS: [&str; 2] = ["credit balance is too low", "specified api usage limits"];
/// With these words a limit that speaks of billing passes by itself.
const WAITING_WORDS: [&str; 5] = ["per minute", "per second", "retry in", "try again in", "retry after"];
const CONTEXT_CODES: [&str; 3] =
    ["context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"];
const CONTEXT_WORDS: [&str; 15] = [
    "context_length_exceeded",
    "maximum context length",
    "context length exceeded",
    "context length of",
    "exceeds the context",
    "exceed context window",
    "exceed context limit",
    "input token count",
    "context window",
    "available context size",
    "context size has been exceeded",
    "maximum model length",
    "prompt is too long",
    "input is too long",
    "reduce the length of the messages",
];
/// What programs say when their account may ask for nothing until a time.
#[cfg(feature = "process")]
const ACCOUNT_LIMIT_WORDS: [&str; 17] = [
    "usage limit",
    "spend limit",
    "session limit",
    "weekly limit",
    "monthly limit",
    "hour limit reached",
    "hit your limit",
    "extra usage",
    "daily quota",
    "exhausted your capacity",
    "quota limit",
    // Copilot CLI, Qwen Code and OpenCode.
    "no quota",
    "quota_exceeded",
    "premium request",
    "allocated quota",
    "free quota",
    "free usage",
];
/// Servers say these with 500, where the looser words above may speak of a context that the server could not make.
const CONTEXT_WORDS_OF_FAILURES: [&str; 10] = [
    "context_length_exceeded",
    "maximum context length",
    "context length exceeded",
    "exceeds the context",
    "exceed context window",
    "exceed context limit",
    "available context size",
    "context size has been exceeded",
    "maximum model length",
    "prompt is too long",
];
/// What programs say who are not logged in.
#[cfg(feature = "process")]
const AUTHENTICATION_WORDS: [&str; 13] = [
    "not logged in",
    "please run /login",
    "please log in",
    "invalid api key",
    "invalid x-api-key",
    "unauthorized",
    "authentication",
    "auth method",
    "no auth type",
    "no api key",
    "use /login",
    "missing environment variable",
    "401",
];
/// That a provider does not serve a country.
const REGION_CODES: [&str; 2] = ["unsupported_country_region_territory", "unsupported_country"];
const REGION_WORDS: [&str; 4] = [
    "country, region",
    "not supported in your country",
    "not available in your country",
    "user location is not supported",
];
const POLICY_CODES: [&str; 4] =
    ["content_policy_violation", "content_filter", "moderation_blocked", "data_inspection_failed"];
const POLICY_WORDS: [&str; 7] = [
    "content policy",
    "content_policy",
    "content management policy",
    "content filter",
    "usage policies",
    "safety system",
    "flagged",
];

/// Reads what is not a reply.
pub(crate) struct Reader<'a> {
    pub(crate) endpoint: &'a Endpoint,
    /// What was shown to the server.
    pub(crate) secrets: &'a [ApiKey],
    /// What the run knows besides.
    pub(crate) known: &'a Secrets,
    /// The limit of the call.
    pub(crate) timeout: Duration,
}

impl Reader<'_> {
    /// An exchange without a response.
    pub(crate) fn transport_error(&self, error: TransportError) -> LlmError {
        let provider = self.provider();
        match error {
            TransportError::Timeout { after } => LlmError::Timeout { provider, after },
            TransportError::Truncated { message } => {
                LlmError::Truncated { provider, message: self.clean(&message, MAX_MESSAGE_CHARS) }
            }
            TransportError::Connect { .. } => {
                LlmError::Unreachable { provider, message: self.clean(&error.to_string(), MAX_MESSAGE_CHARS) }
            }
            TransportError::Broken { .. } => {
                LlmError::Connection { provider, message: self.clean(&error.to_string(), MAX_MESSAGE_CHARS) }
            }
            TransportError::TooLarge { .. } => self.invalid(&error.to_string()),
            TransportError::Unusable { message } => {
                let message = self.clean(&message, MAX_MESSAGE_CHARS);
                LlmError::Configuration { message: format!("cannot ask {provider}: {message}") }
            }
        }
    }

    /// A response whose status is not a success.
    pub(crate) fn status_error(&self, response: &HttpResponse) -> LlmError {
        let status = response.status;
        let text = response.text();
        let body = text.as_ref().ok().and_then(|text| python_json::read(text).ok()).unwrap_or(Value::Null);
        let complaint = Complaint::find(&body).unwrap_or_else(|| {
            let message = text.unwrap_or_else(|fault| shown_bytes(&response.body, &fault));
            Complaint {
                message: self.clean(&message, MAX_BODY_CHARS),
                is_page: body.is_null(),
                ..Complaint::default()
            }
        });
        if (300..400).contains(&status) {
            let target = response.header("location").unwrap_or("nowhere");
            let target = target.split_once('?').map_or(target, |(before, _)| before);
            let message = format!("it redirects to {target}; redirects are not followed");
            return self.by_class(status, Kind::BadRequest, &message, response);
        }
        if !(400..600).contains(&status) {
            return self.invalid(&format!("HTTP {status} is not an answer"));
        }
        self.classified(status, &complaint, response)
    }

    /// An error inside a response whose status is a success, as OpenRouter sends them.
    pub(crate) fn error_in_body(&self, response: &HttpResponse, body: &Value) -> Option<LlmError> {
        let in_choice = || body.get("choices")?.get(0)?.get("error").and_then(Complaint::of_object);
        let complaint = match body.get("error") {
            Some(error) => Complaint::of_error(error),
            None => None,
        };
        let complaint = complaint.or_else(in_choice)?;
        Some(match complaint.status() {
            Some(status) => self.classified(status, &complaint, response),
            None => self.by_class(response.status, complaint.kind(500), &complaint.message, response),
        })
    }

    /// What a body without a reply says in its place, under any of the names in use: `detail`, `message`, `msg`, `base_resp`.
    pub(crate) fn complaint_in_body(&self, response: &HttpResponse, body: &Value) -> Option<LlmError> {
        let status = body.get("base_resp");
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let of_gateway = status.and_then(|status| text(status, "status_msg"));
        let message = of_gateway.or_else(|| text(body, "msg")).filter(|message| !message.trim().is_empty());
        let complaint = match message {
            Some(message) => Complaint { message, codes: codes(body), ..Complaint::default() },
            None => Complaint::find(body)?,
        };
        if complaint.message.trim().is_empty() {
            return None;
        }
        // Words for an empty account are clear whatever the status.
        let kind = match Complaint::kind(&complaint, 429) {
            Kind::Quota => Kind::Quota,
            _ => complaint.kind(complaint.status().unwrap_or(500)),
        };
        Some(self.by_class(response.status, kind, &complaint.message, response))
    }

    /// The JSON of a body.
    pub(crate) fn json(&self, response: &HttpResponse) -> Result<Value, LlmError> {
        let text = match response.text() {
            Ok(text) => text,
            // Bytes that are not text, such as half a character at the end of the body, are a reply that broke off: it is
            // retried.
            Err(fault) => return Err(self.invalid(&fault.to_string())),
        };
        let text = without_comments(&text);
        if text.trim().is_empty() {
            return Err(self.invalid("the body is empty"));
        }
        let read = python_json::read(text).or_else(|error| {
            // A line break as it is within a text, as servers write it that put their JSON together by hand.
            python_json::read(&with_escaped_controls(text)).map_err(|_| error)
        });
        read.map_err(|error| {
            let text = self.clean(text, MAX_BODY_CHARS);
            self.invalid(&format!("it is not JSON ({error}): {text}"))
        })
    }

    /// A response that is not what the protocol promises.
    pub(crate) fn invalid(&self, message: &str) -> LlmError {
        LlmError::InvalidReply { provider: self.provider(), message: self.clean(message, MAX_MESSAGE_CHARS) }
    }

    /// The fault of a reply with this text whose server cut it within a character.
    pub(crate) fn half_character(&self, text: &str) -> LlmError {
        LlmError::HalfCharacter { provider: self.provider(), text: self.clean(text, MAX_BODY_CHARS) }
    }

    /// A reply that its server broke off behind a successful status; `word` is the reason that it gave.
    pub(crate) fn broken_off(&self, response: &HttpResponse, word: &str) -> LlmError {
        let message = format!("it broke the reply off, with finish reason `{word}`");
        self.by_class(response.status, Kind::Server, &message, response)
    }

    /// A reply with nothing in it.
    pub(crate) fn no_content(&self, message: &str) -> LlmError {
        LlmError::NoContent { provider: self.provider(), message: self.clean(message, MAX_MESSAGE_CHARS) }
    }

    fn classified(&self, status: u16, complaint: &Complaint, response: &HttpResponse) -> LlmError {
        let kind = complaint.kind(status);
        // A server that knows no such model is there, and its address is right.
        let is_about_model = complaint.message.to_lowercase().contains("model");
        if status == 404 && kind == Kind::BadRequest && !is_about_model {
            let colon = if complaint.message.is_empty() { "" } else { ": " };
            let url = self.endpoint.shown_url();
            let lacks = if url.contains("/v1") { "" } else { "; does the address lack `/v1`?" };
            let message = format!("nothing at {url}{colon}{}{lacks}", complaint.message);
            return self.by_class(status, kind, &message, response);
        }
        self.by_class(status, kind, &complaint.message, response)
    }

    fn by_class(&self, status: u16, kind: Kind, message: &str, response: &HttpResponse) -> LlmError {
        let provider = self.provider();
        let message = self.clean(message, MAX_MESSAGE_CHARS);
        let message = if message.is_empty() { "it gave no reason".to_owned() } else { message };
        match kind {
            Kind::RateLimited => {
                let retry_after = wait::rate_limit_wait(response).or_else(|| wait::wait_in_body(response));
                LlmError::RateLimited { provider, status, message, retry_after }
            }
            Kind::Quota => LlmError::QuotaExhausted { provider, status, message },
            Kind::Authentication => LlmError::Authentication { provider, status, message },
            Kind::ContextTooLong => LlmError::ContextTooLong { provider, status, message },
            Kind::Refused => LlmError::Refused { provider, status, message },
            Kind::BadRequest => LlmError::BadRequest { provider, status, message },
            Kind::Timeout => LlmError::Timeout { provider, after: self.timeout },
            Kind::Server => {
                let retry_after = wait::retry_after(response);
                LlmError::ServerError { provider, status, message, retry_after }
            }
        }
    }

    fn provider(&self) -> String {
        self.endpoint.provider.clone()
    }

    /// Words of others as an error may hold them: one line, without secrets, cut.
    fn clean(&self, text: &str, max_chars: usize) -> String {
        let mut text: String = text
            .chars()
            .filter_map(|letter| match letter {
                '\n' | '\r' | '\t' => Some(' '),
                letter if letter.is_control() || is_unprintable(letter) => None,
                letter => Some(letter),
            })
            .collect();
        // Before the cut, which could leave a part of a secret.
        for secret in self.secrets {
            text = secret.scrub(&text);
        }
        let text = self.known.scrub(&text);
        let text = text.trim();
        match text.char_indices().nth(max_chars) {
            Some((cut, _)) => format!("{}..", text.get(..cut).unwrap_or_default()),
            None => text.to_owned(),
        }
    }
}

/// A body without the lines before it that a stream would have to keep its connection open.
fn without_comments(body: &str) -> &str {
    let mut rest = body.trim_start();
    while rest.starts_with(':') {
        let end = rest.find('\n').unwrap_or(rest.len());
        rest = rest.get(end..).unwrap_or_default().trim_start();
    }
    rest
}

/// JSON with the control characters in its strings written as escapes.
fn with_escaped_controls(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    let (mut is_in_string, mut is_behind_backslash) = (false, false);
    for character in json.chars() {
        let was_behind_backslash = std::mem::take(&mut is_behind_backslash);
        match character {
            '"' if !was_behind_backslash => is_in_string = !is_in_string,
            '\\' if is_in_string => is_behind_backslash = !was_behind_backslash,
            _ => {}
        }
        if is_in_string && character.is_control() {
            escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// A body that is not text as a whole: what of it is, unless most of it is something else.
fn shown_bytes(body: &[u8], fault: &BodyFault) -> String {
    let lossy = String::from_utf8_lossy(body);
    let n_bad = lossy.chars().filter(|letter| is_unprintable(*letter) || letter.is_control()).count();
    match fault {
        BodyFault::Encoding(_) if n_bad * 10 < lossy.chars().count() => lossy.into_owned(),
        _ => fault.to_string(),
    }
}

/// A character that shows nothing, or turns the direction of the text around it.
fn is_unprintable(letter: char) -> bool {
    matches!(letter, '\u{fffd}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The classes that a status can mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    RateLimited,
    Quota,
    Authentication,
    ContextTooLong,
    Refused,
    BadRequest,
    Timeout,
    Server,
}

/// What a server says is wrong, from any of the shapes in use.
#[derive(Debug, Default)]
struct Complaint {
    message: String,
    /// `code` and `type`, in lower case.
    codes: Vec<String>,
    /// A status inside the body.
    number: Option<u16>,
    /// Whether a moderation gave reasons.
    moderated: bool,
    /// Whether it is a body that is not JSON, such as a page of a firewall.
    is_page: bool,
}

impl Complaint {
    /// Looks in the body of a response with an error status.
    fn find(body: &Value) -> Option<Self> {
        match body {
            // Google wraps the object in a list.
            Value::Array(items) => items.first().and_then(|item| Self::of_error(item.get("error")?)),
            Value::Object(fields) => {
                let error = fields.get("error").and_then(Self::of_error);
                let detail = || {
                    // FastAPI's validation.
                    let detail = fields.get("detail").filter(|detail| !detail.is_null())?;
                    let message = detail.as_str().map(str::to_owned).or_else(|| validation(detail));
                    let message = message.unwrap_or_else(|| detail.to_string());
                    Some(Self { message, ..Self::default() })
                };
                error.or_else(|| Self::of_object(body)).or_else(detail)
            }
            Value::String(message) => Some(Self { message: message.clone(), ..Self::default() }),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }

    /// The value of a field `error`.
    fn of_error(error: &Value) -> Option<Self> {
        match error {
            Value::Object(_) => Some(Self::of_object(error).unwrap_or_else(|| Self {
                message: error.to_string(),
                codes: codes(error),
                number: number(error),
                ..Self::default()
            })),
            Value::String(message) => Some(Self { message: message.clone(), ..Self::default() }),
            Value::Null | Value::Bool(false) => None,
            Value::Bool(true) | Value::Number(_) | Value::Array(_) => {
                Some(Self { message: error.to_string(), ..Self::default() })
            }
        }
    }

    /// An object with a message.
    fn of_object(error: &Value) -> Option<Self> {
        let mut message = error.get("message")?.as_str()?.to_owned();
        let metadata = error.get("metadata");
        if let Some(raw) = metadata.and_then(|metadata| metadata.get("raw")).and_then(Value::as_str) {
            // OpenRouter puts the words of the provider behind it here.
            message = format!("{message}: {raw}");
        }
        let moderated = metadata.and_then(|metadata| metadata.get("reasons")).is_some_and(Value::is_array);
        Some(Self { message, codes: codes(error), number: number(error), moderated, is_page: false })
    }

    /// The status that the body itself tells.
    fn status(&self) -> Option<u16> {
        if self.number.is_some() {
            return self.number;
        }
        let has = |words: &[&str]| words.iter().any(|word| self.codes.iter().any(|code| code.contains(word)));
        if has(&["quota", "rate_limit", "too_many_requests"]) {
            Some(429)
        } else if has(&["authentication", "invalid_api_key", "unauthorized"]) {
            Some(401)
        } else if has(&["permission"]) {
            Some(403)
        } else if has(&["timeout"]) {
            Some(408)
        } else if has(&["overloaded"]) {
            Some(529)
        } else if has(&["billing_error"]) {
            Some(402)
        } else if has(&["invalid_request", "bad_request", "model_not_found"])
            || has(&CONTEXT_CODES)
            || has(&POLICY_CODES)
        {
            Some(400)
        } else {
            None
        }
    }

    fn kind(&self, status: u16) -> Kind {
        let message = self.message.to_lowercase();
        let has_code = |codes: &[&str]| self.codes.iter().any(|code| codes.contains(&code.as_str()));
        let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
        let context = || has_code(&CONTEXT_CODES) || says(&CONTEXT_WORDS);
        let refused = || self.moderated || has_code(&POLICY_CODES) || says(&POLICY_WORDS);
        let quota = || has_code(&QUOTA_CODES) || (says(&QUOTA_WORDS) && !says(&WAITING_WORDS));
        match status {
            429 if quota() => Kind::Quota,
            429 => Kind::RateLimited,
            402 => Kind::Quota,
            401 => Kind::Authentication,
            403 if is_network_rule(&message, self.is_page)
                || has_code(&REGION_CODES)
                || says(&REGION_WORDS) =>
            {
                Kind::BadRequest
            }
            // The key is right, and the model is not for it.
            403 if has_code(&["model_not_found"]) || says(&["access to model", "access to the model"]) => {
                Kind::BadRequest
            }
            403 if refused() => Kind::Refused,
            403 if quota() => Kind::Quota,
            403 => Kind::Authentication,
            408 => Kind::Timeout,
            // llama.cpp and servers around it say this with 500.
            500..=599 if has_code(&CONTEXT_CODES) || says(&CONTEXT_WORDS_OF_FAILURES) => Kind::ContextTooLong,
            500..=599 => Kind::Server,
            400 | 413 | 422 if context() => Kind::ContextTooLong,
            400 if has_code(&QUOTA_CODES) || says(&QUOTA_WORDS_OF_BAD_REQUESTS) => Kind::Quota,
            _ if refused() => Kind::Refused,
            _ => Kind::BadRequest,
        }
    }
}

/// The class of a failure of which there are only words, as programs report them.
#[cfg(feature = "process")]
pub(crate) fn class_of_words(message: &str) -> ErrorClass {
    let complaint = Complaint { message: message.to_owned(), ..Complaint::default() };
    let lower = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let status = if is_account_limit(&lower) {
        return ErrorClass::QuotaExhausted;
    } else if says(&["rate limit", "rate_limit", "too many requests", "429", "resource_exhausted"]) {
        429
    } else if says(&AUTHENTICATION_WORDS) {
        401
    } else if says(&QUOTA_WORDS_OF_BAD_REQUESTS) {
        402
    } else if says(&CONTEXT_WORDS)
        || says(&["invalid_request", "not supported", "unknown model", "invalid model"])
    {
        400
    } else {
        500
    };
    complaint.kind(status).class()
}

#[cfg(feature = "process")]
impl Kind {
    fn class(self) -> ErrorClass {
        match self {
            Self::RateLimited => ErrorClass::RateLimited,
            Self::Quota => ErrorClass::QuotaExhausted,
            Self::Authentication => ErrorClass::Authentication,
            Self::ContextTooLong => ErrorClass::ContextTooLong,
            Self::Refused => ErrorClass::Refused,
            Self::BadRequest => ErrorClass::BadRequest,
            Self::Timeout => ErrorClass::Timeout,
            Self::Server => ErrorClass::ServerError,
        }
    }
}

/// The class of a failure that a program reports in words, with the status of the provider behind it where it tells that.
#[cfg(feature = "process")]
pub(crate) fn class_of_report(message: &str, status: Option<u16>) -> ErrorClass {
    match class_of_words(message) {
        // Words that say nothing known.
        ErrorClass::ServerError => {}
        class => return class,
    }
    match status {
        Some(status) => {
            let complaint = Complaint { message: message.to_owned(), ..Complaint::default() };
            complaint.kind(status).class()
        }
        None => ErrorClass::ServerError,
    }
}

/// True if a program's words (in lower case) speak of a limit of its account, which is over hours or days later, and not
/// of a moment of load.
#[cfg(feature = "process")]
pub(crate) fn is_account_limit(message: &str) -> bool {
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    let is_load = says(&WAITING_WORDS) || says(&["rate limit", "rate_limit", "ratelimit"]);
    says(&ACCOUNT_LIMIT_WORDS) || (says(&["limit", "quota"]) && message.contains("reset") && !is_load)
}

/// What a server that checks its input says of each field, as FastAPI writes it: `` `seed`: Extra inputs are not permitted``.
fn validation(detail: &Value) -> Option<String> {
    let said = detail.as_array()?.iter().map(|fault| {
        let path = fault.get("loc")?.as_array()?.iter().filter(|part| part.as_str() != Some("body"));
        let part = |part: &Value| part.as_str().map_or_else(|| part.to_string(), str::to_owned);
        let path: Vec<String> = path.map(part).collect();
        Some(format!("`{}`: {}", path.join("."), fault.get("msg")?.as_str()?))
    });
    said.collect::<Option<Vec<String>>>().map(|said| said.join("; "))
}

/// True for the words of a network between, which has a rule against the client: the page of a firewall or a proxy. In
/// JSON, "access denied" is what a server says of a model or a key.
fn is_network_rule(message: &str, is_page: bool) -> bool {
    let message = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    // Cloudflare's codes of rules.
    let is_code = message.split("error code:").nth(1).is_some_and(|code| code.trim_start().starts_with("10"));
    is_code
        || (is_page && says(&["access denied", "blocked"]) && !says(&["key", "token", "credential"]))
        || says(&["<html", "<!doctype", "cloudflare", "web application firewall", "captcha"])
}

fn codes(error: &Value) -> Vec<String> {
    let detail = error.get("details").and_then(|details| details.get("error_code"));
    let fields = [error.get("code"), error.get("type"), error.get("status"), detail];
    fields.into_iter().flatten().filter_map(Value::as_str).map(str::to_lowercase).collect()
}

fn number(error: &Value) -> Option<u16> {
    let fields = [error.get("code"), error.get("status")];
    let numbers = fields.into_iter().flatten().filter_map(|field| match field {
        Value::Number(number) => number.as_u64().and_then(|number| u16::try_from(number).ok()),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    });
    let mut errors = numbers.filter(|number| (400..600).contains(number));
    errors.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_clean(text: &str, max_chars: usize, expect: &str) {
        let endpoint = Endpoint::parse("http://h", &[], None).unwrap();
        let secrets = [ApiKey::new("sk-12345").unwrap()];
        let known = Secrets::default();
        known.add(&ApiKey::new("other-key-77").unwrap());
        let reader =
            Reader { endpoint: &endpoint, secrets: &secrets, known: &known, timeout: Duration::ZERO };
        assert_eq!(reader.clean(text, max_chars), expect);
    }

    #[test]
    fn words_of_others_are_cleaned() {
        check_clean(" two\nlines\t", 20, "two lines");
        check_clean("\u{1b}[31mred\u{7}\u{0}", 20, "[31mred");
        check_clean("key sk-12345!", 20, "key [key]!");
        check_clean("key sk-\u{0}12345!", 20, "key [key]!");
        check_clean("key sk-12345", 7, "key [ke..");
        check_clean("of another model: other-key-77", 50, "of another model: [key]");
        check_clean("äöü", 3, "äöü");
        check_clean("äöü!", 3, "äöü..");
    }
}
