//! The one loop that accepts connections.

use crate::connection::Connection;
use crate::seats::{SeatLimits, Seats};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long accepting rests when the system has no more to give, such as file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// What a connection is told when the server is full.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// What becomes of a new connection while all seats that it could have are taken by connections at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits, and the ones after it too.
    Wait,
    /// It is answered with status 503 and closed.
    Refuse,
}

/// Accepts connections and looks after them; dropping it closes all of them.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
    seats: Arc<Seats>,
    when_full: WhenFull,
    connections: JoinSet<()>,
    ending: CancellationToken,
}

impl HttpServer {
    /// A server that has not accepted a connection yet.
    pub fn new(listener: TcpListener, limits: SeatLimits, when_full: WhenFull) -> Self {
        let (seats, connections, ending) = (Seats::new(limits), JoinSet::new(), CancellationToken::new());
        Self { listener, seats, when_full, connections, ending }
    }

    /// Accepts connections until the future is dropped; what `handle` returns for each runs as a task, also when the
    /// future is dropped, until the server is.
    pub async fn accept<F>(&mut self, handle: impl Fn(Connection) -> F) -> Infallible
    where
        F: Future<Output = Result<(), hyper::Error>> + Send + 'static,
    {
        let mut is_accepting = true;
        loop {
            while self.connections.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    is_accepting = true;
                    let seat = match self.when_full {
                        WhenFull::Wait => self.seats.take_or_wait(peer.ip()).await,
                        WhenFull::Refuse => match self.seats.take(peer.ip()) {
                            Some(seat) => seat,
                            None => {
                                refuse(&stream);
                                continue;
                            }
                        },
                    };
                    let answered = handle(Connection::new(stream, seat, self.ending.clone()));
                    self.connections.spawn(async move {
                        if let Err(error) = answered.await {
                            // A client that went away, as a rule.
                            tracing::debug!(%error, "a connection broke");
                        }
                    });
                }
                Err(error) => {
                    // Once for each time that the system has no more to give.
                    if std::mem::take(&mut is_accepting) {
                        tracing::warn!(%error, "a connection could not be accepted");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Closes idle connections, waits for the answers under way, and closes what is left after this time.
    pub async fn finish(mut self, last_answers: Duration) {
        self.ending.cancel();
        let all = async { while self.connections.join_next().await.is_some() {} };
        drop(tokio::time::timeout(last_answers, all).await);
    }
}

/// Tells current listeners that the server is full.
fn refuse(stream: &TcpStream) {
    drop(stream.try_write(FULL));
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::Response;
    use http_body_util::Full;
    use hyper::service::service_fn;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::Notify;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

    async fn server(when_full: WhenFull) -> (HttpServer, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (HttpServer::new(listener, SeatLimits::loopback(1), when_full), address)
    }

    /// Answers once it is told to, and tells when it has been asked.
    async fn answer_when(
        connection: Connection,
        asked: Arc<Notify>,
        answer: Arc<Notify>,
    ) -> Result<(), hyper::Error> {
        let service = service_fn(async |_| {
            asked.notify_one();
            answer.notified().await;
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("late"))))
        });
        connection.answer(service).await
    }

    #[tokio::test]
    async fn a_connection_without_a_seat_is_refused() {
        let (mut server, address) = server(WhenFull::Refuse).await;
        let (asked, never) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let clients = async {
            let mut busy = TcpStream::connect(address).await.unwrap();
            busy.write_all(REQUEST).await.unwrap();
            asked.notified().await;
            let mut refused = TcpStream::connect(address).await.unwrap();
            let mut told = Vec::new();
            refused.read_to_end(&mut told).await.unwrap();
            told
        };
        let told = tokio::select! {
            told = clients => told,
            never = server.accept(|connection| answer_when(connection, asked.clone(), never.clone())) => match never {},
        };
        assert_eq!(told, FULL);
    }

    #[tokio::test]
    async fn a_server_that_finishes_sends_the_answers_under_way() {
        let (mut server, address) = server(WhenFull::Wait).await;
        let (asked, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(REQUEST).await.unwrap();
        tokio::select! {
            () = asked.notified() => {}
            never = server.accept(|connection| answer_when(connection, asked.clone(), answer.clone())) => match never {},
        }
        answer.notify_one();
        // It ends as soon as the answer is sent, though the client keeps the connection.
        let finish = server.finish(Duration::from_secs(60));
        tokio::time::timeout(Duration::from_secs(30), finish).await.unwrap();
        let mut told = String::new();
        client.read_to_string(&mut told).await.unwrap();
        assert!(told.starts_with("HTTP/1.1 200 OK") && told.ends_with("late"), "{told}");
    }
}
