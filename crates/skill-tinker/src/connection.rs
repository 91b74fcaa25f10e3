//! One server: calls, results that come later, and which failures are worth another attempt.
//!
//! A call that changes the model (a gradient, an optimizer step) is sent once: if the connection breaks after it was
//! sent, nobody knows whether it was carried out. A run then ends and continues from its last checkpoint, which makes
//! a new model on the server. All other calls, and all waiting for results, are repeated.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use skill_core::python_json;
use skill_llm::transport::{HeaderText, HttpMethod, HttpRequest, HttpResponse, Transport, TransportError};
use skill_llm::{ApiKey, LlmError};
use skill_train::{RemoteFault, TrainError};
use tokio::time::{Instant, sleep};

use crate::wire::{Capabilities, PREFIX, Pending, Retrieve};

type Result<T> = std::result::Result<T, TrainError>;

/// The header of the key.
const KEY_HEADER: &str = "x-api-key";
/// Attempts of a call that may be repeated.
const MAX_ATTEMPTS: u32 = 8;
/// The wait before the second attempt; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// The wait before a result is asked for again that the server has not yet; each further one is twice as long.
const FIRST_POLL_WAIT: Duration = Duration::from_millis(200);
/// The longest wait between two such requests.
const MAX_POLL_WAIT: Duration = Duration::from_secs(5);
/// How long one exchange may take: servers hold back the answer to `retrieve_future` for minutes.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(330);
/// The most bytes of a reply.
const MAX_REPLY_BYTES: usize = 256 << 20;
/// The most bytes of an archive of weights.
const MAX_ARCHIVE_BYTES: usize = 4 << 30;
/// Characters of a server's reason that are shown.
const MAX_REASON_CHARS: usize = 300;

/// How a server is reached.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    /// The address, such as `http://gpu.example:8600`; `/api/v1` is put behind it where it is missing.
    pub base_url: String,
    /// The key, sent as `x-api-key`.
    pub key: Option<ApiKey>,
    /// How long the result of one call may take.
    pub max_wait: Duration,
}

impl ConnectionSettings {
    /// A server without a key, whose results may take an hour each.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self { base_url: base_url.into(), key: None, max_wait: Duration::from_secs(3_600) }
    }
}

/// When a call that failed is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// After any failure that may pass: carried out twice, the call does no harm.
    Always,
    /// Only where the server has not begun with it: the call changes the model each time that it is carried out.
    UntilBegun,
    /// Not at all: the caller asks whether the server is there.
    Never,
}

/// A server with its key.
#[derive(Clone)]
pub struct Connection {
    transport: Arc<dyn Transport>,
    /// The address with [`PREFIX`].
    base: String,
    key: Option<HeaderText>,
    max_wait: Duration,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Connection {
    /// A connection; nothing is sent yet.
    ///
    /// # Errors
    /// [`LlmError::Configuration`] for an address that is not one of HTTP or that holds credentials.
    pub fn new(
        transport: Arc<dyn Transport>,
        settings: &ConnectionSettings,
    ) -> std::result::Result<Self, LlmError> {
        let wrong = |message: &str| LlmError::Configuration { message: message.to_owned() };
        let base = settings.base_url.trim().trim_end_matches('/');
        let Some((scheme, rest)) = base.split_once("://") else {
            return Err(wrong("the address of the training server looks like https://host:8600"));
        };
        if !matches!(scheme, "http" | "https") || rest.is_empty() {
            return Err(wrong("the address of the training server begins with neither http:// nor https://"));
        }
        if rest.split(['/', '?']).next().unwrap_or_default().contains('@') || rest.contains('?') {
            return Err(wrong(
                "the address of the training server holds credentials or a query: put the key into an environment variable",
            ));
        }
        let base = if base.ends_with(PREFIX) { base.to_owned() } else { format!("{base}{PREFIX}") };
        let key = settings.key.as_ref().map(HeaderText::key);
        Ok(Self { transport, base, key, max_wait: settings.max_wait })
    }

    /// The address of the server, which holds no credentials.
    pub fn server(&self) -> &str {
        self.base.strip_suffix(PREFIX).unwrap_or(&self.base)
    }

    /// The names of the base models that the server has, by one attempt.
    ///
    /// # Errors
    /// [`TrainError::Remote`].
    pub async fn base_models(&self) -> Result<Vec<String>> {
        let found: Capabilities = self.get("get_server_capabilities").await?;
        Ok(found.supported_models.into_iter().filter_map(|model| model.model_name).collect())
    }

    pub(crate) fn fault(&self, call: &'static str, fault: RemoteFault) -> TrainError {
        TrainError::Remote { call, server: self.server().to_owned(), fault }
    }

    /// Reads something that the server has.
    async fn get<T: DeserializeOwned>(&self, call: &'static str) -> Result<T> {
        let request = self.request(HttpMethod::Get, format!("{}/{call}", self.base), Vec::new());
        let response = self.exchange(call, request, Repeat::Never).await?;
        self.read(call, &response)
    }

    /// Sends a call and reads its answer.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        call: &'static str,
        body: &impl Serialize,
        repeat: Repeat,
    ) -> Result<T> {
        let body = serde_json::to_vec(body)
            .map_err(|error| TrainError::Request { field: call.to_owned(), fault: error.to_string() })?;
        let request = self.request(HttpMethod::Post, format!("{}/{call}", self.base), body);
        let response = self.exchange(call, request, repeat).await?;
        self.read(call, &response)
    }

    /// Sends a call that takes long and waits for its result.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        call: &'static str,
        body: &impl Serialize,
        repeat: Repeat,
    ) -> Result<T> {
        let pending: Pending = self.post(call, body, repeat).await?;
        self.result(call, &pending.request_id).await
    }

    /// Waits for the result of a request.
    pub(crate) async fn result<T: DeserializeOwned>(
        &self,
        call: &'static str,
        request_id: &str,
    ) -> Result<T> {
        let body = serde_json::to_vec(&Retrieve { request_id: request_id.to_owned() })
            .expect("a request serializes");
        let began = Instant::now();
        let mut wait = FIRST_POLL_WAIT;
        loop {
            let url = format!("{}/retrieve_future", self.base);
            let request = self.request(HttpMethod::Post, url, body.clone());
            let response = self.exchange(call, request, Repeat::Always).await?;
            // 408: the server has waited for as long as it does.
            if response.status != 408 {
                let value: Value = self.read(call, &response)?;
                let kind = value.get("type").and_then(Value::as_str);
                if kind != Some("try_again") {
                    return self.finished(call, value);
                }
            }
            if began.elapsed() >= self.max_wait {
                return Err(self.fault(call, RemoteFault::TimedOut(self.max_wait.as_secs())));
            }
            sleep(wait).await;
            wait = (wait * 2).min(MAX_POLL_WAIT);
        }
    }

    fn finished<T: DeserializeOwned>(&self, call: &'static str, value: Value) -> Result<T> {
        if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
            let reason = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
            return Err(self.fault(call, RemoteFault::Failed(shortened(&reason))));
        }
        serde_json::from_value(value)
            .map_err(|error| self.fault(call, RemoteFault::Incomplete(error.to_string())))
    }

    /// The archive at this path below the address, following the one redirect that servers answer with.
    pub(crate) async fn archive(&self, call: &'static str, path: &str) -> Result<Vec<u8>> {
        let mut url = format!("{}/{path}", self.base);
        for _ in 0..2 {
            let mut request = self.request(HttpMethod::Get, url.clone(), Vec::new());
            request.max_response_bytes = MAX_ARCHIVE_BYTES;
            if !url.strip_prefix(self.server()).is_some_and(|rest| rest.starts_with('/')) {
                // An address that is signed needs no key, and gets none.
                request.headers.clear();
            }
            let response = self.exchange(call, request, Repeat::Always).await?;
            let moved = (300..400).contains(&response.status).then(|| response.header("location"));
            url = match moved.flatten() {
                Some(location) if location.starts_with('/') => format!("{}{location}", self.server()),
                Some(location) => location.to_owned(),
                None => {
                    self.check(call, &response)?;
                    return Ok(response.body);
                }
            };
        }
        Err(self.fault(call, RemoteFault::Incomplete("it redirects more than once".to_owned())))
    }

    fn request(&self, method: HttpMethod, url: String, body: Vec<u8>) -> HttpRequest {
        let mut headers = vec![("accept".to_owned(), HeaderText::Plain("application/json".to_owned()))];
        if method == HttpMethod::Post {
            headers.push(("content-type".to_owned(), HeaderText::Plain("application/json".to_owned())));
        }
        headers.extend(self.key.clone().map(|key| (KEY_HEADER.to_owned(), key)));
        let timeout = Some(EXCHANGE_TIMEOUT);
        HttpRequest { method, url, headers, body, timeout, max_response_bytes: MAX_REPLY_BYTES }
    }

    /// Sends until there is an answer that counts.
    async fn exchange(
        &self,
        call: &'static str,
        request: HttpRequest,
        repeat: Repeat,
    ) -> Result<HttpResponse> {
        let mut wait = FIRST_WAIT;
        for attempt in 1.. {
            let (fault, may_repeat) = match self.transport.send(request.clone()).await {
                Ok(response) => match response.status {
                    // Turned away before anything was done.
                    429 | 503 => (refusal(&response), true),
                    500..=599 => (refusal(&response), repeat == Repeat::Always),
                    _ => return Ok(response),
                },
                Err(error @ TransportError::Connect { .. }) => {
                    (RemoteFault::Unreachable(error.to_string()), true)
                }
                Err(error @ (TransportError::TooLarge { .. } | TransportError::Unusable { .. })) => {
                    (RemoteFault::Failed(error.to_string()), false)
                }
                Err(error) if repeat == Repeat::UntilBegun => {
                    (RemoteFault::InDoubt(error.to_string()), false)
                }
                Err(error) => (RemoteFault::Unreachable(error.to_string()), true),
            };
            if !may_repeat || repeat == Repeat::Never || attempt >= MAX_ATTEMPTS {
                return Err(self.fault(call, fault));
            }
            tracing::warn!(call, server = self.server(), %fault, "another attempt in {} s", wait.as_secs_f64());
            sleep(wait).await;
            wait = (wait * 2).min(MAX_WAIT);
        }
        Err(self.fault(call, RemoteFault::Unreachable("no attempt was made".to_owned())))
    }

    /// An error for every status but success.
    fn check(&self, call: &'static str, response: &HttpResponse) -> Result<()> {
        match response.status {
            200..=299 => Ok(()),
            404 => Err(self.fault(call, RemoteFault::Forgotten(reason(response)))),
            _ => Err(self.fault(call, refusal(response))),
        }
    }

    fn read<T: DeserializeOwned>(&self, call: &'static str, response: &HttpResponse) -> Result<T> {
        self.check(call, response)?;
        let content_type = response.header("content-type").unwrap_or("an unnamed type");
        let is_other = ["protobuf", "octet-stream", "html"].iter().any(|kind| content_type.contains(kind));
        if is_other {
            return Err(self.fault(call, RemoteFault::NotJson(content_type.to_owned())));
        }
        let text =
            response.text().map_err(|fault| self.fault(call, RemoteFault::NotJson(fault.to_string())))?;
        serde_json::from_str(&python_json::plain(&text)).map_err(|error| {
            let fault = if error.is_data() {
                RemoteFault::Incomplete(error.to_string())
            } else {
                RemoteFault::NotJson(format!("{content_type} ({error})"))
            };
            self.fault(call, fault)
        })
    }
}

fn refusal(response: &HttpResponse) -> RemoteFault {
    RemoteFault::Refused { status: response.status, message: reason(response) }
}

/// The reason in the body of an error: `detail`, as a text or a list of faults, or the beginning of the body.
fn reason(response: &HttpResponse) -> String {
    let text = response.text().unwrap_or_else(|fault| fault.to_string());
    let body: Value = python_json::read(&text).unwrap_or_default();
    let detail = ["detail", "error", "message"].iter().find_map(|key| body.get(key));
    let text = match detail {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(faults)) => {
            let words = faults.iter().filter_map(|fault| fault.get("msg").and_then(Value::as_str));
            words.collect::<Vec<_>>().join("; ")
        }
        Some(other) => other.to_string(),
        None => text,
    };
    shortened(&text)
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() { "no reason given".to_owned() } else { text.chars().take(MAX_REASON_CHARS).collect() }
}
