//! Arguments of the command that trains a policy by GRPO.

use super::StartArgs;
#[cfg(feature = "weights")]
use super::start::{Start, setting};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct RlArgs {
    #[command(flatten)]
    pub(crate) config: StartArgs,

    /// The policy to start from: the folder `policy` of a run of `skillrl sft` or `skillrl rl`.
    ///
    /// Without it the target, or that of data/sft where no skillrl.toml is read.
    #[arg(long, value_name = "DIR")]
    pub(crate) policy: Option<PathBuf>,

    /// The directory of the run; without it `run.dir`, or data/rl where no skillrl.toml is read.
    ///
    /// The trained model is in its folder policy.
    #[arg(long, alias = "output", value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// The bank whose skills are in the prompts, as retrieval selects them for each task.
    ///
    /// Without it `bank.initial`, or data/skill_bank.json where no skillrl.toml is read.
    #[arg(long = "bank", alias = "skill-bank", value_name = "BANK")]
    pub(crate) skill_bank: Option<PathBuf>,

    /// Iterations of the run; a larger number extends a finished run: `rl.iterations`.
    #[arg(long, visible_alias = "training-epochs", value_name = "N")]
    iterations: Option<u64>,

    /// Training tasks of an iteration, each of which has a group of episodes: `rl.tasks`.
    #[arg(long, value_name = "N")]
    tasks: Option<u64>,

    /// Episodes of each task in an iteration, compared with each other: `rl.group_size`.
    #[arg(long, value_name = "N")]
    group_size: Option<u64>,

    /// Episodes of an optimizer step: `rl.batch_size`.
    #[arg(long, value_name = "N")]
    batch_size: Option<u64>,

    /// The learning rate: `rl.learning_rate`.
    #[arg(long, value_name = "RATE")]
    learning_rate: Option<f64>,

    /// KL penalty coefficient against the reference policy; 0 disables it: `rl.kl_coeff`.
    #[arg(long, value_name = "COEFF")]
    kl_coeff: Option<f64>,

    /// The ratio of new and old probability is clipped to 1 minus and 1 plus this: `rl.clip_epsilon`.
    #[arg(long, value_name = "EPSILON")]
    clip_epsilon: Option<f64>,

    /// Penalty per invalid action, off an episode's return: `rl.invalid_action_penalty`.
    #[arg(long, value_name = "PENALTY")]
    invalid_action_penalty: Option<f64>,

    /// Maximum prompt tokens; a longer prompt ends its episode: `rl.max_prompt_tokens`.
    #[arg(long, value_name = "N")]
    max_prompt_length: Option<u64>,

    /// The most tokens of a reply: `rl.max_reply_tokens`.
    #[arg(long, value_name = "N")]
    max_response_length: Option<u64>,

    /// The rank of the adapter that is trained; 0 trains all weights: `rl.lora_rank`.
    #[arg(long, value_name = "RANK")]
    lora_rank: Option<u64>,

    /// The scale of the adapter times its rank: `rl.lora_alpha`.
    #[arg(long, value_name = "ALPHA")]
    lora_alpha: Option<f64>,

    /// Iterations between two times that games are played: `rl.validation_interval`.
    #[arg(long, value_name = "N")]
    validation_interval: Option<u64>,

    /// Validation episodes with greedy decoding: `rl.games`.
    #[arg(long, value_name = "N")]
    games: Option<u64>,

    /// Fail unless the directory holds a run to continue.
    ///
    /// Without it the command starts a run or continues one.
    #[arg(long)]
    pub(crate) resume: bool,

    /// Train a step on one task, and estimate the duration; nothing is written.
    #[arg(long = "dry-run", alias = "estimate", conflicts_with = "resume")]
    pub(crate) dry_run: bool,

    /// Write events, and an estimate, to standard output as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only errors, warnings and the result.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl RlArgs {
    /// What the command starts from, with the options as settings of `[rl]`.
    #[cfg(feature = "weights")]
    pub(crate) fn start(&self) -> Start {
        self.config.start_with([
            setting("rl.iterations", self.iterations),
            setting("rl.tasks", self.tasks),
            setting("rl.group_size", self.group_size),
            setting("rl.batch_size", self.batch_size),
            setting("rl.max_prompt_tokens", self.max_prompt_length),
            setting("rl.max_reply_tokens", self.max_response_length),
            setting("rl.lora_rank", self.lora_rank),
            setting("rl.validation_interval", self.validation_interval),
            setting("rl.games", self.games),
            setting("rl.learning_rate", self.learning_rate),
            setting("rl.kl_coeff", self.kl_coeff),
            setting("rl.clip_epsilon", self.clip_epsilon),
            setting("rl.invalid_action_penalty", self.invalid_action_penalty),
            setting("rl.lora_alpha", self.lora_alpha),
        ])
    }
}
