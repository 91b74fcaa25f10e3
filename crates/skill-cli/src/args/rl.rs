//! Arguments of the command that trains a policy by GRPO.

use super::ConfigArgs;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct RlArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,

    /// The policy to start from: the folder `policy` of a run of `skillrl sft` or `skillrl rl`. Without it, the target.
    #[arg(long, value_name = "DIR")]
    pub(crate) policy: Option<PathBuf>,

    /// The directory of the run; without it, `run.dir`. The trained model is in its folder policy.
    #[arg(long, visible_alias = "output", value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// The bank whose skills are in the prompts, as retrieval selects them for each task; without it `bank.initial`.
    #[arg(long, value_name = "BANK")]
    pub(crate) skill_bank: Option<PathBuf>,

    /// Iterations of the run; a larger number extends a finished run.
    #[arg(long, visible_alias = "training-epochs", value_name = "N", default_value_t = 150)]
    pub(crate) iterations: u64,

    /// Training tasks of an iteration, each of which has a group of episodes.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) tasks: usize,

    /// Episodes of each task in an iteration; at least 2, since they are compared with each other.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) group_size: usize,

    /// Episodes of an optimizer step.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) batch_size: usize,

    /// The learning rate.
    #[arg(long, value_name = "RATE", default_value_t = 1e-6)]
    pub(crate) learning_rate: f64,

    /// The coefficient of the divergence from the first policy; 0 computes none.
    #[arg(long, value_name = "COEFF", default_value_t = 0.01)]
    pub(crate) kl_coeff: f64,

    /// The ratio of new and old probability is clipped to 1 minus and 1 plus this.
    #[arg(long, value_name = "EPSILON", default_value_t = 0.2)]
    pub(crate) clip_epsilon: f64,

    /// What an action that means nothing to the world takes from the return of its episode.
    #[arg(long, value_name = "PENALTY", default_value_t = 0.1)]
    pub(crate) invalid_action_penalty: f64,

    /// The most tokens of a prompt, earlier turns included; a longer one ends its episode.
    #[arg(long, value_name = "N", default_value_t = 6000)]
    pub(crate) max_prompt_length: usize,

    /// The most tokens of a reply.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(crate) max_response_length: usize,

    /// The rank of the adapter that is trained; 0 trains all weights.
    #[arg(long, value_name = "RANK", default_value_t = 16)]
    pub(crate) lora_rank: usize,

    /// Iterations between two times that games are played.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) validation_interval: u64,

    /// Games of the selection split that are played greedily along the way.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) games: usize,

    /// Fails unless the directory holds a run to continue. Without it the command starts a run or continues one.
    #[arg(long)]
    pub(crate) resume: bool,

    /// Writes events to standard output as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// Prints only errors, warnings and the result.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
