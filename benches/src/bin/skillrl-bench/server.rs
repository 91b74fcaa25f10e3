//! The server in a process of its own.

use crate::Failure;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// How it prints its address.
const LISTENING: &str = "listening on ";

/// A server that lives as long as this value, and no longer than this process.
pub(crate) struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts a server with these arguments.
    pub(crate) fn start(args: &[&str]) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .args(args)
            .arg("--until-stdin-closes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let address = line.trim().strip_prefix(LISTENING).ok_or("the server did not say where it listens")?;
        Ok(Self { address: address.to_owned(), child })
    }

    /// Where it listens, such as `http://127.0.0.1:8080`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// How many requests for a completion have come, and how many were being answered at a time.
    pub(crate) async fn counts(&self) -> Result<Counts, Failure> {
        let client = crate::calls::bare_client()?;
        let stats = client.get(format!("{}/stats", self.address)).send().await?.error_for_status()?;
        Ok(serde_json::from_slice(&stats.bytes().await?)?)
    }
}

/// What the server has counted.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
pub(crate) struct Counts {
    /// Requests for a completion.
    pub(crate) requests: u64,
    /// The most that were being answered at a time.
    pub(crate) max_in_flight: u64,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which is as good.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
