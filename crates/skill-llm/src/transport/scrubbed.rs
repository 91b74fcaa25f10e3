//! Responses without the secrets of the run, for those who read them as they are.

use super::{HttpRequest, HttpResponse, Transport, TransportError};
use crate::secret::Secrets;
use async_trait::async_trait;
use std::sync::Arc;

/// A transport that takes the secrets of a run out of all responses.
///
/// Dialects do this by themselves, behind the escapes of JSON; it is for servers of other kinds.
pub struct ScrubbedTransport {
    inner: Arc<dyn Transport>,
    secrets: Secrets,
}

impl ScrubbedTransport {
    /// Scrubs what `inner` brings.
    pub fn new(inner: Arc<dyn Transport>, secrets: Secrets) -> Self {
        Self { inner, secrets }
    }

    fn scrub(&self, message: &str) -> String {
        self.secrets.scrub(message).into_owned()
    }
}

#[async_trait]
impl Transport for ScrubbedTransport {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        match self.inner.send(request).await {
            Ok(response) => {
                let headers = response.headers.into_iter();
                Ok(HttpResponse {
                    headers: headers.map(|(name, value)| (name, self.scrub(&value))).collect(),
                    body: self.secrets.scrub_bytes(response.body),
                    ..response
                })
            }
            Err(TransportError::Connect { message }) => {
                Err(TransportError::Connect { message: self.scrub(&message) })
            }
            Err(TransportError::Broken { message }) => {
                Err(TransportError::Broken { message: self.scrub(&message) })
            }
            Err(TransportError::Truncated { message }) => {
                Err(TransportError::Truncated { message: self.scrub(&message) })
            }
            Err(TransportError::Unusable { message }) => {
                Err(TransportError::Unusable { message: self.scrub(&message) })
            }
            Err(error @ (TransportError::Timeout { .. } | TransportError::TooLarge { .. })) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::ApiKey;
    use crate::transport::{HttpMethod, MAX_RESPONSE_BYTES};

    const KEY: &str = "sk-of-the-run-0123";

    struct Fixed(Result<HttpResponse, TransportError>);

    #[async_trait]
    impl Transport for Fixed {
        async fn send(&self, _: HttpRequest) -> Result<HttpResponse, TransportError> {
            self.0.clone()
        }
    }

    #[tokio::test]
    async fn nothing_that_comes_holds_a_secret() {
        let text = || format!("found {KEY}");
        let outcomes = [
            Ok(HttpResponse { status: 200, headers: vec![("x".to_owned(), text())], body: text().into() }),
            Err(TransportError::Connect { message: text() }),
            Err(TransportError::Broken { message: text() }),
            Err(TransportError::Truncated { message: text() }),
            Err(TransportError::Unusable { message: text() }),
        ];
        for outcome in outcomes {
            let secrets = Secrets::default();
            secrets.add(&ApiKey::new(KEY).unwrap());
            let request = HttpRequest {
                method: HttpMethod::Get,
                url: "http://h".to_owned(),
                headers: Vec::new(),
                body: Vec::new(),
                timeout: None,
                max_response_bytes: MAX_RESPONSE_BYTES,
            };
            let sent = ScrubbedTransport::new(Arc::new(Fixed(outcome)), secrets).send(request).await;
            let body = sent.as_ref().map(|response| String::from_utf8_lossy(&response.body).into_owned());
            let shown = format!("{sent:?} {body:?}");
            assert!(!shown.contains(KEY) && shown.contains("[key]"), "{shown}");
        }
    }
}
