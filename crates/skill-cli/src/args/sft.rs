//! Arguments of the command that fine-tunes.

use super::ConfigArgs;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct SftArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,

    /// The demonstrations: a file of `skillrl collect`, or of another program. Each is played again in the environment,
    /// and what does not reach its goal is left out.
    #[arg(long, value_name = "FILE")]
    pub(crate) demos: Option<PathBuf>,

    /// The directory of the run; without it, `run.dir`. The trained model is in its folder policy.
    #[arg(long, visible_alias = "output", value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// The bank whose skills are in the prompts, as retrieval selects them for each task; without it `bank.initial`.
    #[arg(long, value_name = "BANK")]
    pub(crate) skill_bank: Option<PathBuf>,

    /// Examples at most.
    #[arg(long, value_name = "N", default_value_t = 7_500)]
    pub(crate) num_examples: usize,

    /// Passes over the examples.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) epochs: u32,

    /// Examples per step.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) batch_size: usize,

    /// The highest learning rate.
    #[arg(long, value_name = "RATE", default_value_t = 1e-4)]
    pub(crate) learning_rate: f64,

    /// The rank of the adapter that is trained; 0 trains all weights.
    #[arg(long, value_name = "RANK", default_value_t = 16)]
    pub(crate) lora_rank: usize,

    /// The longest example in tokens; longer ones lose their end.
    #[arg(long, value_name = "N", default_value_t = 4_096)]
    pub(crate) max_tokens: usize,

    /// Steps between two measurements of the validation part.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) validation_interval: u64,

    /// Steps between two checkpoints.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) checkpoint_interval: u64,

    /// Games of the selection split that are played with each measurement.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) games: usize,

    /// Fails if there is no run to continue. Without it the same command starts a run, or continues it.
    #[arg(long)]
    pub(crate) resume: bool,

    /// Measures one step and says what the run will take; nothing is written.
    #[arg(long)]
    pub(crate) estimate: bool,

    /// Writes events, and an estimate, to standard output as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// Prints only errors, warnings and the result.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
