//! `stop_run`.

use crate::answer::State;
use crate::error::ToolError;
use crate::places;
use crate::shared::Shared;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skill_pipeline::run_dir::{request_stop, withdraw_stop};
use skill_report::RunPhase;
use std::sync::Arc;

pub(super) const DESCRIPTION: &str = "\
Asks a run that is training to stop when the step under way is done, which may take minutes; follow_run tells when it \
has. Nothing is lost: start_run with the same configuration goes on from there. `withdraw` takes the request back.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The name of the run, as list_runs gives it.
    run: String,
    /// Takes back an earlier request that the run has not come to.
    #[serde(default)]
    withdraw: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The run.
    run: String,
    /// How it was when it was asked.
    state: State,
    /// Whether it is asked to stop now.
    stop_requested: bool,
    /// What happens next.
    note: String,
}

pub(super) async fn run(shared: Arc<Shared>, input: Input) -> Result<Output, ToolError> {
    let (found, row) = shared.run(&input.run).await?;
    if found.leaving.is_some() {
        places::refuse_leaving(shared.runs.root(), &found)?;
    }
    let note = if input.withdraw {
        withdraw_stop(&found.path)?;
        "this run is no longer asked to stop"
    } else if row.state == RunPhase::Training {
        request_stop(&found.path)?;
        "the run stops when the step under way is done, or the evaluation after the last step; follow_run tells when"
    } else {
        let message = format!("no process works on `{}`, so there is nothing to stop", input.run);
        return Err(ToolError::new(message, "read_run shows its result; start_run resumes it"));
    };
    Ok(Output {
        run: input.run,
        state: row.state.into(),
        stop_requested: !input.withdraw,
        note: note.to_owned(),
    })
}
