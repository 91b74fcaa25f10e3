//! The server that outlives the process: a model that notes every request in a file.

use crate::child::{PATIENCE, Said};
use async_trait::async_trait;
use serde_json::{Value, json};
use skillrl::core::canonical::canonical_hash;
use skillrl::llm::{CallCtx, ChatModel, ChatReply, ChatRequest, JournalReader, LlmError, ModelId};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

/// Where requests are noted, beside the demo's files.
pub(crate) const REQUESTS_FILE: &str = "requests.log";

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// The child that sent it.
    pub(crate) child: u32,
    /// Of the model and everything in the request.
    pub(crate) digest: String,
    pub(crate) place: String,
}

/// The requests that the server has seen, in order.
pub(crate) fn requests(home: &Path) -> Vec<Request> {
    let text = std::fs::read_to_string(home.join(REQUESTS_FILE)).unwrap_or_default();
    let lines = text.lines().map(|line| {
        let [child, digest, place] = line.splitn(3, '\t').collect::<Vec<_>>().try_into().unwrap();
        Request { child: child.parse().unwrap(), digest: digest.to_owned(), place: place.to_owned() }
    });
    lines.collect()
}

/// Tells that the journal has committed something.
pub(crate) struct Signals(watch::Sender<()>);

impl Default for Signals {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

impl Signals {
    pub(crate) fn committed(&self) {
        self.0.send_replace(());
    }
}

/// Holds calls back until the answers to earlier ones are committed, all but as many as may be in flight.
pub(crate) struct Pace {
    journal: PathBuf,
    n_in_flight: u64,
    n_answered: AtomicU64,
    signals: Arc<Signals>,
    reader: OnceLock<(JournalReader, u64)>,
}

impl Pace {
    pub(crate) fn new(journal: PathBuf, n_in_flight: u64, signals: Arc<Signals>) -> Self {
        Self { journal, n_in_flight, n_answered: AtomicU64::new(0), signals, reader: OnceLock::new() }
    }

    async fn admit(&self) {
        let (reader, n_before) = self.reader.get_or_init(|| {
            let reader = JournalReader::open(&self.journal).unwrap();
            let n_before = reader.totals().unwrap().replies;
            (reader, n_before)
        });
        let mut committed = self.signals.0.subscribe();
        let caught_up = async {
            loop {
                committed.borrow_and_update();
                let n_committed = reader.totals().unwrap().replies - n_before;
                if self.n_answered.load(Ordering::SeqCst) < n_committed + self.n_in_flight {
                    return;
                }
                committed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE / 2, caught_up).await.expect("an answer is committed soon");
    }
}

/// A model of the server.
pub(crate) struct Served {
    inner: Arc<dyn ChatModel>,
    log: File,
    child: u32,
    pace: Option<Arc<Pace>>,
}

impl Served {
    pub(crate) fn new(inner: Arc<dyn ChatModel>, home: &Path, child: u32, pace: Option<Arc<Pace>>) -> Self {
        let log = File::options().create(true).append(true).open(home.join(REQUESTS_FILE)).unwrap();
        Self { inner, log, child, pace }
    }
}

#[async_trait]
impl ChatModel for Served {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    fn parameters(&self) -> Value {
        self.inner.parameters()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        if let Some(pace) = &self.pace {
            pace.admit().await;
        }
        let digest = canonical_hash(&json!({"model": self.id(), "request": request}));
        let line = format!("{}\t{digest}\t{}\n", self.child, call.place);
        // One write to a file that is only appended to: whole, whenever the process dies.
        (&self.log).write_all(line.as_bytes()).unwrap();
        Said::Request.say();
        let reply = self.inner.chat(request, call).await;
        if let Some(pace) = &self.pace {
            pace.n_answered.fetch_add(1, Ordering::SeqCst);
        }
        reply
    }
}
