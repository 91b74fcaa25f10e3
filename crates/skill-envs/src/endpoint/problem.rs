//! Answers that are errors, in the shape of the dialect that the agent speaks.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

/// What the server sends.
pub(super) type Answer = Response<Full<Bytes>>;

/// The header by which the SDKs of both dialects are told not to send a request again, whatever its status.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The wire format of a request and of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Chat Completions.
    OpenAi,
    /// Responses, whose errors are those of Chat Completions.
    Responses,
    /// Messages.
    Anthropic,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProblemKind {
    /// The request cannot be understood or honoured.
    Request,
    /// The body is longer than allowed.
    TooLarge,
    /// The body did not arrive in time.
    Slow,
    /// No token, or none of a rollout that is under way.
    Token,
    /// The request is for another host: a page in a browser that was led here by a name.
    Host,
    /// Nothing is at this path.
    Path,
    /// The path takes another method.
    Method,
    /// The rollout has had all its requests.
    RequestLimit,
    /// The model could not be asked; the rollout is lost.
    Target,
    /// The request does not fit the model's context; the rollout goes on.
    ContextTooLong,
    /// The provider's policy refuses the request; the rollout goes on.
    Refused,
    /// The rollout ended before the answer.
    Over,
}

impl ProblemKind {
    /// The status.
    ///
    /// None of them is one that the SDKs take for passing (408, 409, 429 and from 500 on): the layers around the
    /// target have made all attempts that make sense by the time an error comes here, so a further one by the agent
    /// only costs time. A failing target is a 400 because that is the status which every client takes as final.
    fn status(self) -> StatusCode {
        match self {
            Self::Request
            | Self::Slow
            | Self::RequestLimit
            | Self::Target
            | Self::ContextTooLong
            | Self::Refused
            | Self::Over => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Token => StatusCode::UNAUTHORIZED,
            Self::Host => StatusCode::FORBIDDEN,
            Self::Path => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
        }
    }

    /// The `code` of the OpenAI dialect.
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Request | Self::Path | Self::Method => None,
            Self::TooLarge => Some("request_too_large"),
            Self::Slow => Some("request_timeout"),
            Self::Token => Some("invalid_api_key"),
            Self::Host => Some("host_not_allowed"),
            Self::RequestLimit => Some("request_limit_reached"),
            Self::Target => Some("target_failed"),
            Self::ContextTooLong => Some("context_length_exceeded"),
            Self::Refused => Some("content_policy_violation"),
            Self::Over => Some("rollout_over"),
        }
    }

    /// The `type` of the Anthropic dialect.
    fn anthropic_type(self) -> &'static str {
        match self {
            Self::Request
            | Self::Slow
            | Self::RequestLimit
            | Self::Target
            | Self::ContextTooLong
            | Self::Refused
            | Self::Over
            | Self::Method => "invalid_request_error",
            Self::TooLarge => "request_too_large",
            Self::Token => "authentication_error",
            Self::Host => "permission_error",
            Self::Path => "not_found_error",
        }
    }
}

/// Why a request has no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) kind: ProblemKind,
    pub(super) message: String,
    /// The field of the request that is at fault.
    pub(super) param: Option<String>,
}

impl Problem {
    pub(super) fn new(kind: ProblemKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), param: None }
    }

    /// A field that cannot be understood or honoured; the message begins with its path.
    pub(super) fn field(path: impl Into<String>, message: impl AsRef<str>) -> Self {
        let path = path.into();
        let message = format!("`{path}` {}", message.as_ref());
        Self { kind: ProblemKind::Request, message, param: Some(path) }
    }

    /// The answer in a dialect.
    pub(super) fn answer(&self, dialect: Dialect) -> Answer {
        let Self { kind, message, param } = self;
        let body = match dialect {
            Dialect::OpenAi | Dialect::Responses => json!({"error": {
                "message": message,
                "type": "invalid_request_error",
                "param": param,
                "code": kind.code(),
            }}),
            Dialect::Anthropic => {
                json!({"type": "error", "error": {"type": kind.anthropic_type(), "message": message}})
            }
        };
        let mut answer = json_answer(&body);
        *answer.status_mut() = kind.status();
        answer.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        answer
    }
}

/// An answer of JSON with the status 200.
pub(super) fn json_answer(body: &Value) -> Answer {
    answer_of("application/json", body.to_string())
}

/// An answer of server-sent events.
pub(super) fn event_stream(events: String) -> Answer {
    answer_of("text/event-stream; charset=utf-8", events)
}

fn answer_of(content_type: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}
