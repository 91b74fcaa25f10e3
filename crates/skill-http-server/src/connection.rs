//! One connection: its requests are answered until it ends, or loses its seat.

use crate::seats::{Seat, UnderWay};
use crate::{FIRST_HEAD_TIMEOUT, HEAD_TIMEOUT, MAX_HEAD_BYTES};
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::pin::Pin;
use std::sync::Arc;
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
    ending: CancellationToken,
}

impl Connection {
    /// A connection with a seat; with `ending` cancelled, it ends after the answers under way.
    pub(crate) fn new(stream: TcpStream, seat: Seat, ending: CancellationToken) -> Self {
        Self { stream, seat: Arc::new(seat), first_head_timeout: FIRST_HEAD_TIMEOUT, ending }
    }

    /// Answers the requests of the connection until it ends, until it loses its seat, or until the server ends and the
    /// answers under way are sent.
    ///
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
        let Self { stream, seat, first_head_timeout, ending } = self;
        drop(stream.set_nodelay(true));
        let service = service_fn(|mut request: Request<Incoming>| {
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

    #[tokio::test]
    async fn a_connection_that_sends_no_whole_head_is_closed() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: loc").await.unwrap();
        let seat = Seats::new(SeatLimits::loopback(8)).take(peer.ip()).unwrap();
        let service = service_fn(async |_: Request<Incoming>| {
            Ok::<_, std::convert::Infallible>(Response::new(http_body_util::Full::<Bytes>::default()))
        });
        let connection = Connection {
            first_head_timeout: Duration::from_millis(20),
            ..Connection::new(stream, seat, CancellationToken::new())
        };
        connection.answer(service).await.unwrap();
        let mut rest = Vec::new();
        // The end of the stream, or the error of a connection that was reset.
        drop(client.read_to_end(&mut rest).await);
        assert_eq!(rest, b"");
    }
}
