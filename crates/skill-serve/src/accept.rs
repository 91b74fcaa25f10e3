//! How many connections there may be, and how they end.
//!
//! # Invariants
//!
//! - Except on loopback nothing is answered without the token, and nothing is changed from a foreign page. Held by
//!   `tests/serve/access.rs`. Tests: `what_does_not_exist_and_what_comes_from_elsewhere_is_refused`.

use axum::Router;
use hyper_util::service::TowerToHyperService;
use skill_http_server::{Connection, HttpServer, SeatLimits, WhenFull};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const SEAT_LIMITS: SeatLimits = SeatLimits { total: 512, per_peer: 128, for_loopback: 64 };
/// How long answers under way may take when the server is told to stop.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Accepts connections until it is told to stop; `ending` is then cancelled, which ends what would not end by itself.
pub(crate) async fn accept(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
    ending: CancellationToken,
) {
    let mut server = HttpServer::new(listener, SEAT_LIMITS, WhenFull::Refuse);
    let answer = |connection: Connection| connection.answer(TowerToHyperService::new(router.clone()));
    tokio::select! {
        () = stop.cancelled() => {}
        never = server.accept(answer) => match never {},
    }
    ending.cancel();
    server.finish(LAST_ANSWERS).await;
}
