//! The configuration of models as plain data.

use super::path::AskedPath;
use super::types::choice;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// `[models.target]`, `[models.optimizer]` or `[models.judge]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ModelConfig {
    /// A server with the Chat Completions interface.
    #[serde(rename = "openai")]
    OpenAi(Box<ServedConfig>),
    /// A server with the Messages interface.
    Anthropic(Box<ServedConfig>),
    /// A server with the Responses interface.
    Responses(Box<ServedConfig>),
    /// A program that plays the part of a model.
    Agent(Box<AgentConfig>),
    /// Replies from a file.
    Scripted(ScriptedConfig),
    /// A small program that plays the part of a model.
    Simulated(SimulatedConfig),
}

impl ModelConfig {
    /// The value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::OpenAi(_) => "openai",
            Self::Anthropic(_) => "anthropic",
            Self::Responses(_) => "responses",
            Self::Agent(_) => "agent",
            Self::Scripted(_) => "scripted",
            Self::Simulated(_) => "simulated",
        }
    }

    /// The keys of a model that a server answers for.
    pub fn served(&self) -> Option<&ServedConfig> {
        match self {
            Self::OpenAi(served) | Self::Anthropic(served) | Self::Responses(served) => Some(served),
            Self::Agent(_) | Self::Scripted(_) | Self::Simulated(_) => None,
        }
    }

    /// The most tokens of a reply that the model's section asks for.
    pub fn max_tokens(&self) -> Option<u32> {
        self.served().and_then(|served| served.max_tokens)
    }

    /// What the model's tokens cost, as far as its section says; `None` for models that cost nothing.
    pub fn prices(&self) -> Option<AskedPrices> {
        match self {
            Self::OpenAi(served) | Self::Anthropic(served) | Self::Responses(served) => Some(AskedPrices {
                input: served.price_input,
                cached: served.price_cached,
                output: served.price_output,
            }),
            Self::Agent(agent) => Some(AskedPrices {
                input: agent.price_input,
                cached: agent.price_cached,
                output: agent.price_output,
            }),
            Self::Scripted(_) | Self::Simulated(_) => None,
        }
    }

    /// The most requests and tokens per minute, as far as the model's section says.
    pub fn rates(&self) -> (Option<u64>, Option<u64>) {
        match self {
            Self::OpenAi(served) | Self::Anthropic(served) | Self::Responses(served) => {
                (served.requests_per_minute, served.tokens_per_minute)
            }
            Self::Agent(agent) => (agent.requests_per_minute, agent.tokens_per_minute),
            Self::Scripted(_) | Self::Simulated(_) => (None, None),
        }
    }
}

/// What the tokens of a model cost, per million, as far as its section says.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AskedPrices {
    /// Tokens of prompts.
    pub input: Option<f64>,
    /// Tokens of prompts that the provider took from its cache.
    pub cached: Option<f64>,
    /// Tokens of replies.
    pub output: Option<f64>,
}

/// A model with `kind = "openai"`, `"anthropic"` or `"responses"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServedConfig {
    /// The provider whose defaults are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Where the server is; has no credentials in it.
    pub base_url: String,
    /// The version of the interface, sent as `api-version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The model's name, as the server knows it.
    pub model: String,
    /// The environment variable that holds the key; `None` sends no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// A command that prints the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_command: Option<Vec<String>>,
    /// The header that the key stands in; `None` for that of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_header: Option<KeyHeader>,
    /// Randomness of the replies, 0 or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The most tokens of a reply, where the caller asks for no number of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// A sampling seed, for servers that take one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Whether the server takes a seed; kind "openai" has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed_field: Option<SeedField>,
    /// Seconds to wait for one reply.
    pub timeout_s: u64,
    /// The name under which the server takes the bound on tokens; kind "openai" has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens_field: Option<MaxTokensField>,
    /// How the server is asked for JSON.
    pub response_format: ResponseFormat,
    /// How much the model thinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<Effort>,
    /// Where the server looks for the effort; kind "openai" has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort_field: Option<EffortField>,
    /// Whether the model thinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    /// The most tokens that it thinks with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_tokens: Option<u32>,
    /// Where the server looks for both; kind "openai" has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_field: Option<ThinkingField>,
    /// How long the server keeps the beginning of a prompt; kind "anthropic" has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_cache: Option<PromptCache>,
    /// The most requests per minute; both models of one server share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u64>,
    /// The most tokens per minute, of prompts and replies; both models of one server share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u64>,
    /// Money per million input tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_input: Option<f64>,
    /// Money per million cached input tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_cached: Option<f64>,
    /// Money per million output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_output: Option<f64>,
    /// More fields of the request, sent as they are.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra_body: Map<String, Value>,
    /// More headers of the request: name and value, in alphabetical order.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_headers: BTreeMap<String, String>,
}

impl ServedConfig {
    /// `timeout_s` as a duration.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_s)
    }
}

/// A model with `kind = "agent"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// The program.
    pub agent: AgentProgram,
    /// The model's name, as the program knows it.
    pub model: String,
    /// The program and its first arguments; `None` for those of the known program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Further arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_args: Option<Vec<String>>,
    /// How the output is read.
    pub output: AgentOutput,
    /// What the program may do.
    pub sandbox: AgentSandbox,
    /// How the program gets the skill.
    pub skill_as: SkillAs,
    /// How much the model thinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<Effort>,
    /// Environment variables that the program gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_env: Option<Vec<String>>,
    /// Whether the output is kept.
    pub traces: bool,
    /// Seconds until the program is killed.
    pub timeout_s: u64,
    /// The most requests per minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u64>,
    /// The most tokens per minute, of prompts and replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u64>,
    /// Money per million input tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_input: Option<f64>,
    /// Money per million cached input tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_cached: Option<f64>,
    /// Money per million output tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_output: Option<f64>,
}

/// A model with `kind = "scripted"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedConfig {
    /// The file with the replies.
    pub file: AskedPath,
}

/// A model with `kind = "simulated"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedConfig {
    /// Decides what the model gets right.
    pub sim_seed: u64,
    /// The share of replies that are spoilt, 0 to 1; only the optimizer has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flaw_rate: Option<f64>,
}

choice! {
    /// The header that a key stands in.
    KeyHeader {
        /// `Authorization: Bearer`.
        Bearer = "authorization",
        /// `x-api-key`.
        XApiKey = "x-api-key",
        /// `api-key`.
        ApiKey = "api-key",
    }
}

choice! {
    /// Whether a server takes a seed.
    SeedField {
        /// As `seed`.
        Seed = "seed",
        /// No.
        Off = "off",
    }
}

choice! {
    /// The name under which a server takes the bound on tokens.
    MaxTokensField {
        /// By the model's name and the server's answers.
        Auto = "auto",
        /// `max_tokens`.
        MaxTokens = "max_tokens",
        /// `max_completion_tokens`.
        MaxCompletionTokens = "max_completion_tokens",
    }
}

choice! {
    /// How a server is asked for JSON, where a stage wants it.
    ResponseFormat {
        /// With the schema.
        JsonSchema = "json_schema",
        /// With the schema inside a JSON object format, as the servers of llama.cpp take it.
        JsonObjectSchema = "json_object_schema",
        /// As some JSON object.
        JsonObject = "json_object",
        /// As a tool that has to be called.
        Tool = "tool",
        /// By the prompt alone.
        Off = "off",
    }
}

choice! {
    /// How much a model thinks.
    Effort {
        /// Not at all.
        None = "none",
        /// As little as possible.
        Minimal = "minimal",
        /// Little.
        Low = "low",
        /// Some.
        Medium = "medium",
        /// Much.
        High = "high",
        /// Very much.
        Xhigh = "xhigh",
        /// As much as possible.
        Max = "max",
    }
}

choice! {
    /// Where a server looks for the effort.
    EffortField {
        /// `reasoning_effort`.
        ReasoningEffort = "reasoning_effort",
        /// `reasoning.effort`.
        Reasoning = "reasoning",
        /// `chat_template_kwargs.reasoning_effort`.
        ChatTemplateKwargs = "chat_template_kwargs",
        /// Nowhere.
        Off = "off",
    }
}

choice! {
    /// Where a server looks for whether the model thinks.
    ThinkingField {
        /// `enable_thinking`.
        EnableThinking = "enable_thinking",
        /// `chat_template_kwargs.enable_thinking`.
        ChatTemplateKwargs = "chat_template_kwargs",
        /// `thinking.type`: enabled or disabled.
        Thinking = "thinking",
        /// `thinking.type`: adaptive or disabled.
        ThinkingAdaptive = "thinking_adaptive",
        /// `reasoning.enabled`.
        Reasoning = "reasoning",
        /// `reasoning_effort`: none, or not.
        ReasoningEffort = "reasoning_effort",
        /// Nowhere.
        Off = "off",
    }
}

choice! {
    /// How long a server keeps the beginning of a prompt.
    PromptCache {
        /// Not at all.
        Off = "off",
        /// 5 minutes.
        FiveMinutes = "5m",
        /// An hour.
        OneHour = "1h",
    }
}

choice! {
    /// A program that plays a model.
    AgentProgram {
        /// Claude Code.
        Claude = "claude",
        /// Codex.
        Codex = "codex",
        /// Gemini CLI.
        Gemini = "gemini",
        /// Any other.
        Command = "command",
    }
}

choice! {
    /// How the output of a program is read.
    AgentOutput {
        /// As the known program prints it.
        Auto = "auto",
        /// As the reply itself.
        Text = "text",
        /// As Claude Code prints JSON.
        Claude = "claude",
        /// As Codex prints JSON Lines.
        Codex = "codex",
        /// As Gemini CLI prints JSON.
        Gemini = "gemini",
    }
}

choice! {
    /// What a program may do.
    AgentSandbox {
        /// Read in its working directory.
        ReadOnly = "read_only",
        /// Also write there and run programs.
        Workspace = "workspace",
        /// Anything.
        Off = "off",
    }
}

choice! {
    /// How a program gets the skill.
    SkillAs {
        /// As a part of the prompt.
        Prompt = "prompt",
        /// As `SKILL.md` where it looks for skills.
        Package = "package",
    }
}
