//! The messages between a driver and its workers, as JSON.
//!
//! Every question of a worker has an id and is asked again until it is answered: each side forgets nothing that it
//! still needs, and each answer is the same however often it is asked for. What is recorded is in the journal of the
//! driver; a worker keeps nothing that must not be lost.

use serde::{Deserialize, Serialize};
use skill_core::ItemId;
use skill_envs::{RolloutFault, RolloutOutcome};
use skill_llm::{CallPlace, ChatReply, ChatRequest, LlmError, MeterReading, ModelId};
use std::collections::BTreeSet;

/// The version of the messages; drivers and workers of different versions do not work together.
pub const PROTOCOL: u32 = 3;

/// The subjects and names of one run, under the name that drivers and workers share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    prefix: String,
    run: String,
}

impl Names {
    pub(crate) fn new(prefix: &str, run: &str) -> Self {
        Self { prefix: token(prefix), run: token(run) }
    }

    /// Where drivers announce their runs.
    pub(crate) fn announcements(prefix: &str) -> String {
        format!("{}.announce", token(prefix))
    }

    /// Where a worker asks for announcements.
    pub(crate) fn asks(prefix: &str) -> String {
        format!("{}.ask", token(prefix))
    }

    pub(crate) fn driver(&self) -> String {
        format!("{}.{}.driver", self.prefix, self.run)
    }

    pub(crate) fn worker(&self, worker: &str) -> String {
        format!("{}.{}.worker.{}", self.prefix, self.run, token(worker))
    }

    /// What the names of all queues of the run begin with.
    pub(crate) fn queues(&self) -> String {
        format!("{}-{}-", self.prefix, self.run)
    }

    pub(crate) fn queue(&self, session: &str, number: u64) -> String {
        format!("{}{}-{number}", self.queues(), token(session))
    }

    pub(crate) fn jobs(&self, queue: &str) -> String {
        format!("{}.{}.jobs.{}", self.prefix, self.run, token(queue))
    }
}

/// A text as one part of a subject and of the name of a queue.
fn token(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    text.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect()
}

/// A driver with work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Announcement {
    /// See [`PROTOCOL`].
    pub protocol: u32,
    /// The version of the program.
    pub version: String,
    /// The run, the same for all its processes.
    pub run: String,
    /// The process.
    pub session: String,
    /// The name of the run for people.
    pub name: String,
    /// The hash of what a worker has to set up.
    pub setup: String,
    /// The queue of its jobs; `None` while there are none.
    pub queue: Option<String>,
}

/// A message of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FromWorker {
    pub(crate) protocol: u32,
    pub(crate) worker: String,
    pub(crate) body: WorkerSays,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkerSays {
    /// It is there, works on these jobs, and waits for the answers to these questions.
    Beat { facts: WorkerFacts, jobs: Vec<Doing>, open: OpenQuestions },
    /// It ends.
    Leave,
    /// A question, which is asked again until it is answered.
    Ask { id: u64, question: Box<Question> },
    /// The same question again, without its content.
    Poll { id: u64 },
    /// What an attempt at a call came to.
    Sent { id: u64, attempt: u64, outcome: Box<Result<ChatReply, LlmError>> },
}

/// What a worker says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerFacts {
    /// Its name for people, such as `host/1234`.
    pub name: String,
    /// The version of its program.
    pub version: String,
    /// The rollouts that it makes at a time.
    pub slots: u32,
    /// What is in the way of its working on the run; empty if nothing is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// A rollout that a worker makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doing {
    /// The key of the job.
    pub job: String,
    /// Its task.
    pub item: ItemId,
    /// The replies that it has had.
    pub calls: u32,
}

/// The questions whose answers a worker waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct OpenQuestions {
    /// Their ids.
    pub(crate) ids: BTreeSet<u64>,
    /// The first id that was not used yet: later ones may be on their way.
    pub(crate) next: u64,
}

impl OpenQuestions {
    /// True for a question that the worker no longer waits for.
    pub(crate) fn is_closed(&self, id: u64) -> bool {
        id < self.next && !self.ids.contains(&id)
    }
}

/// Whom a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Target,
    Judge,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question {
    /// The content with this hash.
    Fetch { hash: String },
    /// May this worker make the job that the queue gave it?
    Claim { job: String },
    /// The skill of a job whose environment has told the goal.
    Show { job: String, goal: String, place: CallPlace },
    /// A call of a model.
    Call(Box<CallQuestion>),
    /// The result of a job; it is answered when that is committed.
    Finish { job: String, outcome: Box<Result<RolloutOutcome, RolloutFault>> },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CallQuestion {
    pub(crate) job: String,
    pub(crate) role: Role,
    pub(crate) place: CallPlace,
    /// Which of the equal requests of the rollout this is, from 0.
    pub(crate) occurrence: u32,
    pub(crate) request: ChatRequest,
    /// The time until the call has to be over.
    pub(crate) deadline_ms: Option<u64>,
}

/// A message to a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FromDriver {
    pub(crate) protocol: u32,
    pub(crate) session: String,
    pub(crate) body: DriverSays,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DriverSays {
    /// The answer to a question.
    Answer { id: u64, answer: Box<Answer> },
    /// The question is being worked on.
    Working { id: u64 },
    /// The driver does not know the question: its content is missing.
    Unknown { id: u64 },
    /// The request of this call may be sent.
    Send { id: u64, attempt: u64, deadline_ms: Option<u64> },
    /// Nobody waits for the request of this call.
    Stop { id: u64 },
    /// Nobody waits for this job.
    Drop { job: String },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Content, in base64; `None` if the driver has none with this hash.
    Content(Option<String>),
    /// The job is this worker's.
    Take(Box<JobSpec>),
    /// Another worker makes it.
    Held,
    /// The job has its result, or was given up.
    NoJob,
    /// The content of this hash is shown; what deciding it used.
    Shown { hash: String, used: MeterReading },
    /// The skill could not be decided on.
    NotShown(Box<LlmError>),
    /// The reply is in the journal. It was there before.
    Reply(Box<ChatReply>),
    /// The reply that this worker sent is in the journal.
    Recorded,
    /// The call failed.
    Failed(Box<LlmError>),
    /// The result of the job is in the journal.
    Committed,
}

/// A job as a worker makes it: all that is large comes by hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobSpec {
    pub(crate) job: String,
    pub(crate) env: String,
    pub(crate) item: ItemId,
    /// The hash of the item's data.
    pub(crate) item_hash: String,
    pub(crate) skill: SkillRef,
    pub(crate) sample: u32,
    pub(crate) place: CallPlace,
    /// The time until it has to be over, since the clocks of two machines differ.
    pub(crate) deadline_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SkillRef {
    Shown { hash: String },
    AfterReset { version: String },
}

/// A message of the queue: the rest is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct QueuedJob {
    pub(crate) protocol: u32,
    pub(crate) job: String,
}

/// The models of a run, as a worker has to have them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelFacts {
    /// Its identity.
    pub id: ModelId,
    /// See `ChatModel::parameters`.
    pub parameters: serde_json::Value,
}

#[cfg(test)]
mod tests {
    use super::*;
    use skill_llm::error::{Shortfall, with_causes};
    use skill_llm::{ErrorClass, GiveUpReason, LengthSource};
    use std::time::Duration;

    #[test]
    fn names_are_parts_of_subjects_whatever_they_are_called() {
        let names = Names::new("my team.*", "run >1");
        assert_eq!(names.driver(), "my_team__.run__1.driver");
        assert_eq!(names.queue("s.1", 3), "my_team__-run__1-s_1-3");
        assert!(names.queue("s", 3).starts_with(&names.queues()));
    }

    #[test]
    fn errors_decide_the_same_on_the_other_side() {
        let (provider, message) = ("http://there".to_owned(), "no".to_owned());
        let limited = LlmError::RateLimited {
            provider: provider.clone(),
            status: 429,
            message: message.clone(),
            retry_after: Some(Duration::from_millis(1500)),
        };
        let errors = [
            LlmError::GaveUp {
                attempts: 3,
                elapsed: Duration::from_secs(9),
                why: GiveUpReason::ServerWait { asked_s: 900, allowed_s: 600 },
                last: Box::new(limited.clone()),
            },
            limited,
            LlmError::ContextTooLong { provider: provider.clone(), status: 400, message: message.clone() },
            LlmError::Refused { provider: provider.clone(), status: 400, message: message.clone() },
            LlmError::StaleToken { provider: provider.clone(), status: 401, message: message.clone() },
            LlmError::Unreachable { provider: provider.clone(), message: message.clone() },
            LlmError::BudgetExhausted {
                what: "money",
                spent: "1".into(),
                cap: "2".into(),
                next: Some(Box::new(Shortfall("3".to_owned()))),
                failed: None,
            },
            LlmError::Program {
                program: "agent".to_owned(),
                class: ErrorClass::Timeout,
                message: message.clone(),
            },
            LlmError::Client { client: "own".to_owned(), message },
            LlmError::VectorLength {
                provider,
                model: "m".to_owned(),
                found: 3,
                expected: 4,
                expected_by: LengthSource::EarlierReply,
            },
            LlmError::EmptyText { index: 2 },
            LlmError::Cancelled,
        ];
        for error in errors {
            let text = serde_json::to_string(&error).unwrap();
            let there = serde_json::from_str::<LlmError>(&text).unwrap();
            assert_eq!(with_causes(&there), with_causes(&error));
            assert_eq!(
                (there.class(), there.is_retryable()),
                (error.class(), error.is_retryable()),
                "{text}"
            );
        }
    }
}
