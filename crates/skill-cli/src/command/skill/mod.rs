//! `skillrl skill`: skills where people use them.

mod check;
mod ended;
mod loads;
mod optimizer;
mod plugin;
mod session;
mod train;
mod triggers;
mod wait;

use super::CommandError;
use crate::args::skill::SkillCommand;
use skill_agents::{Agent, agent, agents};

pub(crate) fn run(command: &SkillCommand) -> crate::Result {
    match command {
        SkillCommand::Check(args) => check::run(args),
        SkillCommand::Triggers(args) => triggers::run(args),
        SkillCommand::Plugin(args) => plugin::run(args),
        SkillCommand::Train(args) => train::run(args),
        SkillCommand::Eval(args) => super::eval::cases::run(args),
        SkillCommand::Loads(args) => loads::run(args),
    }
}

/// The agent of a name.
pub(super) fn named(name: &str) -> crate::Result<&'static Agent> {
    if let Some(agent) = agent(name)? {
        return Ok(agent);
    }
    let names: Vec<&str> = agents()?.iter().map(|agent| agent.name.as_str()).collect();
    Err(CommandError::new(format!("{name:?} is not a known coding agent"))
        .with_hint(format!("known agents: {}", names.join(", ")))
        .into())
}
