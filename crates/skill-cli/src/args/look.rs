//! The commands that look at a run and change nothing.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct BlameArgs {
    /// The directory of a run, finished or not, or a skill file: one that stands in a run, or any with --run.
    #[arg(value_name = "RUN|SKILL")]
    pub(crate) path: PathBuf,

    /// The run that the skill file comes from.
    #[arg(long, value_name = "DIR")]
    pub(crate) run: Option<PathBuf>,

    /// The skill after this step instead of the best one; 0 is the initial skill.
    #[arg(long, value_name = "N", conflicts_with = "run")]
    pub(crate) step: Option<u32>,

    /// Shows the argument of each analyst, and every item that was won or lost.
    #[arg(long)]
    pub(crate) full: bool,

    /// Prints one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The directory of a run, finished or in progress.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,

    /// The file to write; without it, report.html in the run's directory.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Prints what the report says as one JSON object, and writes no page.
    #[arg(long, conflicts_with = "output")]
    pub(crate) json: bool,
}
