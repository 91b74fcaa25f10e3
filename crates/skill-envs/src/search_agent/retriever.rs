//! Where passages come from: an index of this process, a server, or a program.

use super::corpus::of_contents;
use crate::retrieval::{Passage, StoredIndex};
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_llm::error::with_causes;
use skill_llm::process::{self, Daemons, Ending, Passed, Run};
use skill_llm::transport::{HeaderText, HttpMethod, HttpRequest};
use skill_llm::{ReqwestTransport, Transport};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 4 << 20;
/// How much of what a program wrote on its standard error, or a server in place of an answer, is in a message.
const MAX_SHOWN: usize = 200;

/// Finds passages for a query.
#[async_trait]
pub trait Retriever: Send + Sync {
    /// All that decides what it finds, as far as it is known here.
    fn identity(&self) -> Value;

    /// The best passages, the best first.
    ///
    /// # Errors
    ///
    /// What went wrong, as a fragment: this is never an empty result.
    async fn search(&self, query: &str, n_passages: usize) -> Result<Vec<Passage>, String>;
}

/// An index of this process.
#[derive(Debug)]
pub struct LocalRetriever {
    index: Arc<StoredIndex>,
    corpus: String,
}

impl LocalRetriever {
    /// Searches this index; `corpus` is the hash of what it is made from.
    pub fn new(index: Arc<StoredIndex>, corpus: impl Into<String>) -> Self {
        Self { index, corpus: corpus.into() }
    }
}

#[async_trait]
impl Retriever for LocalRetriever {
    fn identity(&self) -> Value {
        json!({"corpus": self.corpus})
    }

    async fn search(&self, query: &str, n_passages: usize) -> Result<Vec<Passage>, String> {
        let found = self.index.search(query, n_passages).map_err(|error| with_causes(&error))?;
        Ok(found.into_iter().map(|(passage, _)| passage).collect())
    }
}

/// A server that speaks the protocol of Search-R1's retriever: `POST {"queries", "topk", "return_scores"}` is answered
/// with `{"result": [[{"document": {"contents"}, "score"}]]}`.
pub struct HttpRetriever {
    address: String,
    timeout: Duration,
    transport: Arc<dyn Transport>,
}

impl HttpRetriever {
    /// A retriever at this address, such as `http://127.0.0.1:8000/retrieve`; nothing is sent.
    ///
    /// # Errors
    ///
    /// An address that is none, or no HTTP client.
    pub fn new(address: &str, timeout: Duration) -> Result<Self, String> {
        let transport =
            ReqwestTransport::new().map_err(|error| format!("no HTTP client can be made: {error}"))?;
        Self::with_transport(address, timeout, Arc::new(transport))
    }

    /// The same on another transport, such as one without a network.
    ///
    /// # Errors
    ///
    /// An address that is none.
    pub fn with_transport(
        address: &str,
        timeout: Duration,
        transport: Arc<dyn Transport>,
    ) -> Result<Self, String> {
        if !address.starts_with("http://") && !address.starts_with("https://") {
            let expected = "expected one like `http://127.0.0.1:8000/retrieve`";
            return Err(format!("the retriever `{address}` is not an address; {expected}"));
        }
        Ok(Self { address: address.to_owned(), timeout, transport })
    }
}

#[async_trait]
impl Retriever for HttpRetriever {
    fn identity(&self) -> Value {
        json!({"retriever": self.address})
    }

    async fn search(&self, query: &str, n_passages: usize) -> Result<Vec<Passage>, String> {
        let address = &self.address;
        let request = HttpRequest {
            method: HttpMethod::Post,
            url: address.clone(),
            headers: vec![("content-type".to_owned(), HeaderText::Plain("application/json".to_owned()))],
            body: request_of(query, n_passages).to_string().into_bytes(),
            timeout: Some(self.timeout),
            max_response_bytes: MAX_ANSWER_BYTES,
        };
        let response = self.transport.send(request).await;
        let response = response
            .map_err(|error| format!("the retriever {address} gave no answer: {error}; is it running?"))?;
        let text = response.text().unwrap_or_else(|fault| fault.to_string());
        if !(200..300).contains(&response.status) {
            let shown = shown(&text);
            return Err(format!(
                "the retriever {address} answered with HTTP status {}: {shown}",
                response.status
            ));
        }
        passages_in(&text).map_err(|fault| format!("the retriever {address} {fault}: {}", shown(&text)))
    }
}

/// A program that is started for each query: it reads the request of Search-R1's protocol and prints the answer.
pub struct CommandRetriever {
    command: Vec<String>,
    directory: PathBuf,
    timeout: Duration,
}

impl CommandRetriever {
    /// A program with its arguments; it runs in this directory.
    ///
    /// # Errors
    ///
    /// No program is named.
    pub fn new(command: Vec<String>, directory: PathBuf, timeout: Duration) -> Result<Self, String> {
        match command.first().filter(|name| !name.trim().is_empty()) {
            Some(_) => Ok(Self { command, directory, timeout }),
            None => Err("the retriever's command names no program".to_owned()),
        }
    }
}

#[async_trait]
impl Retriever for CommandRetriever {
    fn identity(&self) -> Value {
        json!({"command": self.command})
    }

    async fn search(&self, query: &str, n_passages: usize) -> Result<Vec<Passage>, String> {
        let input = request_of(query, n_passages).to_string();
        let run = Run {
            command: &self.command,
            directory: Some(&self.directory),
            environment: Some(Passed::new(&[]).environment().collect()),
            stdin: input.as_bytes(),
            deadline: self.timeout,
            max_output_bytes: MAX_ANSWER_BYTES,
            max_stderr_bytes: MAX_SHOWN,
            daemons: Daemons::End,
        };
        let name = self.command.first().map(String::as_str).unwrap_or_default();
        let outcome = process::run(&run).await.map_err(|error| format!("the retriever `{name}` {error}"))?;
        let error = String::from_utf8_lossy(&outcome.stderr).trim().to_owned();
        match outcome.ending {
            Ending::Exited(status) if status.success() => {
                let text = String::from_utf8_lossy(&outcome.stdout);
                passages_in(&text)
                    .map_err(|fault| format!("the retriever `{name}` {fault}: {}", shown(&text)))
            }
            Ending::Exited(status) => Err(format!("the retriever `{name}` ended with {status}: {error}")),
            Ending::Cut => Err(format!("the retriever `{name}` printed more than {MAX_ANSWER_BYTES} bytes")),
            Ending::Deadline => {
                Err(format!("the retriever `{name}` timed out after {} s", self.timeout.as_secs_f64()))
            }
        }
    }
}

fn request_of(query: &str, n_passages: usize) -> Value {
    json!({"queries": [query], "topk": n_passages, "return_scores": true})
}

fn shown(text: &str) -> String {
    text.trim().chars().take(MAX_SHOWN).collect()
}

/// The passages of an answer: a list for each query, of documents or of documents with scores. An empty `result`, or an
/// empty list for the query, means that nothing was found; any other form is an error.
fn passages_in(text: &str) -> Result<Vec<Passage>, &'static str> {
    let answer: Value = serde_json::from_str(text).map_err(|_| "gave an answer that is not JSON")?;
    let listed = answer.get("result").ok_or("gave an answer without `result`")?;
    let listed = listed.as_array().ok_or("gave a `result` that is not a list of passages")?;
    let found = match listed.first() {
        Some(Value::Array(found)) => found,
        // A server that is asked one query may leave out the list around its passages.
        Some(Value::Object(_)) => listed,
        None => return Ok(Vec::new()),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            return Err("gave a `result` that is not a list of passages");
        }
    };
    found
        .iter()
        .map(|entry| {
            let document = entry.get("document").unwrap_or(entry);
            let text = |name: &str| document.get(name).and_then(Value::as_str);
            let id = match document.get("id") {
                Some(Value::String(id)) => id.clone(),
                Some(Value::Number(id)) => id.to_string(),
                _ => String::new(),
            };
            match (text("text"), text("contents")) {
                (Some(found), _) => Ok(Passage {
                    id,
                    title: text("title").unwrap_or_default().to_owned(),
                    text: found.to_owned(),
                }),
                (None, Some(contents)) => Ok(of_contents(id, contents)),
                (None, None) => Err("gave a passage without `contents` and `text`"),
            }
        })
        .collect()
}
