//! `estimate_run`.

use crate::caps::Caps;
use crate::error::ToolError;
use crate::places;
use crate::shared::Shared;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skill_pipeline::run_dir::{RunStatus, run_status};
use skillrl::estimate::{Estimate, Prepared, Span, StageEstimate};
use std::sync::Arc;

pub(super) const DESCRIPTION: &str = "\
Says what a run of a configuration will take, before anything is sent: calls, tokens and money, each from the least that \
it may be to the most, by stage. Calls no model. An environment that is a program of the configuration is started for \
it. Do this before start_run, and tell your person the range.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The configuration file, as list_configurations gives it.
    config: String,
    /// Settings to change, such as `train.epochs=2`: keys of [train], [gate] and [eval].
    #[serde(default)]
    set: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The configuration.
    config: String,
    /// The run that it makes; null if that is outside of the runs directory, where it cannot be started from here.
    run: Option<String>,
    /// Whether that run has begun already: what it has paid for is not paid for again.
    has_begun: bool,
    /// Steps of the run.
    steps: u32,
    /// Items of the splits train, selection and test.
    items: [u64; 3],
    /// The sums.
    total: Taken,
    /// In the order in which the stages first run.
    stages: Vec<Taken>,
    /// What its run may spend by the configuration and by this server; null where nothing bounds it.
    caps: Caps,
    /// What the ranges do not hold.
    note: String,
}

/// What a stage takes, or all together.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Taken {
    /// The stage, or `total`.
    stage: String,
    /// Calls of models.
    calls: Range<u64>,
    /// Tokens of prompts.
    input_tokens: Range<u64>,
    /// Tokens of replies.
    output_tokens: Range<u64>,
    /// Money by the prices of the configuration; null if it has none for this stage's model.
    money: Option<Range<f64>>,
}

/// From the least that it may be to the most.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Range<T> {
    /// The least.
    low: T,
    /// The most.
    high: T,
}

impl From<Span> for Range<u64> {
    fn from(span: Span) -> Self {
        Self { low: span.low, high: span.high }
    }
}

impl From<StageEstimate> for Taken {
    fn from(stage: StageEstimate) -> Self {
        Self {
            stage: stage.stage.to_owned(),
            calls: stage.calls.into(),
            input_tokens: stage.input_tokens.into(),
            output_tokens: stage.output_tokens.into(),
            money: stage.cost.map(|[low, high]| Range { low, high }),
        }
    }
}

const NOTE: &str = "Thinking before an answer comes on top, and so does what is sent again after a fault.";
const NO_PRICES: &str = " Money is not known, since the configuration has no prices.";

pub(super) async fn run(shared: Arc<Shared>, input: Input) -> Result<Output, ToolError> {
    let Input { config, set } = input;
    let (of_thread, name) = (Arc::clone(&shared), config.clone());
    let (loaded, prepared) = super::blocking(move || {
        let (_, loaded) = of_thread.configs.load(&name, &set)?;
        loaded.check_paths()?;
        let prepared = Prepared::new(&loaded)?;
        Ok((loaded, prepared))
    })
    .await?;
    let estimate = prepared.estimate().await?;
    let most = estimate.most();
    let Estimate { steps, items, stages, total, .. } = estimate;
    let dir = loaded.run_dir();
    let run = places::name_of_run(shared.runs.root(), &dir);
    let has_begun = run.is_some() && run_status(&dir) != RunStatus::Absent;
    let has_money = total.cost.is_some();
    Ok(Output {
        config,
        run,
        has_begun,
        steps,
        items,
        total: total.into(),
        stages: stages.into_iter().map(Taken::from).collect(),
        caps: Caps::from(loaded.config.budget).and(shared.caps()),
        note: format!("{NOTE} {most}{}", if has_money { "" } else { NO_PRICES }),
    })
}
