//! The command line, as clap reads it.

pub(crate) mod bank;
mod data;
pub(crate) mod distill;
mod env;
mod eval;
mod first;
mod help;
pub(crate) mod journal;
mod look;
pub(crate) mod package;
mod prune;
mod rl;
mod sft;
pub(crate) mod skill;
mod start;
mod train;
mod train_server;
mod worker;

pub(crate) use data::{DataArgs, Price};
pub(crate) use distill::{CollectArgs, DistillArgs, SKILL_BANK, TRAJECTORIES};
pub(crate) use env::{EnvCheckArgs, EnvCommand, EnvExportArgs, EnvPlayArgs, EnvServeArgs, SPREADSHEETBENCH};
pub(crate) use eval::{EvalArgs, MeasurementArgs};
pub(crate) use first::{DoctorArgs, TryArgs};
pub(crate) use help::{HelpArgs, Shown, all_commands, grouped, renamed, subcommand};
pub(crate) use look::{
    BlameArgs, CheckArgs, CompareArgs, DiffArgs, FIRST_VERSION, InspectArgs, McpArgs, NEWEST, NoteArgs,
    ReportArgs, ServeArgs, ShowArgs, StatusArgs, StopArgs, WatchArgs,
};
pub(crate) use prune::PruneArgs;
pub(crate) use rl::RlArgs;
pub(crate) use sft::SftArgs;
pub(crate) use start::{MadeConfig, Start, StartArgs, StartOption, arranged};
pub(crate) use train::TrainArgs;
pub(crate) use train_server::TrainServerArgs;
pub(crate) use worker::WorkerArgs;

use bank::BankCommand;
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use journal::JournalCommand;
use package::{ExportArgs, ImportArgs, LintArgs};
use skill::SkillCommand;
use skillrl::config::EnvKind;
use skillrl::demo::DemoWorld;
use std::path::PathBuf;

/// Trains the skill document of an LLM agent.
#[derive(Debug, Parser)]
#[command(name = "skillrl", version, about, long_about = None, propagate_version = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Log what the program does; twice for more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    /// The form of messages on standard error: `text`, or `json` with one JSON object per event.
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text, hide_default_value = true, hide_possible_values = true)]
    pub(crate) log_format: LogFormat,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The form of what a command writes to standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per event.
    Json,
}

// `help` has the commands in groups: a command that is new here has its group there.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a skill, or resume a stopped run.
    #[command(
        after_help = "With --agent NAME, a folder with a SKILL.md is trained to be loaded when it should: see \
        `skillrl skill train --help`."
    )]
    Train(TrainArgs),
    /// Fine-tune a local model on demonstrations, with skills in its prompts.
    #[cfg_attr(not(feature = "weights"), command(hide = true))]
    Sft(SftArgs),
    /// Train a local policy on its own episodes by GRPO.
    #[cfg_attr(not(feature = "weights"), command(hide = true))]
    Rl(RlArgs),
    /// Train weights for other machines, over the Tinker API.
    #[command(hide = true)]
    TrainServer(TrainServerArgs),
    /// Measure a skill on one split, without training, or the skills of a run under other models.
    #[command(
        after_help = "With --agent NAME, a folder with a SKILL.md is measured against no skill and its previous version: \
        see `skillrl skill eval --help`."
    )]
    Eval(EvalArgs),
    /// Write episodes of an environment to a file: `skillrl bank collect`.
    #[command(hide = true)]
    Collect(CollectArgs),
    /// Have a teacher turn episodes into a bank of skills: `skillrl bank distill`.
    #[command(hide = true)]
    Distill(DistillArgs),
    /// Check that a configuration or data are ready for a run: files, splits, labels, keys, models, cost.
    Doctor(DoctorArgs),
    /// Run one item with the real models and show everything: prompts, replies, answer, score, tokens, cost.
    Try(TryArgs),
    /// Estimate calls, tokens and cost of a run by stage: `skillrl train --dry-run`.
    #[command(hide = true)]
    Estimate(EstimateArgs),
    /// Write a configuration file, by a few questions on a terminal, or the demo's files.
    Init(InitArgs),
    /// Train on a bundled task with simulated models: no network, no key.
    Demo(DemoArgs),
    /// Show or document the configuration, or write the built-in prompts.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Inspect the journal of a run: every call with its messages, reply and attempts.
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Repeat a run from its recorded calls, offline, to verify it or to try other settings.
    Replay(ReplayArgs),
    /// Write the report of a run as one self-contained HTML page.
    Report(ReportArgs),
    /// Show runs in a browser, live: progress, reports, cost, metrics, and a way to stop.
    Serve(ServeArgs),
    /// Serve MCP over standard input and output: agents estimate, start, follow and read runs.
    #[cfg_attr(not(feature = "mcp"), command(hide = true))]
    Mcp(McpArgs),
    /// Make rollouts of runs on other machines, through a broker.
    #[cfg_attr(not(feature = "nats"), command(hide = true))]
    Worker(WorkerArgs),
    /// Give feedback to the optimizer: on a task, a step or an edit; pin or forbid an edit.
    ///
    /// The next step reads it.
    Note(NoteArgs),
    /// Stop a run after the current step; the command that started it resumes it.
    Stop(StopArgs),
    /// Show the origin of each line of a skill: step, edit, trajectories, items.
    Blame(BlameArgs),
    /// Show the state of a run, or of every run of a directory: stage, scores, spend.
    Status(StatusArgs),
    /// Check that every file of a run is as the run wrote it, and how to restore damaged ones.
    Check(CheckArgs),
    /// Follow a run on the whole terminal.
    Watch(WatchArgs),
    /// Show the results of a run or of one step, or what a skill, a bank or a journal is.
    Show(ShowArgs),
    /// Show what changed between two skills of a run.
    Diff(DiffArgs),
    /// Compare runs: two item by item, more in a table with means over seeds, intervals, cost and time.
    Compare(CompareArgs),
    /// Identify and summarize a skill, a bank, a run or a journal: `skillrl show`.
    #[command(hide = true)]
    Inspect(InspectArgs),
    /// Tasks of an environment: check, play, export or serve them, without calling models.
    #[command(subcommand)]
    Env(EnvCommand),
    /// Write a skill as a package to give away: a folder in the form of the Agent Skills specification.
    #[command(
        after_help = "With --plugin, a folder of skills becomes a plugin of coding agents: see `skillrl skill \
        plugin --help`."
    )]
    Export(ExportArgs),
    /// Import from SkillOpt, krill, skillrl 1.0 or GEPA, and list what has no counterpart.
    Import(ImportArgs),
    /// Check a skill: specification, size, copied training answers, secrets, hidden orders.
    Lint(LintArgs),
    /// Remove rules from a skill one by one, as long as the selection score does not drop.
    Prune(PruneArgs),
    /// Skills in coding agents: what they see, when they load one, and a description that makes them.
    #[command(subcommand)]
    Skill(SkillCommand),
    /// Make, show and edit skill banks: collect, distill, pin, retire, import, export.
    #[command(subcommand)]
    Bank(BankCommand),
    /// Show the help of a command, or with `all` every command.
    #[command(hide = true)]
    Help(HelpArgs),
    /// Write shell completions to standard output.
    #[command(hide = true)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write a man page for every command into a directory.
    #[command(hide = true)]
    Man {
        /// The directory.
        dir: PathBuf,
    },
    /// Write the pages of the documentation that are made from the program into a directory.
    #[command(hide = true)]
    Reference {
        /// The directory.
        dir: PathBuf,
    },
}

impl Command {
    /// Whether this process calls models, and not another one that it starts.
    pub(crate) fn calls_models(&self) -> bool {
        match self {
            Self::Skill(skill) => skill.calls_models(),
            Self::Train(_)
            | Self::Rl(_)
            | Self::Sft(_)
            | Self::Eval(_)
            | Self::Collect(_)
            | Self::Distill(_)
            | Self::Doctor(_)
            | Self::Try(_)
            | Self::Demo(_)
            | Self::Replay(_)
            | Self::Worker(_)
            | Self::Prune(_) => true,
            Self::Bank(command) => matches!(command, BankCommand::Collect(_) | BankCommand::Distill(_)),
            Self::Estimate(_)
            | Self::Init(_)
            | Self::Config(_)
            | Self::Journal(_)
            | Self::Report(_)
            | Self::Serve(_)
            | Self::TrainServer(_)
            | Self::Mcp(_)
            | Self::Note(_)
            | Self::Stop(_)
            | Self::Blame(_)
            | Self::Status(_)
            | Self::Check(_)
            | Self::Watch(_)
            | Self::Show(_)
            | Self::Diff(_)
            | Self::Compare(_)
            | Self::Inspect(_)
            | Self::Env(_)
            | Self::Export(_)
            | Self::Import(_)
            | Self::Lint(_)
            | Self::Help(_)
            | Self::Completions { .. }
            | Self::Man { .. }
            | Self::Reference { .. } => false,
        }
    }
}

/// A text as one word of a POSIX shell.
pub(crate) fn as_word(text: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "_-./=:,@%+".contains(sign);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[derive(Debug, Args)]
pub(crate) struct EstimateArgs {
    #[command(flatten)]
    pub(crate) config: StartArgs,

    #[command(flatten)]
    pub(crate) data: DataArgs,

    /// Write one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The directory of a run, finished or not; without it, the newest.
    #[arg(value_name = "RUN", default_value = NEWEST, hide_default_value = true)]
    pub(crate) run: PathBuf,

    /// The directory of the replay; without it, RUN-replay beside the run.
    #[arg(long, alias = "into", value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Change one setting, such as `gate.metric=soft`; may be given more than once.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,

    /// The configuration file that the run was started with; without it, the run's own copy.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Ask the real models where the recording has no answer; without it nothing is ever sent.
    #[arg(long)]
    pub(crate) live: bool,

    /// Print only errors, warnings and the result.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where to write the configuration file.
    #[arg(default_value = "skillrl.toml")]
    pub(crate) path: PathBuf,

    /// Write the demo's task, configuration and skill into this directory instead.
    #[arg(long, value_name = "DIR", conflicts_with = "path")]
    pub(crate) demo: Option<PathBuf>,

    /// Write every setting, with its default and its meaning, instead of those alone that have no default.
    #[arg(long, conflicts_with = "demo")]
    pub(crate) full: bool,

    /// What the demo is played on.
    #[arg(long, value_name = "WORLD", default_value = "notes", value_parser = demo_worlds(), requires = "demo")]
    world: String,

    /// Kind of tasks: `qa`, `tasks` (your data), `exec` (your program), or a built-in world.
    ///
    /// Without it a person on a terminal is asked, and elsewhere it is `qa`.
    #[arg(
        long,
        value_name = "KIND",
        value_parser = EnvKind::ALL.map(EnvKind::as_str),
        conflicts_with = "demo"
    )]
    pub(crate) kind: Option<String>,

    /// Write a configuration whose models run on this machine: a GGUF file, or a folder with safetensors.
    #[arg(long, value_name = "MODEL", conflicts_with = "demo", hide = cfg!(not(feature = "weights")))]
    pub(crate) local: Option<PathBuf>,

    /// Replace files that are there.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Directory of the demo; without it `demo`, or `demo-2` and so on if that exists.
    #[arg(long = "out", alias = "dir", value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// What it is played on.
    ///
    /// With `--bank` a household, else notes.
    #[arg(long, value_name = "WORLD", value_parser = demo_worlds())]
    world: Option<String>,

    /// Train a bank of skills instead of one skill; on `alfworld` alone.
    #[arg(long)]
    pub(crate) bank: bool,

    /// Change one setting of the demo, such as `train.slow_update=gated`; may be given more than once.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
}

fn demo_worlds() -> PossibleValuesParser {
    PossibleValuesParser::new(DemoWorld::ALL.map(DemoWorld::as_str))
}

impl InitArgs {
    /// What the demo is played on.
    pub(crate) fn world(&self) -> DemoWorld {
        DemoWorld::parse(&self.world).unwrap_or_default()
    }
}

impl DemoArgs {
    /// What the demo is played on.
    pub(crate) fn world(&self) -> DemoWorld {
        let named = self.world.as_deref().and_then(DemoWorld::parse);
        named.unwrap_or(if self.bank { DemoWorld::Alfworld } else { DemoWorld::Notes })
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every setting with its value and where the value comes from.
    Show(StartArgs),
    /// Print the JSON schema of the configuration, for editors.
    Schema,
    /// Write the built-in prompts into a directory, to be changed and named as `prompts.dir`.
    Prompts {
        /// The directory.
        dir: PathBuf,
        /// Replace files that are there.
        #[arg(long)]
        force: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_shown_as_words_of_a_shell() {
        assert_eq!(as_word(""), "''");
    }
}
