//! The way of a worker to the driver of one run: questions that are asked again until they are answered.

use crate::broker::{Broker, Inbox};
use crate::frames::{Assembler, split};
use crate::protocol::{
    Answer, Doing, DriverSays, FromDriver, FromWorker, Names, OpenQuestions, PROTOCOL, Question, WorkerFacts,
    WorkerSays,
};
use crate::times::Times;
use parking_lot::Mutex;
use serde::Deserialize;
use skill_core::ItemId;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The way to one driver.
pub(super) struct RunLink {
    pub(super) broker: Arc<dyn Broker>,
    names: Names,
    worker: String,
    pub(super) times: Times,
    n_messages: AtomicU64,
    state: Mutex<LinkState>,
    /// The worker is to say at once what it works on.
    pub(super) greet: Notify,
}

struct LinkState {
    n_questions: u64,
    /// Where what the driver says of each question goes.
    lines: HashMap<u64, mpsc::UnboundedSender<Said>>,
    jobs: BTreeMap<String, JobNow>,
    driver_seen: Instant,
    /// The process of the driver that was heard last, and since when.
    session: (String, Instant),
}

/// A job that the worker has.
pub(super) struct JobNow {
    pub(super) item: ItemId,
    pub(super) calls: u32,
    /// Ends it.
    pub(super) cancel: CancellationToken,
}

/// What a driver says of a question.
#[derive(Debug)]
pub(super) enum Said {
    Answer(Answer),
    Send { session: String, attempt: u64, deadline_ms: Option<u64> },
    Stop,
    Working,
    Unknown,
}

impl RunLink {
    pub(super) fn new(broker: Arc<dyn Broker>, names: Names, worker: &str, times: Times) -> Self {
        let now = Instant::now();
        let state = LinkState {
            n_questions: 0,
            lines: HashMap::new(),
            jobs: BTreeMap::new(),
            driver_seen: now,
            session: (String::new(), now),
        };
        Self {
            broker,
            names,
            worker: worker.to_owned(),
            times,
            n_messages: AtomicU64::new(0),
            state: Mutex::new(state),
            greet: Notify::new(),
        }
    }

    pub(super) fn subject(&self) -> String {
        self.names.worker(&self.worker)
    }

    /// Enters a job; false if the worker has it already.
    pub(super) fn begin_job(&self, job: &str, now: JobNow) -> bool {
        let mut state = self.state.lock();
        let is_new = !state.jobs.contains_key(job);
        if is_new {
            state.jobs.insert(job.to_owned(), now);
        }
        is_new
    }

    pub(super) fn name_job(&self, job: &str, item: &ItemId) {
        if let Some(now) = self.state.lock().jobs.get_mut(job) {
            now.item = item.clone();
        }
    }

    pub(super) fn end_job(&self, job: &str) {
        self.state.lock().jobs.remove(job);
    }

    pub(super) fn n_jobs(&self) -> usize {
        self.state.lock().jobs.len()
    }

    pub(super) fn count_reply(&self, job: &str) {
        if let Some(now) = self.state.lock().jobs.get_mut(job) {
            now.calls += 1;
        }
    }

    /// Ends all jobs.
    pub(super) fn cancel_jobs(&self) {
        for now in self.state.lock().jobs.values() {
            now.cancel.cancel();
        }
    }

    /// Notes that the driver is there.
    pub(super) fn see_driver(&self) {
        self.state.lock().driver_seen = Instant::now();
    }

    /// True if the driver was not heard of for long, though the broker was there.
    pub(super) fn is_abandoned(&self) -> bool {
        let mut state = self.state.lock();
        if !self.broker.is_connected() {
            state.driver_seen = Instant::now();
        }
        state.driver_seen.elapsed() >= self.times.abandon
    }

    /// True for a job that the driver has not known since this moment, though it has had the time to come to it: one that
    /// was started again begins its stage from the start.
    pub(super) fn is_orphaned(&self, since: Instant) -> bool {
        since.max(self.state.lock().session.1).elapsed() >= self.times.orphan
    }

    pub(super) async fn beat(&self, facts: &WorkerFacts) {
        let doing = |(job, now): (&String, &JobNow)| Doing {
            job: job.clone(),
            item: now.item.clone(),
            calls: now.calls,
        };
        let beat = {
            let state = self.state.lock();
            let jobs = state.jobs.iter().map(doing).collect();
            let open = OpenQuestions { ids: state.lines.keys().copied().collect(), next: state.n_questions };
            WorkerSays::Beat { facts: facts.clone(), jobs, open }
        };
        self.say(beat).await;
    }

    pub(super) async fn say(&self, body: WorkerSays) {
        let message = FromWorker { protocol: PROTOCOL, worker: self.worker.clone(), body };
        let payload = serde_json::to_vec(&message).expect("the keys of its maps are texts");
        let number = self.n_messages.fetch_add(1, Ordering::Relaxed);
        let subject = self.names.driver();
        let id = format!("{}-{number}", self.worker);
        for part in split(payload, &id, self.broker.max_payload()) {
            if let Err(error) = self.broker.publish(&subject, part).await {
                // The question is asked again.
                tracing::debug!(%error, "a message to the driver could not be sent");
                return;
            }
        }
    }

    /// Hears what the driver says until the connection is closed for good.
    pub(super) async fn listen(self: Arc<Self>, mut messages: Box<dyn Inbox>) {
        let mut assembler = Assembler::default();
        while let Some(payload) = messages.next().await {
            let Some(message) = assembler.take(payload) else { continue };
            match read(&message) {
                Ok(message) => self.hear(message),
                Err(error) => tracing::warn!(%error, "a message of the driver cannot be read"),
            }
        }
    }

    fn hear(&self, FromDriver { session, body, .. }: FromDriver) {
        let mut state = self.state.lock();
        state.driver_seen = Instant::now();
        if state.session.0 != session {
            state.session = (session.clone(), Instant::now());
        }
        let (id, said) = match body {
            DriverSays::Answer { id, answer } => (id, Said::Answer(*answer)),
            DriverSays::Working { id } => (id, Said::Working),
            DriverSays::Unknown { id } => (id, Said::Unknown),
            DriverSays::Send { id, attempt, deadline_ms } => {
                (id, Said::Send { session, attempt, deadline_ms })
            }
            DriverSays::Stop { id } => (id, Said::Stop),
            DriverSays::Drop { job } => {
                if let Some(now) = state.jobs.get(&job) {
                    now.cancel.cancel();
                }
                return;
            }
        };
        if let Some(line) = state.lines.get(&id) {
            // The receiver may have been dropped.
            drop(line.send(said));
        }
    }

    /// Asks a question and keeps asking; the line says what the driver says.
    pub(super) async fn ask(self: &Arc<Self>, question: Question) -> Line {
        let (sender, receiver) = mpsc::unbounded_channel();
        let id = {
            let mut state = self.state.lock();
            let id = state.n_questions;
            state.n_questions += 1;
            state.lines.insert(id, sender);
            id
        };
        let poll_at = Instant::now() + self.times.first_poll;
        let line = Line {
            link: Arc::clone(self),
            id,
            question: Box::new(question),
            receiver,
            is_known: false,
            poll_at,
        };
        line.ask().await;
        line
    }

    /// The answer to a question that has one.
    pub(super) async fn answer(self: &Arc<Self>, question: Question) -> Answer {
        let mut line = self.ask(question).await;
        loop {
            if let Said::Answer(answer) = line.next().await {
                return answer;
            }
        }
    }
}

#[derive(Deserialize)]
struct Head {
    protocol: u32,
}

fn read(message: &[u8]) -> Result<FromDriver, String> {
    let head: Head = serde_json::from_slice(message).map_err(|error| error.to_string())?;
    if head.protocol != PROTOCOL {
        return Err(format!("the driver uses protocol {}", head.protocol));
    }
    serde_json::from_slice(message).map_err(|error| error.to_string())
}

/// A question that is open.
pub(super) struct Line {
    link: Arc<RunLink>,
    pub(super) id: u64,
    question: Box<Question>,
    receiver: mpsc::UnboundedReceiver<Said>,
    /// Whether the driver has the question.
    is_known: bool,
    poll_at: Instant,
}

impl Line {
    async fn ask(&self) {
        self.link.say(WorkerSays::Ask { id: self.id, question: self.question.clone() }).await;
    }

    /// Asks from the start, some time after an answer that may change.
    pub(super) async fn ask_again(&mut self) {
        tokio::time::sleep(self.link.times.first_poll).await;
        self.is_known = false;
        self.poll_at = Instant::now() + self.link.times.first_poll;
        self.ask().await;
    }

    /// The driver's next message, heartbeats left out.
    pub(super) async fn next(&mut self) -> Said {
        let Times { first_poll, poll, .. } = self.link.times;
        loop {
            match tokio::time::timeout_at(self.poll_at, self.receiver.recv()).await {
                Ok(Some(Said::Working)) => {
                    self.is_known = true;
                    self.poll_at = Instant::now() + poll;
                }
                Ok(Some(Said::Unknown)) => {
                    self.is_known = false;
                    self.poll_at = Instant::now() + first_poll;
                    self.ask().await;
                }
                Ok(Some(said)) => {
                    self.is_known = true;
                    self.poll_at = Instant::now() + poll;
                    return said;
                }
                // The sender is kept by the link, which is kept here.
                Ok(None) => std::future::pending().await,
                Err(_) => {
                    self.poll_at = Instant::now() + poll;
                    if self.is_known {
                        self.link.say(WorkerSays::Poll { id: self.id }).await;
                    } else {
                        self.ask().await;
                    }
                }
            }
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.link.state.lock().lines.remove(&self.id);
    }
}
