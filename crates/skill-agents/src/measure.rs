//! Measuring which skills an agent loads: each query is asked several times, each time in a fresh project.
//!
//! [`Setup`] is what stays the same, [`prepare`] writes the directory of one run and says how the agent is started,
//! [`Launcher`] starts it, [`measure`] does the runs that are not recorded yet, and [`Store`] keeps them.

mod prepare;
mod runs;
mod sign_in;
mod store;
mod write;

pub use prepare::{
    CallOptions, Launch, Prepared, is_delivered, prepare, prepare_plain, prepare_play, project_of,
    settings_of_projects, write_file,
};
pub(crate) use runs::hash_of;
pub use runs::{Caps, Measured, Notice, Stop, Trouble, measure};
pub use sign_in::servers;
pub use store::{Key, Record, StartCosts, Store, StoreError};
pub use write::{stop_before, write};

use crate::home::Moved;
use crate::skill::Skill;
use crate::table::{Agent, MEASURED_WINDOW};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What all runs of a measurement have in common.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The agent.
    pub agent: &'static Agent,
    /// The program with its first arguments, in place of the agent's own.
    pub program: Vec<String>,
    /// The version that the program prints.
    pub version: String,
    /// The model, as the agent names it; `None` for the one that it is set to.
    pub model: Option<String>,
    /// Replies after which a run is stopped.
    pub turns: usize,
    /// How long a run may take.
    pub deadline: Duration,
    /// The skills that are measured.
    pub skills: Vec<Skill>,
    /// Other skills that lie beside them.
    pub competitors: Vec<Skill>,
    /// A folder whose files each project has.
    pub project: Option<PathBuf>,
    /// The user's home directory, with the sign-in.
    pub home: PathBuf,
    /// Folders of it that the user has moved.
    pub moved: Moved,
    /// Settings files that variables of the user name, by these variables.
    pub named_files: BTreeMap<String, PathBuf>,
    /// Runs have the tool servers (MCP) of the user's configuration.
    pub with_mcp: bool,
}

impl Setup {
    /// The context window of the model, in tokens; the smaller one that was measured where it is not known.
    pub fn window(&self) -> u64 {
        self.agent.window(self.model.as_deref()).unwrap_or(MEASURED_WINDOW)
    }
}

/// The settings files that variables name besides an agent's own, with the values that `value` gives.
pub fn named_files(agent: &Agent, value: impl Fn(&str) -> Option<PathBuf>) -> BTreeMap<String, PathBuf> {
    let names = agent.start.settings_of_user.iter().filter_map(|settings| settings.variable.as_ref());
    names.filter_map(|name| Some((name.clone(), value(name)?))).collect()
}

/// How a run of an agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Exited(Option<i32>),
    /// At its deadline.
    Deadline,
    /// At the turn limit.
    TurnLimit,
    /// It printed more than a run may.
    TooMuch,
}

/// What became of a started agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    /// What it printed.
    pub stdout: String,
    /// The end of what it said on standard error.
    pub stderr: String,
    /// How it ended.
    pub ended: Ended,
    /// How long it took.
    pub elapsed: Duration,
}

/// A program that could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// It is not there, or must not be run.
    #[error("{program}: {what}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        what: String,
    },
    /// A person stopped the measurement.
    #[error("stopped")]
    Stopped,
}

/// A directory of one run, gone when it is dropped.
pub trait Workspace: Send {
    /// Where it is.
    fn path(&self) -> &Path;
}

/// Starts agents.
#[async_trait]
pub trait Launcher: Send + Sync {
    /// An empty directory for a run.
    ///
    /// # Errors
    ///
    /// A directory that cannot be made.
    fn workspace(&self) -> io::Result<Box<dyn Workspace>>;

    /// What a failure, by the words of the program and the status behind it, means for all later runs.
    fn trouble(&self, message: &str, status: Option<u16>) -> Trouble;

    /// Starts an agent and waits for its end; it leaves nothing running.
    async fn launch(&self, launch: &Launch) -> Result<Launched, LaunchError>;
}
