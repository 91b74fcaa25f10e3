//! Connections: how many, for how long, and how they end.

use axum::Router;
use hyper_util::service::TowerToHyperService;
use skillrl::envs::connections::{ConnectionLimits, FIRST_HEAD_TIMEOUT, SeatLimits, Seats, attend};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const SEAT_LIMITS: SeatLimits = SeatLimits { total: 512, per_peer: 128, for_loopback: 64 };
const CONNECTION_LIMITS: ConnectionLimits = ConnectionLimits {
    first_head_timeout: FIRST_HEAD_TIMEOUT,
    head_timeout: Duration::from_secs(60),
    max_head_bytes: 32 * 1024,
};
/// What a connection is told for which there is no room.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
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
    let seats = Seats::new(SEAT_LIMITS);
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(seat) = seats.take(peer.ip()) else {
                    refuse(&stream);
                    continue;
                };
                let (service, ending) = (TowerToHyperService::new(router.clone()), ending.clone());
                connections.spawn(async move {
                    if let Err(error) = attend(stream, seat, service, CONNECTION_LIMITS, ending).await {
                        // A browser that went away, as a rule.
                        tracing::debug!(%error, "a connection broke");
                    }
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

/// Says that there is no room, to whoever listens already.
fn refuse(stream: &TcpStream) {
    drop(stream.try_write(FULL));
}
