//! Arguments of the command that fine-tunes.

use super::StartArgs;
#[cfg(feature = "weights")]
use super::start::{Start, setting};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct SftArgs {
    #[command(flatten)]
    pub(crate) config: StartArgs,

    /// The demonstrations: a file of `skillrl collect`, or of another program.
    ///
    /// Each is played again in the environment, and what does not reach its goal is left out. Without it
    /// the expert of the world plays the training split.
    #[arg(long, value_name = "FILE")]
    pub(crate) demos: Option<PathBuf>,

    /// Model to start from instead of the target: a folder `policy`, or any model's folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) policy: Option<PathBuf>,

    /// The directory of the run; without it `run.dir`, or data/sft where no skillrl.toml is read.
    ///
    /// The trained model is in its folder policy.
    #[arg(long, alias = "output", value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// The bank whose skills are in the prompts, as retrieval selects them for each task.
    ///
    /// Without it `bank.initial`, or data/skill_bank.json where no skillrl.toml is read.
    #[arg(long = "bank", alias = "skill-bank", value_name = "BANK")]
    pub(crate) skill_bank: Option<PathBuf>,

    /// Examples at most: `sft.examples`.
    #[arg(long, value_name = "N")]
    num_examples: Option<u32>,

    /// Passes over the examples: `sft.epochs`.
    #[arg(long, value_name = "N")]
    epochs: Option<u32>,

    /// Examples per step: `sft.batch_size`.
    #[arg(long, value_name = "N")]
    batch_size: Option<u32>,

    /// The highest learning rate: `sft.learning_rate`.
    #[arg(long, value_name = "RATE")]
    learning_rate: Option<f64>,

    /// The rank of the adapter that is trained; 0 trains all weights: `sft.lora_rank`.
    #[arg(long, value_name = "RANK")]
    lora_rank: Option<u32>,

    /// The scale of the adapter times its rank: `sft.lora_alpha`.
    #[arg(long, value_name = "ALPHA")]
    lora_alpha: Option<f64>,

    /// Maximum sequence length; longer examples are truncated: `sft.max_tokens`.
    #[arg(long, value_name = "N")]
    max_tokens: Option<u32>,

    /// Steps between two measurements of the validation part: `sft.validation_interval`.
    #[arg(long, value_name = "N")]
    validation_interval: Option<u32>,

    /// Steps between two checkpoints: `sft.checkpoint_interval`.
    #[arg(long, value_name = "N")]
    checkpoint_interval: Option<u32>,

    /// Validation episodes of each evaluation: `sft.games`.
    #[arg(long, value_name = "N")]
    games: Option<u32>,

    /// Fail unless the directory holds a run to continue.
    ///
    /// Without it the command starts a run or continues one.
    #[arg(long)]
    pub(crate) resume: bool,

    /// Measure one step and say what the run will take; nothing is written.
    #[arg(long = "dry-run", alias = "estimate")]
    pub(crate) estimate: bool,

    /// Write events, and an estimate, to standard output as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only errors, warnings and the result.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl SftArgs {
    /// What the command starts from, with the options as settings of `[sft]`.
    #[cfg(feature = "weights")]
    pub(crate) fn start(&self) -> Start {
        self.config.start_with([
            setting("sft.examples", self.num_examples),
            setting("sft.epochs", self.epochs),
            setting("sft.batch_size", self.batch_size),
            setting("sft.lora_rank", self.lora_rank),
            setting("sft.max_tokens", self.max_tokens),
            setting("sft.validation_interval", self.validation_interval),
            setting("sft.checkpoint_interval", self.checkpoint_interval),
            setting("sft.games", self.games),
            setting("sft.learning_rate", self.learning_rate),
            setting("sft.lora_alpha", self.lora_alpha),
        ])
    }
}
