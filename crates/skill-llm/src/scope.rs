//! The unit of work that a call belongs to: one rollout, one analyst's call.

use crate::meter::{Meter, MeterReading};
use parking_lot::Mutex;
use skill_core::Usage;
use std::collections::HashMap;

/// A unit of work: it numbers the equal requests that are made in it, and adds up what its calls used.
///
/// A unit that is started again (after a fault, after a restart, or because somebody worked ahead) gets a new scope
/// and numbers its requests from 0 again. So it makes the same calls as before, and a journal can answer them, while
/// a request that is repeated on purpose within one unit is a call of its own.
///
/// What is added up are replies, whether they were paid for now or came from a journal: the sums of a unit that is
/// started again are those of a unit that was not.
#[derive(Debug, Default)]
pub struct CallScope {
    occurrences: Mutex<HashMap<[u8; 32], u32>>,
    /// The number of the first request of each digest.
    first: u32,
    meter: Meter,
}

impl CallScope {
    /// A unit of work whose equal requests are numbered from here on: that of one call which another process has
    /// numbered.
    pub fn starting_at(first: u32) -> Self {
        Self { first, ..Self::default() }
    }

    /// How many times this unit of work has made the request of this digest before.
    pub fn next_occurrence(&self, digest: [u8; 32]) -> u32 {
        let mut occurrences = self.occurrences.lock();
        let count = occurrences.entry(digest).or_insert(self.first);
        let occurrence = *count;
        *count = count.saturating_add(1);
        occurrence
    }

    /// Counts a reply.
    pub fn count(&self, usage: Usage) {
        self.meter.count_reply(usage);
    }

    /// Counts replies that were made for this unit of work elsewhere.
    pub fn add(&self, replies: MeterReading) {
        self.meter.add(replies);
    }

    /// The replies until now.
    pub fn used(&self) -> MeterReading {
        self.meter.snapshot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_equal_requests_apart() {
        let scope = CallScope::default();
        let numbers = [1, 2, 1, 1, 2].map(|digest| scope.next_occurrence([digest; 32]));
        assert_eq!(numbers, [0, 0, 1, 2, 1]);
        assert_eq!(CallScope::default().next_occurrence([1; 32]), 0);
        let later = CallScope::starting_at(4);
        assert_eq!([1, 1, 2].map(|digest| later.next_occurrence([digest; 32])), [4, 5, 4]);
    }

    #[test]
    fn adds_up_replies() {
        let scope = CallScope::default();
        scope.count(Usage { input: 3, ..Usage::default() });
        scope.count(Usage { input: 4, output: 1, ..Usage::default() });
        let used = scope.used();
        assert_eq!((used.calls, used.usage.input, used.usage.output), (2, 7, 1));
    }
}
