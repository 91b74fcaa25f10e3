//! What all dialects over HTTP share: the address, the key, one exchange, and what an error means.
//!
//! One call is one `POST` (a look at what a server has is a `GET`); repeating is the business of a layer above.

mod address;
mod body;
mod complaint;
mod credential;
mod errors;
#[cfg(feature = "process")]
mod token;
mod wait;

pub(crate) use address::{Endpoint, is_https_at, shown_address};
pub(crate) use body::{Body, Field, ImageUrl, merged};
#[cfg(feature = "process")]
pub(crate) use complaint::{class_of_report, class_of_words, is_account_limit};
pub use credential::{KeyHeader, KeySource};
#[cfg(feature = "process")]
pub use token::TokenCommand;

use crate::anomaly::{self, estimated};
use crate::call::CallCtx;
use crate::chat::{ChatReply, FinishReason, ModelId, UsageGap};
use crate::embedding::EmbeddingReply;
use crate::error::{LlmError, wrong};
use crate::secret::{ApiKey, Secrets};
use crate::transport::{
    HeaderText, HttpMethod, HttpRequest, HttpResponse, MAX_RESPONSE_BYTES, ReqwestTransport, Transport,
    TransportError,
};
use credential::Shown;
use errors::Reader;
use serde_json::{Map, Value};
use skill_core::Usage;
use skill_core::secret::begins_like_key;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a call may take unless the configuration or the caller says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
/// Headers that HTTP itself and the key write, whatever the dialect.
const OWN_HEADERS: [&str; 6] =
    ["authorization", "content-type", "content-length", "host", "anthropic-version", "transfer-encoding"];
/// What may be in front of a key in a header.
const SCHEMES: [&str; 4] = ["Bearer", "Basic", "Token", "Key"];
/// A header with one of these words in its name holds a secret, whatever else its name may be.
const SECRET_HEADER_WORDS: [&str; 5] = ["key", "token", "auth", "secret", "cookie"];

/// How to reach a server.
///
/// `Debug` shows neither the key, nor values of extra headers, nor the address's credentials and query.
#[derive(Clone)]
pub struct Server {
    /// What the dialect's path is put behind, such as `https://api.openai.com/v1`; a query is kept.
    pub base_url: String,
    /// The version of the interface, sent as `api-version` in the query, as Azure has it.
    pub api_version: Option<String>,
    /// Where the key comes from.
    pub key: KeySource,
    /// The header that the key is in.
    pub key_header: KeyHeader,
    /// How long a call may take when the caller does not say.
    pub timeout: Duration,
    /// Further headers: names and values.
    pub extra_headers: Vec<(String, String)>,
    /// The most bytes that a response may have.
    pub max_response_bytes: usize,
    /// The secrets of the run, which are taken out of everything that the server sends; those of this server are added
    /// when a model is made of it. Servers of one run share them.
    pub secrets: Secrets,
}

impl Server {
    /// A server at an address, without a key, with the defaults of this crate.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api_version: None,
            key: KeySource::None,
            key_header: KeyHeader::default(),
            timeout: DEFAULT_TIMEOUT,
            extra_headers: Vec::new(),
            max_response_bytes: MAX_RESPONSE_BYTES,
            secrets: Secrets::default(),
        }
    }

    /// The server as records name it.
    ///
    /// # Errors
    ///
    /// [`LlmError::Configuration`] for an address that cannot be one.
    pub fn provider(&self) -> Result<String, LlmError> {
        Ok(Endpoint::parse(&self.base_url, &[], None)?.provider)
    }

    fn check(&self) -> Result<(), LlmError> {
        let key_header = self.key_header.name();
        let is_own = |name: &str| {
            OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name))
                || (self.has_key() && key_header.eq_ignore_ascii_case(name))
        };
        for (name, value) in &self.extra_headers {
            if is_own(name) {
                return Err(wrong(format!("the header `{name}` cannot be set: it is written from the key")));
            }
            if reqwest::header::HeaderName::from_bytes(name.as_bytes()).is_err() {
                return Err(wrong(format!("`{}` cannot be the name of a header", name.escape_debug())));
            }
            if reqwest::header::HeaderValue::from_str(value).is_err() {
                return Err(wrong(format!("the value of the header `{name}` cannot be sent")));
            }
        }
        Ok(())
    }

    fn has_key(&self) -> bool {
        !matches!(self.key, KeySource::None)
    }

    /// Values of headers that must not be shown when a server sends them back.
    fn secret_headers(&self) -> Vec<ApiKey> {
        let is_secret = |name: &str, value: &str| {
            let name = name.to_ascii_lowercase();
            SECRET_HEADER_WORDS.iter().any(|word| name.contains(word)) || begins_like_key(value)
        };
        let headers = self.extra_headers.iter().filter(|(name, value)| is_secret(name, value));
        // Of `Bearer KEY` the key is the secret too.
        let without_scheme = |value: &str| {
            let (scheme, rest) = value.split_once(' ')?;
            let is_scheme = SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme));
            is_scheme.then(|| rest.to_owned())
        };
        let parts = headers.flat_map(|(_, value)| [Some(value.clone()), without_scheme(value)]);
        parts.flatten().filter_map(|value| ApiKey::new(&value).ok()).collect()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.extra_headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Server")
            .field("base_url", &shown_address(&self.base_url))
            .field("api_version", &self.api_version)
            .field("key", &self.key)
            .field("key_header", &self.key_header)
            .field("timeout", &self.timeout)
            .field("extra_headers", &names)
            .field("max_response_bytes", &self.max_response_bytes)
            .finish_non_exhaustive()
    }
}

/// The reason why a body with a successful status is not a reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not what the dialect promises: a fragment that says what is wrong.
    Unreadable(String),
    /// It holds nothing that a model could have said.
    NoContent(String),
    /// The server failed in the midst of it, and this is its word for that.
    Failed(String),
}

impl Fault {
    pub(crate) fn no_content(what: &str, finish: &FinishReason) -> Self {
        let reason = finish.as_str();
        let reason =
            if reason.is_empty() { "no finish reason" } else { &format!("finish reason `{reason}`") };
        Self::NoContent(format!("{what}, with {reason}"))
    }
}

impl From<String> for Fault {
    fn from(what: String) -> Self {
        Self::Unreadable(what)
    }
}

/// A reply as a server sends it.
pub(crate) trait Incoming: Send {
    /// Its tokens.
    fn usage(&self) -> Usage;

    /// Takes secrets out of everything that it says.
    fn scrub(&mut self, secrets: &Secrets);

    /// The reason why it ended, where the dialect has one.
    fn finish(&self) -> Option<&FinishReason>;

    /// The reply as that of a chat model; `None` for embeddings.
    fn as_chat(&mut self) -> Option<&mut ChatReply>;
}

impl Incoming for ChatReply {
    fn usage(&self) -> Usage {
        self.usage
    }

    fn scrub(&mut self, secrets: &Secrets) {
        secrets.scrub_reply(self);
    }

    fn finish(&self) -> Option<&FinishReason> {
        Some(&self.finish)
    }

    fn as_chat(&mut self) -> Option<&mut ChatReply> {
        Some(self)
    }
}

impl Incoming for EmbeddingReply {
    fn usage(&self) -> Usage {
        self.usage
    }

    /// Numbers hold no secret.
    fn scrub(&mut self, _: &Secrets) {}

    fn finish(&self) -> Option<&FinishReason> {
        None
    }

    fn as_chat(&mut self) -> Option<&mut ChatReply> {
        None
    }
}

/// A server that a dialect asks.
pub(crate) struct Connection {
    server: Server,
    pub(crate) endpoint: Endpoint,
    /// What the dialect itself says in each request.
    own_headers: &'static [(&'static str, &'static str)],
    secrets: Vec<ApiKey>,
    transport: Arc<dyn Transport>,
    logged: Logged,
}

/// The characters of a body in UTF-8: each has one byte that does not continue another.
fn characters_of(body: &[u8]) -> u64 {
    let n_characters = body.iter().filter(|byte| **byte & 0b1100_0000 != 0b1000_0000).count();
    u64::try_from(n_characters).unwrap_or(u64::MAX)
}

/// The kinds of anomalies of a server that were logged, each once.
#[derive(Default)]
struct Logged([AtomicBool; anomaly::N_KINDS]);

impl Logged {
    /// Looks at a reply to a body of so many characters.
    fn look(&self, provider: &str, n_characters: u64, reply: &ChatReply) {
        for found in anomaly::anomalies_of(n_characters, reply) {
            let is_logged =
                self.0.get(found.kind_index()).is_some_and(|flag| flag.swap(true, Ordering::Relaxed));
            if !is_logged {
                tracing::warn!("{provider} {found}; {}", found.hint());
            }
        }
    }
}

impl Connection {
    pub(crate) fn new(
        server: Server,
        path: &[&str],
        own_headers: &'static [(&'static str, &'static str)],
        transport: Arc<dyn Transport>,
    ) -> Result<Self, LlmError> {
        server.check()?;
        let endpoint = Endpoint::parse(&server.base_url, path, server.api_version.as_deref())?;
        let secrets = server.secret_headers();
        if let KeySource::Key(key) = &server.key {
            server.secrets.add(key);
        }
        secrets.iter().for_each(|secret| server.secrets.add(secret));
        Ok(Self { server, endpoint, own_headers, secrets, transport, logged: Logged::default() })
    }

    /// The identity of a model of this server.
    pub(crate) fn model_id(&self, model: &str) -> ModelId {
        ModelId::new(self.endpoint.provider.clone(), model)
    }

    /// Sends one body and reads the reply with `read`.
    pub(crate) async fn ask<T: Incoming>(
        &self,
        body: Vec<u8>,
        call: &CallCtx,
        read: impl FnOnce(&Value) -> Result<T, Fault> + Send,
    ) -> Result<T, LlmError> {
        // The characters of an image say nothing of tokens.
        let has_image = body.windows(7).any(|part| part == b";base64");
        let n_characters = if has_image { 0 } else { characters_of(&body) };
        let mut reply = tokio::select! {
            biased;
            () = call.cancel.cancelled() => return Err(LlmError::Cancelled),
            reply = self.exchange(body, call, read) => reply,
        };
        let provider = &self.endpoint.provider;
        if let Ok(Some(reply)) = reply.as_mut().map(Incoming::as_chat) {
            // What was cached is counted.
            if reply.usage_gap == Some(UsageGap::PromptEstimated) && reply.usage.input == 0 {
                reply.usage.input = estimated(usize::try_from(n_characters).unwrap_or(usize::MAX));
            }
            self.logged.look(provider, n_characters, reply);
        }
        match &reply {
            Ok(reply) => {
                tracing::debug!(
                    provider, place = %call.place, input = reply.usage().input, output = reply.usage().output,
                    finish = reply.finish().map(tracing::field::debug), "the model replied"
                );
            }
            Err(error) => {
                tracing::debug!(provider, place = %call.place, class = ?error.class(), %error, "no reply");
            }
        }
        reply
    }

    async fn exchange<T: Incoming>(
        &self,
        body: Vec<u8>,
        call: &CallCtx,
        read: impl FnOnce(&Value) -> Result<T, Fault> + Send,
    ) -> Result<T, LlmError> {
        let shown = self.shown().await.inspect_err(|_| call.attempts.note_unsent())?;
        let timeout = self.time_for(call);
        let request = self.request(HttpMethod::Post, body, shown.as_ref(), timeout);
        let outcome = self.transport.send(request).await;
        let secrets = self.secrets(shown.as_ref());
        let reader =
            Reader { endpoint: &self.endpoint, secrets: &secrets, known: &self.server.secrets, timeout };
        let mut reply = read_reply(&reader, outcome, read);
        // Before anything else sees it; what is wrong with a reply is clean already.
        if let Ok(reply) = &mut reply {
            reply.scrub(&self.server.secrets);
        }
        match (reply, shown) {
            (Err(LlmError::Authentication { provider, status: 401, message }), Some(shown)) => {
                self.server.key.forget(&shown.key).await;
                Err(if shown.is_held {
                    LlmError::StaleToken { provider, status: 401, message }
                } else {
                    LlmError::Authentication { provider, status: 401, message }
                })
            }
            (reply, _) => reply,
        }
    }

    /// Reads what is at the address without sending anything; `None` for a status that means that there is nothing.
    pub(crate) async fn look<T>(
        &self,
        call: &CallCtx,
        nothing: &[u16],
        read: impl FnOnce(&Value) -> T + Send,
    ) -> Result<Option<T>, LlmError> {
        let shown = self.shown().await?;
        let timeout = self.time_for(call);
        let request = self.request(HttpMethod::Get, Vec::new(), shown.as_ref(), timeout);
        let outcome = tokio::select! {
            biased;
            () = call.cancel.cancelled() => return Err(LlmError::Cancelled),
            outcome = self.transport.send(request) => outcome,
        };
        let secrets = self.secrets(shown.as_ref());
        let reader =
            Reader { endpoint: &self.endpoint, secrets: &secrets, known: &self.server.secrets, timeout };
        let response = outcome.map_err(|error| reader.transport_error(error))?;
        if nothing.contains(&response.status) {
            return Ok(None);
        }
        if !(200..300).contains(&response.status) {
            return Err(reader.status_error(&response));
        }
        let mut body = reader.json(&response)?;
        self.server.secrets.scrub_value(&mut body);
        Ok(Some(read(&body)))
    }

    /// The key to show now; from here on it is known as a secret of the run.
    async fn shown(&self) -> Result<Option<Shown>, LlmError> {
        let known = &self.server.secrets;
        match self.server.key.key(&self.endpoint.provider).await {
            Ok(shown) => {
                // A command may print another key each time.
                shown.iter().for_each(|shown| known.add(&shown.key));
                Ok(shown)
            }
            // What the command has said.
            Err(LlmError::NoToken { provider, message }) => {
                Err(LlmError::NoToken { provider, message: known.scrub(&message).into_owned() })
            }
            Err(error) => Err(error),
        }
    }

    /// How long one exchange may take.
    fn time_for(&self, call: &CallCtx) -> Duration {
        let timeout = call.timeout.unwrap_or(self.server.timeout);
        call.time_left().map_or(timeout, |left| left.min(timeout))
    }

    /// What was shown to the server, and no error repeats, however short it is.
    fn secrets(&self, shown: Option<&Shown>) -> Vec<ApiKey> {
        shown.map(|shown| &shown.key).into_iter().chain(&self.secrets).cloned().collect()
    }

    fn request(
        &self,
        method: HttpMethod,
        body: Vec<u8>,
        shown: Option<&Shown>,
        timeout: Duration,
    ) -> HttpRequest {
        let plain = |text: &str| HeaderText::Plain(text.to_owned());
        let mut headers = Vec::new();
        if method == HttpMethod::Post {
            headers.push(("content-type".to_owned(), plain("application/json")));
        }
        headers.extend(self.own_headers.iter().map(|(name, value)| ((*name).to_owned(), plain(value))));
        if let Some(shown) = shown {
            let header = self.server.key_header;
            headers.push((header.name().to_owned(), HeaderText::Secret(header.value(&shown.key))));
        }
        for (name, value) in &self.server.extra_headers {
            headers.push((name.clone(), HeaderText::Secret(value.as_str().into())));
        }
        HttpRequest {
            method,
            url: self.endpoint.url.clone(),
            headers,
            body,
            timeout: Some(timeout),
            max_response_bytes: self.server.max_response_bytes,
        }
    }
}

fn read_reply<T: Incoming>(
    reader: &Reader<'_>,
    outcome: Result<HttpResponse, TransportError>,
    read: impl FnOnce(&Value) -> Result<T, Fault>,
) -> Result<T, LlmError> {
    let response = outcome.map_err(|error| reader.transport_error(error))?;
    if !(200..300).contains(&response.status) {
        return Err(reader.status_error(&response));
    }
    let body = reader.json(&response)?;
    if let Some(error) = reader.error_in_body(&response, &body) {
        return Err(error);
    }
    let mut reply = read(&body).map_err(|fault| match fault {
        Fault::Unreadable(message) => {
            reader.complaint_in_body(&response, &body).unwrap_or_else(|| reader.invalid(&message))
        }
        Fault::NoContent(message) => reader.no_content(&message),
        Fault::Failed(word) => reader.broken_off(&response, &word),
    })?;
    match reply.as_chat().filter(|reply| is_cut_within_a_character(&response, reply)) {
        Some(reply) => Err(reader.half_character(&reply.text)),
        None => Ok(reply),
    }
}

/// True if a server cut the text of a reply within a character, and no limit on tokens is the reason.
fn is_cut_within_a_character(response: &HttpResponse, reply: &ChatReply) -> bool {
    let arguments = reply.tool_calls.iter().map(|call| &call.arguments);
    let mut texts = std::iter::once(&reply.text).chain(arguments);
    reply.finish != FinishReason::Length
        && texts.any(|text| text.contains(char::REPLACEMENT_CHARACTER))
        && response.has_half_character()
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.server.fmt(f)
    }
}

/// A transport of connections of its own.
pub(crate) fn own_transport() -> Result<Arc<dyn Transport>, LlmError> {
    let transport = ReqwestTransport::new();
    Ok(Arc::new(transport.map_err(|error| wrong(format!("no HTTP client can be made: {error}")))?))
}

/// What is wrong with the parts that every dialect has; `own_keys` are the fields that it writes itself.
pub(crate) fn check_model(
    model: &str,
    extra_body: &Map<String, Value>,
    own_keys: &[&str],
) -> Result<(), LlmError> {
    if model.trim().is_empty() {
        return Err(wrong("the name of the model is empty"));
    }
    if let Some(key) = extra_body.keys().find(|key| own_keys.contains(&key.as_str())) {
        return Err(wrong(format!("`{key}` cannot be in `extra_body`: it has a setting of its own")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::characters_of;

    #[test]
    fn characters_are_counted_in_bytes_of_utf_8() {
        assert_eq!(characters_of("aé日😀".as_bytes()), 4);
    }
}
