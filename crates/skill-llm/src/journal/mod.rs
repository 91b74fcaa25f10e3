//! The journal: every reply of a model and every finished result of a run, once.
//!
//! A [`Journal`] is a SQLite database in WAL mode that one process writes. A call is identified by what produced it:
//! the model, the request, its place in the run, and how often its unit of work has asked the same before. A call
//! whose reply is there is answered from it; equal calls that are under way at once share one request. So a run that
//! is started again asks nobody twice. A text that is embedded is identified by the model and the text alone, and has an
//! entry of its own, whatever request it was sent with.
//!
//! Writing happens on a thread of its own, in groups: a reply is committed at most some milliseconds after it came,
//! and nobody waits for that. [`Journal::flush`] is there for anyone who has to.
//!
//! Requests are recorded before they are sent, in a small file beside the database (`journal.sqlite-sent`) that is there
//! while something is in flight: what a process that was killed had sent counts like an answered request. Who closes a
//! journal writes its hash beside it (`journal.sqlite-sum`), so that a check sees any byte that changes later.
//!
//! The tables are described in `tables.sql` beside this module; any SQLite tool can read them.

mod embedding;
mod error;
mod flight;
mod journaled;
mod key;
mod live;
mod prune;
mod query;
mod record;
mod schema;
mod seen;
mod sent;
mod spent;
mod stats;
mod sum;
mod writer;

pub use error::JournalError;
pub use journaled::{Journaled, NotInRecording, Recording};
pub use key::{CallKey, ResultKey, next_occurrence};
pub use live::{ResultRow, SpentSince};
pub use prune::{Pruned, prune};
pub use query::{CallFilter, CallRow, JournalReader, JournalTotals};
pub use record::{ModelSpent, StoredResult};
pub use schema::SCHEMA_VERSION;
pub use stats::StageCalls;
pub use sum::{Closed, compare_with_sum, sum_path};

use crate::chat::ChatReply;
use crate::layer::ModelSeen;
use embedding::StoredVector;
use key::{ModelPart, TextKey};
use parking_lot::Mutex;
use record::{ResultEntry, WaitingBytes, unix_ms};
use rusqlite::{Connection, params};
use sent::SentFile;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{Semaphore, oneshot};
use writer::{Command, Hurry, Writer};

/// The name of a journal in the directory of its run.
pub const JOURNAL_FILE: &str = "journal.sqlite";

/// How long replies are gathered before they are committed together.
const GROUP_WINDOW: Duration = Duration::from_millis(10);

/// The most entries that are committed together.
const MAX_GROUP: usize = 1024;

/// The most bytes that a journal may have, unless the options say otherwise: 64 GiB.
pub const MAX_BYTES: u64 = 64 * 1024 * 1024 * 1024;

/// The most calls that are under way or not committed yet; further ones wait before they are sent.
const MAX_UNCOMMITTED: usize = 16_384;

/// The most bytes of prompts, replies and results that wait to be committed; while there are more, no call is sent.
///
/// The thread that writes keeps up with thousands of calls a second, so this matters only where very many are answered
/// at the same moment; it bounds the memory that they take.
const MAX_UNCOMMITTED_BYTES: usize = 1024 * 1024;

/// When a [`CommitHook`] is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitPoint {
    /// The entries are written, and not committed.
    Before,
    /// The entries are committed.
    After,
}

/// Called by the thread that writes, with the number of entries that this process has written.
pub type CommitHook = Arc<dyn Fn(CommitPoint, u64) + Send + Sync>;

/// How a journal is written; nothing here changes what is in it.
#[derive(Clone)]
pub struct JournalOptions {
    /// How long replies are gathered before they are committed together.
    pub group_window: Duration,
    /// The most entries that are committed together; at least 1.
    pub max_group: usize,
    /// The most bytes that the file may have.
    pub max_bytes: u64,
    /// Whom to tell about commits.
    pub on_commit: Option<CommitHook>,
    /// Whether the journal counts as written to from the moment that it is opened, and not from the first entry on.
    pub begins_at_once: bool,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self {
            group_window: GROUP_WINDOW,
            max_group: MAX_GROUP,
            max_bytes: MAX_BYTES,
            on_commit: None,
            begins_at_once: false,
        }
    }
}

impl std::fmt::Debug for JournalOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalOptions")
            .field("group_window", &self.group_window)
            .field("max_group", &self.max_group)
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}

/// How many requests a journal holds, those of pruned calls too; `None` if no process has ever written to it, as to one
/// that is not there.
///
/// Nothing is made or changed.
///
/// # Errors
///
/// A file that cannot be read, is not a journal, or was written by a program with other tables.
pub fn requests_written(path: &Path) -> Result<Option<u64>, JournalError> {
    match JournalReader::open(path) {
        Ok(reader) => reader.requests_written(),
        // A process that died before its first commit leaves a file without tables.
        Err(JournalError::Missing { .. } | JournalError::Empty { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A journal that this process writes; clones share it, and the last one to go commits everything.
#[derive(Clone)]
pub struct Journal {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    index: Arc<Mutex<Index>>,
    failure: Arc<Mutex<Option<JournalError>>>,
    /// Gone only while the journal is closed.
    reader: Mutex<Option<Connection>>,
    flights: flight::Flights,
    /// The length of the vectors of each embedding model.
    lengths: Mutex<HashMap<ModelPart, usize>>,
    room: Arc<Semaphore>,
    backlog: Backlog,
    spent_before: Vec<ModelSpent>,
    unanswered_before: Vec<ModelSpent>,
    seen_before: Vec<ModelSeen>,
    /// The requests that are in flight.
    sent: Arc<SentFile>,
    /// How many requests of this process are committed.
    requests: Arc<AtomicU64>,
    elapsed_before: Duration,
    commands: Option<Sender<Command>>,
    hurry: Arc<Hurry>,
    thread: Option<JoinHandle<()>>,
}

/// What is known to be in the journal.
#[derive(Default)]
pub(crate) struct Index {
    calls: HashMap<CallKey, Known<ChatReply>>,
    texts: HashMap<TextKey, Known<StoredVector>>,
    results: HashMap<ResultKey, Known<StoredResult>>,
}

/// Where something that is known can be had.
pub(crate) enum Known<T> {
    /// In this row.
    Row(i64),
    /// On its way to the disk.
    Pending(Arc<T>),
}

impl<T> Known<T> {
    fn row(&self) -> Option<i64> {
        match self {
            Self::Row(row) => Some(*row),
            Self::Pending(_) => None,
        }
    }
}

/// Entries that wait to be committed, and callers that wait for the commit.
#[derive(Default)]
struct Backlog {
    bytes: Arc<AtomicUsize>,
    /// Held by the one who waits for the disk, for all the others.
    turn: tokio::sync::Mutex<()>,
}

impl Backlog {
    fn is_long(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > MAX_UNCOMMITTED_BYTES
    }
}

impl Journal {
    /// Opens a journal to be written, and makes it if it is not there.
    ///
    /// The caller sees to it that no other process writes it at the same time.
    ///
    /// # Errors
    ///
    /// A file that cannot be opened, is not a journal, or was written by a program with other tables.
    pub fn open(path: &Path, options: JournalOptions) -> Result<Self, JournalError> {
        let failed = |source| JournalError::sqlite("open", path, source);
        let mut connection = schema::open_to_write(path, options.max_bytes)?;
        sent::absorb(&mut connection, path)?;
        let reader = schema::open_to_read(path)?;
        let index = read_index(&reader).map_err(failed)?;
        let lengths = embedding::lengths(&reader).map_err(failed)?;
        let spent_before = spent::spent(&reader, Vec::new()).map_err(failed)?;
        let unanswered_before = sent::unanswered(&reader, Vec::new()).map_err(failed)?;
        let seen_before = seen::seen(&reader).map_err(failed)?;
        let sent = Arc::new(SentFile::new(path));
        let elapsed_before = spent::elapsed(&reader).map_err(failed)?;
        let index = Arc::new(Mutex::new(index));
        let failure = Arc::new(Mutex::new(None));
        let hurry = Arc::<Hurry>::default();
        let requests = Arc::<AtomicU64>::default();
        let started_at = unix_ms(SystemTime::now());
        let process = if options.begins_at_once {
            Some(writer::insert_process(&connection, started_at).map_err(failed)?)
        } else {
            None
        };
        let writer = Writer {
            process,
            started_at,
            connection,
            path: path.to_owned(),
            index: Arc::clone(&index),
            requests: Arc::clone(&requests),
            sent: Arc::clone(&sent),
            failure: Arc::clone(&failure),
            group_window: options.group_window,
            hurry: Arc::clone(&hurry),
            max_group: options.max_group.max(1),
            on_commit: options.on_commit,
            started: Instant::now(),
        };
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run(&receiver))
            .map_err(|error| JournalError::Sqlite {
                action: "open",
                path: path.to_owned(),
                message: format!("no thread can be started: {error}"),
                is_full: false,
            })?;
        let shared = Shared {
            path: path.to_owned(),
            index,
            failure,
            reader: Mutex::new(Some(reader)),
            flights: flight::Flights::default(),
            lengths: Mutex::new(lengths),
            room: Arc::new(Semaphore::new(MAX_UNCOMMITTED)),
            backlog: Backlog::default(),
            spent_before,
            unanswered_before,
            seen_before,
            sent,
            requests,
            elapsed_before,
            commands: Some(sender),
            hurry,
            thread: Some(thread),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// What the run had cost when the journal was opened, by model.
    pub fn spent_before(&self) -> &[ModelSpent] {
        &self.shared.spent_before
    }

    /// The part of it that was in flight in processes that were killed, with what was reserved for it.
    pub fn unanswered_before(&self) -> &[ModelSpent] {
        &self.shared.unanswered_before
    }

    /// The latest replies that it held when it was opened, by model, for [`crate::Budget::recall`].
    pub fn seen_before(&self) -> &[ModelSeen] {
        &self.shared.seen_before
    }

    /// How many requests are committed, those of pruned calls and of earlier processes too.
    pub fn requests_committed(&self) -> u64 {
        let before = self.shared.spent_before.iter().map(|spent| spent.requests);
        before.fold(self.shared.requests.load(Ordering::Acquire), u64::saturating_add)
    }

    /// How long earlier processes had worked on the run when the journal was opened.
    pub fn elapsed_before(&self) -> Duration {
        self.shared.elapsed_before
    }

    /// A result that was recorded.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn result(&self, key: ResultKey) -> Result<Option<Arc<StoredResult>>, JournalError> {
        let row = match self.shared.index.lock().results.get(&key) {
            None => return Ok(None),
            Some(Known::Pending(result)) => return Ok(Some(Arc::clone(result))),
            Some(Known::Row(row)) => *row,
        };
        let found = self.read(|reader| {
            reader
                .prepare_cached("SELECT place, content FROM results WHERE id = ?1")?
                .query_row(params![row], |row| Ok(StoredResult { place: row.get(0)?, content: row.get(1)? }))
        });
        found.map(|result| Some(Arc::new(result)))
    }

    /// Records a result; one that is there already stays.
    ///
    /// `kind` and `subject` are for people who read the journal.
    pub fn record_result(&self, key: ResultKey, kind: &str, subject: &str, result: StoredResult) {
        let stored = Arc::new(result);
        {
            let mut index = self.shared.index.lock();
            if index.results.contains_key(&key) {
                return;
            }
            index.results.insert(key, Known::Pending(Arc::clone(&stored)));
        }
        self.send(Command::Result(Box::new(ResultEntry {
            key,
            kind: kind.to_owned(),
            subject: subject.to_owned(),
            _waiting: WaitingBytes::new(&self.shared.backlog.bytes, stored.content.len()),
            stored,
            finished_at: unix_ms(SystemTime::now()),
        })));
    }

    /// Waits until everything that was recorded before is committed.
    ///
    /// # Errors
    ///
    /// A journal that cannot be written, now or before.
    pub async fn flush(&self) -> Result<(), JournalError> {
        let (sender, receiver) = oneshot::channel();
        self.send(Command::Flush(sender));
        self.shared.hurry.up();
        self.wait_for(receiver).await
    }

    /// Waits for an answer of the thread that writes.
    async fn wait_for<T: Send + 'static>(
        &self,
        receiver: oneshot::Receiver<Result<T, JournalError>>,
    ) -> Result<T, JournalError> {
        // A blocking task keeps a paused clock from running ahead while the disk is waited for.
        let waited = tokio::task::spawn_blocking(move || receiver.blocking_recv()).await;
        match waited {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) | Err(_) => Err(self.closed()),
        }
    }

    fn closed(&self) -> JournalError {
        let failure = self.shared.failure.lock().clone();
        failure.unwrap_or_else(|| JournalError::Closed { path: self.shared.path.clone() })
    }

    /// Reads from the database.
    fn read<T>(&self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, JournalError> {
        match self.shared.reader.lock().as_ref() {
            Some(reader) => {
                query(reader).map_err(|error| JournalError::sqlite("read", &self.shared.path, error))
            }
            None => Err(self.closed()),
        }
    }

    fn send(&self, command: Command) {
        // Without a receiver the writer has failed, and the next call or flush says so.
        if let Some(commands) = &self.shared.commands {
            drop(commands.send(command));
        }
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The writer's connection has to be the last one: it takes the write-ahead log into the database.
        drop(self.reader.lock().take());
        drop(self.commands.take());
        self.hurry.up();
        if let Some(thread) = self.thread.take() {
            // The writer does not panic; if it did, what is committed is committed.
            drop(thread.join());
        }
        self.sent.close();
        sum::note_closed(&self.path);
    }
}

fn read_index(connection: &Connection) -> rusqlite::Result<Index> {
    let calls = read_reply_keys(connection, Known::Row)?;
    let mut statement = connection.prepare("SELECT id, key FROM results")?;
    let rows = statement.query_map([], |row| Ok((ResultKey(row.get(1)?), Known::Row(row.get(0)?))))?;
    let texts = embedding::read_text_keys(connection, Known::Row)?;
    Ok(Index { calls, texts, results: rows.collect::<Result<_, _>>()? })
}

/// The key of every reply, with what is to be known of its row.
fn read_reply_keys<T>(
    connection: &Connection,
    known: impl Fn(i64) -> T,
) -> rusqlite::Result<HashMap<CallKey, T>> {
    let mut statement = connection.prepare("SELECT id, key FROM calls WHERE outcome = 'reply'")?;
    let rows = statement.query_map([], |row| Ok((CallKey(row.get(1)?), known(row.get(0)?))))?;
    rows.collect()
}
