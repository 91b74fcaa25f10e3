//! The server: a thread of its own that accepts connections until it is dropped.

use crate::config::ServerConfig;
use crate::error::ConfigError;
use crate::service::{Ending, Shared};
use crate::stats::{Counter, Stats};
use skill_http_server::{Connection, HttpServer, SeatLimits, WhenFull, service_fn};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

/// How many connections may wait to be accepted; the system may allow fewer.
const BACKLOG: u32 = 4096;

/// The most connections at once; further ones wait.
const MAX_CONNECTIONS: usize = 16_384;

/// A server that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The address cannot be listened at.
    #[error("cannot listen at {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The system gives no thread or no timer.
    #[error("cannot start a thread to serve in")]
    Thread {
        /// The reason.
        source: io::Error,
    },
}

/// A running server; dropping it stops it and closes all connections.
///
/// It runs in threads of its own, so a test may block, or stop its own clock.
#[derive(Debug)]
pub struct MockServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MockServer {
    /// Starts a server; it accepts connections when this returns.
    ///
    /// # Errors
    ///
    /// A configuration that cannot work, or an address that cannot be listened at.
    pub async fn start(config: ServerConfig) -> Result<Self, StartError> {
        // Listening takes no waiting; this is a future so that it may become one.
        std::future::ready(Self::start_blocking(config)).await
    }

    /// [`MockServer::start`] for those who have no runtime.
    ///
    /// # Errors
    ///
    /// As [`MockServer::start`].
    pub fn start_blocking(config: ServerConfig) -> Result<Self, StartError> {
        config.check()?;
        let asked = config.address;
        let thread_error = |source| StartError::Thread { source };
        let runtime = runtime(config.threads).map_err(thread_error)?;
        let listener = match listen(&runtime, asked) {
            Ok(listener) => listener,
            Err(source) => {
                // Dropping a runtime waits, which the caller's runtime may forbid.
                runtime.shutdown_background();
                return Err(StartError::Listen { address: asked, source });
            }
        };
        let address = listener.local_addr().unwrap_or(asked);
        let shared = Arc::new(Shared { config, counter: Counter::default() });
        let (stop, stopped) = oneshot::channel();
        let of_thread = Arc::clone(&shared);
        let serve = move || runtime.block_on(accept(listener, of_thread, stopped));
        let thread = std::thread::Builder::new().name("mock-openai".to_owned()).spawn(serve);
        let thread = thread.map_err(thread_error)?;
        Ok(Self { address, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Where the server listens, such as `http://127.0.0.1:8080`.
    pub fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What a client of the dialect is given, such as `http://127.0.0.1:8080/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// What the server has seen.
    pub fn stats(&self) -> Stats {
        self.shared.counter.stats()
    }

    /// Begins to count from zero; bodies that came before are new again, for faults too.
    pub fn reset_stats(&self) {
        self.shared.counter.reset();
    }
}

impl Drop for MockServer {
    fn drop(&mut self) {
        // Dropping the sender ends the thread, which closes the connections as its runtime goes.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has told so on standard error.
            drop(thread.join());
        }
    }
}

fn runtime(threads: usize) -> io::Result<Runtime> {
    match threads {
        // One thread needs no other to hand work to.
        1 => Builder::new_current_thread().enable_all().build(),
        _ => Builder::new_multi_thread().worker_threads(threads).enable_all().build(),
    }
}

fn listen(runtime: &Runtime, address: SocketAddr) -> io::Result<TcpListener> {
    let _entered = runtime.enter();
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // So that a port can be taken again right after its last server.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts connections until the server is dropped.
async fn accept(listener: TcpListener, shared: Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let mut server = HttpServer::new(listener, SeatLimits::loopback(MAX_CONNECTIONS), WhenFull::Wait);
    let answer = |connection: Connection| {
        shared.counter.connected();
        answer(connection, Arc::clone(&shared))
    };
    tokio::select! {
        _ = stopped => {}
        never = server.accept(answer) => match never {},
    }
}

async fn answer(connection: Connection, shared: Arc<Shared>) -> Result<(), hyper::Error> {
    let ending = OnceLock::new();
    let service = service_fn(|request| shared.serve(request, &ending));
    let Some((mut stream, outcome)) = connection.answer_and_keep(&service).await else { return Ok(()) };
    match ending.into_inner() {
        Some(Ending::Reset) => drop(stream.set_zero_linger()),
        Some(Ending::Cut(bytes)) => {
            // A client that is gone has no use for the rest.
            drop(stream.write_all(&bytes).await);
            drop(stream.shutdown().await);
        }
        None => return outcome,
    }
    Ok(())
}
