//! The command line of `skillrl journal`.

use super::NEWEST;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// How many calls `list` shows by default.
const LISTED: &str = "50";

#[derive(Debug, Subcommand)]
pub(crate) enum JournalCommand {
    /// List calls, the last ones, each in a line.
    List(JournalListArgs),
    /// Show one call: request, reply and every attempt.
    Show(JournalShowArgs),
    /// Write calls with everything as JSON Lines; without a filter the finished rollouts too.
    Export(JournalExportArgs),
    /// Take calls, and the rollouts made of them, out of the journal.
    Prune(JournalPruneArgs),
    /// Totals: calls, requests, tokens, waits, by stage and by model.
    Stats(JournalStatsArgs),
}

impl JournalCommand {
    /// The run that it is about.
    pub(crate) fn run_mut(&mut self) -> &mut PathBuf {
        match self {
            Self::List(args) => &mut args.run.run,
            Self::Show(args) => &mut args.run,
            Self::Export(args) => &mut args.run.run,
            Self::Prune(args) => &mut args.run.run,
            Self::Stats(args) => &mut args.run.run,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArg {
    /// The directory of a run, or a journal file; without it, the newest run.
    #[arg(value_name = "RUN", default_value = NEWEST, hide_default_value = true)]
    pub(crate) run: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Calls at this place or inside it, or of a stage: `step 3`, `step 3 / reflect`, `rollout`.
    #[arg(long)]
    pub(crate) place: Option<String>,

    /// Calls of the model of this name.
    #[arg(long)]
    pub(crate) model: Option<String>,

    /// Calls with this outcome: `reply`, `failed`, or one class of failure such as `timeout`.
    #[arg(long)]
    pub(crate) outcome: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct JournalListArgs {
    #[command(flatten)]
    pub(crate) run: RunArg,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,

    /// The most calls that are listed, from the last one back.
    #[arg(long, value_name = "N", default_value = LISTED)]
    pub(crate) last: u32,

    /// Write one JSON object per call.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct JournalShowArgs {
    /// The directory of a run, or a journal file.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,

    /// The number of the call, as `list` has it.
    #[arg(value_name = "ID")]
    pub(crate) id: i64,

    /// Write one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct JournalExportArgs {
    #[command(flatten)]
    pub(crate) run: RunArg,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,

    /// Write to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Replace the file if it is there.
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct JournalPruneArgs {
    #[command(flatten)]
    pub(crate) run: RunArg,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,

    /// Take everything out.
    #[arg(long, conflicts_with_all = ["place", "model", "outcome"])]
    pub(crate) all: bool,

    /// Show how much would be removed, without changing anything.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct JournalStatsArgs {
    #[command(flatten)]
    pub(crate) run: RunArg,

    /// Write one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
