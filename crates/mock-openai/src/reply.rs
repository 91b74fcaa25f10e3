//! Bodies as the server writes them.

use crate::embedding::EmbeddingRequest;
use crate::fault::{Fault, FaultPlan};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use memchr::memmem;
use serde_json::json;
use std::time::Duration;

/// When all completions were created: a clock would make equal requests have different answers.
const CREATED: u64 = 1_767_225_600;

/// How long the text of an oversized reply is.
const OVERSIZED_BYTES: usize = 10_000_000;

/// Characters per token, as providers' rules of thumb have it.
const BYTES_PER_TOKEN: usize = 4;

/// What is said in the name of a model that the request does not name.
const NO_MODEL: &str = "mock";

const HTML: &str = "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head>\
    <body><center><h1>502 Bad Gateway</h1></center><hr><center>nginx</center></body></html>\n";

/// A completion as the dialect has it; `id` is unique to the request and its occurrence.
fn completion(id: u64, request: &[u8], text: &str) -> String {
    completion_of(id, request, &quoted(text), text.len())
}

fn completion_of(id: u64, request: &[u8], content: &str, n_text_bytes: usize) -> String {
    let prompt_tokens = request.len() / BYTES_PER_TOKEN;
    let completion_tokens = (n_text_bytes / BYTES_PER_TOKEN).max(1);
    let total_tokens = prompt_tokens + completion_tokens;
    let model = quoted(model(request).unwrap_or(NO_MODEL));
    format!(
        concat!(
            r#"{{"id":"chatcmpl-{:016x}","object":"chat.completion","created":{},"model":{},"choices":[{{"index":0,"#,
            r#""message":{{"role":"assistant","content":{},"refusal":null}},"logprobs":null,"#,
            r#""finish_reason":"stop"}}],"usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{}}}}}"#
        ),
        id, CREATED, model, content, prompt_tokens, completion_tokens, total_tokens
    )
}

/// A text as a JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The model that a request names, found without reading the rest of the JSON.
fn model(request: &[u8]) -> Option<&str> {
    // Inside a string the quotes would be escaped, so this is a key; it is the first one of nearly every client.
    let at = memmem::find(request, br#""model":"#)?;
    let rest = request.get(at..)?.split_at_checked(br#""model":"#.len())?.1.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"")?;
    let name = rest.get(..memchr::memchr2(b'"', b'\\', rest)?)?;
    std::str::from_utf8(name).ok()
}

/// What goes back to a client.
pub(crate) type Answer = Response<Full<Bytes>>;

/// A response with a body of JSON.
pub(crate) fn json_response(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    response(status, "application/json", body)
}

fn response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// An error as the dialect has it.
pub(crate) fn error_response(status: StatusCode, kind: &str, code: Option<&str>, message: &str) -> Answer {
    let error = json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
    json_response(status, error.to_string())
}

/// The models that the server has: any name will do, and this one is listed.
pub(crate) fn models() -> Answer {
    let model = json!({"id": NO_MODEL, "object": "model", "created": CREATED, "owned_by": "mock-openai"});
    json_response(StatusCode::OK, json!({"object": "list", "data": [model]}).to_string())
}

/// What a fault does.
pub(crate) enum FaultAnswer {
    /// This response instead of the reply.
    Response(Answer),
    /// Nothing until the client is gone.
    Nothing,
    /// The connection is reset.
    Reset,
    /// These bytes, then the connection is closed.
    Cut(Vec<u8>),
}

/// The reply that a request would get.
#[derive(Clone, Copy)]
pub(crate) enum Reply<'a> {
    /// A completion of this text; the id is unique to the request and its occurrence.
    Completion { id: u64, request: &'a [u8], text: &'a str },
    /// Vectors.
    Embeddings(&'a EmbeddingRequest),
}

impl Reply<'_> {
    /// The whole body.
    pub(crate) fn body(self) -> String {
        match self {
            Self::Completion { id, request, text } => completion(id, request, text),
            Self::Embeddings(request) => request.reply(),
        }
    }

    /// The body without a choice or a vector.
    fn without_parts(self) -> String {
        match self {
            Self::Completion { id, request, .. } => {
                let usage = json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0});
                let id = format!("chatcmpl-{id:016x}");
                let body = json!({"id": id, "object": "chat.completion", "created": CREATED,
                    "model": model(request).unwrap_or(NO_MODEL), "choices": [], "usage": usage});
                body.to_string()
            }
            Self::Embeddings(request) => request.reply_of(std::iter::empty()),
        }
    }

    /// The body with null as the content, or as each vector.
    fn with_null(self) -> String {
        match self {
            Self::Completion { id, request, .. } => completion_of(id, request, "null", 0),
            Self::Embeddings(request) => {
                request.reply_of(std::iter::repeat_n(serde_json::Value::Null, request.n_texts()))
            }
        }
    }

    /// The body with this text as the content, or as each vector.
    fn with_text(self, content: &str) -> String {
        match self {
            Self::Completion { id, request, .. } => {
                completion_of(id, request, &quoted(content), content.len())
            }
            Self::Embeddings(request) => {
                request.reply_of(std::iter::repeat_n(content.into(), request.n_texts()))
            }
        }
    }
}

/// The effect of a fault on a reply.
pub(crate) fn fault_answer(fault: Fault, plan: &FaultPlan, reply: Reply<'_>) -> FaultAnswer {
    let rate_limited = |header: Option<(HeaderName, String)>| {
        let message = "Rate limit reached for requests per minute. Please try again later.";
        let (status, code) = (StatusCode::TOO_MANY_REQUESTS, Some("rate_limit_exceeded"));
        let mut response = error_response(status, "requests", code, message);
        if let Some((name, value)) = header
            && let Ok(value) = HeaderValue::try_from(value)
        {
            response.headers_mut().insert(name, value);
        }
        response
    };
    let failed = |status, message| error_response(status, "server_error", None, message);
    let response = match fault {
        Fault::RateLimit => rate_limited(None),
        Fault::RateLimitRetryAfter => rate_limited(Some((RETRY_AFTER, plan.retry_after_s.to_string()))),
        Fault::RateLimitRetryAfterMs => {
            let name = HeaderName::from_static("retry-after-ms");
            rate_limited(Some((name, plan.retry_after.as_millis().to_string())))
        }
        Fault::RateLimitReset => {
            let name = HeaderName::from_static("x-ratelimit-reset-requests");
            rate_limited(Some((name, reset_text(plan.retry_after))))
        }
        Fault::InternalError => failed(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The server had an error while processing your request.",
        ),
        Fault::BadGateway => response(StatusCode::BAD_GATEWAY, "text/html", HTML),
        Fault::Unavailable => failed(
            StatusCode::SERVICE_UNAVAILABLE,
            "The engine is currently overloaded, please try again later.",
        ),
        Fault::Hang => return FaultAnswer::Nothing,
        Fault::Reset => return FaultAnswer::Reset,
        Fault::Truncated => return FaultAnswer::Cut(truncated(&reply.body())),
        Fault::EmptyChoices => json_response(StatusCode::OK, reply.without_parts()),
        Fault::NullContent => json_response(StatusCode::OK, reply.with_null()),
        Fault::InvalidUtf8 => {
            // A lone continuation byte inside a text: the JSON around it is whole.
            const MARK: &str = "\u{7f}";
            let body = reply.with_text(MARK).into_bytes();
            let body = body.into_iter().map(|byte| if byte == 0x7f { 0x80 } else { byte });
            json_response(StatusCode::OK, body.collect::<Vec<u8>>())
        }
        Fault::Oversized => {
            let body = reply.with_text(&"0123456789".repeat(OVERSIZED_BYTES / 10));
            json_response(StatusCode::OK, body)
        }
        Fault::Html => response(StatusCode::OK, "text/html", HTML),
    };
    FaultAnswer::Response(response)
}

/// A response whose head promises the whole body, and half of it.
fn truncated(body: &str) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend(body.bytes().take(length / 2));
    bytes
}

/// A duration as OpenAI's headers have it: `20ms`, `1.5s`, `6m0s`.
fn reset_text(duration: Duration) -> String {
    let millis = duration.as_millis();
    let seconds = |millis: u128| match millis % 1_000 {
        0 => format!("{}s", millis / 1_000),
        _ => format!("{}s", millis as f64 / 1e3),
    };
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..60_000 => seconds(millis),
        60_000.. => format!("{}m{}", millis / 60_000, seconds(millis % 60_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[track_caller]
    fn check_model(request: &str, expect: Option<&str>) {
        assert_eq!(model(request.as_bytes()), expect, "{request}");
    }

    #[test]
    fn the_model_is_found_without_reading_the_rest() {
        check_model(r#"{"model":"small","messages":[]}"#, Some("small"));
        check_model(r#"{"messages":[{"content":"say \"model\":\"x\""}], "model": "small"}"#, Some("small"));
        check_model(r#"{"messages":[]}"#, None);
        check_model(r#"{"model":7}"#, None);
        check_model(r#"{"model":"#, None);
        check_model(r#"{"model":"cut"#, None);
    }

    #[test]
    fn a_reply_is_what_the_dialect_has() {
        let text = "a \"word\"\nand more";
        let body = completion(10, br#"{"model":"small","messages":["0123456789"]}"#, text);
        let reply: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(reply["id"], "chatcmpl-000000000000000a");
        assert_eq!((&reply["object"], &reply["model"]), (&"chat.completion".into(), &"small".into()));
        assert_eq!(
            reply["choices"][0]["message"],
            json!({"role": "assistant", "content": text, "refusal": null})
        );
        assert_eq!(reply["choices"][0]["finish_reason"], "stop");
        assert_eq!(reply["usage"], json!({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}));
    }

    #[test]
    fn resets_are_written_as_openai_writes_them() {
        for (millis, expect) in
            [(0, "0ms"), (20, "20ms"), (1_000, "1s"), (1_500, "1.5s"), (360_000, "6m0s"), (61_250, "1m1.25s")]
        {
            assert_eq!(reset_text(Duration::from_millis(millis)), expect);
        }
    }
}
