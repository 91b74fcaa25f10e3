//! The files of a run of GRPO.
//!
//! | file | what it holds |
//! |---|---|
//! | `iterations.jsonl` | an [`RlIteration`] for each finished iteration |
//! | `validation.jsonl` | an [`RlValidation`] for each time that games were played |
//! | `bank/` | the log of the bank, where one is in the loop |
//! | `episodes/` | the episodes that the teacher reads next |
//! | `rl_checkpoint.json` | where the run is, and the hash of its state |
//! | `checkpoints/` | the last state: weights and optimizer |
//! | `policy/` | the trained model, as other programs load it |
//! | `rl_summary.json` | an [`RlSummary`], once the run is finished |
//!
//! Times are in `events.jsonl` and `rl_times.json` alone, so that two runs can be compared byte for byte.

use super::sft::SftGames;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use skill_bank::Occasion;
use skill_bank::trial::TrialNumbers;

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

/// A finished iteration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    /// The mean entropy of the sampled tokens that were trained on, in nats. Like the other means over optimizer steps
    /// below, it is absent if no step was made; earlier records have 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entropy: Option<f64>,
    /// The mean KL divergence from the reference policy, in nats per token; absent also where `rl.kl_coeff` is 0, since
    /// nothing was compared then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kl: Option<f64>,
    /// The share of tokens whose gradient was clipped away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clipped: Option<f64>,
    /// The loss, averaged over the optimizer steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// The norm of the gradient before clipping, averaged over the optimizer steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grad_norm: Option<f64>,
    /// Optimizer steps; 0 where no group had a signal.
    pub steps: u64,
    /// Won and played episodes by type of task.
    pub by_task_type: IndexMap<String, [usize; 2]>,
    /// The bank behind this iteration, where one is in the loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<RlBankIteration>,
}

/// What an iteration did to the bank, and what an evolution before it did.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RlBankIteration {
    /// The version of what agents are shown from now on.
    pub version: String,
    /// Active skills.
    pub active: usize,
    /// The candidate whose trial some of the groups are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<String>,
    /// Types of task that were weak in the last evolution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weak: Vec<String>,
    /// Candidates that a teacher proposed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposed: Vec<String>,
    /// Skills that became active.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub admitted: Vec<String>,
    /// Skills that were retired.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retired: Vec<String>,
    /// Those of them that the policy wins as often without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub internalized: Vec<String>,
    /// Skills that were hidden from half of a group each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// Measurements of active skills that ended: after their admission, or by the standing check that retired them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<RlMeasured>,
    /// What was left out, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A measurement of an active skill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RlMeasured {
    /// The version.
    pub skill: String,
    /// The occasion.
    pub occasion: Occasion,
    /// What came out.
    pub numbers: TrialNumbers,
}

/// The bank at the end of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RlBankSummary {
    /// The version that belongs to the policy.
    pub version: String,
    /// Active skills.
    pub active: usize,
    /// Trials that were opened, and skills that they admitted.
    pub trials: [u32; 2],
    /// Skills that were withdrawn since the policy wins as often without them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub internalized: u32,
    /// What is known of active skills: their measurement after admission, and what the standing check has found since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<RlMeasured>,
    /// The last games again without the skills of the bank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<SftGames>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands the field by reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Games that were played along the way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// The bank that belongs to the policy, where one was in the loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<RlBankSummary>,
}
