//! How the exporter reaches a collector: by the transport of the models, so that one TLS, one set of proxies and one
//! limit hold for both.

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use skillrl::llm::transport::{HeaderText, HttpMethod, HttpRequest, ReqwestTransport, Transport as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// The variable for the longest exchange, in milliseconds.
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
/// The longest exchange, where nobody says.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// A collector has little to say.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;

/// A client with a thread of its own: the exporter's has no runtime, and connections live on between batches.
#[derive(Debug)]
pub(super) struct Client {
    transport: Arc<ReqwestTransport>,
    runtime: Runtime,
    timeout: Duration,
}

impl Client {
    pub(super) fn new() -> Result<Self, String> {
        let transport = ReqwestTransport::new().map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("otel-http")
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let timeout = timeout(super::value(TIMEOUT).as_deref())?;
        Ok(Self { transport: Arc::new(transport), runtime, timeout })
    }
}

/// Parses the timeout; the error is the message for the user.
fn timeout(asked: Option<&str>) -> Result<Duration, String> {
    let Some(text) = asked else { return Ok(DEFAULT_TIMEOUT) };
    text.parse()
        .map(Duration::from_millis)
        .map_err(|_| format!("{TIMEOUT} is {text:?}, and takes a whole number of milliseconds"))
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        // Headers hold the tokens of collectors.
        let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            let value = HeaderText::Secret(value.to_str().ok()?.to_owned().into());
            Some((name.as_str().to_owned(), value))
        };
        let request = HttpRequest {
            method: HttpMethod::Post,
            url: parts.uri.to_string(),
            headers: parts.headers.iter().filter_map(header).collect(),
            body: body.to_vec(),
            timeout: Some(self.timeout),
            max_response_bytes: MAX_RESPONSE_BYTES,
        };
        let transport = Arc::clone(&self.transport);
        let answer = self.runtime.spawn(async move { transport.send(request).await }).await??;
        let mut response = Response::builder().status(answer.status);
        for (name, value) in &answer.headers {
            response = response.header(name, value);
        }
        Ok(response.body(Bytes::from(answer.body))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_of_another_form_is_not_passed_over() {
        let found = |text| timeout(text).ok();
        assert_eq!(
            (found(None), found(Some("2500"))),
            (Some(DEFAULT_TIMEOUT), Some(Duration::from_millis(2500)))
        );
        for text in ["10s", "1.5", "-1", ""] {
            assert_eq!(found(Some(text)), None, "{text:?}");
        }
    }
}
