//! Attempts: what was really sent for a call, and what it came to.

use crate::error::{ErrorClass, LlmError};
use parking_lot::Mutex;
use skill_core::Usage;
use std::fmt;
use std::sync::Arc;
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
        /// What the provider may bill where the request was sent and no answer came: the most that its prompt may have
        /// and the longest reply seen, at most the reply limit; without a budget an estimate of the prompt.
        may_be_billed: Usage,
    },
}

impl AttemptOutcome {
    /// No reply, and what may be billed.
    pub(crate) fn failed(error: &LlmError, may_be_billed: Usage) -> Self {
        Self::Failed { class: error.class(), message: error.to_string(), may_be_billed }
    }
}

/// Upper bounds on the tokens of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Reserved for it before it is sent.
    pub reserved: Usage,
    /// Counted for it if it is sent and nobody learns what it used.
    pub unanswered: Usage,
}

/// Records requests before they are sent, so that a process that is killed loses no count.
///
/// Every method has written what it is told when it returns: what is recorded survives the end of the process.
pub(crate) trait SendRecord: Send + Sync + fmt::Debug {
    /// Records that a request is about to be sent, with what is reserved for it; the number names it from then on.
    fn begin(&self, reserved: Usage) -> Result<usize, LlmError>;

    /// Replaces what was reserved for a request by what it used.
    fn settle(&self, request: usize, used: Usage);

    /// Removes a request that was not sent after all.
    fn retract(&self, request: usize);
}

/// The attempts of one call, in order; layers add to it while the call runs.
#[derive(Debug, Default)]
pub struct AttemptLog {
    entries: Mutex<Entries>,
    /// Where requests are recorded before they are sent; nowhere without a journal.
    record: Option<Arc<dyn SendRecord>>,
}

#[derive(Debug, Default)]
struct Entries {
    attempts: Vec<Attempt>,
    waited: Duration,
    unsent: bool,
    /// Whether a request is sent and not over; `None` where no layer says it.
    out: Option<bool>,
    /// `None` without a budget.
    bounds: Option<Bounds>,
    /// What a reply cost that is an error for the caller.
    billed: Option<Usage>,
    /// The number of the request under way in the record.
    recorded: Option<usize>,
}

impl AttemptLog {
    /// A log whose requests are recorded before they are sent.
    #[cfg(feature = "journal")]
    pub(crate) fn recorded_by(record: Arc<dyn SendRecord>) -> Self {
        Self { entries: Mutex::default(), record: Some(record) }
    }

    /// An empty log for one attempt of the call, whose request is recorded where those of the call are.
    pub(crate) fn for_attempt(&self) -> Self {
        Self { entries: Mutex::default(), record: self.record.clone() }
    }

    /// Notes what the attempt under way may use.
    pub(crate) fn note_bounds(&self, bounds: Bounds) {
        self.entries.lock().bounds = Some(bounds);
    }

    /// Records the request of the attempt under way, which is sent next, with the estimated tokens of its prompt.
    ///
    /// # Errors
    ///
    /// A record that cannot be written; nothing may be sent then.
    pub(crate) fn begin_request(&self, input_tokens: u64) -> Result<(), LlmError> {
        let Some(record) = &self.record else { return Ok(()) };
        let bounds = self.entries.lock().bounds;
        let estimate = Usage { input: input_tokens, ..Usage::default() };
        let reserved = bounds.map_or(estimate, |bounds| bounds.reserved);
        let number = record.begin(reserved)?;
        self.entries.lock().recorded = Some(number);
        Ok(())
    }

    /// Records what the request of the attempt under way used.
    pub(crate) fn settle_request(&self, used: Usage) {
        let recorded = self.entries.lock().recorded.take();
        if let (Some(record), Some(number)) = (&self.record, recorded) {
            record.settle(number, used);
        }
    }

    /// Removes the request of the attempt under way from the record: it was not sent.
    pub(crate) fn retract_request(&self) {
        let recorded = self.entries.lock().recorded.take();
        if let (Some(record), Some(number)) = (&self.record, recorded) {
            record.retract(number);
        }
    }

    /// What a provider may bill for the attempt under way if it ends like this: what the budget takes it to be, else
    /// this estimate.
    pub(crate) fn may_be_billed(&self, error: &LlmError, estimate: impl FnOnce() -> Usage) -> Usage {
        let (billed, bounds) = {
            let mut entries = self.entries.lock();
            (entries.billed.take(), entries.bounds)
        };
        if let Some(billed) = billed {
            return billed;
        }
        bounds.filter(|_| error.is_billed()).map_or_else(estimate, |bounds| bounds.unanswered)
    }

    /// Notes what the attempt under way has cost, though its reply is of no use.
    pub(crate) fn note_billed(&self, usage: Usage) {
        self.entries.lock().billed = Some(usage);
    }

    /// Notes a wait: for the pace, for the budget, or between attempts. Waits add up until somebody takes them.
    pub(crate) fn add_wait(&self, wait: Duration) {
        let mut entries = self.entries.lock();
        entries.waited = entries.waited.saturating_add(wait);
    }

    /// Takes the waits that were noted since they were last taken.
    pub(crate) fn take_wait(&self) -> Duration {
        std::mem::take(&mut self.entries.lock().waited)
    }

    /// Notes that the attempt under way ended before anything was sent, so that nobody counts it as a request.
    pub(crate) fn note_unsent(&self) {
        self.entries.lock().unsent = true;
    }

    /// Notes that the request of the attempt under way is sent, or over.
    pub(crate) fn note_out(&self, out: bool) {
        self.entries.lock().out = Some(out);
    }

    /// Whether a request is sent and not over.
    pub(crate) fn is_out(&self) -> bool {
        self.entries.lock().out == Some(true)
    }

    /// True if a request may still be in flight; unknown counts as in flight.
    pub(crate) fn may_be_out(&self) -> bool {
        self.entries.lock().out != Some(false)
    }

    /// Whether the attempt that just ended was never sent; the next one begins as if it will be.
    pub fn take_unsent(&self) -> bool {
        std::mem::take(&mut self.entries.lock().unsent)
    }

    /// Notes an attempt that is over.
    pub fn add(&self, attempt: Attempt) {
        self.entries.lock().attempts.push(attempt);
    }

    /// The attempts until now.
    pub fn attempts(&self) -> Vec<Attempt> {
        self.entries.lock().attempts.clone()
    }

    /// How many attempts there were until now.
    pub fn len(&self) -> usize {
        self.entries.lock().attempts.len()
    }

    /// Whether nothing was tried yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
