//! From the configuration of a model to the program that plays it.

use crate::config::key::declare::Fill as _;
use crate::config::{AgentConfig, AgentOutput};
use skill_llm::agent::{self, OutputFormat};
use skill_llm::{AgentModel, LlmError, ModelId, Secrets};
use std::path::Path;
use std::time::Duration;

/// Where in the run directory the output of programs is kept.
const TRACES: &str = "agent_traces";

/// How records name the model.
pub(super) fn model_id(asked: &AgentConfig) -> ModelId {
    agent::AgentConfig::new(asked.agent, &asked.model).model_id()
}

/// The program that plays the model.
pub(super) fn model(asked: &AgentConfig, run_dir: &Path, secrets: &Secrets) -> Result<AgentModel, LlmError> {
    let mut config = agent::AgentConfig::new(asked.agent, &asked.model);
    asked.fill(&mut config);
    config.output = match asked.output {
        AgentOutput::Auto => None,
        AgentOutput::Text => Some(OutputFormat::Text),
        AgentOutput::Claude => Some(OutputFormat::Claude),
        AgentOutput::Codex => Some(OutputFormat::Codex),
        AgentOutput::Gemini => Some(OutputFormat::Gemini),
        AgentOutput::OpenCode => Some(OutputFormat::OpenCode),
        AgentOutput::Copilot => Some(OutputFormat::Copilot),
        AgentOutput::Pi => Some(OutputFormat::Pi),
        AgentOutput::Qwen => Some(OutputFormat::Qwen),
    };
    config.effort = asked.reasoning_effort;
    config.timeout = Duration::from_secs(asked.timeout_s);
    config.trace_dir = asked.traces.then(|| run_dir.join(TRACES));
    config.secrets = secrets.clone();
    AgentModel::new(config)
}
