//! What all tools share.

use crate::McpOptions;
use crate::caps::Caps;
use crate::error::ToolError;
use crate::measuring::Measurements;
use crate::places::{self, Configs};
use crate::runs_dir::RunsDir;
use skill_report::watch::{Found, Listing, Row, Watches};
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// What all tools share.
pub(crate) struct Shared {
    pub(crate) runs: RunsDir,
    pub(crate) watches: Watches,
    pub(crate) configs: Configs,
    pub(crate) options: McpOptions,
    /// Held while a run is started, so that two calls do not start one twice.
    pub(crate) starting: Mutex<()>,
    /// Measurements that were started here.
    pub(crate) measurements: Arc<Measurements>,
    /// Held while a run is read in depth.
    pub(crate) reading: Arc<Mutex<()>>,
    /// Ends the looking at runs.
    pub(crate) stop: CancellationToken,
}

impl Shared {
    /// What each run that is started here may spend at most, and all measurements together.
    pub(crate) fn caps(&self) -> Caps {
        caps_of(&self.options)
    }

    /// The run of a name, as it is now.
    pub(crate) async fn run(&self, name: &str) -> Result<(Found, Row), ToolError> {
        let listing = self.listing().await?;
        let (found, row) = places::find(&listing, name)?;
        Ok((found.clone(), row.clone()))
    }

    /// The runs as they are now.
    pub(crate) async fn listing(&self) -> Result<Arc<Listing>, ToolError> {
        let Some(runs) = self.runs.runs() else { return Ok(Arc::default()) };
        let listing = runs.fresh().await;
        match &listing.problem {
            None => Ok(listing),
            Some(problem) => {
                Err(ToolError::new(problem, "the runs directory has to be there and be readable"))
            }
        }
    }
}

/// The caps of a server.
pub(crate) fn caps_of(options: &McpOptions) -> Caps {
    Caps { calls: options.max_calls, money: options.max_money, ..Caps::default() }
}
