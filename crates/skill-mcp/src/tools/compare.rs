//! `compare_runs`.

use crate::error::ToolError;
use crate::places;
use crate::shared::Shared;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skill_report::RunsTable;
use skillrl::runs::{Depth, table};
use std::sync::Arc;

pub(super) const DESCRIPTION: &str = "\
Puts runs beside each other in a table: the settings that differ, seed, test score with its 95 % interval, gain, cost \
and time, with the means over the seeds of equal settings and how groups differ. Reads files and costs nothing.";

/// The most runs of a table.
const MAX_RUNS: usize = 50;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The names of the runs, as list_runs gives them; 2 to 50.
    runs: Vec<String>,
    /// Settings to group by, such as `models.target.model`; without them all that differ, except seeds.
    #[serde(default)]
    group_by: Option<Vec<String>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The settings by which the runs are grouped.
    group_by: Vec<String>,
    /// A row for each run, with the columns that it fills. Scores are from 0 to 1; cost is by the prices of the run.
    runs: Vec<Map<String, Value>>,
    /// The groups: means over their runs with 95 % t intervals, and `versus_first`, the difference to the first group,
    /// with what is paired in it.
    groups: Vec<Value>,
    /// The number of different tasks of the runs; scores of different tasks are not compared.
    n_tasks: usize,
}

pub(super) async fn run(shared: Arc<Shared>, input: Input) -> Result<Output, ToolError> {
    if !(2..=MAX_RUNS).contains(&input.runs.len()) {
        let message = format!("{} runs were named", input.runs.len());
        return Err(ToolError::new(message, format!("name 2 to {MAX_RUNS} runs, as list_runs gives them")));
    }
    let listing = shared.listing().await?;
    let found = input.runs.iter().map(|name| places::find(&listing, name).map(|(found, _)| found.clone()));
    let found = found.collect::<Result<Vec<_>, _>>()?;
    let turn = Arc::clone(&shared.reading).lock_owned().await;
    let root = shared.runs.root().to_owned();
    super::blocking(move || {
        let _turn = turn;
        found.iter().try_for_each(|run| places::refuse_leaving(&root, run))?;
        let paths: Vec<_> = found.into_iter().map(|run| run.path).collect();
        let made = table(&paths, &input.group_by.unwrap_or_default(), Depth::Rows)?;
        answer(&made)
    })
    .await
}

fn answer(table: &RunsTable) -> Result<Output, ToolError> {
    let rows = table.records().into_iter().map(|record| {
        record.into_iter().filter(|(name, value)| !value.is_null() && name != "path").collect()
    });
    let groups = table.groups.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>();
    Ok(Output {
        group_by: table.group_by.clone(),
        runs: rows.collect(),
        groups: groups.map_err(|error| ToolError::internal(&error))?,
        n_tasks: table.n_tasks,
    })
}
