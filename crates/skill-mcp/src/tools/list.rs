//! `list_runs`.

use crate::answer::{RunBrief, State};
use crate::error::ToolError;
use crate::shared::Shared;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub(super) const DESCRIPTION: &str = "\
Lists the training runs of skillrl in the served directory: state, steps, scores. The runs that changed last come \
first. Reads files and costs nothing.";

/// Runs that are listed where nobody says how many.
const DEFAULT_LIMIT: u32 = 30;
const MAX_LIMIT: u32 = 100;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Lists runs in this state alone.
    #[serde(default)]
    state: Option<State>,
    /// The most runs to list, 1 to 100; 30 by default.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The served directory.
    directory: String,
    /// The runs, latest change first.
    runs: Vec<RunBrief>,
    /// Runs that fit and are left out.
    n_left_out: usize,
    /// The directory holds more runs than are looked at.
    is_cut: bool,
}

pub(super) async fn run(shared: Arc<Shared>, input: Input) -> Result<Output, ToolError> {
    let listing = shared.listing().await?;
    let limit = input.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT) as usize;
    let mut runs: Vec<RunBrief> = listing.rows.iter().map(RunBrief::from).collect();
    runs.retain(|run| input.state.is_none_or(|state| run.state == state));
    runs.sort_by(|one, other| {
        other.changed_unix_ms.cmp(&one.changed_unix_ms).then_with(|| one.run.cmp(&other.run))
    });
    let n_left_out = runs.len().saturating_sub(limit);
    runs.truncate(limit);
    let directory = shared.runs.root().display().to_string();
    Ok(Output { directory, runs, n_left_out, is_cut: listing.is_cut })
}
