//! The async runtime of a command, and the signals that stop what it runs.

use crate::error::{OfFile as _, Result};
use crate::output::say;
use skillrl::pipeline::StopSignal;
use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// What the first Ctrl-C of a run is answered with.
pub(crate) const STOPPING_RUN: &str =
    "stopping when the calls under way are answered; press Ctrl-C again to stop at once";

/// Runs a future to its end while Ctrl-C is listened to: once finishes the calls under way, twice ends at once.
///
/// `stopping` is what the first Ctrl-C is answered with.
pub(crate) fn block_on<T>(
    stop: StopSignal,
    stopping: &'static str,
    work: impl Future<Output = T>,
) -> Result<T> {
    Ok(runtime()?.block_on(heeding_signals(stop, stopping, work)))
}

/// As [`block_on`], without the warnings of environments: they are about replies that were never requested.
pub(crate) fn block_on_unwarned<T>(work: impl Future<Output = T>) -> Result<T> {
    let unwarned = || block_on(StopSignal::default(), "stopping", work);
    tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::default(), unwarned)
}

pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().trying_to("start the runtime")
}

pub(crate) async fn heeding_signals<T>(
    stop: StopSignal,
    stopping: &'static str,
    work: impl Future<Output = T>,
) -> T {
    // Caught before the work begins: anyone who reads its first line may press Ctrl-C at once.
    let listener = interrupts().map(|caught| tokio::spawn(listen(caught, stop, stopping)));
    let output = work.await;
    if let Some(listener) = listener {
        listener.abort();
    }
    output
}

/// The number of signals since the first call. It counts for the rest of the process, so that a signal between two
/// pieces of work stops the second one. `None` if signals cannot be caught.
fn interrupts() -> Option<watch::Receiver<usize>> {
    static CAUGHT: OnceLock<Option<watch::Receiver<usize>>> = OnceLock::new();
    let catch = || {
        let (count, caught) = watch::channel(0);
        let (ready, is_ready) = std::sync::mpsc::channel();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let listening = async {
                    let interrupts = Interrupts::catch();
                    if ready.send(interrupts.is_ok()).is_err() {
                        return;
                    }
                    let Ok(mut interrupts) = interrupts else { return };
                    while interrupts.next().await.is_some() {
                        count.send_modify(|n| *n += 1);
                    }
                };
                drop(runtime.map(|runtime| runtime.block_on(listening)));
            })
            .ok()?;
        is_ready.recv().unwrap_or_default().then_some(caught)
    };
    CAUGHT.get_or_init(catch).clone()
}

async fn listen(mut caught: watch::Receiver<usize>, stop: StopSignal, stopping: &'static str) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if caught.wait_for(|n| *n > 0).await.is_err() {
        return;
    }
    if !IS_SAID.swap(true, Ordering::Relaxed) {
        say(stopping);
    }
    stop.soon.cancel();
    if caught.wait_for(|n| *n > 1).await.is_ok() {
        say("stopping at once");
        stop.now.cancel();
    }
}

/// Ctrl-C, the signal with which a system ends its programs, and that of a terminal that is closed; all are caught from
/// the moment it is made.
#[cfg(unix)]
pub(crate) struct Interrupts {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Interrupts {
    pub(crate) fn catch() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one; `None` if none can come.
    pub(crate) async fn next(&mut self) -> Option<()> {
        tokio::select! {
            pressed = self.interrupt.recv() => pressed,
            asked = self.terminate.recv() => asked,
            closed = self.hang_up.recv() => closed,
        }
    }
}

/// Ctrl-C.
#[cfg(not(unix))]
pub(crate) struct Interrupts;

#[cfg(not(unix))]
impl Interrupts {
    pub(crate) fn catch() -> std::io::Result<Self> {
        Ok(Self)
    }

    /// Waits for the next one; `None` if none can come.
    pub(crate) async fn next(&mut self) -> Option<()> {
        tokio::signal::ctrl_c().await.ok()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_comes_before_the_work_stops_it() {
        let earlier = block_on(StopSignal::default(), "stopping", async {
            let id = std::process::id().to_string();
            assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
            interrupts().unwrap().wait_for(|n| *n > 0).await.unwrap();
        });
        earlier.unwrap();
        let stop = StopSignal::default();
        block_on(stop.clone(), "stopping", stop.soon.cancelled()).unwrap();
    }
}
