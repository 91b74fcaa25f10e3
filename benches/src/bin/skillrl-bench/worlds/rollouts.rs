//! Whole rollouts: by the runner of this process, and by one task that polls them all.

use crate::Failure;
use crate::plan::WorldArgs;
use crate::row::median;
use async_trait::async_trait;
use clap::Args;
use futures_util::StreamExt as _;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skillrl::core::SkillDoc;
use skillrl::envs::agent::WorldEnv;
use skillrl::envs::alfworld::{AlfworldConfig, AlfworldWorld, GeneratedConfig};
use skillrl::envs::source::document;
use skillrl::envs::{
    AgentSettings, Env, Item, JobLink, JobSkill, LocalRunner, RolloutCtx, RolloutJob, RolloutRunner as _,
    Shown, Split,
};
use skillrl::llm::{CallCtx, CallPlace, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};
use skillrl::sim::{SimulatedAgent, SimulatedHousehold};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many rollouts are under way at once.
const WORKERS: usize = 64;
/// How long a model takes to reply that is waited for.
const REPLY_TIME: Duration = Duration::from_millis(5);
/// How many rounds of [`WorldArgs`] make one of these: a rollout is many steps.
const STEPS_PER_GAME: u32 = 50;

/// How many rollouts are made.
#[derive(Debug, Clone, Args)]
pub(crate) struct RolloutArgs {
    #[command(flatten)]
    how_much: WorldArgs,
}

/// Rollouts per second by the runner, over those by one task.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct RolloutReport {
    /// Where world and agent compute.
    pub(crate) computing_ratio: f64,
    /// Rollouts per second there.
    pub(crate) per_second: f64,
    /// Where the agent waits for its model.
    pub(crate) waiting_ratio: f64,
    /// How many threads run tasks.
    pub(crate) threads: usize,
}

/// The simulated agent, whose replies take a while.
struct Slow(SimulatedAgent<SimulatedHousehold>);

#[async_trait]
impl ChatModel for Slow {
    fn id(&self) -> &ModelId {
        self.0.id()
    }

    fn parameters(&self) -> Value {
        self.0.parameters()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        tokio::time::sleep(REPLY_TIME).await;
        self.0.chat(request, call).await
    }
}

/// Plays generated games.
pub(crate) async fn run(args: &RolloutArgs) -> Result<RolloutReport, Failure> {
    let WorldArgs { rounds, steps, .. } = args.how_much;
    let n_games = usize::try_from((steps / STEPS_PER_GAME).max(4))?;
    let generated = GeneratedConfig { train: n_games, val: 1, test: 1, ..GeneratedConfig::default() };
    let world = AlfworldWorld::new(&AlfworldConfig { generated, ..AlfworldConfig::default() })?;
    let env: Arc<dyn Env> = Arc::new(WorldEnv::new(Arc::new(world), AgentSettings::default(), None)?);
    let agent = || SimulatedAgent::new(SimulatedHousehold::default(), 7);
    let (computing_ratio, per_second) = compare(&env, Arc::new(agent()), rounds).await?;
    let (waiting_ratio, _) = compare(&env, Arc::new(Slow(agent())), 1).await?;
    let threads = tokio::runtime::Handle::current().metrics().num_workers();
    Ok(RolloutReport { computing_ratio, per_second, waiting_ratio, threads })
}

/// The ratio, and rollouts per second by the runner; both ways take turns.
async fn compare(env: &Arc<dyn Env>, target: Arc<dyn ChatModel>, rounds: u32) -> Result<(f64, f64), Failure> {
    let items = env.items(Split::Train);
    let n_items = u32::try_from(items.len())?;
    let runner = LocalRunner::new(Arc::clone(env), Arc::clone(&target), None);
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let one_task = by_one_task(env.as_ref(), items, target.as_ref()).await?;
        let by_runner = by_runner(&runner, items).await?;
        ratios.push(one_task.as_secs_f64() / by_runner.as_secs_f64());
        rates.push(f64::from(n_items) / by_runner.as_secs_f64());
    }
    Ok((median(ratios), median(rates)))
}

/// One task polls all rollouts, as a runtime with one thread would.
async fn by_one_task(env: &dyn Env, items: &[Item], target: &dyn ChatModel) -> Result<Duration, Failure> {
    let (skill, ctx, began) = (SkillDoc::default(), RolloutCtx::default(), Instant::now());
    let rollouts = stream::iter(items).map(|item| env.rollout(item, &skill, target, &ctx));
    let mut rollouts = rollouts.buffer_unordered(WORKERS);
    while let Some(result) = rollouts.next().await {
        result?;
    }
    Ok(began.elapsed())
}

async fn by_runner(runner: &LocalRunner, items: &[Item]) -> Result<Duration, Failure> {
    let (link, began) = (JobLink::new(document(&SkillDoc::default())), Instant::now());
    let job = |item: &Item| {
        let skill = JobSkill::Shown(Shown::default());
        RolloutJob::new(item.id.as_str(), "alfworld", item.clone(), skill, CallPlace::new("bench"))
    };
    let mut rollouts =
        stream::iter(items).map(|item| runner.run(job(item), link.clone())).buffer_unordered(WORKERS);
    while let Some(outcome) = rollouts.next().await {
        outcome?;
    }
    Ok(began.elapsed())
}
