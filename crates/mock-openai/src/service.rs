//! One request: counted, delayed, answered or not.

use crate::config::{Replies, ServerConfig};
use crate::dice::{hash, throw};
use crate::embedding::EmbeddingRequest;
use crate::reply::{Answer, FaultAnswer, Reply, error_response, fault_answer, json_response, models};
use crate::stats::{Counter, RequestKey};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use std::borrow::Cow;
use std::future::pending;
use std::sync::OnceLock;
use std::time::Duration;

/// The header that tells equal requests of different places of a run apart.
const PLACE_HEADER: &str = "x-skillrl-place";

/// The longest body of a request.
const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) counter: Counter,
}

/// What is to be done with a connection once the service has given it up.
#[derive(Debug)]
pub(crate) enum Ending {
    /// It is reset.
    Reset,
    /// These bytes are written and it is closed.
    Cut(Vec<u8>),
}

/// Says that the connection gets no response from the service.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoResponse {
    /// The client's request did not arrive as a whole.
    #[error("the request broke")]
    RequestBroke,
    /// A fault: what follows is an [`Ending`].
    #[error("a fault ends the connection")]
    Fault,
}

impl Shared {
    /// Answers a request; with an error the connection ends as `ending` says.
    pub(crate) async fn serve(
        &self,
        request: Request<Incoming>,
        ending: &OnceLock<Ending>,
    ) -> Result<Answer, NoResponse> {
        let (head, body) = request.into_parts();
        match (&head.method, head.uri.path()) {
            (&Method::POST, path @ ("/v1/chat/completions" | "/v1/embeddings")) => {
                let Ok(body) = Limited::new(body, MAX_REQUEST_BYTES).collect().await else {
                    return Err(NoResponse::RequestBroke);
                };
                self.answer(path, &head.headers, &body.to_bytes(), ending).await
            }
            (&Method::GET, "/v1/models") => {
                self.counter.asked_for_something_else();
                Ok(models())
            }
            (&Method::GET, "/stats") => {
                self.counter.asked_for_something_else();
                let stats = serde_json::to_string(&self.counter.stats()).unwrap_or_default();
                Ok(json_response(StatusCode::OK, stats))
            }
            (&Method::POST, "/stats/reset") => {
                self.counter.reset();
                Ok(json_response(StatusCode::OK, "{}"))
            }
            (method, path) => {
                self.counter.asked_for_something_else();
                let message = format!("Invalid URL ({method} {path})");
                Ok(error_response(StatusCode::NOT_FOUND, "invalid_request_error", None, &message))
            }
        }
    }

    async fn answer(
        &self,
        path: &str,
        headers: &HeaderMap,
        body: &Bytes,
        ending: &OnceLock<Ending>,
    ) -> Result<Answer, NoResponse> {
        let ServerConfig { seed, latency, faults, .. } = &self.config;
        let key = request_key(headers, body);
        let (occurrence, in_flight) = self.counter.arrived(key, body.len());
        let fault = faults.fault(*seed, key.in_place, occurrence);
        if let Some(fault) = fault {
            in_flight.has(fault);
        }
        let latency = latency.sample(*seed, key.in_place, occurrence);
        if latency > Duration::ZERO {
            tokio::time::sleep(latency).await;
        }
        let text;
        let embeddings;
        let reply = if path == "/v1/embeddings" {
            embeddings = match EmbeddingRequest::read(body) {
                Ok(request) => request,
                Err(message) => {
                    let response =
                        error_response(StatusCode::BAD_REQUEST, "invalid_request_error", None, &message);
                    in_flight.failed(Some(StatusCode::BAD_REQUEST.as_u16()), message.len());
                    return Ok(response);
                }
            };
            Reply::Embeddings(&embeddings)
        } else {
            text = match &self.config.replies {
                Replies::Fixed(text) => Cow::Borrowed(text.as_str()),
                Replies::Workload(workload) => Cow::Owned(workload.reply(body)),
            };
            Reply::Completion { id: throw(*seed, key.in_place, occurrence, "id"), request: body, text: &text }
        };
        let Some(fault) = fault else {
            let body = reply.body();
            in_flight.answered(body.len());
            return Ok(json_response(StatusCode::OK, body));
        };
        let end = match fault_answer(fault, faults, reply) {
            FaultAnswer::Response(response) => {
                let n_bytes = response.body().size_hint().lower();
                in_flight
                    .failed(Some(response.status().as_u16()), usize::try_from(n_bytes).unwrap_or(usize::MAX));
                return Ok(response);
            }
            FaultAnswer::Nothing => pending().await,
            FaultAnswer::Reset => Ending::Reset,
            FaultAnswer::Cut(bytes) => Ending::Cut(bytes),
        };
        match &end {
            Ending::Reset => in_flight.failed(None, 0),
            Ending::Cut(bytes) => in_flight.failed(Some(StatusCode::OK.as_u16()), bytes.len()),
        }
        // A connection has one end, so nothing can be there yet.
        drop(ending.set(end));
        Err(NoResponse::Fault)
    }
}

fn request_key(headers: &HeaderMap, body: &Bytes) -> RequestKey {
    let body = hash(0, body);
    let in_place = headers.get(PLACE_HEADER).map_or(body, |place| hash(body, place.as_bytes()));
    RequestKey { body, in_place }
}
