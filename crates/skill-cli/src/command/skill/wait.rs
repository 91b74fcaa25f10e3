//! `--wait`: a limit of the agent's account is waited for, and the work goes on.

use super::session::{Session, store_error};
use crate::command::{block_on, say};
use skill_agents::measure::{Stop, StoreError};
use skillrl::llm::agent::account_wait;
use skillrl::pipeline::StopSignal;
use std::time::{Duration, SystemTime};

/// How the first Ctrl-C is answered.
const STOPPING: &str = "stopping; the runs that are complete stay on record";

/// How long to wait for a server that takes no more requests.
const BUSY: Duration = Duration::from_secs(60);

impl Session {
    /// Runs `work` until it ends for another reason than a limit; what was measured is not run again.
    ///
    /// `early` is why an outcome is incomplete, if it is.
    pub(super) fn through_limits<T>(
        &self,
        waits: bool,
        early: impl Fn(&T) -> Option<&Stop>,
        mut work: impl AsyncFnMut() -> Result<T, StoreError>,
    ) -> crate::Result<T> {
        let stop = StopSignal::default();
        let all = async {
            loop {
                let ended = {
                    let work = work();
                    tokio::pin!(work);
                    tokio::select! {
                        ended = &mut work => ended?,
                        () = stop.soon.cancelled() => {
                            self.launcher.cancel.cancel();
                            work.await?
                        }
                    }
                };
                let Some(early) = early(&ended).filter(|_| waits) else { return Ok(ended) };
                let wait = match early {
                    Stop::Limited(said) => account_wait(said, SystemTime::now()),
                    Stop::Busy(_) => BUSY,
                    _ => return Ok(ended),
                };
                say(&format!("{}; waiting for {} s", super::ended::of(early), wait.as_secs()));
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = stop.soon.cancelled() => return Ok(ended),
                }
            }
        };
        block_on(stop.clone(), STOPPING, all)?.map_err(|error| store_error(&error))
    }
}
