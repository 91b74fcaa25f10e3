//! Arguments of `skillrl env`.

use super::look::listen_address;
use super::{DataArgs, StartArgs};
use clap::{Args, Subcommand};
use skillrl::envs::tasks::Preset;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum EnvCommand {
    /// Run an item with a scripted answer: show prompt, extracted answer, score and reason; nothing is sent.
    Check(Box<EnvCheckArgs>),
    /// Play a world by hand: actions on standard input, what is seen on standard output.
    Play(EnvPlayArgs),
    /// Write the tasks as prompts for other trainers, with the skills that each task is shown.
    Export(EnvExportArgs),
    /// Serve an environment to other trainers, over OpenEnv's protocol, with skills from a bank.
    #[cfg_attr(not(feature = "openenv"), command(hide = true))]
    Serve(EnvServeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EnvServeArgs {
    /// The configuration file; the name of a built-in environment serves it as it is.
    #[command(flatten)]
    pub(crate) config: StartArgs,

    /// Where to listen; port 0 takes a free one. Elsewhere than on loopback a token is needed.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8001", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,

    /// Environment variable with the access token.
    ///
    /// Without it, a random one if other machines can connect, and none on loopback.
    #[arg(long, value_name = "NAME")]
    pub(crate) token_env: Option<String>,

    /// The bank whose skills episodes are shown, and which their results decide about.
    #[arg(long, value_name = "BANK")]
    pub(crate) bank: Option<PathBuf>,

    /// The most sessions at once, each a WebSocket with its own episode.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub(crate) max_sessions: usize,

    /// The most bytes of a message.
    #[arg(long, value_name = "N", default_value_t = 1_048_576)]
    pub(crate) max_message_bytes: usize,

    /// The most messages of a session in a second; who sends faster waits.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) max_rate: u32,

    /// After so many seconds without a message a session ends.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub(crate) idle_s: u64,
}

#[derive(Debug, Args)]
pub(crate) struct EnvExportArgs {
    #[command(flatten)]
    pub(crate) config: StartArgs,

    /// The trainer: trl (GRPOTrainer, JSON lines) or verl (Parquet; needs a build with the feature parquet).
    #[arg(long, value_name = "TRAINER", default_value = "trl", value_parser = ["trl", "verl"])]
    pub(crate) format: String,

    /// The split: train, val or test.
    #[arg(long, value_name = "SPLIT", default_value = "train")]
    pub(crate) split: String,

    /// The bank whose skills the prompts hold; without it `bank.initial`, else the initial skill.
    #[arg(long, value_name = "BANK")]
    pub(crate) bank: Option<PathBuf>,

    /// The file to write.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,

    /// Replace a file that is there.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EnvPlayArgs {
    /// The configuration file; the name of a built-in environment plays it as it is.
    #[command(flatten)]
    pub(crate) config: StartArgs,

    /// The item to play; without it the first one.
    #[arg(long, value_name = "ID", conflicts_with_all = ["game", "goal"])]
    pub(crate) item: Option<String>,

    /// A game of ALFWorld: a game file, a problem file, or a directory of the data set.
    #[arg(long, value_name = "FILE", conflicts_with = "goal")]
    pub(crate) game: Option<PathBuf>,

    /// A goal of WebShop by its place, from 0.
    #[arg(long, value_name = "N")]
    pub(crate) goal: Option<usize>,

    /// Write one JSON object per turn: observation, admissible, reward, done, won.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EnvCheckArgs {
    #[command(flatten)]
    pub(crate) config: StartArgs,

    /// A benchmark, instead of a configuration file: its files are read from `--data`.
    #[arg(long, value_name = "PRESET", requires = "preset_data", conflicts_with_all = ["config_file", "env"], value_parser = presets())]
    pub(crate) preset: Option<String>,

    /// The benchmark's files.
    #[arg(long = "data", value_name = "PATH", requires = "preset")]
    pub(crate) preset_data: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) data: DataArgs,

    /// The item to try; without it the first one of the training split.
    #[arg(long, value_name = "ID")]
    pub(crate) item: Option<String>,

    /// Model output to score; default: the reference, then a wrong answer.
    ///
    /// With a configuration `--answer` says the same.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reply: Option<String>,

    /// Write one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The preset that is a kind of environment of its own.
pub(crate) const SPREADSHEETBENCH: &str = "spreadsheetbench";

/// The names of all benchmarks.
fn presets() -> Vec<&'static str> {
    Preset::ALL.into_iter().map(Preset::as_str).chain([SPREADSHEETBENCH]).collect()
}
