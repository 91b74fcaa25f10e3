//! The models of a rollout on a worker: each call is asked of the driver, and sent from here if the driver says so.

use super::link::{RunLink, Said};
use crate::protocol::{Answer, CallQuestion, Question, Role, WorkerSays};
use crate::remote_model::RemoteSend;
use async_trait::async_trait;
use serde_json::Value;
use skill_envs::{EnvError, Shown, SkillSource, TaskView};
use skill_llm::journal::next_occurrence;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A model of the run, for one job.
pub(super) struct DriverModel {
    pub(super) link: Arc<RunLink>,
    pub(super) job: String,
    pub(super) role: Role,
    /// Sends requests, with the keys of this machine.
    pub(super) sending: Arc<dyn ChatModel>,
    /// Ends the job.
    pub(super) cancel: CancellationToken,
}

type Sending<'a> = Pin<Box<dyn Future<Output = Result<ChatReply, LlmError>> + Send + 'a>>;

/// An attempt at a call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Attempt {
    session: String,
    number: u64,
}

#[async_trait]
impl ChatModel for DriverModel {
    fn id(&self) -> &ModelId {
        self.sending.id()
    }

    fn parameters(&self) -> Value {
        self.sending.parameters()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let deadline_ms = call.time_left().map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        let question = CallQuestion {
            job: self.job.clone(),
            role: self.role,
            place: call.place.clone(),
            occurrence: next_occurrence(self.sending.as_ref(), request, call),
            request: request.clone(),
            deadline_ms,
        };
        let work = self.ask(question, request, call);
        tokio::select! {
            biased;
            () = call.cancel.cancelled() => Err(LlmError::Cancelled),
            () = self.cancel.cancelled() => Err(LlmError::Cancelled),
            outcome = work => outcome,
        }
    }
}

impl DriverModel {
    async fn ask(
        &self,
        question: CallQuestion,
        request: &ChatRequest,
        call: &CallCtx,
    ) -> Result<ChatReply, LlmError> {
        let mut line = self.link.ask(Question::Call(Box::new(question))).await;
        let mut sending: Option<(Attempt, Sending<'_>)> = None;
        // What came of the latest attempt, until the driver has it: a reply is paid for.
        let mut held: Option<(Attempt, Result<ChatReply, LlmError>)> = None;
        let mut orphaned: Option<Instant> = None;
        loop {
            let said = tokio::select! {
                biased;
                outcome = ended(&mut sending) => {
                    if let Some((attempt, _)) = sending.take() {
                        self.send(line.id, &attempt, &outcome).await;
                        held = Some((attempt, outcome));
                    }
                    continue;
                }
                said = line.next() => said,
            };
            match said {
                Said::Send { session, attempt, deadline_ms } => {
                    orphaned = None;
                    let attempt = Attempt { session, number: attempt };
                    match (&held, &sending) {
                        (Some((_, outcome @ Ok(_))), _) => self.send(line.id, &attempt, outcome).await,
                        (Some((of, outcome)), _) if *of == attempt => self.send(line.id, of, outcome).await,
                        (_, Some((of, _)))
                            if of.session == attempt.session && of.number >= attempt.number => {}
                        // The request of a driver that was started again is still out, and answers this one too.
                        (_, Some((of, _))) if of.session != attempt.session => {
                            if let Some((of, _)) = &mut sending {
                                *of = attempt;
                            }
                        }
                        (_, _) => sending = Some((attempt, self.begin(request, call, deadline_ms))),
                    }
                }
                Said::Stop => sending = None,
                Said::Answer(Answer::Recorded) => match held.take() {
                    Some((_, outcome)) => {
                        self.link.count_reply(&self.job);
                        return outcome;
                    }
                    None => line.ask_again().await,
                },
                Said::Answer(Answer::Reply(reply)) => {
                    self.link.count_reply(&self.job);
                    return Ok(*reply);
                }
                Said::Answer(Answer::Failed(error)) => return Err(*error),
                // A driver that was started again comes to the job.
                Said::Answer(Answer::NoJob)
                    if !self.link.is_orphaned(*orphaned.get_or_insert_with(Instant::now)) =>
                {
                    line.ask_again().await;
                }
                Said::Answer(_) => {
                    // Another worker has the job, or it was given up.
                    self.cancel.cancel();
                    return Err(LlmError::Cancelled);
                }
                Said::Working | Said::Unknown => {}
            }
        }
    }

    fn begin<'a>(
        &'a self,
        request: &'a ChatRequest,
        call: &CallCtx,
        deadline_ms: Option<u64>,
    ) -> Sending<'a> {
        let deadline = deadline_ms.map(|left| Instant::now() + Duration::from_millis(left));
        let call = CallCtx { deadline, attempts: Arc::default(), ..call.clone().without::<RemoteSend>() };
        Box::pin(async move { self.sending.chat(request, &call).await })
    }

    async fn send(&self, id: u64, attempt: &Attempt, outcome: &Result<ChatReply, LlmError>) {
        let outcome = Box::new(outcome.clone());
        self.link.say(WorkerSays::Sent { id, attempt: attempt.number, outcome }).await;
    }
}

/// The outcome of the request that is out; never, if none is.
async fn ended(sending: &mut Option<(Attempt, Sending<'_>)>) -> Result<ChatReply, LlmError> {
    match sending {
        Some((_, outcome)) => outcome.await,
        None => std::future::pending().await,
    }
}

/// The source of the run's skills, for one job whose environment tells the goal.
pub(super) struct DriverSource {
    pub(super) link: Arc<RunLink>,
    pub(super) job: String,
    pub(super) version: String,
    pub(super) shown: Arc<super::shown::ShownCache>,
    pub(super) cancel: CancellationToken,
}

#[async_trait]
impl SkillSource for DriverSource {
    fn version(&self) -> String {
        self.version.clone()
    }

    async fn show(&self, task: &TaskView<'_>, call: &CallCtx) -> Result<Shown, EnvError> {
        let question =
            Question::Show { job: self.job.clone(), goal: task.goal.to_owned(), place: call.place.clone() };
        let cancelled = || EnvError::Model(LlmError::Cancelled);
        let asked = Instant::now();
        let mut line = self.link.ask(question).await;
        loop {
            let said = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(cancelled()),
                said = line.next() => said,
            };
            match said {
                Said::Answer(Answer::Shown { hash, used }) => {
                    call.scope.add(used);
                    let shown = self.shown.get(&self.link, &hash).await;
                    return shown.map_err(|message| EnvError::Configuration { message });
                }
                Said::Answer(Answer::NotShown(error)) => return Err(EnvError::Model(*error)),
                Said::Answer(Answer::NoJob) if !self.link.is_orphaned(asked) => {
                    line.ask_again().await;
                }
                Said::Answer(_) => {
                    self.cancel.cancel();
                    return Err(cancelled());
                }
                Said::Send { .. } | Said::Stop | Said::Working | Said::Unknown => {}
            }
        }
    }
}
