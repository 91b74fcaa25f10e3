//! Arguments of the commands about skills in coding agents.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum SkillCommand {
    /// Shows which skills a recorded run of a coding agent was offered and loaded.
    Loads(LoadsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct LoadsArgs {
    /// What the agent printed: one file for each run of a session, in order. Without any, the sessions in --home.
    #[arg(value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,

    /// The agent, such as claude-code or codex; an unknown name lists all.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: String,

    /// The home directory of the run, whose session files show what streams hide: sub-agents, skills called by people,
    /// the listing. It is only read.
    #[arg(long, value_name = "DIR", required_unless_present = "runs")]
    pub(crate) home: Option<PathBuf>,

    /// A skill that gets an outcome whether or not it occurs; may be given more than once.
    #[arg(long = "skill", value_name = "NAME")]
    pub(crate) skills: Vec<String>,

    /// Writes one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
