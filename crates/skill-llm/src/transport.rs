//! One HTTP exchange, without knowing what it is for.
//!
//! Dialects speak through [`Transport`], so that tests and simulated providers need no sockets and can run in
//! virtual time. A transport never repeats a request and never follows a redirect: both would pay twice or carry
//! the key to another host.
//!
//! # Invariants
//!
//! - A transport sends a request once and follows no redirect. Held by
//!   `a_connection_that_breaks_before_the_answer_is_not_tried_again`, `a_redirect_is_not_followed`.

mod encoded;
mod proxy;
mod reqwest;
mod scrubbed;

pub use self::encoded::BodyFault;
pub use self::proxy::proxy_variable;
pub use self::reqwest::ReqwestTransport;
pub use self::scrubbed::ScrubbedTransport;
use crate::secret::ApiKey;
use async_trait::async_trait;
use secrecy::{ExposeSecret as _, SecretString};
use std::fmt;
use std::time::Duration;

/// The most bytes that the body of a response may have, unless a request says otherwise.
pub const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;

/// Something that carries a request to a server and brings the response back.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends one request once and reads the whole response.
    ///
    /// Any status is an `Ok`. Dropping the future ends the exchange.
    ///
    /// # Errors
    ///
    /// There is no whole response: see [`TransportError`].
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError>;
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    /// Reads.
    Get,
    /// Sends a body.
    Post,
}

/// The value of a header.
#[derive(Clone)]
pub enum HeaderText {
    /// May be shown.
    Plain(String),
    /// Must not be shown.
    Secret(SecretString),
}

impl HeaderText {
    /// A key as the whole value of a header.
    pub fn key(key: &ApiKey) -> Self {
        Self::Secret(key.with_prefix(""))
    }

    /// The value itself, for the one who sends it.
    pub fn expose(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Secret(text) => text.expose_secret(),
        }
    }
}

impl fmt::Debug for HeaderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(text) => text.fmt(f),
            Self::Secret(_) => f.write_str(".."),
        }
    }
}

/// What is sent.
#[derive(Clone)]
pub struct HttpRequest {
    /// The method.
    pub method: HttpMethod,
    /// The whole address, with its query.
    pub url: String,
    /// Names and values, in order.
    pub headers: Vec<(String, HeaderText)>,
    /// The body; empty for none.
    pub body: Vec<u8>,
    /// How long the whole exchange may take; `None` sets no limit.
    pub timeout: Option<Duration>,
    /// The most bytes that the body of the response may have.
    pub max_response_bytes: usize,
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A query may hold a key.
        let url = self.url.split_once('?').map_or(self.url.as_str(), |(before, _)| before);
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("url", &url)
            .field("headers", &self.headers)
            .field("body_bytes", &self.body.len())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpResponse {
    /// The status, such as 200.
    pub status: u16,
    /// Names and values, in order; values that are not text are left out.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// The first header of this name, whatever the case of its letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// An exchange without a whole response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The time limit was reached.
    #[error("no response within {} s", after.as_secs_f64())]
    Timeout {
        /// The limit.
        after: Duration,
    },
    /// No connection could be made.
    #[error("{message}")]
    Connect {
        /// What the network said, causes included.
        message: String,
    },
    /// The connection broke before the response began.
    #[error("the connection broke: {message}")]
    Broken {
        /// What the network said, causes included.
        message: String,
    },
    /// The connection broke in the middle of the response.
    #[error("the response broke off: {message}")]
    Truncated {
        /// What the network said, causes included.
        message: String,
    },
    /// The response is longer than allowed.
    #[error("the response has more than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The request cannot be sent as it is, or no client can be made.
    #[error("{message}")]
    Unusable {
        /// What is wrong with it.
        message: String,
    },
}
