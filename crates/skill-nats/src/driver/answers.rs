//! The questions of workers, answered. Each answer is the same however often it is asked for: what a lost answer said
//! is in the journal.

use super::Shared;
use super::sender::WorkerSender;
use super::state::{Holder, JobEntry, QuestionId, UnderWay};
use crate::broker::Inbox;
use crate::frames::Assembler;
use crate::protocol::{Answer, CallQuestion, DriverSays, FromWorker, PROTOCOL, Question, Role, WorkerSays};
use crate::remote_model::RemoteSend;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use serde::Deserialize;
use skill_core::canonical::hex_sha256;
use skill_envs::{EnvError, FaultKind, JobLink, RolloutFault, RolloutOutcome, TaskView};
use skill_llm::{CallCtx, CallPlace, CallScope, ChatModel, ChatReply, LlmError, MeterReading};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The protocol and the sender of a message, whatever else is in it.
#[derive(Deserialize)]
struct Head {
    protocol: u32,
    worker: String,
}

pub(super) async fn listen(shared: Arc<Shared>, mut messages: Box<dyn Inbox>) {
    let mut assembler = Assembler::default();
    while let Some(payload) = messages.next().await {
        let Some(message) = assembler.take(payload) else { continue };
        match read(&message) {
            Ok(message) => shared.hear(message).await,
            Err(error) => shared.note_malformed(&message, &error),
        }
    }
}

fn read(message: &[u8]) -> Result<FromWorker, String> {
    let head: Head = serde_json::from_slice(message).map_err(|error| error.to_string())?;
    if head.protocol != PROTOCOL {
        return Err(format!("the worker {} uses protocol {}", head.worker, head.protocol));
    }
    serde_json::from_slice(message).map_err(|error| error.to_string())
}

impl Shared {
    /// A message that nobody understands is dropped: it decides nothing.
    fn note_malformed(&self, message: &[u8], error: &str) {
        let mut state = self.state.lock();
        state.n_malformed += 1;
        if state.n_malformed.is_power_of_two() {
            let (n_bytes, n_malformed) = (message.len(), state.n_malformed);
            tracing::warn!(error, n_bytes, n_malformed, "a message of a worker cannot be read");
        }
    }

    async fn hear(self: &Arc<Self>, FromWorker { worker, body, .. }: FromWorker) {
        if let WorkerSays::Leave = body {
            self.state.lock().lose(&worker, &self.config.times, false);
            self.unqueued.notify_one();
            return;
        }
        if !self.state.lock().see(&worker, Instant::now()) {
            return self.note_malformed(worker.as_bytes(), "there are too many workers");
        }
        match body {
            WorkerSays::Leave => {}
            WorkerSays::Beat { facts, jobs, open } => {
                let now = Instant::now();
                let mut state = self.state.lock();
                // An answer that nobody waits for would hold up those who wait for the same call.
                for ((of, id), under_way) in &state.under_way {
                    if *of == worker && open.is_closed(*id) {
                        under_way.cancel.cancel();
                    }
                }
                for doing in &jobs {
                    if state.live_holder(&doing.job).is_none_or(|holder| holder == worker) {
                        // A driver that was started again learns here who makes what.
                        state.take(&doing.job, &worker);
                    }
                    if let Some(entry) = state.jobs.get_mut(&doing.job) {
                        entry.touched = now;
                    }
                }
                state.release_unnamed(&worker, &jobs);
                if let Some(entry) = state.workers.get_mut(&worker) {
                    (entry.facts, entry.jobs) = (facts, jobs);
                }
            }
            WorkerSays::Poll { id } => self.poll((worker, id)).await,
            WorkerSays::Sent { id, attempt, outcome } => {
                self.sent((worker, id), attempt, *outcome);
            }
            WorkerSays::Ask { id, question } => self.ask((worker, id), *question).await,
        }
    }

    async fn poll(&self, question: QuestionId) {
        let (worker, id) = &question;
        let (is_delivered, is_under_way, has_send) = {
            let state = self.state.lock();
            let is_delivered =
                state.jobs.values().any(|entry| entry.holder == Holder::Delivered(question.clone()));
            let under_way = state.under_way.get(&question);
            (is_delivered, under_way.is_some(), under_way.is_some_and(|under_way| under_way.send.is_some()))
        };
        if has_send {
            self.say_send(worker, *id).await;
        } else if is_under_way || is_delivered {
            self.say(worker, DriverSays::Working { id: *id }).await;
        } else {
            self.say(worker, DriverSays::Unknown { id: *id }).await;
        }
    }

    /// What an attempt came to; of one that nobody waits for nothing is learned.
    fn sent(&self, question: QuestionId, attempt: u64, outcome: Result<ChatReply, LlmError>) {
        let open = {
            let mut state = self.state.lock();
            let send = state.under_way.get_mut(&question).map(|under_way| &mut under_way.send);
            send.and_then(|send| send.take_if(|open| open.attempt == attempt))
        };
        if let Some(open) = open {
            // The receiver may have been dropped.
            drop(open.outcome.send(outcome));
        }
    }

    async fn ask(self: &Arc<Self>, id: QuestionId, question: Question) {
        match question {
            Question::Fetch { hash } => {
                let shown = self.state.lock().shown(&hash);
                let content = shown.or_else(|| self.config.contents.content(&hash));
                let content = content.map(|content: Bytes| BASE64_STANDARD.encode(content));
                self.answer(&id, Answer::Content(content)).await;
            }
            Question::Claim { job } => {
                let answer = self.claim(&id.0, &job);
                self.answer(&id, answer).await;
            }
            Question::Finish { job, outcome } => self.finish(id, &job, *outcome).await,
            Question::Show { job, goal, place } => {
                self.begin(id, job, |of| Work::Show { of, goal, place }).await;
            }
            Question::Call(question) => {
                let job = question.job.clone();
                self.begin(id, job, |of| Work::Call { of, question }).await;
            }
        }
    }

    fn claim(&self, worker: &str, job: &str) -> Answer {
        let mut state = self.state.lock();
        if state.take(job, worker)
            && let Some(entry) = state.jobs.get(job)
        {
            return Answer::Take(Box::new(entry.spec()));
        }
        match state.jobs.get(job).map(|entry| &entry.holder) {
            Some(Holder::Worker(_)) => Answer::Held,
            // The queue can be out of date: the job was given up, or its result has arrived.
            Some(Holder::Nobody | Holder::Delivered(_)) | None => Answer::NoJob,
        }
    }

    async fn finish(
        self: &Arc<Self>,
        id: QuestionId,
        job: &str,
        outcome: Result<RolloutOutcome, RolloutFault>,
    ) {
        let says = {
            let mut state = self.state.lock();
            let answer = |answer| DriverSays::Answer { id: id.1, answer: Box::new(answer) };
            if let Some(entry) = state.jobs.get_mut(job).filter(|entry| is_delivered_by(entry, &id)) {
                entry.holder = Holder::Delivered(id.clone());
                DriverSays::Working { id: id.1 }
            } else if !state.take(job, &id.0) {
                answer(Answer::NoJob)
            } else if let Some(entry) = state.jobs.get_mut(job) {
                match outcome {
                    Ok(outcome) => {
                        entry.holder = Holder::Delivered(id.clone());
                        entry.resolve(Ok(outcome));
                        // The answer is sent after the commit; a worker that polls before gets `Working`.
                        return;
                    }
                    Err(fault) => {
                        // The error of the call says more than the worker can.
                        let known = entry.failed.take().filter(|error| {
                            fault.kind == FaultKind::Model(error.class())
                                || matches!(error, LlmError::BudgetExhausted { .. })
                        });
                        entry.resolve(Err(known.map_or_else(|| fault.into(), EnvError::Model)));
                        state.end_job(job);
                        answer(Answer::Committed)
                    }
                }
            } else {
                answer(Answer::NoJob)
            }
        };
        self.say(&id.0, says).await;
    }

    /// Begins work on a question that takes time; a question that is asked again while it is worked on waits.
    async fn begin(self: &Arc<Self>, id: QuestionId, job: String, work: impl FnOnce(JobWork) -> Work) {
        enum Begun {
            Work(Work, u64),
            Working,
            Not(Answer),
        }
        let begun = {
            let mut state = self.state.lock();
            if state.under_way.contains_key(&id) {
                Begun::Working
            } else if !state.take(&job, &id.0) {
                let is_held = state.live_holder(&job).is_some_and(|holder| holder != id.0);
                Begun::Not(if is_held { Answer::Held } else { Answer::NoJob })
            } else {
                let lost = state.workers.get(&id.0).map(|worker| worker.lost.clone()).unwrap_or_default();
                match state.jobs.get(&job) {
                    Some(entry) => {
                        let cancel = entry.cancel.child_token();
                        let of = JobWork {
                            link: entry.link.clone(),
                            item: entry.job.item.clone(),
                            cancel: cancel.clone(),
                            lost,
                        };
                        let number = self.n_begun.fetch_add(1, Ordering::Relaxed);
                        let under_way = UnderWay { number, job: job.clone(), cancel, send: None };
                        state.under_way.insert(id.clone(), under_way);
                        Begun::Work(work(of), number)
                    }
                    None => Begun::Not(Answer::NoJob),
                }
            }
        };
        match begun {
            Begun::Working => self.poll(id).await,
            Begun::Not(answer) => self.answer(&id, answer).await,
            Begun::Work(work, number) => {
                let shared = Arc::clone(self);
                tokio::spawn(async move {
                    let answer = shared.work(&id, &job, work).await;
                    shared.state.lock().end_work(&id, number);
                    shared.answered.notify_waiters();
                    shared.answer(&id, answer).await;
                });
            }
        }
    }

    async fn work(self: &Arc<Self>, id: &QuestionId, job: &str, work: Work) -> Answer {
        match work {
            Work::Call { of, question } => match self.call(id, &of, *question).await {
                Ok(answer) => answer,
                Err(error) => {
                    let wire = Box::new(error.clone());
                    if !of.cancel.is_cancelled()
                        && let Some(entry) = self.state.lock().jobs.get_mut(job)
                    {
                        entry.failed = Some(error);
                    }
                    Answer::Failed(wire)
                }
            },
            Work::Show { of, goal, place } => match self.show(&of, &goal, place, job).await {
                Ok(answer) => answer,
                Err(EnvError::Model(error)) => {
                    let wire = Box::new(error.clone());
                    if let Some(entry) = self.state.lock().jobs.get_mut(job) {
                        entry.failed = Some(error);
                    }
                    Answer::NotShown(wire)
                }
                Err(error) => {
                    let message = RolloutFault::from(&error).message;
                    Answer::NotShown(Box::new(LlmError::Configuration { message }))
                }
            },
        }
    }

    /// Makes a call by the model of the run, whose requests the worker sends.
    async fn call(
        self: &Arc<Self>,
        id: &QuestionId,
        of: &JobWork,
        question: CallQuestion,
    ) -> Result<Answer, LlmError> {
        let missing = |what: &str| LlmError::Configuration {
            message: format!("the run has no {what} for a rollout elsewhere"),
        };
        let models = of.link.models.as_ref().ok_or_else(|| missing("model"))?;
        let model: &dyn ChatModel = match question.role {
            Role::Target => models.target.as_ref(),
            Role::Judge => models.judge.as_deref().ok_or_else(|| missing("judge"))?,
        };
        let sender = Arc::new(WorkerSender {
            shared: Arc::clone(self),
            question: id.clone(),
            model: model.id().clone(),
            lost: of.lost.clone(),
            n_attempts: AtomicU64::new(0),
            has_replied: AtomicBool::new(false),
        });
        let deadline = question.deadline_ms.map(|left| Instant::now() + Duration::from_millis(left));
        let ctx = CallCtx {
            deadline,
            scope: Arc::new(CallScope::starting_at(question.occurrence)),
            ..of.ctx(question.place).with(RemoteSend(Arc::clone(&sender) as Arc<dyn ChatModel>))
        };
        let reply = model.chat(&question.request, &ctx).await?;
        if let Some(record) = &models.record {
            record.commit().await?;
        }
        let is_own = sender.has_replied.load(Ordering::Relaxed);
        Ok(if is_own { Answer::Recorded } else { Answer::Reply(Box::new(reply)) })
    }

    async fn show(&self, of: &JobWork, goal: &str, place: CallPlace, job: &str) -> Result<Answer, EnvError> {
        let ctx = of.ctx(place);
        let shown = of.link.source.show(&TaskView::new(&of.item, goal), &ctx).await?;
        let content = serde_json::to_vec(&shown).map_err(|error| EnvError::Configuration {
            message: format!("a skill cannot be sent: {error}"),
        })?;
        let hash = hex_sha256(&content);
        if let Some(entry) = self.state.lock().jobs.get_mut(job) {
            entry.shown = Some((hash.clone(), content.into()));
        }
        let used: MeterReading = ctx.scope.used();
        Ok(Answer::Shown { hash, used })
    }
}

fn is_delivered_by(entry: &JobEntry, (worker, _): &QuestionId) -> bool {
    matches!(&entry.holder, Holder::Delivered((holder, _)) if holder == worker)
}

/// A question that takes time.
enum Work {
    Call { of: JobWork, question: Box<CallQuestion> },
    Show { of: JobWork, goal: String, place: CallPlace },
}

/// What a question needs of its job.
struct JobWork {
    link: JobLink,
    item: skill_envs::Item,
    cancel: CancellationToken,
    lost: CancellationToken,
}

impl JobWork {
    fn ctx(&self, place: CallPlace) -> CallCtx {
        CallCtx { cancel: self.cancel.clone(), halt: self.link.halt.clone(), ..CallCtx::new(place) }
    }
}
