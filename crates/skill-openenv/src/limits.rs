//! What clients may take, and how fast.

use std::time::Duration;
use tokio::time::Instant;

/// What clients may take at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Sessions at once, each a WebSocket.
    pub sessions: usize,
    /// The bytes of a message, and of the body of a request.
    pub message_bytes: usize,
    /// Messages of a session in a second, over more than one second; who sends faster waits.
    pub messages_per_second: u32,
    /// How long a session may go without a message.
    pub idle: Duration,
    /// How long the reset of an episode may take.
    pub reset: Duration,
    /// After so long without a sign of the client it is sent a ping, and after thrice as long it counts as gone.
    pub ping: Duration,
}

impl Default for Limits {
    /// 4,096 sessions, 1 MiB, 20,000 messages per second, an hour, 55 seconds (the official client waits 60), 30 seconds.
    fn default() -> Self {
        Self {
            sessions: 4_096,
            message_bytes: 1024 * 1024,
            messages_per_second: 20_000,
            idle: Duration::from_secs(3_600),
            reset: Duration::from_secs(55),
            ping: Duration::from_secs(30),
        }
    }
}

/// A bucket of messages, which holds those of one second.
#[derive(Debug)]
pub(crate) struct Pace {
    per_second: f64,
    left: f64,
    at: Instant,
}

impl Pace {
    pub(crate) fn new(per_second: u32, now: Instant) -> Self {
        let per_second = f64::from(per_second.max(1));
        Self { per_second, left: per_second, at: now }
    }

    /// Takes a message, and says how long to wait before the next one is read.
    pub(crate) fn take(&mut self, now: Instant) -> Duration {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        self.left = (self.left + gained).min(self.per_second) - 1.0;
        self.at = now;
        if self.left >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-self.left / self.per_second) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_fast_waits_and_whoever_is_slow_does_not() {
        let start = Instant::now();
        let mut pace = Pace::new(100, start);
        assert!((0..100).all(|_| pace.take(start).is_zero()));
        let mut now = start;
        for _ in 0..1_000 {
            now += pace.take(now);
        }
        let seconds = (now - start).as_secs_f64();
        assert!((9.9..10.1).contains(&seconds), "{seconds}");
        let slow = now + Duration::from_secs(3);
        assert!(pace.take(slow).is_zero());
        // A long silence gives no more than one second's worth.
        let waits = (0..300).filter(|_| !pace.take(slow).is_zero()).count();
        assert!(waits >= 200, "{waits}");
    }
}
