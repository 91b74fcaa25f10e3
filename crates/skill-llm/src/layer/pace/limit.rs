//! How many requests may be in flight: additive increase, multiplicative decrease.

use tokio::time::Instant;

/// The limit is kept in thousandths, so that it can grow by less than one per reply.
const ONE: u64 = 1_000;
/// What a rate limit leaves, in thousandths.
const AFTER_RATE_LIMIT: u64 = 700;
/// What rising latency leaves, in thousandths.
const AFTER_RISING_LATENCY: u64 = 900;

/// A limit that finds out what the provider takes.
///
/// Until the first decrease every reply raises it by one, which doubles it per round; after that a whole round raises
/// it by one. It grows only while at least half of it is in use: otherwise replies say nothing about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct AdaptiveLimit {
    min: u64,
    max: u64,
    current: u64,
    slow_start: bool,
    decreased_at: Option<Instant>,
}

impl AdaptiveLimit {
    /// A limit between `min` and `max`, both at least 1; it begins at `start`.
    pub(super) fn new(min: u32, start: u32, max: u32) -> Self {
        let min = u64::from(min.max(1)) * ONE;
        let max = (u64::from(max) * ONE).max(min);
        let current = (u64::from(start) * ONE).clamp(min, max);
        Self { min, max, current, slow_start: true, decreased_at: None }
    }

    /// The whole requests that may be in flight.
    pub(super) fn whole(&self) -> usize {
        usize::try_from(self.current / ONE).unwrap_or(usize::MAX)
    }

    /// A reply came while this many were in flight, it included.
    pub(super) fn replied(&mut self, in_flight: usize) {
        if in_flight.saturating_mul(2) < self.whole() {
            return;
        }
        let more = if self.slow_start { ONE } else { (ONE * ONE / self.current).max(1) };
        self.current = (self.current + more).min(self.max);
    }

    /// A request that was sent at `sent` met a rate limit.
    ///
    /// All requests that were in flight together meet the same limit: only one of them lowers it.
    pub(super) fn rate_limited(&mut self, sent: Instant, now: Instant) {
        if self.is_after_decrease(sent) {
            self.decrease(AFTER_RATE_LIMIT, now);
        }
    }

    /// Whether a request of this time was sent under the limit as it is now: older ones say nothing about it.
    pub(super) fn is_after_decrease(&self, sent: Instant) -> bool {
        self.decreased_at.is_none_or(|decreased| sent >= decreased)
    }

    /// Replies take longer and longer.
    pub(super) fn latency_rises(&mut self, now: Instant) {
        self.decrease(AFTER_RISING_LATENCY, now);
    }

    fn decrease(&mut self, thousandths: u64, now: Instant) {
        self.current = (self.current * thousandths / ONE).max(self.min);
        self.slow_start = false;
        self.decreased_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const STEP: Duration = Duration::from_secs(1);

    fn round(limit: &mut AdaptiveLimit) -> usize {
        let in_flight = limit.whole();
        (0..in_flight).for_each(|_| limit.replied(in_flight));
        limit.whole()
    }

    #[test]
    fn it_doubles_until_the_first_decrease_and_then_grows_by_one_per_round() {
        let mut limit = AdaptiveLimit::new(2, 4, 100);
        assert_eq!([round(&mut limit), round(&mut limit), round(&mut limit)], [8, 16, 32]);
        let now = Instant::now();
        limit.rate_limited(now, now);
        assert_eq!(limit.whole(), 22);
        let after = [round(&mut limit), round(&mut limit), round(&mut limit)];
        assert!((24..=25).contains(&after[2]), "{after:?}");
    }

    #[test]
    fn it_stays_between_its_ends() {
        let mut limit = AdaptiveLimit::new(3, 1, 20);
        assert_eq!(limit.whole(), 3);
        (0..10).for_each(|_| {
            round(&mut limit);
        });
        assert_eq!(limit.whole(), 20);
        let mut now = Instant::now();
        for _ in 0..20 {
            now += STEP;
            limit.rate_limited(now, now);
            limit.latency_rises(now);
        }
        assert_eq!(limit.whole(), 3);
        assert_eq!(AdaptiveLimit::new(0, 0, 0).whole(), 1);
        assert_eq!(AdaptiveLimit::new(9, 5, 4).whole(), 9);
    }

    #[test]
    fn one_round_lowers_it_once() {
        let mut limit = AdaptiveLimit::new(1, 100, 100);
        let sent = Instant::now();
        (1..=50).for_each(|n| limit.rate_limited(sent, sent + STEP * n));
        assert_eq!(limit.whole(), 70);
        limit.rate_limited(sent + STEP, sent + STEP * 60);
        assert_eq!(limit.whole(), 49);
    }

    #[test]
    fn what_is_not_used_does_not_grow() {
        let mut limit = AdaptiveLimit::new(1, 10, 100);
        (0..50).for_each(|_| limit.replied(4));
        assert_eq!(limit.whole(), 10);
        limit.replied(5);
        assert_eq!(limit.whole(), 11);
    }
}
