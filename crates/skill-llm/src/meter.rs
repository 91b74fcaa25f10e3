//! Sums of calls and tokens.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use skill_core::Usage;

/// Sums over calls.
#[derive(Debug, Default)]
pub struct Meter {
    reading: Mutex<MeterReading>,
}

impl Meter {
    /// The sums until now.
    pub fn snapshot(&self) -> MeterReading {
        *self.reading.lock()
    }

    /// Adds what another meter showed.
    pub fn add(&self, other: MeterReading) {
        let mut reading = self.reading.lock();
        reading.calls += other.calls;
        reading.failed += other.failed;
        reading.usage += other.usage;
    }

    /// Counts a call that gave a reply.
    pub(crate) fn count_reply(&self, usage: Usage) {
        let mut reading = self.reading.lock();
        reading.calls += 1;
        reading.usage += usage;
    }

    /// Counts a call that begins.
    pub(crate) fn begin(&self) {
        self.reading.lock().calls += 1;
    }

    /// Counts the end of a call that was begun; without tokens it gave no reply.
    pub(crate) fn end(&self, used: Option<Usage>) {
        match used {
            Some(usage) => self.reading.lock().usage += usage,
            None => self.reading.lock().failed += 1,
        }
    }
}

/// What a [`Meter`] showed at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MeterReading {
    /// Calls that were begun, finished or not.
    pub calls: u64,
    /// Calls that ended in an error.
    pub failed: u64,
    /// Tokens of the calls that gave a reply.
    pub usage: Usage,
}

impl MeterReading {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let mut usage = self.usage;
        usage += other.usage;
        Self {
            calls: self.calls.saturating_add(other.calls),
            failed: self.failed.saturating_add(other.failed),
            usage,
        }
    }

    /// What was added since an earlier reading of the same meter.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (now, before) = (&self.usage, &earlier.usage);
        Self {
            calls: self.calls.saturating_sub(earlier.calls),
            failed: self.failed.saturating_sub(earlier.failed),
            usage: Usage {
                input: now.input.saturating_sub(before.input),
                cached: now.cached.saturating_sub(before.cached),
                cache_written: now.cache_written.saturating_sub(before.cache_written),
                output: now.output.saturating_sub(before.output),
                reasoning: now.reasoning.saturating_sub(before.reasoning),
            },
        }
    }
}
