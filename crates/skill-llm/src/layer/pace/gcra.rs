//! A rate: so much per minute, with a short burst, in whole nanoseconds.

use std::time::Duration;
use tokio::time::Instant;

const NANOS_PER_MINUTE: u128 = 60_000_000_000;

/// The generic cell rate algorithm (ITU-T I.371) with debt: what is used moves a theoretical time forward, and
/// something may begin as soon as this time is at most the burst ahead of now, however much it will use.
///
/// So whatever is larger than the burst gets its turn too, and over any time span the use is at most
/// `rate x span + rate x burst + the last use`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gcra {
    per_minute: u64,
    burst: Duration,
    /// When all that was used will have been earned.
    earned_at: Instant,
}

impl Gcra {
    /// A rate of `per_minute` units; a rate of 0 is taken as 1.
    pub(super) fn new(per_minute: u64, burst: Duration, now: Instant) -> Self {
        Self { per_minute: per_minute.max(1), burst, earned_at: now }
    }

    /// How long until something may begin; zero if it may begin now.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.earned_at.saturating_duration_since(now).saturating_sub(self.burst)
    }

    /// Takes units; there may be too few of them, which later ones wait for.
    pub(super) fn take(&mut self, units: u64, now: Instant) {
        let from = self.earned_at.max(now);
        self.earned_at = from.checked_add(self.span(units)).unwrap_or(from);
    }

    /// Gives units back that were taken and not used.
    pub(super) fn give_back(&mut self, units: u64) {
        self.earned_at = self.earned_at.checked_sub(self.span(units)).unwrap_or(self.earned_at);
    }

    /// How long it takes to earn units.
    fn span(&self, units: u64) -> Duration {
        let nanos = u128::from(units).saturating_mul(NANOS_PER_MINUTE).div_ceil(u128::from(self.per_minute));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_and_then_the_rate() {
        let now = Instant::now();
        let mut rate = Gcra::new(120, SECOND, now);
        let mut begun = 0;
        while rate.wait(now).is_zero() {
            rate.take(1, now);
            begun += 1;
        }
        assert_eq!(begun, 3, "one second's worth and the one that is under way");
        assert_eq!(rate.wait(now), SECOND / 2);
        assert_eq!(rate.wait(now + SECOND / 2), Duration::ZERO);
    }

    #[test]
    fn debt_is_paid_off_before_the_next() {
        let now = Instant::now();
        let mut rate = Gcra::new(60, Duration::ZERO, now);
        rate.take(100, now);
        assert_eq!(rate.wait(now), SECOND * 100);
        rate.give_back(40);
        assert_eq!(rate.wait(now), SECOND * 60);
        rate.take(5, now);
        assert_eq!(rate.wait(now), SECOND * 65);
        rate.take(u64::MAX, now);
        rate.give_back(u64::MAX);
    }

    proptest! {
        #[test]
        fn no_span_sees_more_than_its_share(
            per_minute in 1_u64..2_000,
            burst_ms in 0_u64..3_000,
            steps in prop::collection::vec((0_u64..2_000, 1_u64..20), 1..200),
        ) {
            let begun = Instant::now();
            let burst = Duration::from_millis(burst_ms);
            let mut rate = Gcra::new(per_minute, burst, begun);
            let (mut now, mut used) = (begun, Vec::new());
            for (pause_ms, units) in steps {
                now += Duration::from_millis(pause_ms) + rate.wait(now);
                now += rate.wait(now);
                rate.take(units, now);
                used.push((now, units));
            }
            for (first, (from, _)) in used.iter().enumerate() {
                let mut sum = 0;
                for (at, units) in &used[first..] {
                    let span = (*at - *from) + burst;
                    // The last use may be in debt.
                    let earned = span.as_nanos() * u128::from(per_minute) / NANOS_PER_MINUTE;
                    prop_assert!(u128::from(sum) <= earned, "{sum} of {earned}");
                    sum += units;
                }
            }
        }
    }
}
