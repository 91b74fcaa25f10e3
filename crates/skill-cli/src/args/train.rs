//! The arguments of `skillrl train`: a configuration, a run, or a data file in its place.

use super::start::setting;
use super::{DataArgs, StartArgs};
use clap::Args;
use skillrl::pipeline::run_dir::is_run;
use std::path::PathBuf;

#[derive(Debug, Default, Args)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) config: StartArgs,

    /// Write events to standard output, one JSON object per line.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only errors, warnings and the result.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Take over finished phases of this run, where their settings are the same; for `train.mode` "weights".
    #[arg(long, value_name = "RUN")]
    pub(crate) reuse: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) data: DataArgs,

    /// Skill to start from: a Markdown file, a folder, or the best of a run (`skill.initial`).
    #[arg(long, value_name = "PATH")]
    pub(crate) skill: Option<PathBuf>,

    /// The directory of the run (`run.dir`).
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// With `--env search-agent`: questions, such as a file of HotpotQA (`env.questions`).
    #[arg(long, alias = "data", value_name = "PATH", requires = "env")]
    pub(crate) questions: Option<PathBuf>,

    /// With `--env search-agent`: passages to search, JSON Lines or a folder of texts (`env.corpus`).
    #[arg(long, value_name = "PATH", requires = "env")]
    pub(crate) corpus: Option<PathBuf>,

    /// Passes over the training items (`train.epochs`).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) epochs: Option<u32>,

    /// Concurrent tasks (`run.workers`).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) workers: Option<u32>,

    /// Train one run for each of these values; may be given for several keys.
    ///
    /// Each has its own directory in `run.dir`, and caps hold for all runs together, in equal shares.
    #[arg(long, value_name = "KEY=A,B")]
    pub(crate) grid: Vec<String>,

    /// Train each run with this many seeds, from `run.seed` on.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seeds: Option<u32>,

    /// Send nothing: show inferred settings, one prompt, the checks of `doctor`, and the cost.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Skip the cost and start confirmations.
    ///
    /// Sensitive columns still need `--input`.
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Wait for the agent account's usage limit to reset: `retry.wait_for_account`.
    #[arg(long)]
    pub(crate) wait: bool,

    /// Resume a run whose journal is missing, truncated or old; lost calls are paid again.
    ///
    /// Caps do not count the calls that it has lost. Not for banks.
    #[arg(long)]
    pub(crate) new_journal: bool,
}

impl TrainArgs {
    /// True if more than one run is asked for.
    pub(crate) fn is_grid(&self) -> bool {
        !self.grid.is_empty() || self.seeds.is_some()
    }

    /// Settings that have an option of their own, before those that are set by key.
    pub(crate) fn settings(&self) -> Vec<String> {
        let best = |path: &PathBuf| if is_run(path) { path.join("best_skill.md") } else { path.clone() };
        let skill = self.skill.as_ref().map(|path| format!("skill.initial={}", best(path).display()));
        let out = self.out.as_ref().map(|path| format!("run.dir={}", path.display()));
        let of_env = |key: &str, path: &Option<PathBuf>| {
            path.as_ref().map(|path| format!("env.{key}={}", path.display()))
        };
        let (questions, corpus) = (of_env("questions", &self.questions), of_env("corpus", &self.corpus));
        let (epochs, workers) = (setting("train.epochs", self.epochs), setting("run.workers", self.workers));
        let wait = self.wait.then(|| "retry.wait_for_account=true".to_owned());
        [wait, skill, out, questions, corpus, epochs, workers].into_iter().flatten().collect()
    }
}
