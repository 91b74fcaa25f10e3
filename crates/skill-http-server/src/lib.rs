//! The connections of a small HTTP server: how they are accepted, how many there are, how long each may take.
//!
//! Idle connections cannot lock others out: a new connection takes the place of the oldest connection that has not
//! sent a request yet, or has none under way. A connection on which a request is under way is never closed for another
//! one. Addresses elsewhere have a limit each, and leave seats to the machine itself.
//!
//! # Who should depend on this crate
//!
//! Small servers on hyper that face clients they do not control: agents, browsers, tests.
//! It knows nothing of what is served, nor of skills and models.
//!
//! [`HttpServer`] accepts connections and hands each to a function as a [`Connection`], which answers its requests by a
//! service.
//!
//! ```
//! use bytes::Bytes;
//! use http_body_util::Full;
//! use skill_http_server::{HttpServer, SeatLimits, WhenFull, service_fn};
//! use std::convert::Infallible;
//! use tokio::net::TcpListener;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let mut server = HttpServer::new(listener, SeatLimits::loopback(64), WhenFull::Wait);
//! let accepting = server.accept(|connection| {
//!     let hello = async |_| Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from("hello"))));
//!     connection.answer(service_fn(hello))
//! });
//! // Until the future is dropped; here at once.
//! drop(accepting);
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "access")]
pub mod access;
mod connection;
mod lingering;
mod seats;
mod server;

pub use connection::{Connection, HeldSeat};
pub use hyper::body::Incoming;
pub use hyper::service::service_fn;
pub use seats::SeatLimits;
pub use server::{HttpServer, WhenFull};

use std::time::Duration;

/// How long a new connection may take to send the head of its first request.
pub(crate) const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be silent before and within the head of a later request: longer than clients keep a
/// connection for the next request, so that it is theirs to close.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a client that was answered early may go on to send its body.
pub(crate) const LINGER: Duration = Duration::from_secs(30);
/// The most bytes of the head of a request.
pub(crate) const MAX_HEAD_BYTES: usize = 64 * 1024;
