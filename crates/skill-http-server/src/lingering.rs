//! The stream of a connection that may end while its client still sends.
//!
//! A server that refuses a body and closes at once resets the connection: most clients report the broken pipe then, and
//! not the answer. So it closes its own direction first and discards what still comes (RFC 9112, 9.6).

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Bytes that are discarded at a time.
const CHUNK_BYTES: usize = 16 << 10;

/// A stream that discards what its client still sends when it is shut down, if the last request had a body.
pub(crate) struct LingeringStream {
    stream: TcpStream,
    has_body: Arc<AtomicBool>,
    patience: Duration,
    ending: Pin<Box<WaitForCancellationFutureOwned>>,
    /// There once the own direction is closed.
    left: Option<Pin<Box<Sleep>>>,
}

impl LingeringStream {
    /// `has_body` is true where the client may still be sending; it is waited for as long as `patience`, and not once
    /// `ending` is cancelled.
    pub(crate) fn new(
        stream: TcpStream,
        has_body: Arc<AtomicBool>,
        patience: Duration,
        ending: CancellationToken,
    ) -> Self {
        Self { stream, has_body, patience, ending: Box::pin(ending.cancelled_owned()), left: None }
    }
}

impl AsyncRead for LingeringStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for LingeringStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, has_body, patience, ending, left } = &mut *self;
        if left.is_none() {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
        }
        let left = left.get_or_insert_with(|| Box::pin(tokio::time::sleep(*patience)));
        let is_over = !has_body.load(Ordering::Relaxed)
            || ending.as_mut().poll(cx).is_ready()
            || left.as_mut().poll(cx).is_ready();
        if is_over {
            return Poll::Ready(Ok(()));
        }
        let mut chunk = [MaybeUninit::uninit(); CHUNK_BYTES];
        loop {
            let mut buffer = ReadBuf::uninit(&mut chunk);
            let is_broken = ready!(Pin::new(&mut *stream).poll_read(cx, &mut buffer)).is_err();
            if is_broken || buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
