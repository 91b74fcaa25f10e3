//! A server for a directory of runs.

use crate::client::{Answer, News, send, send_with};
use skill_serve::{ServeOptions, Server, Token};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// A server for a directory of its own.
pub(crate) struct Site {
    dir: TempDir,
    pub(crate) address: SocketAddr,
    stop: CancellationToken,
    runtime: Option<Runtime>,
    serving: Option<tokio::task::JoinHandle<()>>,
}

impl Site {
    /// Serves the directory `runs` after it was filled.
    pub(crate) fn new(fill: impl FnOnce(&Path)) -> Self {
        Self::with_token(None, fill)
    }

    pub(crate) fn with_token(token: Option<&str>, fill: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs");
        std::fs::create_dir(&runs).unwrap();
        fill(&runs);
        let options = ServeOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            token: token.map(|token| Token::new(token).unwrap()),
            ..ServeOptions::on_loopback(&runs)
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let server = runtime.block_on(Server::bind(options)).unwrap();
        let (address, stop) = (server.address(), CancellationToken::new());
        let serving = runtime.spawn(server.run(stop.clone()));
        let site = Self { dir, address, stop, runtime: Some(runtime), serving: Some(serving) };
        if token.is_none() {
            site.until("/", |list| !list.contains("are being read"));
        }
        site
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        send(self.address, &format!("GET {path}"), &[("Host", &self.address.to_string())])
    }

    /// The body of an answer that must be good.
    #[track_caller]
    pub(crate) fn body(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    /// Asks as a form of one of the pages does.
    pub(crate) fn post(&self, path: &str) -> Answer {
        let host = self.address.to_string();
        let origin = format!("http://{host}");
        send(self.address, &format!("POST {path}"), &[("Host", &host), ("Origin", &origin)])
    }

    /// Sends a form of one of the pages.
    pub(crate) fn post_form(&self, path: &str, form: &str) -> Answer {
        let host = self.address.to_string();
        let origin = format!("http://{host}");
        let headers = [
            ("Host", host.as_str()),
            ("Origin", origin.as_str()),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        send_with(self.address, &format!("POST {path}"), &headers, form)
    }

    pub(crate) fn news(&self, path: &str) -> News {
        News::open(self.address, path)
    }

    /// Asks until this holds: what takes long to read is shown when it is there.
    pub(crate) fn until(&self, path: &str, is_it: impl Fn(&str) -> bool) -> String {
        loop {
            let body = self.body(path);
            if is_it(&body) {
                return body;
            }
        }
    }

    /// Ends the server, which has to end by itself.
    pub(crate) fn end(mut self) {
        self.stop.cancel();
        let (runtime, serving) = (self.runtime.take().unwrap(), self.serving.take().unwrap());
        runtime.block_on(serving).unwrap();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
