//! A session over a WebSocket: messages one after the other, deadlines, and the end.

use crate::app::App;
use crate::limits::Pace;
use crate::session::{Answer, Session};
use crate::wire::{ErrorCode, Fault, Outgoing};
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use skill_http_server::HeldSeat;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Error as WsError;
use tokio_tungstenite::tungstenite::error::CapacityError;

/// How long a client may take to take note of the end.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Pings without an answer after which a client counts as gone.
const SILENT_PINGS: u32 = 3;

/// Why a session ends.
enum End {
    /// The client has closed it, or has gone.
    Gone,
    /// The client asked for it.
    Asked,
    /// It had too little to say.
    Idle,
    /// A message was longer than messages may be.
    TooLong,
    /// The server ends.
    Ending,
}

/// A session that is counted while it goes on.
struct Slot(Arc<App>);

impl Slot {
    fn take(app: &Arc<App>) -> Option<Self> {
        let most = app.limits.sessions;
        let free = |n: usize| (n < most).then_some(n + 1);
        let taken = app.n_sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free);
        taken.is_ok().then(|| Self(Arc::clone(app)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.n_sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many sessions there are.
pub(crate) fn n_sessions(count: &AtomicUsize) -> usize {
    count.load(Ordering::Relaxed)
}

/// Talks with a client until one of both ends it.
pub(crate) async fn talk(mut socket: WebSocket, app: Arc<App>, seat: HeldSeat) {
    let Some(slot) = Slot::take(&app) else {
        let fault = Fault::full(n_sessions(&app.n_sessions), app.limits.sessions);
        return close(socket, &app, Some(fault), close_code::NORMAL).await;
    };
    let mut session = Session::new(Arc::clone(&app));
    let end = tokio::select! {
        end = converse(&mut socket, &mut session, &app) => end,
        () = seat.ending() => End::Ending,
    };
    // World and seat may be had by others before the client has taken note.
    session.leave();
    drop(slot);
    match end {
        End::Gone => {}
        End::Asked => close(socket, &app, None, close_code::NORMAL).await,
        End::Idle => {
            let seconds = app.limits.idle.as_secs();
            let message = format!("the session had no message for {seconds} seconds and ends");
            let fault = Fault::new(ErrorCode::SessionError, message);
            close(socket, &app, Some(fault), close_code::NORMAL).await;
        }
        End::TooLong => {
            let most = app.limits.message_bytes;
            let message = format!("a message has more than {most} bytes; the session ends");
            let fault = Fault::new(ErrorCode::SessionError, message);
            close(socket, &app, Some(fault), close_code::SIZE).await;
        }
        End::Ending => {
            let fault = Fault::new(ErrorCode::SessionError, "the server ends");
            close(socket, &app, Some(fault), close_code::AWAY).await;
        }
    }
}

/// Answers messages until the session ends.
async fn converse(socket: &mut WebSocket, session: &mut Session, app: &App) -> End {
    let limits = app.limits;
    let start = Instant::now();
    let mut pace = Pace::new(limits.messages_per_second, start);
    let (mut asked, mut heard, mut n_pings) = (start, start, 0_u32);
    loop {
        let idle = asked + limits.idle;
        let silent = heard + limits.ping * (n_pings + 1);
        let received = tokio::select! {
            received = socket.recv() => received,
            () = sleep_until(idle.min(silent)) => {
                if Instant::now() >= idle {
                    return End::Idle;
                }
                if n_pings + 1 >= SILENT_PINGS || send(socket, app, Message::Ping(Default::default())).await.is_err() {
                    return End::Gone;
                }
                n_pings += 1;
                continue;
            }
        };
        (heard, n_pings) = (Instant::now(), 0);
        let reply = match received {
            Some(Ok(Message::Text(text))) => {
                asked = heard;
                match session.answer(text.as_str()).await {
                    Answer::Reply(reply) => reply,
                    Answer::Closed => return End::Asked,
                }
            }
            Some(Ok(Message::Binary(_))) => {
                asked = heard;
                let fault = Fault::new(ErrorCode::InvalidJson, "Invalid JSON: a message is text, not binary");
                Outgoing::Error(fault).text()
            }
            // Pings are answered by the library.
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
            Some(Ok(Message::Close(_))) | None => return End::Gone,
            Some(Err(error)) if is_too_long(&error) => return End::TooLong,
            Some(Err(error)) => {
                tracing::debug!(%error, "a session broke");
                return End::Gone;
            }
        };
        if send(socket, app, Message::Text(reply.into())).await.is_err() {
            return End::Gone;
        }
        let wait = pace.take(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

/// Sends a message to a client that takes it in time.
async fn send(socket: &mut WebSocket, app: &App, message: Message) -> Result<(), ()> {
    match timeout(app.limits.ping * SILENT_PINGS, socket.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(()),
    }
}

fn is_too_long(error: &axum::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<WsError>());
    matches!(cause, Some(WsError::Capacity(CapacityError::MessageTooLong { .. })))
}

/// Says why the session ends, and ends it.
async fn close(mut socket: WebSocket, app: &App, fault: Option<Fault>, code: u16) {
    let last = async {
        if let Some(fault) = fault {
            send(&mut socket, app, Message::Text(Outgoing::Error(fault).text().into())).await?;
        }
        let frame = CloseFrame { code, reason: Default::default() };
        send(&mut socket, app, Message::Close(Some(frame))).await?;
        // What is still under way is read, or the client would find the connection reset before it has read the end.
        while let Some(Ok(_)) = socket.recv().await {}
        Ok::<(), ()>(())
    };
    drop(timeout(LAST_WORDS, last).await);
}
