//! One connection: its requests are answered until it ends, or loses its seat.

use crate::lingering::LingeringStream;
use crate::seats::{Seat, UnderWay};
use crate::{FIRST_HEAD_TIMEOUT, HEAD_TIMEOUT, LINGER, MAX_HEAD_BYTES};
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// A connection that was accepted; dropping it closes it.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    seat: Arc<Seat>,
    first_head_timeout: Duration,
    linger: Duration,
    ending: CancellationToken,
}

impl Connection {
    /// A connection with a seat; with `ending` cancelled, it ends after the answers under way.
    pub(crate) fn new(stream: TcpStream, seat: Seat, ending: CancellationToken) -> Self {
        let seat = Arc::new(seat);
        Self { stream, seat, first_head_timeout: FIRST_HEAD_TIMEOUT, linger: LINGER, ending }
    }

    /// Answers the requests of the connection until it ends, until it loses its seat, or until the server ends and the
    /// answers under way are sent.
    ///
    /// A client that is answered before its whole body was read can send the rest of it, which is discarded.
    /// A service may take the connection over for another protocol, such as WebSocket: this future ends then. Each request
    /// has a [`HeldSeat`] among its extensions; a service that keeps it with the connection does not lose the seat to others.
    ///
    /// # Errors
    ///
    /// A connection that breaks before it is taken over.
    pub async fn answer<S, B>(self, service: S) -> Result<(), hyper::Error>
    where
        S: Service<Request<Incoming>, Response = Response<B>>,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: Body<Data = Bytes> + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Self { stream, seat, first_head_timeout, linger, ending } = self;
        drop(stream.set_nodelay(true));
        let has_body = Arc::new(AtomicBool::new(false));
        let stream = LingeringStream::new(stream, Arc::clone(&has_body), linger, ending.clone());
        let service = service_fn(|mut request: Request<Incoming>| {
            has_body.store(!request.body().is_end_stream(), Ordering::Relaxed);
            let under_way = Arc::new(seat.begin());
            let held = HeldSeat { under_way: Arc::clone(&under_way), ending: ending.clone() };
            request.extensions_mut().insert(held);
            let answered = service.call(request);
            Box::pin(async move {
                answered.await.map(|answer| answer.map(|body| AnswerBody { body, _under_way: under_way }))
            })
        });
        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::select! {
            outcome = &mut connection => outcome,
            () = seat.lost() => Ok(()),
            () = half_open(&seat, first_head_timeout) => Ok(()),
            () = ending.cancelled() => {
                Pin::new(&mut connection).graceful_shutdown();
                connection.await
            }
        }
    }
}

/// Ends when the connection had so long for its first request and has sent none.
async fn half_open(seat: &Seat, first_head_timeout: Duration) {
    tokio::time::sleep(first_head_timeout).await;
    if seat.has_asked() {
        std::future::pending::<()>().await;
    }
}

/// The seat of a connection that was taken over for another protocol; dropping the last copy frees it.
#[derive(Clone)]
pub struct HeldSeat {
    under_way: Arc<UnderWay>,
    ending: CancellationToken,
}

impl HeldSeat {
    /// Waits until the server ends.
    pub async fn ending(&self) {
        self.ending.cancelled().await;
    }
}

impl std::fmt::Debug for HeldSeat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let n_holders = Arc::strong_count(&self.under_way);
        f.debug_struct("HeldSeat").field("n_holders", &n_holders).finish_non_exhaustive()
    }
}

/// The body of an answer, with the request that is under way until its end.
struct AnswerBody<B> {
    body: B,
    _under_way: Arc<UnderWay>,
}

impl<B: Body + Unpin> Body for AnswerBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seats::{SeatLimits, Seats};
    use std::convert::Infallible;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    async fn refuse(_: Request<Incoming>) -> Result<Response<http_body_util::Full<Bytes>>, Infallible> {
        Ok(Response::new(Bytes::from("too long").into()))
    }

    /// A client, and the connection that refuses what it sends.
    async fn connect(linger: Duration, ending: CancellationToken) -> (TcpStream, Connection) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let seat = Seats::new(SeatLimits::loopback(8)).take(peer.ip()).unwrap();
        (client, Connection { linger, ..Connection::new(stream, seat, ending) })
    }

    #[tokio::test]
    async fn a_client_whose_body_is_refused_can_send_it_and_reads_the_answer() {
        // More than both ends of a connection buffer.
        let body = vec![b'x'; 64 << 20];
        let (mut client, connection) = connect(LINGER, CancellationToken::new()).await;
        let served = tokio::spawn(connection.answer(service_fn(refuse)));
        let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(&body).await.unwrap();
        let mut told = String::new();
        client.read_to_string(&mut told).await.unwrap();
        assert!(told.starts_with("HTTP/1.1 200 OK") && told.ends_with("too long"), "{told}");
        drop(client);
        served.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_client_that_never_stops_is_left() {
        let request = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\nbegun";
        let ending = CancellationToken::new();
        for linger in [Duration::from_millis(20), Duration::MAX] {
            let (mut client, connection) = connect(linger, ending.clone()).await;
            client.write_all(request).await.unwrap();
            let served = tokio::spawn(connection.answer(service_fn(refuse)));
            let mut told = String::new();
            client.read_to_string(&mut told).await.unwrap();
            if linger == Duration::MAX {
                // A server that ends waits for nobody who still sends.
                ending.cancel();
            }
            served.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_connection_that_sends_no_whole_head_is_closed() {
        let (mut client, connection) = connect(LINGER, CancellationToken::new()).await;
        client.write_all(b"GET / HTTP/1.1\r\nHost: loc").await.unwrap();
        let connection = Connection { first_head_timeout: Duration::from_millis(20), ..connection };
        connection.answer(service_fn(refuse)).await.unwrap();
        let mut rest = Vec::new();
        // The end of the stream, or the error of a connection that was reset.
        drop(client.read_to_end(&mut rest).await);
        assert_eq!(rest, b"");
    }
}
