//! Attempts: what was really sent for a call, and what it came to.

use crate::chat::{ChatReply, ChatRequest};
use crate::error::{ErrorClass, LlmError};
use crate::layer::may_be_billed;
use skill_core::Usage;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// One request that was sent for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// When it began, waits not included.
    pub started: SystemTime,
    /// How long it waited before: for the pace, for the budget, and between attempts.
    pub waited: Duration,
    /// From when it was sent until it was over.
    pub took: Duration,
    /// What it came to.
    pub outcome: AttemptOutcome,
}

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// A reply, with the tokens that it cost.
    Reply(Usage),
    /// No reply.
    Failed {
        /// The kind of failure.
        class: ErrorClass,
        /// What happened.
        message: String,
        /// What the provider may bill: an estimate of the prompt where the request was sent and no answer came.
        may_be_billed: Usage,
    },
}

impl AttemptOutcome {
    /// The outcome of one call of an inner model.
    pub fn of(outcome: &Result<ChatReply, LlmError>, request: &ChatRequest) -> Self {
        match outcome {
            Ok(reply) => Self::Reply(reply.usage),
            Err(error) => Self::Failed {
                class: error.class(),
                message: error.to_string(),
                may_be_billed: may_be_billed(error.class(), request),
            },
        }
    }
}

/// The attempts of one call, in order; layers add to it while the call runs.
#[derive(Debug, Default)]
pub struct AttemptLog {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    attempts: Vec<Attempt>,
    waited: Duration,
    unsent: bool,
    /// Whether a request is sent and not over; `None` where no layer says it.
    out: Option<bool>,
}

impl AttemptLog {
    /// Notes a wait: for the pace, for the budget, or between attempts. Waits add up until somebody takes them.
    pub fn add_wait(&self, wait: Duration) {
        let mut entries = self.lock();
        entries.waited = entries.waited.saturating_add(wait);
    }

    /// Takes the waits that were noted since they were last taken.
    pub fn take_wait(&self) -> Duration {
        std::mem::take(&mut self.lock().waited)
    }

    /// Notes that the attempt under way ended before anything was sent, so that nobody counts it as a request.
    pub fn note_unsent(&self) {
        self.lock().unsent = true;
    }

    /// Notes that the request of the attempt under way is sent, or over.
    pub(crate) fn note_out(&self, out: bool) {
        self.lock().out = Some(out);
    }

    /// Whether a request is sent and not over.
    pub(crate) fn is_out(&self) -> bool {
        self.lock().out == Some(true)
    }

    /// Whether a request may be sent and not over: it is, or nobody says.
    pub(crate) fn may_be_out(&self) -> bool {
        self.lock().out != Some(false)
    }

    /// Whether the attempt that just ended was never sent; the next one begins as if it will be.
    pub fn take_unsent(&self) -> bool {
        std::mem::take(&mut self.lock().unsent)
    }

    /// Notes an attempt that is over.
    pub fn add(&self, attempt: Attempt) {
        self.lock().attempts.push(attempt);
    }

    /// The attempts until now.
    pub fn attempts(&self) -> Vec<Attempt> {
        self.lock().attempts.clone()
    }

    /// How many attempts there were until now.
    pub fn len(&self) -> usize {
        self.lock().attempts.len()
    }

    /// Whether nothing was tried yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Entries are whole after every statement, so a panic elsewhere cannot have broken them.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
