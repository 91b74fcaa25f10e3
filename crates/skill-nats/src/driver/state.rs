//! What a driver knows of its jobs and workers; every change is whole when the lock is released.

use crate::broker::BrokerError;
use crate::protocol::{Doing, JobSpec, SkillRef, WorkerFacts};
use crate::times::Times;
use bytes::Bytes;
use serde_json::json;
use skill_core::canonical::{canonical_hash, hex_sha256};
use skill_envs::{EnvError, FaultKind, JobLink, JobSkill, RolloutFault, RolloutJob, RolloutOutcome};
use skill_llm::{ChatReply, LlmError};
use std::collections::{BTreeMap, HashMap};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(super) type Made = Result<RolloutOutcome, EnvError>;

/// Messages of further workers are dropped.
const MAX_WORKERS: usize = 10_000;

/// A question of a worker: the worker and its number there.
pub(super) type QuestionId = (String, u64);

#[derive(Default)]
pub(crate) struct State {
    pub(crate) jobs: HashMap<String, JobEntry>,
    pub(crate) workers: BTreeMap<String, WorkerEntry>,
    /// Questions that take time.
    pub(super) under_way: HashMap<QuestionId, UnderWay>,
    pub(super) queue: Option<Queue>,
    pub(super) n_queues: u64,
    /// Since when there is no job.
    pub(super) idle_since: Option<Instant>,
    /// Since when the broker is away.
    pub(crate) away_since: Option<Instant>,
    /// Why the last job could not be put into the queue, and since when none could.
    pub(crate) unqueued: Option<(BrokerError, Instant)>,
    /// Messages that nobody understood.
    pub(crate) n_malformed: u64,
    pub(crate) n_lost: u64,
}

pub(super) struct Queue {
    pub(super) name: String,
    pub(super) subject: String,
}

pub(crate) struct JobEntry {
    pub(super) job: RolloutJob,
    pub(super) link: JobLink,
    pub(super) item_hash: String,
    pub(super) skill: SkillRef,
    /// The content that the agent is shown, with its hash.
    pub(super) shown: Option<(String, Bytes)>,
    pub(super) holder: Holder,
    /// When it was put into the queue; `None` if it has to be.
    pub(super) queued: Option<Instant>,
    /// When a worker has last said something of it.
    pub(super) touched: Instant,
    /// Ends its calls.
    pub(super) cancel: CancellationToken,
    pub(super) n_losses: u32,
    /// The error of its last call that failed, which is more than a worker can say of it.
    pub(super) failed: Option<LlmError>,
    pub(super) waiting: Vec<(u64, oneshot::Sender<Made>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Holder {
    Nobody,
    Worker(String),
    /// The result is there and not committed; the question is answered then.
    Delivered(QuestionId),
}

pub(crate) struct WorkerEntry {
    pub(crate) facts: WorkerFacts,
    pub(crate) jobs: Vec<Doing>,
    pub(crate) seen: Instant,
    /// Ends what waits for it.
    pub(super) lost: CancellationToken,
}

pub(super) struct UnderWay {
    /// Tells it from earlier work on the same question.
    pub(super) number: u64,
    pub(super) job: String,
    /// Ends the work on it.
    pub(super) cancel: CancellationToken,
    /// The request that the worker may send now.
    pub(super) send: Option<OpenSend>,
}

pub(super) struct OpenSend {
    pub(super) attempt: u64,
    pub(super) deadline: Option<Instant>,
    pub(super) outcome: oneshot::Sender<Result<ChatReply, LlmError>>,
}

impl JobEntry {
    pub(super) fn new(job: RolloutJob, link: JobLink) -> Result<Self, EnvError> {
        let (skill, shown) = match &job.skill {
            JobSkill::AfterReset { version } => (SkillRef::AfterReset { version: version.clone() }, None),
            JobSkill::Shown(shown) => {
                let content = serde_json::to_vec(shown).map_err(|error| {
                    fault(FaultKind::Configuration, format!("a skill cannot be sent: {error}"))
                })?;
                let hash = hex_sha256(&content);
                (SkillRef::Shown { hash: hash.clone() }, Some((hash, Bytes::from(content))))
            }
        };
        let cancel = link.cancel.child_token();
        Ok(Self {
            item_hash: item_hash(&job.item),
            job,
            link,
            skill,
            shown,
            holder: Holder::Nobody,
            queued: None,
            touched: Instant::now(),
            cancel,
            n_losses: 0,
            failed: None,
            waiting: Vec::new(),
        })
    }

    /// True if no worker makes it.
    pub(crate) fn is_waiting(&self) -> bool {
        self.holder == Holder::Nobody
    }

    pub(super) fn spec(&self) -> JobSpec {
        let RolloutJob { key, env, item, sample, place, .. } = &self.job;
        JobSpec {
            job: key.clone(),
            env: env.clone(),
            item: item.id.clone(),
            item_hash: self.item_hash.clone(),
            skill: self.skill.clone(),
            sample: *sample,
            place: place.clone(),
            deadline_ms: self.job.time_left().map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
        }
    }

    /// Gives the result to all who wait for it.
    pub(super) fn resolve(&mut self, made: Made) {
        let mut waiting = std::mem::take(&mut self.waiting).into_iter();
        let Some((_, first)) = waiting.next() else { return };
        for (_, other) in waiting {
            let copy = match &made {
                Ok(outcome) => Ok(outcome.clone()),
                Err(error) => Err(EnvError::from(RolloutFault::from(error))),
            };
            // A dropped receiver does not need the result.
            drop(other.send(copy));
        }
        drop(first.send(made));
    }

    /// Takes the job from its holder; it goes into the queue again.
    pub(super) fn release(&mut self) {
        self.holder = Holder::Nobody;
        self.queued = None;
        // Calls of the former holder end; those of the next one have a token of their own.
        self.cancel.cancel();
        self.cancel = self.link.cancel.child_token();
    }
}

/// The hash by which a worker finds out whether its data are the driver's.
pub(crate) fn item_hash(item: &skill_envs::Item) -> String {
    canonical_hash(&json!({ "id": item.id, "task_type": item.task_type, "data": *item.data }))
}

/// A fault of the way to the workers.
pub(super) fn fault(kind: FaultKind, message: String) -> EnvError {
    EnvError::Remote(Box::new(RolloutFault::new(kind, message, true)))
}

/// What a broker's error means for a run.
pub(super) fn broker_fault(error: &BrokerError) -> EnvError {
    let message = format!("{error}; {}", error.hint());
    EnvError::Remote(Box::new(RolloutFault::new(FaultKind::Unreachable, message, error.is_retryable())))
}

impl State {
    /// The worker that holds this job and was heard of.
    pub(super) fn live_holder(&self, job: &str) -> Option<&str> {
        match &self.jobs.get(job)?.holder {
            Holder::Worker(worker) | Holder::Delivered((worker, _)) => {
                self.workers.contains_key(worker).then_some(worker.as_str())
            }
            Holder::Nobody => None,
        }
    }

    /// The worker that has last said that it works on this job: for a driver that was started again.
    pub(super) fn worker_with(&self, job: &str) -> Option<String> {
        let has_it = |worker: &WorkerEntry| worker.jobs.iter().any(|doing| doing.job == job);
        self.workers.iter().find(|(_, worker)| has_it(worker)).map(|(id, _)| id.clone())
    }

    /// Forgets a job, and ends the calls of it that are under way.
    pub(super) fn end_job(&mut self, job: &str) {
        if let Some(entry) = self.jobs.remove(job) {
            entry.cancel.cancel();
        }
        // A worker that has finished a job must not be taken for its holder when the job is requested again.
        for worker in self.workers.values_mut() {
            worker.jobs.retain(|doing| doing.job != job);
        }
    }

    /// Requeues the jobs of this worker that its heartbeat does not name any longer. A heartbeat cannot be older than the claim
    /// of a job it leaves out: messages of a worker arrive in order, and a job is in its heartbeats before it is claimed.
    pub(super) fn release_unnamed(&mut self, worker: &str, named: &[Doing]) {
        for (job, entry) in &mut self.jobs {
            let is_held = matches!(&entry.holder, Holder::Worker(holder) if holder == worker);
            if is_held && !named.iter().any(|doing| doing.job == *job) {
                entry.release();
            }
        }
    }

    /// Forgets work that is done, unless the question was asked again since its worker was lost.
    pub(super) fn end_work(&mut self, id: &QuestionId, number: u64) {
        if self.under_way.get(id).is_some_and(|under_way| under_way.number == number) {
            self.under_way.remove(id);
        }
    }

    /// Makes the worker the holder of a job that no other live worker has; false if one has.
    pub(super) fn take(&mut self, job: &str, worker: &str) -> bool {
        if self.live_holder(job).is_some_and(|holder| holder != worker) {
            return false;
        }
        let Some(entry) = self.jobs.get_mut(job) else { return false };
        match &entry.holder {
            Holder::Delivered(_) => return false,
            Holder::Worker(former) if former != worker => entry.release(),
            Holder::Worker(_) | Holder::Nobody => {}
        }
        entry.holder = Holder::Worker(worker.to_owned());
        entry.touched = Instant::now();
        true
    }

    /// Notes that a worker is there; false if there are too many to note another one.
    pub(super) fn see(&mut self, worker: &str, now: Instant) -> bool {
        let is_full = self.workers.len() >= MAX_WORKERS;
        match self.workers.get_mut(worker) {
            Some(entry) => {
                entry.seen = now;
                true
            }
            None if is_full => false,
            None => {
                let facts = WorkerFacts {
                    name: worker.to_owned(),
                    version: String::new(),
                    slots: 0,
                    problems: Vec::new(),
                };
                let entry =
                    WorkerEntry { facts, jobs: Vec::new(), seen: now, lost: CancellationToken::new() };
                self.workers.insert(worker.to_owned(), entry);
                true
            }
        }
    }

    /// Forgets a worker; its jobs go to others, and one that has lost too many workers is at fault.
    pub(super) fn lose(&mut self, worker: &str, times: &Times, is_killed: bool) {
        let Some(entry) = self.workers.remove(worker) else { return };
        entry.lost.cancel();
        self.under_way.retain(|(of, _), _| of != worker);
        let name = entry.facts.name;
        for entry in self.jobs.values_mut() {
            if entry.holder != Holder::Worker(worker.to_owned()) {
                continue;
            }
            entry.release();
            if is_killed {
                self.n_lost += 1;
                entry.n_losses += 1;
            }
            if entry.link.halt.is_cancelled() {
                entry.resolve(Err(EnvError::Model(LlmError::Cancelled)));
            } else if entry.n_losses > times.max_losses {
                let (item, n) = (&entry.job.item.id, entry.n_losses);
                let message = format!(
                    "{n} workers were lost while they worked on the task {item}, the last one was {name}: they end or hang there"
                );
                entry.resolve(Err(fault(FaultKind::Broken, message)));
            }
        }
        self.jobs
            .retain(|_, entry| !entry.waiting.is_empty() || matches!(entry.holder, Holder::Delivered(_)));
    }

    /// The content of a skill that a job shows.
    pub(super) fn shown(&self, hash: &str) -> Option<Bytes> {
        let shown = self.jobs.values().filter_map(|entry| entry.shown.as_ref());
        shown.into_iter().find(|(of, _)| of == hash).map(|(_, content)| content.clone())
    }
}
