//! Commands that make banks.

use super::{StartArgs, StartOption};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Where episodes are, if nothing names another place.
pub(crate) const TRAJECTORIES: &str = "data/trajectories.json";
/// The same for a bank of skills.
pub(crate) const SKILL_BANK: &str = "data/skill_bank.json";

#[derive(Debug, Args)]
pub(crate) struct CollectArgs {
    #[command(flatten)]
    pub(crate) config: StartArgs,

    /// The file to write: one episode per line, as JSON; a name that ends in `.json` gets krill's list.
    ///
    /// The calls are kept beside it, and the same command resumes after it was stopped.
    #[arg(long, alias = "output", value_name = "FILE", default_value = TRAJECTORIES)]
    pub(crate) out: PathBuf,

    /// How many episodes; each task is tried once before any is repeated.
    ///
    /// Without it, one for each task of the configuration, and 64 where no configuration file is read.
    #[arg(long, value_name = "N")]
    pub(crate) episodes: Option<usize>,

    /// The split whose tasks are tried: train, val or test.
    #[arg(long, default_value = "train")]
    pub(crate) split: String,

    /// Collect demonstrations with the scripted expert policy, without a model.
    ///
    /// It is shown the prompts that an agent would be shown, and answers in their form; each episode names
    /// it.
    #[arg(long)]
    pub(crate) expert: bool,

    /// The skill that the agent is shown; without it, the best skill of the run, else the initial one.
    #[arg(long, value_name = "PATH")]
    pub(crate) skill: Option<PathBuf>,

    /// Replace a file that is there and was made by another command.
    #[arg(long)]
    pub(crate) force: bool,

    /// Write what was collected to standard output as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only errors, warnings and the result.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// How skills enter a new bank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AdmitChoice {
    /// As candidates, which trials admit.
    Measured,
    /// At once, as in the SkillRL paper.
    Unmeasured,
}

#[derive(Debug, Args)]
pub(crate) struct DistillArgs {
    /// Episodes: a file of `skillrl collect`, SkillRL, ETO or krill, or a run directory.
    ///
    /// Of a run the rollouts of training tasks are read. Without it data/trajectories.json.
    pub(crate) file: Option<PathBuf>,

    /// The same, under the name that other programs have for it.
    #[arg(long, value_name = "FILE", conflicts_with = "file", hide = true)]
    pub(crate) trajectories: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) config: StartOption,

    /// Where to write the bank: a directory, or a `.json` file in the SkillRL paper's format.
    #[arg(long, alias = "output", value_name = "PATH", default_value = SKILL_BANK)]
    pub(crate) out: PathBuf,

    /// Read at most so many episodes, from the beginning.
    #[arg(long, value_name = "N")]
    pub(crate) max: Option<usize>,

    /// How the skills enter the bank.
    ///
    /// By default they are candidates in a directory, and active in a file, which has no place for
    /// candidates.
    #[arg(long, value_enum)]
    pub(crate) admit: Option<AdmitChoice>,

    /// Replace a bank that is there and was made by another command.
    #[arg(long)]
    pub(crate) force: bool,

    /// Write what came out to standard output as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only errors, warnings and the result.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl DistillArgs {
    /// Whether skills are active at once.
    pub(crate) fn admit_unmeasured(&self) -> bool {
        let is_file = self.out.extension().is_some_and(|extension| extension == "json");
        self.admit.map_or(is_file, |admit| admit == AdmitChoice::Unmeasured)
    }
}
