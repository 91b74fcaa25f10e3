//! Whether replies take longer than they did, for one kind of request.

use std::time::Duration;
use tokio::time::Instant;

/// How many replies one median is taken of.
const WINDOW: usize = 32;
/// How long the lowest median is remembered, at least; for twice as long at most. It is what is normal.
const MEMORY: Duration = Duration::from_secs(5 * 60);
/// The fewest windows after which a median is forgotten, however long they took.
const MEMORY_WINDOWS: u32 = 8;
/// A median of this many times the lowest is high.
const HIGH: u64 = 2;
/// How many windows in a row have to be high.
const SUSTAINED: u32 = 2;

/// The latency of one kind of request, in windows of replies.
///
/// Replies of different lengths take different times, and the mix may change from one window to the next. A reply of
/// `n` tokens takes about `a + b n`: longer replies take more time and less time per token, shorter ones the other
/// way. So only where the time *and* the time per token are high has the provider become slower.
#[derive(Debug, Default)]
pub(super) struct Latency {
    /// The time of each reply of this window in microseconds.
    times: Vec<u64>,
    /// The time per token of each reply of this window in nanoseconds.
    times_per_token: Vec<u64>,
    /// The lowest medians since `remembered_since`, and of the time before.
    lowest: Medians,
    lowest_before: Medians,
    remembered_since: Option<Instant>,
    remembered_windows: u32,
    high_windows: u32,
}

/// The medians of a window: of the times, and of the times per token.
#[derive(Debug, Clone, Copy)]
struct Medians {
    time: u64,
    per_token: u64,
}

impl Default for Medians {
    fn default() -> Self {
        Self { time: u64::MAX, per_token: u64::MAX }
    }
}

impl Medians {
    fn lower_of(self, other: Self) -> Self {
        Self { time: self.time.min(other.time), per_token: self.per_token.min(other.per_token) }
    }

    /// Whether both are high, measured by these.
    fn are_high(self, normal: Self) -> bool {
        self.time > normal.time.saturating_mul(HIGH) && self.per_token > normal.per_token.saturating_mul(HIGH)
    }
}

impl Latency {
    /// Takes a reply in; true if this is when it shows that the provider has become slower.
    pub(super) fn add(&mut self, took: Duration, output_tokens: u64, now: Instant) -> bool {
        self.times.push(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.times_per_token.push(nanos / output_tokens.max(1));
        if self.times.len() < WINDOW {
            return false;
        }
        let window = Medians { time: median(&mut self.times), per_token: median(&mut self.times_per_token) };
        let normal = self.remember(window, now);
        self.high_windows = if window.are_high(normal) { self.high_windows.saturating_add(1) } else { 0 };
        self.high_windows >= SUSTAINED
    }

    /// The lowest medians that are remembered, these included.
    fn remember(&mut self, window: Medians, now: Instant) -> Medians {
        let since = *self.remembered_since.get_or_insert(now);
        if now.saturating_duration_since(since) >= MEMORY && self.remembered_windows >= MEMORY_WINDOWS {
            self.lowest_before = std::mem::take(&mut self.lowest);
            self.remembered_since = Some(now);
            self.remembered_windows = 0;
        }
        self.remembered_windows = self.remembered_windows.saturating_add(1);
        self.lowest = self.lowest.lower_of(window);
        self.lowest.lower_of(self.lowest_before)
    }

    /// Whether the last window was high: no time to send more.
    pub(super) fn is_high(&self) -> bool {
        self.high_windows > 0
    }
}

/// The upper median; empties the list.
fn median(numbers: &mut Vec<u64>) -> u64 {
    numbers.sort_unstable();
    let median = numbers.get(numbers.len() / 2).copied().unwrap_or(0);
    numbers.clear();
    median
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_SPAN: Duration = Duration::from_secs(30);

    /// How often whole windows of replies of this many milliseconds and tokens say that it is slower.
    #[track_caller]
    fn check(windows: &[&[(u64, u64)]], expect: usize) {
        let mut latency = Latency::default();
        let (mut slower, mut now) = (0, Instant::now());
        for kinds in windows {
            now += WINDOW_SPAN;
            for (millis, tokens) in kinds.iter().cycle().take(WINDOW) {
                slower += usize::from(latency.add(Duration::from_millis(*millis), *tokens, now));
            }
        }
        assert_eq!(slower, expect, "{windows:?}");
    }

    #[test]
    fn only_a_provider_that_becomes_slower_is_slower() {
        let (normal, slow): (&[_], &[_]) = (&[(100, 10)], &[(250, 10)]);
        check(&[normal; 20], 0);
        check(&[normal, slow], 0);
        check(&[normal, slow, slow], 1);
        check(&[normal, slow, normal, slow, normal], 0);
        check(&[normal, &[(190, 10)], &[(190, 10)], &[(190, 10)]], 0);
        check(&[normal, slow, slow, slow, slow], 3);
        // What lasts is the new normal.
        let windows_remembered = 18;
        check(&[&[normal][..], &[slow; 60]].concat(), windows_remembered);
        check(&[slow, normal, normal], 0);
    }

    #[test]
    fn other_lengths_are_not_slower() {
        // A reply takes 50 ms and 20 ms per token.
        let of = |tokens: u64| (50 + 20 * tokens, tokens);
        let (short, long) = ([of(5)], [of(500)]);
        check(&[&short, &long, &long, &long], 0);
        check(&[&long, &short, &short, &short], 0);
        check(&[&[of(5), of(500)], &[of(5), of(5), of(500)], &[of(500), of(500), of(5)], &long, &long], 0);
        // The same mix, three times slower.
        let slow = [(150 + 60 * 5, 5), (150 + 60 * 500, 500)];
        check(&[&[of(5), of(500)], &slow, &slow], 1);
    }

    #[test]
    fn a_few_stragglers_are_not_slower() {
        let tail: &[_] = &[(100, 10), (100, 10), (9_000, 10)];
        check(&[&[(100, 10)], tail, tail, tail], 0);
    }

    #[test]
    fn replies_without_a_count_of_tokens_count_by_time() {
        check(&[&[(100, 0)], &[(300, 0)], &[(300, 0)]], 1);
    }
}
