//! A model that counts what reaches it, and journals in a directory that goes away.

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_llm::journal::{CallFilter, CallRow};
use skill_llm::{
    CallCtx, CallPlace, ChatModel, ChatReply, ChatRequest, Journal, JournalOptions, JournalReader, Journaled,
    LlmError, Message, ModelId, Role, Usage,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tokio::sync::Semaphore;

pub(crate) const USAGE: Usage = Usage { input: 10, cached: 4, cache_written: 2, output: 3, reasoning: 1 };

/// Answers `reply N to TEXT`, where N counts all requests; a text with `fail` fails.
pub(crate) struct Counting {
    id: ModelId,
    parameters: Value,
    n_requests: AtomicUsize,
    /// A request waits until it gets a permit.
    gate: Option<Arc<Semaphore>>,
    pub(crate) seen: Mutex<Vec<String>>,
}

impl Counting {
    pub(crate) fn new() -> Self {
        Self {
            id: ModelId::new("http://llm.example", "m"),
            parameters: json!({"temperature": 0.5}),
            n_requests: AtomicUsize::new(0),
            gate: None,
            seen: Mutex::default(),
        }
    }

    pub(crate) fn with_parameters(self, parameters: Value) -> Self {
        Self { parameters, ..self }
    }

    pub(crate) fn with_revision(self, revision: &str) -> Self {
        Self { id: self.id.with_revision(revision), ..self }
    }

    pub(crate) fn gated(self) -> (Arc<Self>, Arc<Semaphore>) {
        let gate = Arc::new(Semaphore::new(0));
        (Arc::new(Self { gate: Some(Arc::clone(&gate)), ..self }), gate)
    }

    pub(crate) fn n_requests(&self) -> usize {
        self.n_requests.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl ChatModel for Counting {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn parameters(&self) -> Value {
        self.parameters.clone()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let text = request.text_of(Role::User);
        self.seen.lock().push(text.clone());
        let number = self.n_requests.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(gate) = &self.gate {
            tokio::select! {
                () = call.cancel.cancelled() => return Err(LlmError::Cancelled),
                permit = gate.acquire() => permit.unwrap().forget(),
            }
        }
        if text.contains("fail") {
            let message = format!("number {number}");
            return Err(LlmError::ServerError {
                provider: "p".to_owned(),
                status: 500,
                message,
                retry_after: None,
            });
        }
        Ok(ChatReply::text(format!("reply {number} to {text}"), USAGE))
    }
}

/// A directory with a journal.
pub(crate) struct Bench {
    dir: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// The files as `kill -9` would leave them now.
    pub(crate) fn killed(&self) -> Self {
        let copy = Self::new();
        for entry in std::fs::read_dir(self.dir()).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.dir().join(entry.file_name())).unwrap();
        }
        copy
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("journal.sqlite")
    }

    pub(crate) fn open(&self) -> Journal {
        Journal::open(&self.path(), JournalOptions::default()).unwrap()
    }

    pub(crate) fn reader(&self) -> JournalReader {
        JournalReader::open(&self.path()).unwrap()
    }

    pub(crate) fn rows(&self) -> Vec<CallRow> {
        self.reader().calls(&CallFilter::default()).unwrap()
    }
}

pub(crate) fn journaled(model: &Arc<Counting>, journal: &Journal) -> Journaled {
    Journaled::new(Arc::clone(model) as Arc<dyn ChatModel>, journal.clone())
}

pub(crate) fn request(text: &str) -> ChatRequest {
    ChatRequest::new(vec![Message::system("be brief"), Message::user(text)])
}

/// A unit of work of its own at a place.
pub(crate) fn at(place: &str) -> CallCtx {
    CallCtx::new(CallPlace::new(place))
}

pub(crate) async fn ask(model: &dyn ChatModel, text: &str, call: &CallCtx) -> String {
    model.chat(&request(text), call).await.unwrap().text
}
