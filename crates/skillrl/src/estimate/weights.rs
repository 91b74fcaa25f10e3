//! What the training of weights will take, phase by phase, from what one rollout takes.

use super::bank::{BankStage, scaled, sum};
use super::{Estimate, Span};
use crate::config::LoadedConfig;
use crate::config::collect::CollectAgent;
use crate::trainer::bank_settings;
use serde::Serialize;
use skill_envs::{Env, Split};
use skill_pipeline::Stage;
use skill_pipeline::bank::Show;
use skill_pipeline::records::phases::Phase;

/// Episodes that a call of the teacher reads, about.
const EPISODES_PER_CALL: u64 = 20;

/// What a run that trains weights will take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WeightsEstimate {
    /// Items of the training, the selection and the test split.
    pub items: [u64; 3],
    /// Episodes of each phase, with what the target takes for them.
    pub phases: Vec<BankStage>,
    /// The sums.
    pub total: BankStage,
    /// Examples of fine-tuning at most, each as often as there are epochs.
    pub examples: u64,
    /// Calls of the teacher: for the distillation, and at each validation of reinforcement learning.
    pub teacher_calls: Span,
}

/// The estimate for weights, from that of a document on the same environment: its baseline says what a rollout takes.
pub fn weights_estimate(loaded: &LoadedConfig, env: &dyn Env, of_document: &Estimate) -> WeightsEstimate {
    let config = &loaded.config;
    let [n_train, n_val, n_test] = Split::ALL.map(|split| env.items(split).len() as u64);
    let collect = config.collect.clone().unwrap_or_default();
    let rl = config.rl.clone().unwrap_or_default();
    let sft = config.sft.clone().unwrap_or_default();
    let n_collected = collect.episodes.map_or(n_train, u64::from);
    let by_target = if collect.agent == CollectAgent::Target { n_collected } else { 0 };
    let games = |n: u32| u64::from(n).min(n_val);
    let steps = u64::from(sft.examples).div_ceil(u64::from(sft.batch_size).max(1)) * u64::from(sft.epochs);
    let n_validations = |steps: u64, interval: u64| 2 + steps / interval.max(1);
    let of_sft = games(sft.games).saturating_mul(n_validations(steps, sft.validation_interval));
    let n_groups = u64::from(rl.tasks).min(n_train);
    let played = rl.iterations.saturating_mul(n_groups).saturating_mul(u64::from(rl.group_size));
    let watched = games(rl.games).saturating_mul(n_validations(rl.iterations, rl.validation_interval));
    let of_test = if config.eval.test { 4 * n_test } else { 0 };
    let planned = [
        (Phase::Collect, Span::exactly(by_target)),
        (Phase::Sft, Span::new(0, of_sft)),
        (Phase::Rl, Span::new(played, played.saturating_add(watched))),
        (Phase::Test, Span::new(of_test / 2, of_test)),
    ];
    let one = of_document.stages.iter().find(|stage| stage.stage == Stage::Baseline.as_str());
    let budget = config.retrieval.clone().unwrap_or_default().token_budget;
    let phases: Vec<BankStage> = planned
        .into_iter()
        .map(|(phase, rollouts)| BankStage {
            rollouts,
            used: scaled(phase.as_str(), one, n_val, rollouts, budget),
        })
        .collect();
    // A call for the general tier and one for each type; with many episodes more, which are merged.
    let chunks = n_collected.div_ceil(EPISODES_PER_CALL);
    let most = 4 * chunks + 8 + rl.iterations / rl.validation_interval.max(1);
    let teacher_calls = match bank_settings(config).show {
        Show::Skills => Span::new(1, most),
        Show::Episodes => Span::default(),
    };
    WeightsEstimate {
        items: [n_train, n_val, n_test],
        total: sum(&phases, n_val, budget),
        phases,
        examples: u64::from(sft.examples) * u64::from(sft.epochs),
        teacher_calls,
    }
}
