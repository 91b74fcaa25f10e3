//! `estimate_run`.

use crate::caps::Caps;
use crate::error::ToolError;
use crate::places;
use crate::shared::Shared;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skill_pipeline::run_dir::{RunStatus, run_status};
use skillrl::config::{LoadedConfig, TrainMode};
use skillrl::envs::Env;
use skillrl::estimate::{
    BankEstimate, BankStage, Estimate, Prepared, Span, StageEstimate, WeightsEstimate, bank_estimate,
    weights_estimate,
};
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
    /// What it trains: `document`, `bank` or `weights`.
    trains: &'static str,
    /// Steps of the run; of a bank its rounds after the distillation, of weights its phases.
    steps: u32,
    /// Items of the splits train, selection and test.
    items: [u64; 3],
    /// The sums.
    total: Taken,
    /// In the order in which the stages first run; of weights its phases.
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
    /// Rollouts, where the estimate counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    rollouts: Option<Range<u64>>,
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
            rollouts: None,
            calls: stage.calls.into(),
            input_tokens: stage.input_tokens.into(),
            output_tokens: stage.output_tokens.into(),
            money: stage.cost.map(|[low, high]| Range { low, high }),
        }
    }
}

impl From<BankStage> for Taken {
    fn from(BankStage { rollouts, used }: BankStage) -> Self {
        Self { rollouts: Some(rollouts.into()), ..used.into() }
    }
}

/// An estimate by what is trained.
struct Sums {
    steps: u32,
    total: Taken,
    stages: Vec<Taken>,
    /// What the high end means, and what comes on top.
    most: String,
}

impl Sums {
    fn of(loaded: &LoadedConfig, env: &dyn Env, of_document: Estimate) -> Result<Self, ToolError> {
        let taken = |stages: Vec<BankStage>| stages.into_iter().map(Taken::from).collect();
        Ok(match loaded.config.train.mode {
            TrainMode::Document => Self {
                most: of_document.most().to_owned(),
                steps: of_document.steps,
                total: of_document.total.into(),
                stages: of_document.stages.into_iter().map(Taken::from).collect(),
            },
            TrainMode::Bank => {
                let BankEstimate { rounds, stages, total, .. } = bank_estimate(loaded, env, &of_document)?;
                Self { most: OF_BANK.to_owned(), steps: rounds, total: total.into(), stages: taken(stages) }
            }
            TrainMode::Weights => {
                let WeightsEstimate { phases, total, teacher_calls, .. } =
                    weights_estimate(loaded, env, &of_document);
                Self {
                    most: format!(
                        "The policy runs on this machine. The teacher is called {} to {} times, on top.",
                        teacher_calls.low, teacher_calls.high
                    ),
                    steps: u32::try_from(phases.len()).unwrap_or(u32::MAX),
                    total: total.into(),
                    stages: taken(phases),
                }
            }
        })
    }
}

const OF_BANK: &str = "Trials depend on what the teacher proposes, up to the high end. Calls of the teacher come on top: \
                       one for about 20 episodes of each type, and one each round.";
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
    let items = estimate.items;
    let Sums { steps, total, stages, most } = Sums::of(&loaded, prepared.env(), estimate)?;
    let dir = loaded.run_dir();
    let run = places::name_of_run(shared.runs.root(), &dir);
    let has_begun = run.is_some() && run_status(&dir) != RunStatus::Absent;
    let has_money = total.money.is_some();
    Ok(Output {
        config,
        run,
        has_begun,
        trains: loaded.config.train.mode.as_str(),
        steps,
        items,
        total,
        stages,
        caps: Caps::from(loaded.config.budget).and(shared.caps()),
        note: format!("{NOTE} {most}{}", if has_money { "" } else { NO_PRICES }),
    })
}
