//! Error messages of servers in any of the shapes in use, and the class of error that they mean.

#[cfg(feature = "process")]
use crate::error::ErrorClass;
use serde_json::Value;

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

/// The classes that a status can mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
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
pub(super) struct Complaint {
    pub(super) message: String,
    /// `code` and `type`, in lower case.
    pub(super) codes: Vec<String>,
    /// A status inside the body.
    pub(super) number: Option<u16>,
    /// Whether a moderation gave reasons.
    pub(super) moderated: bool,
    /// Whether it is a body that is not JSON, such as a page of a firewall.
    pub(super) is_page: bool,
}

impl Complaint {
    /// Looks in the body of a response with an error status.
    pub(super) fn find(body: &Value) -> Option<Self> {
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
    pub(super) fn of_error(error: &Value) -> Option<Self> {
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
    pub(super) fn of_object(error: &Value) -> Option<Self> {
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
    pub(super) fn status(&self) -> Option<u16> {
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

    pub(super) fn kind(&self, status: u16) -> Kind {
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

pub(super) fn codes(error: &Value) -> Vec<String> {
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
