//! Which tokens are good, and where their requests go.

use super::problem::{Problem, ProblemKind};
use super::session::SessionSettings;
use parking_lot::{Mutex, MutexGuard};
use ring::digest::{SHA256, digest};
use ring::hmac;
use skill_llm::secret::SESSION_TOKEN_PREFIX;
use skill_llm::{ChatReply, ChatRequest};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot};

/// How many requests of a session may wait to be taken; further ones wait in their connections.
const MAX_WAITING: usize = 64;

/// The SHA-256 of a token.
///
/// Tokens are looked up by their hash: how long that takes tells nothing about a token that is good.
pub(super) type SessionKey = [u8; 32];

/// A request on its way to its session.
pub(super) struct Asked {
    pub(super) request: ChatRequest,
    pub(super) waiting: oneshot::Sender<Result<ChatReply, Problem>>,
}

/// The server's side of a session.
pub(super) struct Door {
    asked: mpsc::Sender<Asked>,
    pub(super) settings: SessionSettings,
    n_requests: AtomicU32,
    n_heard: AtomicU32,
}

impl Door {
    /// Counts a request that asks the model for something, whether it can be honoured or not.
    pub(super) fn hear(&self) {
        self.n_heard.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request; the number is from 0.
    pub(super) fn admit(&self) -> Result<u32, Problem> {
        let max = self.settings.max_requests;
        let admitted = self.n_requests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
            // One above the limit tells that it was reached.
            (count <= max).then(|| count.saturating_add(1))
        });
        match admitted {
            Ok(number) if number < max => Ok(number),
            Ok(_) | Err(_) => {
                let message =
                    format!("the rollout has had all of its {max} requests; no further one is answered");
                Err(Problem::new(ProblemKind::RequestLimit, message))
            }
        }
    }

    /// Has a request answered by the session.
    pub(super) async fn ask(&self, request: ChatRequest) -> Result<ChatReply, Problem> {
        let (waiting, answer) = oneshot::channel();
        let over = || Problem::new(ProblemKind::Over, "the rollout ended before the reply came");
        self.asked.send(Asked { request, waiting }).await.map_err(|_| over())?;
        answer.await.map_err(|_| over())?
    }
}

/// The sessions that are open.
pub(super) struct Registry {
    /// Tokens are derived from it, so that a new one needs nothing of the system.
    secret: hmac::Key,
    n_tokens: AtomicU64,
    doors: Mutex<HashMap<SessionKey, Arc<Door>>>,
}

impl Registry {
    pub(super) fn new(secret: hmac::Key) -> Self {
        Self { secret, n_tokens: AtomicU64::new(0), doors: Mutex::default() }
    }

    /// Opens a session: its token, the hash of it, and its requests.
    pub(super) fn open(&self, settings: SessionSettings) -> (String, SessionKey, mpsc::Receiver<Asked>) {
        let number = self.n_tokens.fetch_add(1, Ordering::Relaxed);
        let tag = hmac::sign(&self.secret, &number.to_be_bytes());
        let digits: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let token = format!("{SESSION_TOKEN_PREFIX}{digits}");
        let key = key_of(&token);
        let (asked, requests) = mpsc::channel(MAX_WAITING);
        self.doors().insert(
            key,
            Arc::new(Door { asked, settings, n_requests: AtomicU32::new(0), n_heard: AtomicU32::new(0) }),
        );
        (token, key, requests)
    }

    /// Refuses a token from now on.
    pub(super) fn close(&self, key: &SessionKey) {
        self.doors().remove(key);
    }

    /// Whether a session has refused a request because it has had all of them.
    pub(super) fn limit_reached(&self, key: &SessionKey) -> bool {
        let doors = self.doors();
        doors
            .get(key)
            .is_some_and(|door| door.n_requests.load(Ordering::Relaxed) > door.settings.max_requests)
    }

    /// How many requests came for the model of a session.
    pub(super) fn heard(&self, key: &SessionKey) -> u32 {
        self.doors().get(key).map_or(0, |door| door.n_heard.load(Ordering::Relaxed))
    }

    /// The session that a token opens.
    pub(super) fn find(&self, token: &str) -> Option<Arc<Door>> {
        self.doors().get(&key_of(token)).map(Arc::clone)
    }

    fn doors(&self) -> MutexGuard<'_, HashMap<SessionKey, Arc<Door>>> {
        // The map is whole after every statement, so a panic elsewhere cannot have broken it.
        self.doors.lock()
    }
}

fn key_of(token: &str) -> SessionKey {
    let mut key = SessionKey::default();
    // Both are 32 bytes long.
    for (to, from) in key.iter_mut().zip(digest(&SHA256, token.as_bytes()).as_ref()) {
        *to = *from;
    }
    key
}
