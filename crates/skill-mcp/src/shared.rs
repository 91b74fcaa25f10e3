//! What all tools share.

use crate::McpOptions;
use crate::caps::Caps;
use crate::error::ToolError;
use crate::measuring::Measuring;
use crate::places::{self, Configs};
use skill_report::watch::{Found, Listing, Row, Runs, Watches};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// What all tools share.
pub(crate) struct Shared {
    pub(crate) runs: Arc<Runs>,
    pub(crate) watches: Watches,
    pub(crate) configs: Configs,
    pub(crate) options: McpOptions,
    /// Held while a run is started, so that two calls do not start one twice.
    pub(crate) starting: Mutex<()>,
    /// Measurements that were started here, by name.
    pub(crate) measurements: Mutex<HashMap<String, Arc<Mutex<Measuring>>>>,
    /// Held while a run is read in depth.
    pub(crate) reading: Arc<Mutex<()>>,
    /// Ends the looking at runs.
    pub(crate) stop: CancellationToken,
}

impl Shared {
    /// What a run that is started here may spend at most.
    pub(crate) fn caps(&self) -> Caps {
        Caps { calls: self.options.max_calls, money: self.options.max_money, ..Caps::default() }
    }

    /// The run of a name, as it is now.
    pub(crate) async fn run(&self, name: &str) -> Result<(Found, Row), ToolError> {
        let listing = self.listing().await?;
        let (found, row) = places::find(&listing, name)?;
        Ok((found.clone(), row.clone()))
    }

    /// The runs as they are now.
    pub(crate) async fn listing(&self) -> Result<Arc<Listing>, ToolError> {
        let listing = self.runs.fresh().await;
        match &listing.problem {
            None => Ok(listing),
            Some(problem) => {
                Err(ToolError::new(problem, "the runs directory has to be there and be readable"))
            }
        }
    }
}
