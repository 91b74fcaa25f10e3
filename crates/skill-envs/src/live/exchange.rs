//! Requests to servers, and which episode holds which of them.

use parking_lot::Mutex;
use serde_json::Value;
use skill_llm::transport::{HeaderText, HttpMethod, HttpRequest, Transport};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;
/// How many characters of a failed answer are in an error.
const MAX_SHOWN: usize = 200;

#[derive(Debug, Clone)]
pub(super) struct Server {
    address: String,
    timeout: Duration,
}

impl Server {
    pub(super) fn new(address: &str, timeout: Duration) -> Self {
        Self { address: address.trim_end_matches('/').to_owned(), timeout }
    }
}

/// All servers; each is held by at most one episode.
pub(super) struct Servers {
    free: Mutex<Vec<Server>>,
    /// As many permits as there are free servers.
    n_free: Arc<Semaphore>,
    transport: Arc<dyn Transport>,
}

impl Servers {
    pub(super) fn new(servers: Vec<Server>, transport: Arc<dyn Transport>) -> Self {
        let n_free = Arc::new(Semaphore::new(servers.len()));
        Self { free: Mutex::new(servers), n_free, transport }
    }

    /// Waits for a free server, in order.
    pub(super) async fn hold(self: &Arc<Self>) -> Held {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.n_free).acquire_owned().await.ok();
        let server = self.free.lock().pop();
        Held { servers: Arc::clone(self), server, _permit: permit }
    }
}

/// A server that is held; dropping it frees it.
pub(super) struct Held {
    servers: Arc<Servers>,
    server: Option<Server>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Before the permit is given back, which is when this value's fields are dropped.
        self.servers.free.lock().extend(self.server.take());
    }
}

impl Held {
    pub(super) fn address(&self) -> &str {
        self.server.as_ref().map_or("", |server| &server.address)
    }

    /// Sends a request and gives the body of the answer; an error is a fragment that says what went wrong.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<String, String> {
        let Some(server) = &self.server else { return Err("there is no server".to_owned()) };
        let url = format!("{}{path}", server.address);
        let request = HttpRequest {
            method: HttpMethod::Post,
            url: url.clone(),
            headers: vec![("content-type".to_owned(), HeaderText::Plain("application/json".to_owned()))],
            body: body.to_string().into_bytes(),
            timeout: Some(server.timeout),
            max_response_bytes: MAX_ANSWER_BYTES,
        };
        let response = self.servers.transport.send(request).await;
        let response =
            response.map_err(|error| format!("{url} gave no answer: {error}; is the server running?"))?;
        let text = response.text();
        if !(200..300).contains(&response.status) {
            let text = text.unwrap_or_else(|fault| fault.to_string());
            let shown: String = text.trim().chars().take(MAX_SHOWN).collect();
            return Err(format!("{url} answered with status {}: {shown}", response.status));
        }
        text.map_err(|fault| format!("{url} gave an answer that cannot be read: {fault}"))
    }
}
