//! A broker in this process, in the clock of the runtime, that fails on request: for tests.
//!
//! It does what a server of NATS was seen to do: it forgets the latest acknowledgements when it is killed, keeps
//! messages that it never delivers again, and drops plain messages that come while it is away.

use crate::broker::{Broker, BrokerError, BrokerFacts, Delivery, Inbox, QueueConfig};
use crate::driver::Connect;
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use skill_core::random::Dice;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// The acknowledgements of so long before a kill are forgotten.
const FORGOTTEN: Duration = Duration::from_millis(500);

/// The server, which all clients share.
#[derive(Clone, Default)]
pub struct FakeServer {
    shared: Arc<ServerShared>,
}

#[derive(Default)]
struct ServerShared {
    state: Mutex<ServerState>,
    changed: Notify,
}

#[derive(Default)]
struct ServerState {
    is_down: bool,
    /// How often it was started again.
    n_starts: u64,
    faults: Faults,
    subscriptions: Vec<Subscription>,
    queues: BTreeMap<String, FakeQueue>,
    n_published: u64,
    n_put: u64,
}

/// What a server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// It keeps no queues.
    pub has_no_jetstream: bool,
    /// It refuses connections.
    pub refuses: bool,
    /// It has no room for jobs.
    pub is_full: bool,
    /// One plain message in so many is lost; 0 loses none.
    pub loses_one_in: u64,
    /// Messages come twice.
    pub repeats: bool,
    /// One acknowledged job in so many stays in its queue and is never delivered again; 0 keeps none.
    pub orphans_one_in: u64,
    /// A request for a job that waits while its queue is deleted is never answered.
    pub forgets_requests: bool,
}

struct Subscription {
    subject: String,
    sender: mpsc::UnboundedSender<Bytes>,
    is_cut: Arc<AtomicBool>,
}

struct FakeQueue {
    config: QueueConfig,
    next: u64,
    messages: BTreeMap<u64, FakeMessage>,
    acknowledged: Vec<(Instant, u64, FakeMessage)>,
}

#[derive(Clone)]
struct FakeMessage {
    payload: Bytes,
    /// From when on it may be delivered; `None` for one that never is.
    due: Option<Instant>,
}

impl FakeServer {
    fn lock(&self) -> MutexGuard<'_, ServerState> {
        // Every change is whole when the lock is released.
        self.shared.state.lock()
    }

    /// Has the server do these wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
        self.shared.changed.notify_waiters();
    }

    /// Kills the server: what was acknowledged a moment ago is not.
    pub fn kill(&self) {
        let mut state = self.lock();
        state.is_down = true;
        let now = Instant::now();
        for queue in state.queues.values_mut() {
            for (at, number, message) in std::mem::take(&mut queue.acknowledged) {
                if now.duration_since(at) < FORGOTTEN {
                    queue.messages.insert(number, message);
                }
            }
        }
        drop(state);
        self.shared.changed.notify_waiters();
    }

    /// Starts it again.
    pub fn start(&self) {
        let mut state = self.lock();
        state.is_down = false;
        state.n_starts += 1;
        drop(state);
        self.shared.changed.notify_waiters();
    }

    /// Loses all queues, as a server whose files are gone.
    pub fn lose_files(&self) {
        self.lock().queues.clear();
        self.shared.changed.notify_waiters();
    }

    /// The names of the queues.
    pub fn queue_names(&self) -> Vec<String> {
        self.lock().queues.keys().cloned().collect()
    }

    /// Plain messages and jobs that were sent.
    pub fn n_sent(&self) -> (u64, u64) {
        let state = self.lock();
        (state.n_published, state.n_put)
    }

    /// Sends a message from nobody.
    pub fn inject(&self, subject: &str, payload: &[u8]) {
        self.deliver(subject, &Bytes::copy_from_slice(payload));
    }

    /// Puts a message from nobody into every queue.
    pub fn inject_job(&self, payload: &[u8]) {
        let mut state = self.lock();
        for queue in state.queues.values_mut() {
            queue.add(Bytes::copy_from_slice(payload));
        }
        drop(state);
        self.shared.changed.notify_waiters();
    }

    /// The subjects that somebody listens to.
    pub fn subjects(&self) -> Vec<String> {
        self.lock().subscriptions.iter().map(|subscription| subscription.subject.clone()).collect()
    }

    /// A client of its own.
    pub fn client(&self) -> Arc<FakeClient> {
        Arc::new(FakeClient { server: self.clone(), is_cut: Arc::default(), n_cuts: AtomicU64::new(0) })
    }

    fn deliver(&self, subject: &str, payload: &Bytes) {
        let mut state = self.lock();
        state.n_published += 1;
        let (number, faults) = (state.n_published, state.faults);
        let dice = Dice::new(number, &["lost"]);
        if faults.loses_one_in > 0 && dice.unit("message") * (faults.loses_one_in as f64) < 1.0 {
            return;
        }
        let times = if faults.repeats { 2 } else { 1 };
        state.subscriptions.retain(|subscription| {
            let is_reached = subscription.subject == subject && !subscription.is_cut.load(Ordering::Relaxed);
            !is_reached || (0..times).all(|_| subscription.sender.send(payload.clone()).is_ok())
        });
    }
}

impl FakeQueue {
    fn add(&mut self, payload: Bytes) {
        self.next += 1;
        self.messages.insert(self.next, FakeMessage { payload, due: Some(Instant::now()) });
    }
}

/// A connection to a [`FakeServer`].
pub struct FakeClient {
    server: FakeServer,
    is_cut: Arc<AtomicBool>,
    n_cuts: AtomicU64,
}

impl FakeClient {
    /// Cuts this client off from the server, or ends that.
    pub fn set_cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
        self.n_cuts.fetch_add(u64::from(is_cut), Ordering::Relaxed);
        self.server.shared.changed.notify_waiters();
    }

    fn reached(&self) -> Result<MutexGuard<'_, ServerState>, BrokerError> {
        let state = self.server.lock();
        if state.is_down || self.is_cut.load(Ordering::Relaxed) {
            return Err(BrokerError::Unreachable { message: "it is away".to_owned() });
        }
        if state.faults.refuses {
            return Err(BrokerError::Refused { message: "authorization violation".to_owned() });
        }
        Ok(state)
    }

    fn has_forgotten(&self, queue: &str) -> bool {
        let state = self.server.lock();
        state.faults.forgets_requests && !state.queues.contains_key(queue)
    }

    fn queues_reached(&self) -> Result<MutexGuard<'_, ServerState>, BrokerError> {
        let state = self.reached()?;
        if state.faults.has_no_jetstream { Err(BrokerError::NoJetStream) } else { Ok(state) }
    }
}

/// A client as what makes connections.
pub struct FakeConnect(pub Arc<FakeClient>);

#[async_trait]
impl Connect for FakeConnect {
    async fn connect(&self) -> Result<Arc<dyn Broker>, BrokerError> {
        drop(self.0.reached()?);
        Ok(Arc::clone(&self.0) as Arc<dyn Broker>)
    }
}

struct FakeInbox(mpsc::UnboundedReceiver<Bytes>);

#[async_trait]
impl Inbox for FakeInbox {
    async fn next(&mut self) -> Option<Bytes> {
        self.0.recv().await
    }
}

struct FakeDelivery {
    server: FakeServer,
    is_cut: Arc<AtomicBool>,
    queue: String,
    number: u64,
    payload: Bytes,
}

impl FakeDelivery {
    fn change(&self, change: impl FnOnce(&mut FakeQueue, u64)) {
        let mut state = self.server.lock();
        if state.is_down || self.is_cut.load(Ordering::Relaxed) {
            return;
        }
        if let Some(queue) = state.queues.get_mut(&self.queue) {
            change(queue, self.number);
        }
        drop(state);
        self.server.shared.changed.notify_waiters();
    }
}

#[async_trait]
impl Delivery for FakeDelivery {
    fn payload(&self) -> &Bytes {
        &self.payload
    }

    async fn progress(&self) {
        self.change(|queue, number| {
            let due = Instant::now() + queue.config.ack_wait;
            if let Some(message) = queue.messages.get_mut(&number) {
                message.due = message.due.map(|_| due);
            }
        });
    }

    async fn done(&self) {
        let orphans_one_in = self.server.lock().faults.orphans_one_in;
        self.change(|queue, number| {
            if orphans_one_in > 0 && number.is_multiple_of(orphans_one_in) {
                if let Some(message) = queue.messages.get_mut(&number) {
                    message.due = None;
                }
            } else if let Some(message) = queue.messages.remove(&number) {
                queue.acknowledged.push((Instant::now(), number, message));
            }
        });
    }

    async fn later(&self, wait: Duration) {
        self.change(|queue, number| {
            if let Some(message) = queue.messages.get_mut(&number) {
                message.due = message.due.map(|_| Instant::now() + wait);
            }
        });
    }
}

#[async_trait]
impl Broker for FakeClient {
    async fn publish(&self, subject: &str, payload: Bytes) -> Result<(), BrokerError> {
        if payload.len() > self.max_payload() {
            return Err(BrokerError::TooLarge { bytes: payload.len(), limit: self.max_payload() });
        }
        if self.reached().is_ok() {
            self.server.deliver(subject, &payload);
        }
        Ok(())
    }

    async fn subscribe(&self, subject: &str) -> Result<Box<dyn Inbox>, BrokerError> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let is_cut = Arc::clone(&self.is_cut);
        self.server.lock().subscriptions.push(Subscription { subject: subject.to_owned(), sender, is_cut });
        Ok(Box::new(FakeInbox(receiver)))
    }

    async fn facts(&self) -> Result<BrokerFacts, BrokerError> {
        drop(self.queues_reached()?);
        let max_payload = self.max_payload();
        Ok(BrokerFacts {
            version: "fake".to_owned(),
            max_payload,
            max_storage: None,
            storage: 0,
            has_tls: false,
        })
    }

    fn is_connected(&self) -> bool {
        self.reached().is_ok()
    }

    fn n_connections(&self) -> u64 {
        self.server.lock().n_starts + self.n_cuts.load(Ordering::Relaxed)
    }

    fn max_payload(&self) -> usize {
        64 * 1024
    }

    async fn create_queue(&self, config: &QueueConfig) -> Result<(), BrokerError> {
        let mut state = self.queues_reached()?;
        let empty = FakeQueue {
            config: config.clone(),
            next: 0,
            messages: BTreeMap::new(),
            acknowledged: Vec::new(),
        };
        state.queues.entry(config.name.clone()).or_insert(empty);
        Ok(())
    }

    async fn delete_queue(&self, name: &str) -> Result<(), BrokerError> {
        self.queues_reached()?.queues.remove(name);
        self.server.shared.changed.notify_waiters();
        Ok(())
    }

    async fn queues(&self, prefix: &str) -> Result<Vec<String>, BrokerError> {
        let state = self.queues_reached()?;
        Ok(state.queues.keys().filter(|name| name.starts_with(prefix)).cloned().collect())
    }

    async fn put(&self, subject: &str, payload: Bytes) -> Result<(), BrokerError> {
        let mut state = self.queues_reached()?;
        if state.faults.is_full {
            return Err(BrokerError::Full { message: "insufficient resources".to_owned() });
        }
        let no_queue = || BrokerError::NoQueue { name: subject.to_owned() };
        let queue =
            state.queues.values_mut().find(|queue| queue.config.subject == subject).ok_or_else(no_queue)?;
        queue.add(payload);
        state.n_put += 1;
        drop(state);
        self.server.shared.changed.notify_waiters();
        Ok(())
    }

    async fn pull(&self, name: &str, wait: Duration) -> Result<Option<Arc<dyn Delivery>>, BrokerError> {
        let until = Instant::now() + wait;
        let mut has_waited = false;
        loop {
            let changed = self.server.shared.changed.notified();
            if has_waited && self.has_forgotten(name) {
                std::future::pending::<()>().await;
            }
            has_waited = true;
            let next_due = {
                let mut state = self.queues_reached()?;
                let no_queue = || BrokerError::NoQueue { name: name.to_owned() };
                let queue = state.queues.get_mut(name).ok_or_else(no_queue)?;
                let now = Instant::now();
                let ack_wait = queue.config.ack_wait;
                let due = |message: &FakeMessage| message.due.is_some_and(|due| due <= now);
                if let Some((number, message)) = queue.messages.iter_mut().find(|(_, message)| due(message)) {
                    message.due = Some(now + ack_wait);
                    return Ok(Some(Arc::new(FakeDelivery {
                        server: self.server.clone(),
                        is_cut: Arc::clone(&self.is_cut),
                        queue: name.to_owned(),
                        number: *number,
                        payload: message.payload.clone(),
                    })));
                }
                queue.messages.values().filter_map(|message| message.due).min()
            };
            if Instant::now() >= until {
                return Ok(None);
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(next_due.map_or(until, |due| due.min(until))) => {}
            }
        }
    }
}
