//! Warnings of what goes on failing, while the run waits for it.

use crate::event::{Event, EventSink};
use crate::warning::Warning;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// Says what is wrong with the models for longer than a moment, as one sentence; `None` where nothing is.
pub type ReadTrouble = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// How often it is looked for.
const PERIOD: Duration = Duration::from_secs(2);

/// How many times it is looked for in vain, or left unsaid, after each warning.
const QUIET_PERIODS: u32 = 30;

/// Warns of trouble until it is dropped: at once, and then once a minute while it lasts.
pub(super) async fn warn(trouble: Option<&ReadTrouble>, events: &dyn EventSink) -> Infallible {
    let Some(trouble) = trouble else { return std::future::pending().await };
    let mut quiet = 0;
    loop {
        tokio::time::sleep(PERIOD).await;
        quiet = u32::saturating_sub(quiet, 1);
        if quiet == 0
            && let Some(message) = trouble()
        {
            events.emit(&Event::warning(None, Warning::Trouble { message }, None));
            quiet = QUIET_PERIODS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[tokio::test(start_paused = true)]
    async fn lasting_trouble_is_said_once_a_minute() {
        let began = tokio::time::Instant::now();
        let said = Mutex::new(Vec::new());
        let events = |event: &Event| {
            assert!(matches!(event, Event::Warning { message, .. } if message == "HTTP 500"));
            said.lock().push(began.elapsed().as_secs());
        };
        let trouble: ReadTrouble = Arc::new(move || {
            let lasts = [10..95, 100..101].iter().any(|time| time.contains(&began.elapsed().as_secs()));
            lasts.then(|| "HTTP 500".to_owned())
        });
        let watched = tokio::time::timeout(Duration::from_secs(600), warn(Some(&trouble), &events));
        watched.await.unwrap_err();
        assert_eq!(*said.lock(), [10, 70]);
    }
}
