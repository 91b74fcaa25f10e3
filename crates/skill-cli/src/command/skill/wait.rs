//! `--wait`: a limit of the agent's account is waited for, and the work goes on.

use crate::command::say;
use skill_agents::measure::{Measured, Stop, StoreError};
use skill_agents::train::Trained;
use skillrl::llm::agent::account_wait;
use skillrl::pipeline::StopSignal;
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

/// Work that may have ended early.
pub(super) trait MayStop {
    /// Why it did.
    fn stop(&self) -> Option<&Stop>;
}

impl MayStop for Measured {
    fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }
}

impl MayStop for Option<Trained> {
    fn stop(&self) -> Option<&Stop> {
        self.as_ref()?.stop.as_ref()
    }
}

impl MayStop for Result<String, Stop> {
    fn stop(&self) -> Option<&Stop> {
        self.as_ref().err()
    }
}

/// How long to wait for a server that takes no more requests.
const BUSY: Duration = Duration::from_secs(60);

/// Runs `work` until it ends for another reason than a limit; what was measured is not run again.
pub(super) async fn through_limits<T: MayStop>(
    waits: bool,
    stop: &StopSignal,
    cancel: &CancellationToken,
    mut work: impl AsyncFnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    loop {
        let ended = {
            let work = work();
            tokio::pin!(work);
            tokio::select! {
                ended = &mut work => ended?,
                () = stop.soon.cancelled() => {
                    cancel.cancel();
                    work.await?
                }
            }
        };
        let wait = match ended.stop().filter(|_| waits) {
            Some(Stop::Limited(said)) => account_wait(said, SystemTime::now()),
            Some(Stop::Busy(_)) => BUSY,
            Some(_) | None => return Ok(ended),
        };
        if let Some(stop) = ended.stop() {
            say(&format!("{}; waiting for {} s", super::ended::of(stop), wait.as_secs()));
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.soon.cancelled() => return Ok(ended),
        }
    }
}
