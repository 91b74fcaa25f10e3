//! A test bed: a provider in virtual time, behind the cargo feature `testbed`.
//!
//! [`SimProvider`] is a [`Transport`] without sockets. It fails in every way that providers fail, by a seed: what
//! happens to a request depends on the seed, the request's body, how often that body was seen, and the time since
//! the provider was made. It sleeps by tokio's clock only, so that under a paused clock hours pass in milliseconds.

mod faults;
mod report;

pub use faults::{Ask, Burst, InjectedFault, Outage, SimConfig, SimLatency};
pub use report::SimReport;

use self::faults::Plan;
use self::report::Counts;
use crate::transport::{HttpRequest, HttpResponse, Transport, TransportError};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use skill_core::Usage;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How many bytes of text a token of this provider has.
const BYTES_PER_TOKEN: usize = 4;
/// The size of a body that is too large.
const OVERSIZED_BYTES: usize = 10 * 1024 * 1024;

/// What the simulated model says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimAnswer {
    /// The text of the reply.
    pub text: String,
    /// The tokens that it is billed with.
    pub usage: Usage,
}

impl SimAnswer {
    /// An answer that is billed by its length and the length of the messages in the request's JSON.
    pub fn text(request: &Value, text: impl Into<String>) -> Self {
        let text = text.into();
        let messages = request.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let contents = messages.iter().filter_map(|message| message.get("content")?.as_str());
        let asked: usize = contents.map(str::len).sum();
        let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX);
        let usage = Usage { input: tokens(asked), output: tokens(text.len()), ..Usage::default() };
        Self { text, usage }
    }
}

type Answer = dyn Fn(&Value) -> SimAnswer + Send + Sync;

/// A provider that needs no network.
pub struct SimProvider {
    config: SimConfig,
    answer: Box<Answer>,
    begun: Instant,
    counts: Mutex<Counts>,
}

impl SimProvider {
    /// A provider that answers by a function of the request's JSON; its time begins now.
    pub fn new(config: SimConfig, answer: impl Fn(&Value) -> SimAnswer + Send + Sync + 'static) -> Arc<Self> {
        let counts = Mutex::new(Counts::default());
        Arc::new(Self { config, answer: Box::new(answer), begun: Instant::now(), counts })
    }

    /// What it was asked until now.
    pub fn report(&self) -> SimReport {
        self.counts.lock().report()
    }

    /// The most requests that came within any time span of this length.
    pub fn most_within(&self, span: Duration) -> usize {
        self.counts.lock().most_within(span)
    }

    fn whole_body(&self, request: &HttpRequest) -> Result<Vec<u8>, String> {
        let asked: Value = serde_json::from_slice(&request.body)
            .map_err(|error| format!("the request is not JSON: {error}"))?;
        let SimAnswer { text, usage } = (self.answer)(&asked);
        let body = json!({
            "id": "sim",
            "object": "chat.completion",
            "model": asked.get("model"),
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            ],
            "usage": {
                "prompt_tokens": usage.input,
                "prompt_tokens_details": {"cached_tokens": usage.cached},
                "completion_tokens": usage.output,
                "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
                "total_tokens": usage.input.saturating_add(usage.output),
            },
        });
        Ok(body.to_string().into_bytes())
    }

    /// What the request comes to, after its latency.
    fn respond(
        &self,
        request: &HttpRequest,
        fault: Option<InjectedFault>,
    ) -> Result<HttpResponse, TransportError> {
        let broken = |message: &str| TransportError::Broken { message: message.to_owned() };
        let whole = || match self.whole_body(request) {
            Ok(body) => response(200, body),
            Err(message) => response(400, json!({"error": {"message": message}}).to_string().into_bytes()),
        };
        let cut = |mut body: Vec<u8>| {
            body.truncate(body.len() / 2);
            body
        };
        Ok(match fault {
            None => whole(),
            Some(InjectedFault::RateLimited(ask)) => limited(ask, self.begun.elapsed(), &self.config),
            Some(InjectedFault::ServerError) => {
                response(500, br#"{"error": {"message": "it hurts"}}"#.to_vec())
            }
            Some(InjectedFault::Unavailable) => response(503, b"no healthy upstream".to_vec()),
            Some(InjectedFault::Refused) => {
                return Err(TransportError::Connect { message: "connection refused".to_owned() });
            }
            // The time has already run out.
            Some(InjectedFault::Hang) => return Err(broken("nobody answered and nobody set a limit")),
            Some(InjectedFault::ResetBefore) => return Err(broken("connection reset by peer")),
            Some(InjectedFault::ResetInside) => {
                return Err(TransportError::Truncated { message: "connection reset by peer".to_owned() });
            }
            Some(InjectedFault::TruncatedJson) => response(200, cut(whole().body)),
            Some(InjectedFault::EmptyChoices) => response(200, br#"{"id": "sim", "choices": []}"#.to_vec()),
            Some(InjectedFault::NullContent) => {
                let message = r#"{"role": "assistant", "content": null}"#;
                let text = format!(r#"{{"choices": [{{"message": {message}, "finish_reason": "stop"}}]}}"#);
                response(200, text.into_bytes())
            }
            Some(InjectedFault::InvalidUtf8) => {
                let text = b"{\"choices\": [{\"message\": {\"content\": \"caf\xe9 \xff\xfe\"}}]}";
                response(200, text.to_vec())
            }
            Some(InjectedFault::Oversized) => {
                if OVERSIZED_BYTES > request.max_response_bytes {
                    return Err(TransportError::TooLarge { limit: request.max_response_bytes });
                }
                let mut padded = whole();
                padded.body.resize(OVERSIZED_BYTES, b' ');
                padded
            }
            Some(InjectedFault::WrongContentType) => {
                let body = b"<html><body>Welcome! Please sign in.</body></html>".to_vec();
                let headers = vec![("content-type".to_owned(), "text/html".to_owned())];
                HttpResponse { status: 200, headers, body }
            }
        })
    }
}

fn response(status: u16, body: Vec<u8>) -> HttpResponse {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    HttpResponse { status, headers, body }
}

/// A 429 that asks to wait until the burst is over, in one of the ways in use.
fn limited(ask: Ask, now: Duration, config: &SimConfig) -> HttpResponse {
    let burst = config.bursts.iter().find(|burst| (burst.from..burst.until).contains(&now));
    let left = burst.map_or(Duration::from_secs(1), |burst| burst.until.saturating_sub(now));
    let mut limited = response(429, br#"{"error": {"message": "slow down"}}"#.to_vec());
    let header = match ask {
        Ask::Nothing => None,
        Ask::RetryAfter => Some(("retry-after", left.as_secs_f64().ceil().to_string())),
        Ask::RetryAfterDate => {
            limited.headers.push(("date".to_owned(), date(now.as_secs())));
            Some(("retry-after", date(now.saturating_add(left).as_secs().saturating_add(1))))
        }
        Ask::RetryAfterMs => Some(("retry-after-ms", left.as_millis().saturating_add(1).to_string())),
        Ask::Reset => {
            limited.headers.push(("x-ratelimit-remaining-requests".to_owned(), "0".to_owned()));
            let (minutes, seconds) = (left.as_secs() / 60, left.as_secs_f64() % 60.0);
            Some(("x-ratelimit-reset-requests", format!("{minutes}m{seconds:.3}s")))
        }
    };
    limited.headers.extend(header.map(|(name, value)| (name.to_owned(), value)));
    limited
}

/// A date of HTTP, so many seconds into the provider's day; it has only one.
fn date(seconds: u64) -> String {
    let seconds = seconds.min(24 * 3_600 - 1);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("Wed, 21 Oct 2026 {hour:02}:{minute:02}:{second:02} GMT")
}

/// Counts a request as over, however it ends.
struct InFlight<'a>(&'a SimProvider);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.counts.lock().ended();
    }
}

#[async_trait]
impl Transport for SimProvider {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let digest: [u8; 32] = Sha256::digest(&request.body).into();
        let (seen, in_flight) = self.counts.lock().arrived(digest, Instant::now());
        let _ended = InFlight(self);
        let Plan { fault, latency } = self.config.plan(digest, seen, self.begun.elapsed(), in_flight);
        match request.timeout {
            Some(limit) if fault == Some(InjectedFault::Hang) || latency > limit => {
                tokio::time::sleep(limit).await;
                self.counts.lock().failed(fault.unwrap_or(InjectedFault::Hang));
                return Err(TransportError::Timeout { after: limit });
            }
            None if fault == Some(InjectedFault::Hang) => std::future::pending().await,
            _ => tokio::time::sleep(latency).await,
        }
        let outcome = self.respond(&request, fault);
        let is_padded = fault == Some(InjectedFault::Oversized) && outcome.is_ok();
        match fault.filter(|_| !is_padded) {
            None => self.counts.lock().answered(digest),
            Some(fault) => self.counts.lock().failed(fault),
        }
        outcome
    }
}
