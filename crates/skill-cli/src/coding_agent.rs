//! Coding agents by the names that people type.

use crate::error::CommandError;
use skill_agents::{Agent, agent, agents};

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
