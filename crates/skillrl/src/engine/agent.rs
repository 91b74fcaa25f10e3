//! From the configuration of a model to the program that plays it.

use super::served::effort;
use crate::assemble::run_dir;
use crate::config::{AgentConfig, AgentOutput, AgentProgram, AgentSandbox, LoadedConfig, SkillAs};
use skill_llm::agent::{self, OutputFormat, Sandbox};
use skill_llm::{AgentKind, AgentModel, LlmError, ModelId, Secrets};
use std::time::Duration;

/// Where in the run directory the output of programs is kept.
const TRACES: &str = "agent_traces";

/// How records name the model.
pub(super) fn model_id(asked: &AgentConfig) -> ModelId {
    agent::AgentConfig::new(kind(asked.agent), &asked.model).model_id()
}

/// The program that plays the model.
pub(super) fn model(
    asked: &AgentConfig,
    loaded: &LoadedConfig,
    secrets: &Secrets,
) -> Result<AgentModel, LlmError> {
    let mut config = agent::AgentConfig::new(kind(asked.agent), &asked.model);
    config.command.clone_from(&asked.command);
    config.arguments = asked.agent_args.clone().unwrap_or_default();
    config.output = match asked.output {
        AgentOutput::Auto => None,
        AgentOutput::Text => Some(OutputFormat::Text),
        AgentOutput::Claude => Some(OutputFormat::Claude),
        AgentOutput::Codex => Some(OutputFormat::Codex),
        AgentOutput::Gemini => Some(OutputFormat::Gemini),
    };
    config.sandbox = match asked.sandbox {
        AgentSandbox::ReadOnly => Sandbox::ReadOnly,
        AgentSandbox::Workspace => Sandbox::Workspace,
        AgentSandbox::Off => Sandbox::Off,
    };
    config.skill_as = match asked.skill_as {
        SkillAs::Prompt => agent::SkillAs::Prompt,
        SkillAs::Package => agent::SkillAs::Package,
    };
    config.effort = asked.reasoning_effort.map(effort);
    config.pass_env = asked.pass_env.clone().unwrap_or_default();
    config.timeout = Duration::from_secs(asked.timeout_s);
    config.trace_dir = asked.traces.then(|| run_dir(loaded).join(TRACES));
    config.secrets = secrets.clone();
    AgentModel::new(config)
}

fn kind(program: AgentProgram) -> AgentKind {
    match program {
        AgentProgram::Claude => AgentKind::Claude,
        AgentProgram::Codex => AgentKind::Codex,
        AgentProgram::Gemini => AgentKind::Gemini,
        AgentProgram::Command => AgentKind::Command,
    }
}
