//! Runs in a browser, live: a small HTTP server around run directories.
//!
//! # Who should depend on this crate alone
//!
//! Anybody who trains from a program of their own and wants the page of `skillrl serve` beside it:
//!
//! ```no_run
//! use skill_serve::{Server, ServeOptions};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn serve() -> Result<(), skill_serve::ServeError> {
//! let server = Server::bind(ServeOptions::on_loopback("runs")).await?;
//! println!("{}", server.url());
//! server.run(CancellationToken::new()).await;
//! # Ok(())
//! # }
//! ```
//!
//! # What it does and what it does not
//!
//! It reads run directories and never writes into them, but for two files: the request to stop after the step under
//! way, which the trainer obeys, and the notes of people, which its next step reads. It works beside the process that trains and beside any number of others. It keeps no
//! state of its own: what it shows is in the files of the runs.
//!
//! Runs are found by listing the directory, never by joining what a client sent, and symbolic links that leave the
//! directory are not followed. On loopback a request must name a host of loopback; elsewhere it must show a token.
//! What models and data say is text in all pages, and the pages load nothing from anywhere else.
//!
//! # Invariants
//!
//! - No request reads a run whose files have not changed. `tests/browser/measure.py` measures memory and the time
//!   to the first byte with 100 runs.

mod accept;
mod error;
mod metrics;
mod note_form;
mod page;
mod report;
mod routes;

pub use error::ServeError;
pub use metrics::{MetricFamily, metric_families};
pub use skill_http_server::access::{AccessError, Token};

use report::Reports;
use skill_http_server::access::{Access, Clients};
use skill_report::watch::{Runs, Watches};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The port, where nobody says.
pub const DEFAULT_PORT: u16 = 7878;

/// What is served, where and to whom.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// A directory with runs in it, or of one run.
    pub dir: PathBuf,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// What a client has to show; elsewhere than on loopback there has to be one.
    pub token: Option<Token>,
}

impl ServeOptions {
    /// Serves a directory to programs on this machine, on the default port.
    pub fn on_loopback(dir: impl Into<PathBuf>) -> Self {
        let listen = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT);
        Self { dir: dir.into(), listen, token: None }
    }
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    token: Option<Token>,
    app: Arc<App>,
}

/// What all requests share.
struct App {
    runs: Arc<Runs>,
    reports: Reports,
    watches: Watches,
    access: Access,
    pages: page::Pages,
    /// How many streams of news are open.
    n_streams: AtomicUsize,
    /// Ends the streams.
    stop: CancellationToken,
}

impl Server {
    /// Opens the directory and the port.
    ///
    /// # Errors
    ///
    /// An address that is not loopback without a token, a directory that cannot be read, a port that cannot be had.
    pub async fn bind(options: ServeOptions) -> Result<Self, ServeError> {
        let ServeOptions { dir, listen, token } = options;
        if token.is_none() && !listen.ip().is_loopback() {
            return Err(ServeError::TokenNeeded { listen });
        }
        let of_dir = |source| ServeError::Directory { path: dir.clone(), source };
        let runs = Arc::new(Runs::open(&dir, skillrl::spend::terms_of).map_err(of_dir)?);
        let of_port = |source| ServeError::Listen { listen, source };
        let listener = TcpListener::bind(listen).await.map_err(of_port)?;
        let address = listener.local_addr().map_err(of_port)?;
        let app = App {
            watches: Watches::default(),
            reports: Reports::default(),
            access: Access::new(Clients::Browsers, address, token.as_ref()),
            pages: page::Pages::new()?,
            n_streams: AtomicUsize::new(0),
            stop: CancellationToken::new(),
            runs,
        };
        Ok(Self { listener, address, token, app: Arc::new(app) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What to open in a browser; it holds the token, where there is one.
    pub fn url(&self) -> String {
        let address = self.address;
        match &self.token {
            Some(token) => format!("http://{address}/?token={}", token.as_str()),
            None => format!("http://{address}/"),
        }
    }

    /// Answers requests until it is told to stop.
    pub async fn run(self, stop: CancellationToken) {
        // Anyone who asks first need not wait for all of them.
        let runs = Arc::clone(&self.app.runs);
        drop(tokio::spawn(async move { drop(runs.fresh().await) }));
        let router = routes::router(Arc::clone(&self.app));
        accept::accept(self.listener, router, stop, self.app.stop.clone()).await;
    }
}
