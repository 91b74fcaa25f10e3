//! The async runtime of a command, and the signals that stop what it runs.

use crate::error::{OfFile as _, Result};
use crate::output::say;
use skillrl::pipeline::StopSignal;
use std::future::Future;

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
    let listener =
        Interrupts::catch().ok().map(|interrupts| tokio::spawn(listen(interrupts, stop, stopping)));
    let output = work.await;
    if let Some(listener) = listener {
        listener.abort();
    }
    output
}

async fn listen(mut interrupts: Interrupts, stop: StopSignal, stopping: &'static str) {
    if interrupts.next().await.is_none() {
        return;
    }
    say(stopping);
    stop.soon.cancel();
    if interrupts.next().await.is_some() {
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
