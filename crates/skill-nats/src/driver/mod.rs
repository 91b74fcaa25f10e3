//! The driver: a [`RolloutRunner`] whose rollouts are made by workers.
//!
//! Jobs go into a queue of the broker, and everything else is a question of a worker to the driver. The models of the
//! run stay here with all their layers, so that journal, caps, pace and retries are those of a run on one machine; a
//! worker sends the single requests, with its own keys.

mod answers;
mod sender;
mod state;
mod upkeep;
mod workers;

pub(crate) use state::item_hash;
pub use workers::{ReadWorkers, WorkerNow, WorkersNow};

use crate::broker::{Broker, BrokerError, QueueConfig};
use crate::frames::split;
use crate::protocol::{Announcement, Answer, DriverSays, FromDriver, Names, PROTOCOL, QueuedJob};
use crate::setup::Contents;
use crate::times::Times;
use async_trait::async_trait;
use parking_lot::Mutex;
use skill_envs::{EnvError, JobLink, RolloutJob, RolloutOutcome, RolloutRunner};
use skill_llm::LlmError;
use state::{Holder, JobEntry, OpenSend, QuestionId, Queue, State, broker_fault};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::Handle;
use tokio::sync::{Notify, OnceCell, oneshot};
use tokio_util::sync::CancellationToken;

/// Makes connections.
#[async_trait]
pub trait Connect: Send + Sync {
    /// A connection, which is repeated by itself when it breaks.
    ///
    /// # Errors
    ///
    /// A broker that cannot be reached or refuses the connection.
    async fn connect(&self) -> Result<Arc<dyn Broker>, BrokerError>;
}

/// What a driver is, besides its jobs.
#[derive(Clone)]
pub struct DriverConfig {
    /// The name that drivers and workers share.
    pub name: String,
    /// Identifies the run: the same for all its processes, and for no other run.
    pub run: String,
    /// Identifies this process.
    pub session: String,
    /// The name of the run for people.
    pub title: String,
    /// The version of the program.
    pub version: String,
    /// The hash of what workers set up.
    pub setup: String,
    /// The content that workers ask for.
    pub contents: Arc<dyn Contents>,
    /// How long the parts wait for each other.
    pub times: Times,
}

/// Has workers make the rollouts of a run.
pub struct NatsRunner {
    connect: Arc<dyn Connect>,
    config: DriverConfig,
    shared: OnceCell<Arc<Shared>>,
    /// What others look at before there is a connection.
    state: Arc<Mutex<State>>,
}

pub(crate) struct Shared {
    broker: Arc<dyn Broker>,
    config: DriverConfig,
    names: Names,
    state: Arc<Mutex<State>>,
    /// Held while a queue is made or deleted.
    queue_lock: tokio::sync::Mutex<()>,
    /// A question that took time is answered.
    answered: Notify,
    /// Jobs are to be put into the queue.
    unqueued: Notify,
    n_messages: AtomicU64,
    /// Questions whose work was begun.
    n_begun: AtomicU64,
    n_waiting: AtomicU64,
    handle: Handle,
    end: CancellationToken,
}

impl NatsRunner {
    /// Connects with the first job.
    pub fn new(connect: Arc<dyn Connect>, config: DriverConfig) -> Self {
        Self { connect, config, shared: OnceCell::new(), state: Arc::default() }
    }

    /// Connects now, and begins to announce the run.
    ///
    /// # Errors
    ///
    /// A broker that cannot be reached, refuses the connection or has no JetStream.
    pub async fn start(&self) -> Result<(), BrokerError> {
        self.shared().await.map(drop)
    }

    /// The workers and what they do, for those who look on.
    pub fn watch(&self) -> ReadWorkers {
        let state = Arc::clone(&self.state);
        Arc::new(move || workers::snapshot(&state.lock(), tokio::time::Instant::now()))
    }

    async fn shared(&self) -> Result<&Arc<Shared>, BrokerError> {
        self.shared.get_or_try_init(|| self.open()).await
    }

    async fn open(&self) -> Result<Arc<Shared>, BrokerError> {
        let broker = self.connect.connect().await?;
        broker.facts().await?;
        let names = Names::new(&self.config.name, &self.config.run);
        // What an earlier process left is not the record of anything.
        let left = broker.queues(&names.queues()).await?;
        for queue in &left {
            broker.delete_queue(queue).await?;
        }
        let asks = broker.subscribe(&Names::asks(&self.config.name)).await?;
        let messages = broker.subscribe(&names.driver()).await?;
        let shared = Arc::new(Shared {
            broker,
            config: self.config.clone(),
            names,
            state: Arc::clone(&self.state),
            queue_lock: tokio::sync::Mutex::new(()),
            answered: Notify::new(),
            unqueued: Notify::new(),
            n_messages: AtomicU64::new(0),
            n_begun: AtomicU64::new(0),
            n_waiting: AtomicU64::new(0),
            handle: Handle::current(),
            end: CancellationToken::new(),
        });
        let end = shared.end.clone();
        let spawn = |work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
            tokio::spawn(end.clone().run_until_cancelled_owned(work));
        };
        spawn(Box::pin(answers::listen(Arc::clone(&shared), messages)));
        spawn(Box::pin(upkeep::answer_asks(Arc::clone(&shared), asks)));
        spawn(Box::pin(upkeep::keep(Arc::clone(&shared))));
        shared.announce().await;
        if !left.is_empty() {
            // Workers that have jobs of an earlier process say so before others are given these.
            tokio::time::sleep(self.config.times.greet).await;
        }
        Ok(shared)
    }
}

impl Drop for NatsRunner {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.get() {
            shared.end.cancel();
        }
    }
}

#[async_trait]
impl RolloutRunner for NatsRunner {
    async fn run(&self, job: RolloutJob, link: JobLink) -> Result<RolloutOutcome, EnvError> {
        let shared = self.shared().await.map_err(|error| broker_fault(&error))?;
        let (cancel, halt) = (link.cancel.clone(), link.halt.clone());
        if cancel.is_cancelled() || halt.is_cancelled() {
            return Err(EnvError::Model(LlmError::Cancelled));
        }
        let key = job.key.clone();
        let (wanted, mut receiver) = shared.want(job, link)?;
        shared.enqueue(&key).await;
        let cancelled = || Err(EnvError::Model(LlmError::Cancelled));
        tokio::select! {
            biased;
            made = &mut receiver => return made.unwrap_or_else(|_| cancelled()),
            () = cancel.cancelled() => return cancelled(),
            () = halt.cancelled() => {}
        }
        // Nothing more is begun; what a worker has begun ends with its next call.
        if shared.state.lock().live_holder(&key).is_none() {
            return cancelled();
        }
        let made = tokio::select! {
            biased;
            made = &mut receiver => made.unwrap_or_else(|_| cancelled()),
            () = cancel.cancelled() => cancelled(),
        };
        drop(wanted);
        made
    }

    fn keeps_results(&self) -> bool {
        true
    }

    async fn acknowledge(&self, key: &str) {
        if let Some(shared) = self.shared.get() {
            shared.committed(key).await;
        }
    }

    async fn settle(&self) {
        if let Some(shared) = self.shared.get() {
            shared.settle().await;
        }
    }
}

/// A job that somebody waits for; dropping it ends the wait.
struct Wanted<'a> {
    shared: &'a Arc<Shared>,
    key: String,
    number: u64,
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        let Some(entry) = state.jobs.get_mut(&self.key) else { return };
        entry.waiting.retain(|(number, _)| *number != self.number);
        if !entry.waiting.is_empty() || matches!(entry.holder, Holder::Delivered(_)) {
            return;
        }
        let holder = entry.holder.clone();
        state.end_job(&self.key);
        drop(state);
        if let Holder::Worker(worker) = holder {
            self.shared.say_later(&worker, DriverSays::Drop { job: self.key.clone() });
        }
    }
}

impl Shared {
    /// Enters a job, or joins those who wait for it already.
    fn want(
        self: &Arc<Self>,
        job: RolloutJob,
        link: JobLink,
    ) -> Result<(Wanted<'_>, oneshot::Receiver<state::Made>), EnvError> {
        let (sender, receiver) = oneshot::channel();
        let number = self.n_waiting.fetch_add(1, Ordering::Relaxed);
        let key = job.key.clone();
        let mut entry = JobEntry::new(job, link)?;
        let mut state = self.state.lock();
        state.idle_since = None;
        if let Some(worker) = state.worker_with(&key) {
            entry.holder = Holder::Worker(worker);
        }
        // A result whose commit failed, or whose acknowledgement never came, is repeated.
        let is_stale = state.jobs.get(&key).is_some_and(|known| known.waiting.is_empty());
        if is_stale {
            state.end_job(&key);
        }
        state.jobs.entry(key.clone()).or_insert(entry).waiting.push((number, sender));
        drop(state);
        Ok((Wanted { shared: self, key, number }, receiver))
    }

    /// Puts a job into the queue; where that fails, the upkeep does it later.
    async fn enqueue(&self, key: &str) -> bool {
        let is_wanted = matches!(
            self.state.lock().jobs.get(key),
            Some(JobEntry { holder: Holder::Nobody, queued: None, .. })
        );
        if !is_wanted {
            return true;
        }
        let put = async {
            let subject = self.ensure_queue().await?;
            let queued = QueuedJob { protocol: PROTOCOL, job: key.to_owned() };
            let payload = serde_json::to_vec(&queued)
                .map_err(|error| BrokerError::Other { message: error.to_string() })?;
            // A job that is in the queue twice is recognised when a worker claims it; one that the broker takes for a
            // duplicate would be lost.
            self.broker.put(&subject, payload.into()).await
        };
        let outcome = put.await;
        let mut state = self.state.lock();
        match outcome {
            Ok(()) => {
                state.unqueued = None;
                if let Some(entry) = state.jobs.get_mut(key) {
                    entry.queued = Some(tokio::time::Instant::now());
                }
                true
            }
            Err(error) => {
                if matches!(error, BrokerError::NoQueue { .. }) {
                    // It was lost with all that was in it.
                    state.queue = None;
                    for entry in state.jobs.values_mut() {
                        entry.queued = None;
                    }
                }
                tracing::debug!(%error, "a job could not be put into the queue");
                let since =
                    state.unqueued.as_ref().map_or_else(tokio::time::Instant::now, |(_, since)| *since);
                state.unqueued = Some((error, since));
                false
            }
        }
    }

    /// The subject of the queue of jobs, which is made if there is none.
    async fn ensure_queue(&self) -> Result<String, BrokerError> {
        if let Some(queue) = &self.state.lock().queue {
            return Ok(queue.subject.clone());
        }
        let _lock = self.queue_lock.lock().await;
        let number = {
            let mut state = self.state.lock();
            if let Some(queue) = &state.queue {
                return Ok(queue.subject.clone());
            }
            state.n_queues += 1;
            state.n_queues
        };
        let name = self.names.queue(&self.config.session, number);
        let subject = self.names.jobs(&name);
        let queue = QueueConfig {
            name: name.clone(),
            subject: subject.clone(),
            ack_wait: self.config.times.ack_wait,
        };
        self.broker.create_queue(&queue).await?;
        self.state.lock().queue = Some(Queue { name, subject: subject.clone() });
        self.announce().await;
        Ok(subject)
    }

    /// Deletes the queue if no job is wanted.
    async fn delete_idle_queue(&self) {
        let _lock = self.queue_lock.lock().await;
        let queue = {
            let mut state = self.state.lock();
            if state.jobs.values().any(|entry| !matches!(entry.holder, Holder::Delivered(_))) {
                return;
            }
            state.queue.take()
        };
        if let Some(queue) = queue {
            self.announce().await;
            if let Err(error) = self.broker.delete_queue(&queue.name).await {
                // The next process deletes it.
                tracing::debug!(%error, queue = queue.name, "a stream could not be deleted");
            }
        }
    }

    async fn announce(&self) {
        let announcement = Announcement {
            protocol: PROTOCOL,
            version: self.config.version.clone(),
            run: self.config.run.clone(),
            session: self.config.session.clone(),
            name: self.config.title.clone(),
            setup: self.config.setup.clone(),
            queue: self.state.lock().queue.as_ref().map(|queue| queue.name.clone()),
        };
        let payload = serde_json::to_vec(&announcement).expect("the keys of its maps are texts");
        let subject = Names::announcements(&self.config.name);
        if let Err(error) = self.broker.publish(&subject, payload.into()).await {
            tracing::debug!(%error, "the run could not be announced");
        }
    }

    async fn say(&self, worker: &str, says: DriverSays) {
        let message = FromDriver { protocol: PROTOCOL, session: self.config.session.clone(), body: says };
        let payload = serde_json::to_vec(&message).expect("the keys of its maps are texts");
        let number = self.n_messages.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number}", self.config.session);
        let subject = self.names.worker(worker);
        for part in split(payload, &id, self.broker.max_payload()) {
            if let Err(error) = self.broker.publish(&subject, part).await {
                // The worker asks again.
                tracing::debug!(%error, worker, "a message could not be sent");
                return;
            }
        }
    }

    /// Says something without waiting, from where nothing can wait.
    fn say_later(self: &Arc<Self>, worker: &str, says: DriverSays) {
        let (shared, worker) = (Arc::clone(self), worker.to_owned());
        self.handle.spawn(async move { shared.say(&worker, says).await });
    }

    async fn answer(&self, (worker, id): &QuestionId, answer: Answer) {
        self.say(worker, DriverSays::Answer { id: *id, answer: Box::new(answer) }).await;
    }

    /// Has a worker send the request of a call; false if nobody asks for the call any longer.
    fn open_send(&self, question: &QuestionId, open: OpenSend) -> bool {
        match self.state.lock().under_way.get_mut(question) {
            Some(under_way) => {
                under_way.send = Some(open);
                true
            }
            None => false,
        }
    }

    fn close_send(&self, question: &QuestionId) {
        if let Some(under_way) = self.state.lock().under_way.get_mut(question) {
            under_way.send = None;
        }
    }

    /// Tells a worker to send the request that is open for a call.
    async fn say_send(&self, worker: &str, id: u64) {
        let open = {
            let state = self.state.lock();
            let under_way = state.under_way.get(&(worker.to_owned(), id));
            under_way.and_then(|under_way| under_way.send.as_ref()).map(|open| {
                let left = open.deadline.map(|at| at.saturating_duration_since(tokio::time::Instant::now()));
                (open.attempt, left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)))
            })
        };
        if let Some((attempt, deadline_ms)) = open {
            self.say(worker, DriverSays::Send { id, attempt, deadline_ms }).await;
        }
    }

    /// The result of a job is in the journal.
    async fn committed(&self, key: &str) {
        let delivered = {
            let mut state = self.state.lock();
            match state.jobs.get(key).map(|entry| entry.holder.clone()) {
                Some(Holder::Delivered(question)) => {
                    state.end_job(key);
                    Some(question)
                }
                Some(Holder::Nobody | Holder::Worker(_)) | None => None,
            }
        };
        if let Some(question) = delivered {
            self.answer(&question, Answer::Committed).await;
        }
    }

    /// Releases workers that wait for an acknowledgement which will not come: their stage was decided before its end.
    async fn release_delivered(&self) {
        let released: Vec<(String, String)> = {
            let mut state = self.state.lock();
            let delivered = state.jobs.iter().filter_map(|(key, entry)| match &entry.holder {
                Holder::Delivered((worker, _)) => Some((key.clone(), worker.clone())),
                Holder::Nobody | Holder::Worker(_) => None,
            });
            let released: Vec<(String, String)> = delivered.collect();
            released.iter().for_each(|(key, _)| state.end_job(key));
            released
        };
        for (job, worker) in released {
            self.say(&worker, DriverSays::Drop { job }).await;
        }
    }

    /// Waits until the calls of cancelled jobs have ended, releases workers that still hold results, and deletes the queue
    /// if no job is left.
    async fn settle(&self) {
        loop {
            let answered = self.answered.notified();
            let is_settled = {
                let state = self.state.lock();
                state.under_way.values().all(|under_way| state.jobs.contains_key(&under_way.job))
            };
            if is_settled {
                break;
            }
            answered.await;
        }
        self.release_delivered().await;
        self.delete_idle_queue().await;
    }
}
