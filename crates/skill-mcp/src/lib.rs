//! Runs for agents: a server of the Model Context Protocol that estimates, starts, follows, stops and reads runs, and
//! measures skills.
//!
//! # Who should depend on this crate alone
//!
//! Anybody who offers runs to an agent from a program of their own; people take `skillrl mcp`.
//!
//! ```no_run
//! use skill_mcp::{McpOptions, McpServer};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn offer() -> Result<(), skill_mcp::McpError> {
//! let options = McpOptions::new("runs", ".", "skillrl");
//! McpServer::open(options)?.serve_stdio(CancellationToken::new()).await
//! # }
//! ```
//!
//! # What it does and what it does not
//!
//! It reads run directories and configurations below two directories, and nothing else that a client names. It writes
//! one file into a run, the request to stop, and files beside the directories of runs and measurements: what was started
//! and what it printed. It starts one program, `skillrl train` or `skillrl eval`, which lives on when the server ends. It
//! is started under a cap in money or calls, or not at all, and what a client asks can only lower a cap.
//!
//! The client is an agent: what models and data say is in fields whose names begin with `untrusted_`, every answer
//! has a limit and says what it leaves out, and every error says what to do.
//!
//! # Invariants
//!
//! - The default program has nothing of this crate in its dependencies. Held by
//!   `what_is_behind_a_feature_is_not_in_the_default_program`.

mod answer;
mod caps;
mod error;
mod measuring;
mod places;
mod room;
mod runs_dir;
mod server;
mod shared;
mod start;
mod tools;

pub use error::McpError;
pub use server::{McpServer, ToolSummary, tools};

use std::path::PathBuf;

/// What is offered, and what starting a run may cost.
#[derive(Debug, Clone)]
pub struct McpOptions {
    /// A directory with runs in it, or that of one run; one that does not exist is created by what is started first.
    pub runs: PathBuf,
    /// The directory below which configurations are.
    pub configs: PathBuf,
    /// The program that trains: `skillrl`.
    pub program: PathBuf,
    /// The most requests that each run which is started here may send, over all its processes, and that all measurements
    /// below `runs` may send together.
    pub max_calls: Option<u64>,
    /// The most money that they may spend, likewise, by the prices of their configurations.
    pub max_money: Option<f64>,
    /// True if nothing can be started, measured or stopped.
    pub is_read_only: bool,
}

impl McpOptions {
    /// Offers everything, with no caps but those of configurations and callers.
    pub fn new(runs: impl Into<PathBuf>, configs: impl Into<PathBuf>, program: impl Into<PathBuf>) -> Self {
        Self {
            runs: runs.into(),
            configs: configs.into(),
            program: program.into(),
            max_calls: None,
            max_money: None,
            is_read_only: false,
        }
    }
}
