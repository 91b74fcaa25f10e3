//! One job on a worker, from the queue to the driver's word that its result is recorded.

use super::link::{JobNow, RunLink, Said};
use super::model::{DriverModel, DriverSource};
use super::shown::ShownCache;
use super::{WorkerAgent, WorkerEvent, WorkerEvents};
use crate::broker::Delivery;
use crate::driver::item_hash;
use crate::protocol::{Answer, JobSpec, PROTOCOL, Question, QueuedJob, Role, SkillRef};
use skill_core::ItemId;
use skill_envs::source::document;
use skill_envs::{
    FaultKind, Item, JobLink, JobSkill, LocalRunner, RolloutFault, RolloutJob, RolloutOutcome,
    RolloutRunner as _, SkillSource, Split,
};
use skill_llm::{ChatModel, Metered};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A job that another worker makes comes back after this time.
const HELD: Duration = Duration::from_secs(5);

/// What the jobs of one run share.
pub(super) struct Bench {
    pub(super) link: Arc<RunLink>,
    pub(super) agent: WorkerAgent,
    pub(super) items: HashMap<ItemId, (Item, String)>,
    pub(super) shown: Arc<ShownCache>,
    pub(super) events: WorkerEvents,
    /// Ends all that is under way.
    pub(super) abort: CancellationToken,
    /// No further job is begun.
    pub(super) drain: CancellationToken,
}

/// The items of an environment with their hashes.
pub(super) fn items_of(agent: &WorkerAgent) -> HashMap<ItemId, (Item, String)> {
    let items = [Split::Train, Split::Val, Split::Test].into_iter().flat_map(|split| agent.env.items(split));
    items.map(|item| (item.id.clone(), (item.clone(), item_hash(item)))).collect()
}

impl Bench {
    /// Works on a job that no other worker has. `free` is dropped once the slot can take the next job: the result was
    /// sent, and only its commit is outstanding.
    pub(super) async fn work_on(self: Arc<Self>, delivery: Arc<dyn Delivery>, free: oneshot::Sender<()>) {
        let queued: QueuedJob = match serde_json::from_slice(delivery.payload()) {
            Ok(queued) => queued,
            Err(error) => {
                tracing::warn!(%error, "a job cannot be read and is taken out of the queue");
                return delivery.done().await;
            }
        };
        if queued.protocol != PROTOCOL {
            return delivery.later(HELD).await;
        }
        let cancel = self.abort.child_token();
        let now = JobNow { item: ItemId::new(""), calls: 0, cancel: cancel.clone() };
        if !self.link.begin_job(&queued.job, now) {
            return delivery.later(HELD).await;
        }
        let _entered = Entered { link: &self.link, job: &queued.job };
        let progress = self.link.times.progress;
        let in_progress = async {
            loop {
                tokio::time::sleep(progress).await;
                delivery.progress().await;
            }
        };
        let work = self.claim_and_make(&queued.job, &cancel, free);
        let ended = tokio::select! {
            biased;
            ended = work => ended,
            () = in_progress => Ended::Dropped,
        };
        match ended {
            Ended::Committed | Ended::Dropped => delivery.done().await,
            Ended::Held => delivery.later(HELD).await,
            Ended::Aborted => delivery.later(Duration::ZERO).await,
        }
    }

    async fn claim_and_make(
        self: &Arc<Self>,
        job: &str,
        cancel: &CancellationToken,
        free: oneshot::Sender<()>,
    ) -> Ended {
        let claim = Question::Claim { job: job.to_owned() };
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return self.cancelled(),
            answer = self.link.answer(claim) => answer,
            // The rollout has not begun, and a driver that is gone never answers.
            () = self.drain.cancelled() => return Ended::Aborted,
        };
        let spec = match answer {
            Answer::Take(spec) => *spec,
            Answer::Held => return Ended::Held,
            Answer::NoJob
            | Answer::Content(_)
            | Answer::Shown { .. }
            | Answer::NotShown(_)
            | Answer::Reply(_)
            | Answer::Recorded
            | Answer::Failed(_)
            | Answer::Committed => return Ended::Dropped,
        };
        self.link.name_job(job, &spec.item);
        (self.events)(WorkerEvent::JobStarted { item: spec.item.clone() });
        let begun = Instant::now();
        let made = tokio::select! {
            biased;
            () = cancel.cancelled() => return self.cancelled(),
            made = self.make(&spec, cancel) => made,
        };
        // A rollout whose calls were ended is none, whatever it came to.
        if cancel.is_cancelled() {
            return self.cancelled();
        }
        let error = made.as_ref().err().map(ToString::to_string);
        (self.events)(WorkerEvent::JobFinished { item: spec.item, took: begun.elapsed(), error });
        let finished = Question::Finish { job: job.to_owned(), outcome: Box::new(made) };
        tokio::select! {
            biased;
            () = cancel.cancelled() => self.cancelled(),
            ended = self.finish(finished, free) => ended,
        }
    }

    fn cancelled(&self) -> Ended {
        if self.abort.is_cancelled() { Ended::Aborted } else { Ended::Dropped }
    }

    /// Hands a result over, until the driver has recorded it.
    async fn finish(&self, finished: Question, free: oneshot::Sender<()>) -> Ended {
        let mut line = self.link.ask(finished).await;
        drop(free);
        let begun = Instant::now();
        loop {
            match line.next().await {
                Said::Answer(Answer::Committed) => return Ended::Committed,
                // A driver that was started again comes to the job.
                Said::Answer(Answer::NoJob) if !self.link.is_orphaned(begun) => line.ask_again().await,
                Said::Answer(_) => return Ended::Dropped,
                Said::Send { .. } | Said::Stop | Said::Working | Said::Unknown => {}
            }
        }
    }

    async fn make(
        self: &Arc<Self>,
        spec: &JobSpec,
        cancel: &CancellationToken,
    ) -> Result<RolloutOutcome, RolloutFault> {
        let job = self.rollout_job(spec).await?;
        let model = |role, sending: &Arc<dyn ChatModel>| {
            let model = DriverModel {
                link: Arc::clone(&self.link),
                job: spec.job.clone(),
                role,
                sending: Arc::clone(sending),
                cancel: cancel.clone(),
            };
            Arc::new(Metered::new(Arc::new(model))) as Arc<dyn ChatModel>
        };
        let target = model(Role::Target, &self.agent.target);
        let judge = self.agent.judge.as_ref().map(|judge| model(Role::Judge, judge));
        let source: Arc<dyn SkillSource> = match &spec.skill {
            SkillRef::AfterReset { version } => Arc::new(DriverSource {
                link: Arc::clone(&self.link),
                job: spec.job.clone(),
                version: version.clone(),
                shown: Arc::clone(&self.shown),
                cancel: cancel.clone(),
            }),
            // It is in the job.
            SkillRef::Shown { .. } => document(&skill_core::SkillDoc::default()),
        };
        let link = JobLink::new(source).with_tokens(cancel.clone(), CancellationToken::new());
        let runner = LocalRunner::new(Arc::clone(&self.agent.env), target, judge);
        // A task of its own, so that a panic of an environment is the fault of this job alone.
        let made = tokio::spawn(async move { runner.run(job, link).await });
        let made = AbortOnDrop(made).made().await?;
        made.map_err(|error| RolloutFault::from(&error))
    }

    async fn rollout_job(&self, spec: &JobSpec) -> Result<RolloutJob, RolloutFault> {
        let fault = |kind, message| RolloutFault::new(kind, message, false);
        let (item, _) =
            self.items.get(&spec.item).filter(|(_, hash)| *hash == spec.item_hash).ok_or_else(|| {
                fault(FaultKind::Data, format!("the task {} is another one on this worker", spec.item))
            })?;
        let skill = match &spec.skill {
            SkillRef::AfterReset { version } => JobSkill::AfterReset { version: version.clone() },
            SkillRef::Shown { hash } => {
                let shown = self.shown.get(&self.link, hash).await;
                JobSkill::Shown(
                    shown.map_err(|message| RolloutFault::new(FaultKind::Configuration, message, true))?,
                )
            }
        };
        let (key, env) = (spec.job.clone(), spec.env.clone());
        let mut job =
            RolloutJob::new(key, env, item.clone(), skill, spec.place.clone()).with_sample(spec.sample);
        job.deadline_unix_ms = spec.deadline_ms.map(|left| unix_ms().saturating_add(left));
        Ok(job)
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How the work on a job ended.
enum Ended {
    /// Its result is recorded.
    Committed,
    /// This worker no longer has to make it.
    Dropped,
    /// Another worker makes it.
    Held,
    /// This worker ends.
    Aborted,
}

/// A job among those of the worker.
struct Entered<'a> {
    link: &'a RunLink,
    job: &'a str,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.link.end_job(self.job);
    }
}

/// A task that is aborted when its handle is dropped.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    async fn made(mut self) -> Result<T, RolloutFault> {
        (&mut self.0).await.map_err(|error| {
            let message = match error.try_into_panic() {
                Ok(panic) => format!("the environment panicked: {}", panic_text(panic.as_ref())),
                Err(error) => format!("the rollout was ended: {error}"),
            };
            RolloutFault::new(FaultKind::Program, message, false)
        })
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
