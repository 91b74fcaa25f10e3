//! Coding agents by the names that people type.

use crate::error::CommandError;
use skill_agents::{Agent, agent, agents};
use std::path::Path;

/// The agent of a name.
pub(crate) fn named(name: &str) -> crate::Result<&'static Agent> {
    if let Some(agent) = agent(name)? {
        return Ok(agent);
    }
    let names: Vec<&str> = agents()?.iter().map(|agent| agent.name.as_str()).collect();
    Err(CommandError::new(format!("{name:?} is not a known coding agent"))
        .with_hint(format!("known agents: {}", names.join(", ")))
        .into())
}

/// A program with a folder in its name is meant from here, and runs elsewhere.
pub(crate) fn located(program: &str) -> String {
    let path = Path::new(program);
    match path.components().count() > 1 {
        true => {
            std::path::absolute(path).map_or_else(|_| program.to_owned(), |path| path.display().to_string())
        }
        false => program.to_owned(),
    }
}
