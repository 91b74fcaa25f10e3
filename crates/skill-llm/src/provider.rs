//! What is known about providers, as a table: where they are and under which names they take what others take too.
//!
//! Nothing in it is a rule: anyone who builds a configuration from a row may change each of its fields.

pub use crate::dialect::Dialect;

use crate::http::{KeyHeader, is_https_at};
use crate::openai::{MaxTokensField, ResponseFormat};
use crate::reasoning::{EffortField, ThinkingField};

/// A provider, or a server that people run themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// Its name here.
    pub name: &'static str,
    /// How it is spoken to.
    pub dialect: Dialect,
    /// Where it is; `None` if everybody has an address of their own.
    pub base_url: Option<&'static str>,
    /// The hosts that are its own, or where they begin with a dot, what they end in; its key may go there.
    pub hosts: &'static [&'static str],
    /// The variable that usually holds its key.
    pub key_variable: Option<&'static str>,
    /// The header that its key is in.
    pub key_header: KeyHeader,
    /// The name of the limit on the reply's tokens.
    pub max_tokens_field: MaxTokensField,
    /// How a response schema is asked for.
    pub response_format: ResponseFormat,
    /// Where it looks for the effort of thinking.
    pub effort_field: EffortField,
    /// Where it looks for whether the model thinks.
    pub thinking_field: ThinkingField,
    /// Whether it takes a seed.
    pub takes_seed: bool,
    /// Fields of the body that it needs so that a reply is what the model answers, and all of them true.
    pub flags: &'static [&'static str],
}

impl Provider {
    /// The provider of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        PROVIDERS.iter().find(|provider| provider.name == name)
    }

    /// Whether an address is the provider's own, so that its key may be sent there without being asked.
    pub fn owns(&self, base_url: &str) -> bool {
        is_https_at(base_url, self.hosts)
    }
}

/// A server of the Chat Completions dialect that takes everything where OpenAI does.
const PLAIN: Provider = Provider {
    name: "",
    dialect: Dialect::ChatCompletions,
    base_url: None,
    hosts: &[],
    key_variable: None,
    key_header: KeyHeader::Bearer,
    max_tokens_field: MaxTokensField::MaxTokens,
    response_format: ResponseFormat::JsonSchema,
    effort_field: EffortField::ReasoningEffort,
    thinking_field: ThinkingField::ReasoningEffort,
    takes_seed: true,
    flags: &[],
};

/// All providers that are known.
pub const PROVIDERS: &[Provider] = &[
    Provider {
        name: "openai",
        base_url: Some("https://api.openai.com/v1"),
        hosts: &["api.openai.com"],
        key_variable: Some("OPENAI_API_KEY"),
        // Anyone who gives another address has a server that only speaks alike.
        max_tokens_field: MaxTokensField::Auto,
        ..PLAIN
    },
    Provider {
        name: "anthropic",
        dialect: Dialect::Messages,
        base_url: Some(crate::anthropic::BASE_URL),
        hosts: &["api.anthropic.com"],
        key_variable: Some("ANTHROPIC_API_KEY"),
        key_header: KeyHeader::XApiKey,
        takes_seed: false,
        ..PLAIN
    },
    Provider {
        name: "azure",
        hosts: &[".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"],
        key_variable: Some("AZURE_OPENAI_API_KEY"),
        key_header: KeyHeader::ApiKey,
        max_tokens_field: MaxTokensField::MaxCompletionTokens,
        ..PLAIN
    },
    Provider {
        name: "gemini",
        base_url: Some("https://generativelanguage.googleapis.com/v1beta/openai"),
        hosts: &["generativelanguage.googleapis.com"],
        key_variable: Some("GEMINI_API_KEY"),
        // Not among the documented parameters of its compatible endpoint.
        takes_seed: false,
        ..PLAIN
    },
    Provider {
        name: "openrouter",
        base_url: Some("https://openrouter.ai/api/v1"),
        hosts: &["openrouter.ai"],
        key_variable: Some("OPENROUTER_API_KEY"),
        effort_field: EffortField::Reasoning,
        thinking_field: ThinkingField::Reasoning,
        ..PLAIN
    },
    Provider {
        name: "deepseek",
        base_url: Some("https://api.deepseek.com"),
        hosts: &["api.deepseek.com"],
        key_variable: Some("DEEPSEEK_API_KEY"),
        response_format: ResponseFormat::JsonObject,
        thinking_field: ThinkingField::Thinking,
        takes_seed: false,
        ..PLAIN
    },
    Provider {
        name: "qwen",
        base_url: Some("https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        hosts: &["dashscope-intl.aliyuncs.com", "dashscope.aliyuncs.com", "dashscope-us.aliyuncs.com"],
        key_variable: Some("DASHSCOPE_API_KEY"),
        response_format: ResponseFormat::JsonObject,
        thinking_field: ThinkingField::EnableThinking,
        ..PLAIN
    },
    Provider {
        name: "minimax",
        base_url: Some("https://api.minimax.io/v1"),
        hosts: &["api.minimax.io", "api.minimaxi.com"],
        key_variable: Some("MINIMAX_API_KEY"),
        max_tokens_field: MaxTokensField::MaxCompletionTokens,
        response_format: ResponseFormat::Off,
        effort_field: EffortField::Off,
        thinking_field: ThinkingField::ThinkingAdaptive,
        takes_seed: false,
        // Without it what the model thinks is in front of what it answers.
        flags: &["reasoning_split"],
        ..PLAIN
    },
    Provider {
        name: "vllm",
        base_url: Some("http://localhost:8000/v1"),
        thinking_field: ThinkingField::ChatTemplateKwargs,
        ..PLAIN
    },
    Provider {
        name: "sglang",
        base_url: Some("http://localhost:30000/v1"),
        thinking_field: ThinkingField::ChatTemplateKwargs,
        ..PLAIN
    },
    Provider {
        name: "llamacpp",
        base_url: Some("http://localhost:8080/v1"),
        response_format: ResponseFormat::JsonObjectSchema,
        effort_field: EffortField::ChatTemplateKwargs,
        thinking_field: ThinkingField::ChatTemplateKwargs,
        ..PLAIN
    },
    Provider { name: "ollama", base_url: Some("http://localhost:11434/v1"), ..PLAIN },
];

/// The names of all providers, in the order of the table.
pub const PROVIDER_NAMES: &[&str] = &{
    let mut names = [""; PROVIDERS.len()];
    let mut rest = PROVIDERS;
    let mut free = names.as_mut_slice();
    while let (Some((provider, others)), Some((name, others_free))) =
        (rest.split_first(), free.split_first_mut())
    {
        *name = provider.name;
        (rest, free) = (others, others_free);
    }
    names
};
