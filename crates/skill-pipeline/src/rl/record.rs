//! The files of a run of GRPO.
//!
//! | file | what it holds |
//! |---|---|
//! | `iterations.jsonl` | an [`RlIteration`] for each finished iteration |
//! | `validation.jsonl` | an [`RlValidation`] for each time that games were played |
//! | `rl_checkpoint.json` | where the run is, and the hash of its state |
//! | `checkpoints/` | the last state: weights and optimizer |
//! | `policy/` | the trained model, as other programs load it |
//! | `rl_summary.json` | an [`RlSummary`], once the run is finished |
//!
//! Times are in `events.jsonl` and `rl_times.json` alone, so that two runs can be compared byte for byte.

use crate::sft::record::SftGames;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The file of finished iterations.
pub const ITERATIONS_FILE: &str = "iterations.jsonl";
/// The file of games along the way.
pub const VALIDATION_FILE: &str = "validation.jsonl";
/// The file of the position of the run.
pub const CHECKPOINT_FILE: &str = "rl_checkpoint.json";
/// The file of what the run has taken.
pub const TIMES_FILE: &str = "rl_times.json";
/// The file that tells what the run has reached.
pub const SUMMARY_FILE: &str = "rl_summary.json";

/// True if a directory holds a run of GRPO.
pub fn is_rl_run(path: &Path) -> bool {
    path.join("config.json").is_file()
        && [ITERATIONS_FILE, CHECKPOINT_FILE, SUMMARY_FILE].into_iter().any(|name| path.join(name).is_file())
}

/// A finished iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RlIteration {
    /// Its number, from 1.
    pub iteration: u64,
    /// Tasks that were played.
    pub tasks: usize,
    /// Episodes that were played.
    pub episodes: usize,
    /// Episodes that solved their task.
    pub won: usize,
    /// The mean return: the score of an episode less its penalties.
    pub reward: f64,
    /// Invalid actions of all episodes.
    pub invalid_actions: u64,
    /// The share of groups whose returns are all equal: they say nothing, and are left out of the update.
    pub groups_without_signal: f64,
    /// Rows that were trained on.
    pub rows: usize,
    /// Their tokens, prompts and observations included.
    pub tokens: u64,
    /// Sampled tokens of all episodes.
    pub sampled_tokens: u64,
    /// The mean entropy of the sampled tokens that were trained on, in nats.
    pub entropy: f64,
    /// The mean divergence from the reference, in nats per token.
    pub kl: f64,
    /// The share of tokens whose gradient was clipped away.
    pub clipped: f64,
    /// The loss, averaged over the optimizer steps.
    pub loss: f64,
    /// The norm of the gradient before clipping, averaged over the optimizer steps.
    pub grad_norm: f64,
    /// Optimizer steps; 0 where no group had a signal.
    pub steps: u64,
    /// Won and played episodes by type of task.
    pub by_task_type: IndexMap<String, [usize; 2]>,
}

/// Games that were played along the way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RlValidation {
    /// Finished iterations.
    pub iteration: u64,
    /// The games.
    pub games: SftGames,
}

/// The time and memory that a run has taken, over all its processes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RlTimes {
    /// Seconds of work.
    pub seconds: f64,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RlSummary {
    /// The version of the format of run directories.
    pub format_version: String,
    /// Finished iterations.
    pub iterations: u64,
    /// Tokens of rows that were trained on.
    pub tokens: u64,
    /// Games before the first iteration, where any are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<SftGames>,
    /// Games after the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<SftGames>,
    /// The first iteration.
    pub first: Option<RlIteration>,
    /// The last one.
    pub last: Option<RlIteration>,
    /// The hash of the state of the policy.
    pub policy_state: String,
}
