//! What went wrong, by class: from the status, and from the words where the status says too little.

use super::address::Endpoint;
use super::complaint::{Complaint, Kind, codes};
use super::wait;
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
