//! The command line of `skillrl prune`.

use super::StartArgs;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    pub(crate) config: StartArgs,

    /// The skill to prune; without it, the best skill of the run, else the initial one.
    ///
    /// A Markdown file, or a folder with a SKILL.md.
    #[arg(long, value_name = "PATH")]
    pub(crate) skill: Option<PathBuf>,

    /// How much lower the score may be than that of the skill, such as 0.02.
    #[arg(long, value_name = "DIFFERENCE", default_value_t = 0.0)]
    pub(crate) margin: f64,

    /// Where the skill that is left and the record are written; without it, `pruned` in the run's directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// List the rules in the order of their trials, and the maximum cost; send nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Write the record to standard output as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only errors, warnings and the result.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
