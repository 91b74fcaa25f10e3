//! The sections in the order of the file, and the bounds that several keys share.

use super::{SectionSpec, ValueType};
use crate::config::bank::{BankConfig, EmbeddingConfig, EvolutionConfig, RetrievalConfig};
use crate::config::collect::CollectConfig;
use crate::config::env::{self, ENV};
use crate::config::models::{self, MODEL};
use crate::config::rl::RlConfig;
use crate::config::sft::SftConfig;
use crate::config::tinker::TinkerConfig;
use crate::config::types::{
    BudgetConfig, EvalConfig, GateConfig, LimitsConfig, NatsConfig, PromptsConfig, RetryConfig, RunConfig,
    SkillConfig, TaskConfig, TrainConfig, TrainMode,
};

/// The largest integer that every reader of JSON keeps exactly: 2^53 - 1.
pub(in crate::config) const MAX_SEED: u64 = 9_007_199_254_740_991;
pub(in crate::config) const MAX_TOKENS: u64 = 10_000_000;
pub(in crate::config) const MAX_COUNT: u64 = 1_000_000;
pub(in crate::config) const MAX_RATE: u64 = 1_000_000_000_000;
pub(in crate::config) const MAX_SECONDS: f64 = 31_536_000.0;

pub(in crate::config) const PRICE: ValueType = ValueType::Number { min: 0.0, max: f64::INFINITY };

/// The modes of training with a bank.
const WITH_BANK: &[&str] = &[TrainMode::Bank.as_str(), TrainMode::Weights.as_str()];
/// The mode of training weights.
const WEIGHTS: &[&str] = &[TrainMode::Weights.as_str()];

pub(super) const SECTIONS: &[SectionSpec] = &[
    SectionSpec::new("run", "The run as a whole. All of this section may be left out.", &[RunConfig::KEYS]),
    SectionSpec::new(
        "run.nats",
        "The broker between a run and its workers, where run.runner is \"nats\".",
        &[NatsConfig::KEYS],
    )
    .optional(),
    SectionSpec::new(
        "models.target",
        "The model that does the tasks, with the skill in its prompt. It is what gets better.",
        &[models::KIND, MODEL],
    ),
    SectionSpec::new(
        "models.optimizer",
        "The model that reads what went wrong and proposes edits to the skill.",
        &[models::KIND, MODEL],
    ),
    SectionSpec::new(
        "models.judge",
        "The model that grades answers, where env.scorer is \"rubric\". It has all keys of [models.target].",
        &[models::KIND, MODEL],
    )
    .optional(),
    SectionSpec::new(
        "models.teacher",
        "The model that reads trajectories and writes skills of a bank. Without it [models.optimizer] does that.",
        &[models::KIND, MODEL],
    )
    .optional(),
    SectionSpec::new(
        "models.embedding",
        "The model that gives vectors to goals and skills, where retrieval.mode is \"embedding\".",
        &[EmbeddingConfig::KEYS],
    )
    .optional(),
    SectionSpec::new("env", "The tasks.", &[env::KIND, ENV]),
    SectionSpec::new("skill", "The skill that training starts from.", &[SkillConfig::KEYS]),
    SectionSpec::new("task", "What the optimizer is told of the task. All of this section may be left out.", &[TaskConfig::KEYS]),
    SectionSpec::new("train", "The training loop. The defaults are the paper's.", &[TrainConfig::KEYS]),
    SectionSpec::new(
        "gate",
        "What a changed skill must do to be kept: score strictly higher on the selection split, and what mode asks for.",
        &[GateConfig::KEYS],
    ),
    SectionSpec::new("bank", "The bank, where train.mode is \"bank\" or \"weights\".", &[BankConfig::KEYS])
        .of_modes(WITH_BANK),
    SectionSpec::new("retrieval", "Which skills of a bank a task is shown.", &[RetrievalConfig::KEYS])
        .of_modes(WITH_BANK),
    SectionSpec::new("evolution", "How a bank is changed, round by round.", &[EvolutionConfig::KEYS])
        .of_modes(WITH_BANK),
    SectionSpec::new(
        "collect",
        "The episodes that runs begin with whose train.mode is \"weights\".",
        &[CollectConfig::KEYS],
    )
    .of_modes(WEIGHTS),
    SectionSpec::new("sft", "Fine-tuning by `skillrl sft`, where the target is of kind \"local\".", &[SftConfig::KEYS])
        .optional(),
    SectionSpec::new(
        "rl",
        "Reinforcement learning by `skillrl rl`, of a target of kind \"local\" or of the policy that --policy names.",
        &[RlConfig::KEYS],
    )
    .optional(),
    SectionSpec::new(
        "tinker",
        "The server that computes samples and gradients of `skillrl sft` and `skillrl rl`, if it is not this machine.",
        &[TinkerConfig::KEYS],
    )
    .optional(),
    SectionSpec::new("eval", "What is measured after training.", &[EvalConfig::KEYS]),
    SectionSpec::new("prompts", "The prompts of the optimizer.", &[PromptsConfig::KEYS]),
    SectionSpec::new("limits", "Bounds on single calls.", &[LimitsConfig::KEYS]),
    SectionSpec::new(
        "retry",
        "How often and how long a call is tried that a server failed or turned away for now.",
        &[RetryConfig::KEYS],
    ),
    SectionSpec::new(
        "budget",
        "What the run may use, over all its processes. At a cap it stops; it can be resumed with a higher one.",
        &[BudgetConfig::KEYS],
    ),
];
