//! The commands that come before a run.

use super::{DataArgs, StartArgs};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) config: StartArgs,

    #[command(flatten)]
    pub(crate) data: DataArgs,

    /// The skill to start from: a Markdown file, or a folder with a SKILL.md (`skill.initial`).
    #[arg(long, value_name = "PATH")]
    pub(crate) skill: Option<PathBuf>,

    /// Send nothing and start no program: look at the configuration, the data and the keys alone.
    #[arg(long)]
    pub(crate) offline: bool,

    /// Gain on the validation split to detect, 0 to 1; by default 0.05.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) effect: Option<f64>,

    /// Flip rate, 0 to 1: the share of items whose outcome changes between measurements.
    ///
    /// By default what the run has measured, else 0.1.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) flip_rate: Option<f64>,

    /// Measure the initial skill twice, with real calls: flip rate, minimum detectable gain.
    #[arg(long, conflicts_with = "offline")]
    pub(crate) measure: bool,

    /// With `--measure`: estimates calls and cost without sending anything.
    #[arg(long, alias = "estimate", requires = "measure")]
    pub(crate) dry_run: bool,

    /// With `--measure`: agree to the cost, and to send data to a new address.
    #[arg(short, long, requires = "measure")]
    pub(crate) yes: bool,

    /// With `--measure`: prints only errors, warnings and the result.
    #[arg(short, long, requires = "measure")]
    pub(crate) quiet: bool,

    /// Request timeout in seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = skillrl::doctor::DEFAULT_TIMEOUT.as_secs(),
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    pub(crate) timeout: u64,

    /// Write one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TryArgs {
    /// The item to run, from any split.
    pub(crate) item: String,

    #[command(flatten)]
    pub(crate) config: StartArgs,

    /// The skill to run it with; without it, the best skill of the run, else the initial one.
    #[arg(long, value_name = "FILE")]
    pub(crate) skill: Option<PathBuf>,

    /// Ask the models again, and keep nothing in the journal of the run.
    #[arg(long)]
    pub(crate) fresh: bool,

    /// Send the item without asking.
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Write one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        Ok(_) | Err(_) => Err("it is a number from 0 to 1".to_owned()),
    }
}
