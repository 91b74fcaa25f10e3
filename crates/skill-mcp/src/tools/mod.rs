//! The tools: what each is called, says of itself, takes and answers. One module for each.

mod compare;
mod configurations;
mod estimate;
mod follow;
mod list;
mod measure;
mod read;
mod skill;
mod start;
mod stop;
mod trajectories;

use crate::error::ToolError;
use crate::places;
use crate::shared::Shared;
use rmcp::RoleServer;
use rmcp::handler::server::tool::{schema_for_input, schema_for_output};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use rmcp::service::RequestContext;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use skill_pipeline::RunReader;
use skill_pipeline::kind::{Trained, trained_at};
use skill_pipeline::records::bank::BANK_DIR;
use skill_report::watch::Found;
use std::future::Future;
use std::sync::Arc;

skill_core::named_enum! {
    /// A tool.
    pub(crate) enum Kind {
        ListConfigurations = "list_configurations",
        EstimateRun = "estimate_run",
        StartRun = "start_run",
        Measure = "measure",
        ListRuns = "list_runs",
        CompareRuns = "compare_runs",
        ReadRun = "read_run",
        FollowRun = "follow_run",
        StopRun = "stop_run",
        ReadSkill = "read_skill",
        ReadTrajectories = "read_trajectories",
    }
}

skill_core::named_enum! {
    /// What a tool does to runs.
    pub(crate) enum Effect {
        Reads = "reads",
        Changes = "changes",
        /// Calls of models, which cost money.
        Spends = "spends",
    }
}

impl Kind {
    /// Whether it changes nothing.
    pub(crate) fn is_read_only(self) -> bool {
        self.effect() == Effect::Reads
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::ListConfigurations => "Configurations that can be trained",
            Self::EstimateRun => "Estimate of calls, tokens and cost",
            Self::StartRun => "Start or resume the run of a configuration",
            Self::Measure => "Score of a skill or a bank on one split",
            Self::ListRuns => "List of runs",
            Self::CompareRuns => "Comparison of runs",
            Self::ReadRun => "Results of a run",
            Self::FollowRun => "Wait for events of a run",
            Self::StopRun => "Stop a run after the current step, or take that back",
            Self::ReadSkill => "Skill of a run",
            Self::ReadTrajectories => "Trajectories of single items",
        }
    }

    pub(crate) fn effect(self) -> Effect {
        match self {
            Self::StartRun | Self::Measure => Effect::Spends,
            Self::StopRun => Effect::Changes,
            Self::ListConfigurations
            | Self::EstimateRun
            | Self::ListRuns
            | Self::CompareRuns
            | Self::ReadRun
            | Self::FollowRun
            | Self::ReadSkill
            | Self::ReadTrajectories => Effect::Reads,
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let reads = ToolAnnotations::with_title(self.title()).read_only(true).open_world(false);
        let writes = ToolAnnotations::with_title(self.title()).read_only(false);
        match self.effect() {
            // Money that is spent is not refunded, so a client should ask its user; models and programs are called.
            Effect::Spends => writes.destructive(true).idempotent(false).open_world(true),
            // The run resumes by the same command, and the request can be withdrawn.
            Effect::Changes => writes.destructive(false).idempotent(true).open_world(false),
            Effect::Reads => reads,
        }
    }
}

/// The tool as a client sees it.
pub(crate) fn describe(kind: Kind) -> Result<Tool, String> {
    match kind {
        Kind::ListConfigurations => {
            tool::<configurations::Input, configurations::Output>(kind, configurations::DESCRIPTION)
        }
        Kind::EstimateRun => tool::<estimate::Input, estimate::Output>(kind, estimate::DESCRIPTION),
        Kind::StartRun => tool::<start::Input, start::Output>(kind, start::DESCRIPTION),
        Kind::Measure => tool::<measure::Input, measure::Output>(kind, measure::DESCRIPTION),
        Kind::ListRuns => tool::<list::Input, list::Output>(kind, list::DESCRIPTION),
        Kind::CompareRuns => tool::<compare::Input, compare::Output>(kind, compare::DESCRIPTION),
        Kind::ReadRun => tool::<read::Input, read::Output>(kind, read::DESCRIPTION),
        Kind::FollowRun => tool::<follow::Input, follow::Output>(kind, follow::DESCRIPTION),
        Kind::StopRun => tool::<stop::Input, stop::Output>(kind, stop::DESCRIPTION),
        Kind::ReadSkill => tool::<skill::Input, skill::Output>(kind, skill::DESCRIPTION),
        Kind::ReadTrajectories => {
            tool::<trajectories::Input, trajectories::Output>(kind, trajectories::DESCRIPTION)
        }
    }
}

fn tool<I: JsonSchema + 'static, O: JsonSchema + 'static>(
    kind: Kind,
    description: &'static str,
) -> Result<Tool, String> {
    Ok(Tool::new(kind.as_str(), description, schema_for_input::<I>()?)
        .with_title(kind.title())
        .with_raw_output_schema(schema_for_output::<O>())
        .with_annotations(kind.annotations()))
}

/// Calls a tool. Unknown arguments are an error that the agent can correct, as all others are.
pub(crate) async fn call(
    kind: Kind,
    shared: &Arc<Shared>,
    arguments: JsonObject,
    context: &RequestContext<RoleServer>,
) -> Result<Value, ToolError> {
    let shared = Arc::clone(shared);
    match kind {
        Kind::ListConfigurations => answer(arguments, |input| configurations::run(shared, input)).await,
        Kind::EstimateRun => answer(arguments, |input| estimate::run(shared, input)).await,
        Kind::StartRun => answer(arguments, |input| start::run(shared, input)).await,
        Kind::Measure => answer(arguments, |input| measure::run(shared, input)).await,
        Kind::ListRuns => answer(arguments, |input| list::run(shared, input)).await,
        Kind::CompareRuns => answer(arguments, |input| compare::run(shared, input)).await,
        Kind::ReadRun => answer(arguments, |input| read::run(shared, input)).await,
        Kind::FollowRun => answer(arguments, |input| follow::run(shared, input, context)).await,
        Kind::StopRun => answer(arguments, |input| stop::run(shared, input)).await,
        Kind::ReadSkill => answer(arguments, |input| skill::run(shared, input)).await,
        Kind::ReadTrajectories => answer(arguments, |input| trajectories::run(shared, input)).await,
    }
}

async fn answer<I: DeserializeOwned, O: Serialize, F: Future<Output = Result<O, ToolError>>>(
    mut arguments: JsonObject,
    run: impl FnOnce(I) -> F,
) -> Result<Value, ToolError> {
    // Some clients send null for what their model leaves out.
    arguments.retain(|_, value| !value.is_null());
    let input: I = serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let message = format!("the arguments do not fit: {}: {}", error.path(), error.inner());
        ToolError::new(message, "look at the input schema of the tool, and call it again")
    })?;
    let output = run(input).await?;
    serde_json::to_value(output).map_err(|error| ToolError::internal(&error))
}

/// Reads a run in depth; one with a link that leaves the directory is refused.
///
/// One at a time, however many wait: each may hold all results of its run in memory.
async fn in_depth<T: Send + 'static>(
    shared: &Shared,
    found: Found,
    read: impl FnOnce(&RunReader) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let turn = Arc::clone(&shared.reading).lock_owned().await;
    let root = shared.runs.root().to_owned();
    blocking(move || {
        let _turn = turn;
        places::refuse_leaving(&root, &found)?;
        read(&RunReader::open(&found.path)?)
    })
    .await
}

/// Refuses a run that trains no skill of its own: its files have other forms.
fn check_document(run: &RunReader) -> Result<(), ToolError> {
    let path = run.path();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match trained_at(path) {
        Trained::Skill => Ok(()),
        Trained::Bank => Err(ToolError::new(
            format!("the run {name} trains a bank, and not a single skill"),
            format!(
                "read_run lists the titles of its active skills, whose texts are in {}; measure takes its name as `bank`",
                path.join(BANK_DIR).display()
            ),
        )),
        Trained::Weights => Err(ToolError::new(
            format!("the run {name} trains weights, and not a skill"),
            "read_run says what it came to; name a run that trains a skill",
        )),
    }
}

/// Runs what reads files apart from what waits for clients.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ToolError::internal(&error))?
}
