//! Arguments of the commands about skill banks.

use super::distill::{AdmitChoice, CollectArgs, DistillArgs};
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum BankCommand {
    /// Write episodes of an environment to a file, for `skillrl bank distill` and other programs.
    Collect(CollectArgs),
    /// Have a teacher turn episodes into a bank of skills.
    Distill(DistillArgs),
    /// List the skills of a bank by tier, or show everything that is known about one.
    Show(BankShowArgs),
    /// List what happened to a bank, event by event.
    Log(BankLogArgs),
    /// Show what changed between two banks, or between two versions of a skill.
    Diff(BankDiffArgs),
    /// Show the origin of each skill: source, round, tasks and trajectories, teacher, parents.
    Blame(BankBlameArgs),
    /// Keep skills as they are: no run retires or revises them from then on.
    Pin(BankSkillsArgs),
    /// Let runs change pinned skills again.
    Unpin(BankSkillsArgs),
    /// Take skills out of use; agents are no longer shown them, and they can be restored.
    Retire(BankSkillsArgs),
    /// Put retired skills back into use, under their ids.
    Restore(BankSkillsArgs),
    /// Make a bank of a file of the SkillRL paper or of krill; nothing is measured by it.
    Import(BankImportArgs),
    /// Write the active skills of a bank for another program.
    Export(BankExportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BankArg {
    /// A bank: its directory, or a file of the SkillRL paper or of krill.
    #[arg(value_name = "BANK")]
    pub(crate) bank: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct BankShowArgs {
    #[command(flatten)]
    pub(crate) bank: BankArg,

    /// A skill, of which everything is shown: texts, versions, evidence, parents, measurements, events.
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,

    /// Show what a task with this goal would be shown, and why; nothing is sent.
    #[arg(long, value_name = "TEXT", conflicts_with = "id")]
    pub(crate) goal: Option<String>,

    /// The type of the task, as its environment names it; without it the words of the goal decide.
    #[arg(long, value_name = "TYPE", requires = "goal")]
    pub(crate) task_type: Option<String>,

    /// Show what this item of the configuration's tasks would be shown, and why; nothing is sent.
    #[arg(long, value_name = "ID", requires = "config", conflicts_with_all = ["id", "goal"])]
    pub(crate) item: Option<String>,

    /// The configuration that the item is of.
    #[arg(long, value_name = "FILE", requires = "item")]
    pub(crate) config: Option<PathBuf>,

    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BankLogArgs {
    #[command(flatten)]
    pub(crate) bank: BankArg,

    /// Print the events as they are in the log, one JSON object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BankDiffArgs {
    /// The earlier bank, or the one that both versions are in.
    #[arg(value_name = "BANK")]
    pub(crate) bank: PathBuf,

    /// The later bank, or the first of two versions of a skill, such as `gen_003@1`.
    #[arg(value_name = "OTHER|VERSION")]
    pub(crate) other: String,

    /// The second version, such as `gen_003@2`.
    #[arg(value_name = "VERSION")]
    pub(crate) to: Option<String>,

    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BankBlameArgs {
    #[command(flatten)]
    pub(crate) bank: BankArg,

    /// A skill, of which every version, task and trajectory is named.
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,

    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BankSkillsArgs {
    /// The directory of a bank.
    #[arg(value_name = "BANK")]
    pub(crate) bank: PathBuf,

    /// The skills; all or none of them are changed.
    ///
    /// `retire` and `restore` take versions too, such as `gen_003@1`.
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BankImportArgs {
    /// A bank of the SkillRL paper or of krill, as JSON.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The directory to make; it must not exist, or must be empty.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,

    /// How the skills enter the bank.
    ///
    /// A run that starts from candidates tries them; active skills it takes as they are.
    #[arg(long, value_enum, default_value = "unmeasured")]
    pub(crate) admit: AdmitChoice,

    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BankExportArgs {
    #[command(flatten)]
    pub(crate) bank: BankArg,

    /// `skillrl` and `krill` write one JSON file; `agent-skills` writes a folder for each skill.
    #[arg(long, value_name = "FORMAT", value_parser = ["skillrl", "krill", "agent-skills"])]
    pub(crate) format: String,

    /// The file or the folder to write; it must not exist yet.
    #[arg(long, value_name = "PATH")]
    pub(crate) out: PathBuf,

    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
