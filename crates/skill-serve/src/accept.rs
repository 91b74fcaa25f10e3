//! Connections: how many, for how long, and how they end.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The most connections; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 512;
/// How long a connection may be silent before and within the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes of the head of a request.
const MAX_HEAD_BYTES: usize = 32 * 1024;
/// How long accepting rests when the system has no more to give, such as file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long answers under way may take when the server is told to stop.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Accepts connections until it is told to stop; `ending` is then cancelled, which ends what would not end by itself.
pub(crate) async fn accept(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
    ending: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = next(&listener, &slots) => accepted,
        };
        match accepted {
            Ok((stream, slot)) => {
                let (router, ending) = (router.clone(), ending.clone());
                connections.spawn(async move {
                    serve_connection(stream, router, ending).await;
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    ending.cancel();
    let all = async { while connections.join_next().await.is_some() {} };
    // What is left then is dropped with the set.
    drop(tokio::time::timeout(LAST_ANSWERS, all).await);
}

async fn next(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, Option<tokio::sync::OwnedSemaphorePermit>)> {
    // Nobody closes the semaphore.
    let slot = Arc::clone(slots).acquire_owned().await.ok();
    let (stream, _) = listener.accept().await?;
    Ok((stream, slot))
}

async fn serve_connection(stream: TcpStream, router: Router, ending: CancellationToken) {
    // Without it a small answer may wait for an acknowledgement; a failure costs only that.
    drop(stream.set_nodelay(true));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = ending.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        // A browser that went away, as a rule.
        tracing::debug!(%error, "a connection broke");
    }
}
