//! Chat models behind one trait, and embedding models behind another.
//!
//! # Who should depend on this crate alone
//!
//! Anybody who wants a chat client with typed errors and honest outcomes, or a model to test against without
//! a network. It knows nothing of skills, tasks or training.
//!
//! [`ChatModel`] is the seam: dialects that speak to a provider, layers around them, and scripted
//! models, which need no network, all implement it.
//!
//! [`model`] makes one by its name, with pace and retries:
//!
//! ```no_run
//! # fn main() -> Result<(), skill_llm::LlmError> {
//! let model = skill_llm::model("openai/gpt-5-mini")?;
//! # Ok(())
//! # }
//! ```
//!
//! | module | what it gives |
//! |---|---|
//! | [`embedding`] | the same for embeddings: texts in, vectors out |
//! | [`openai`] | the Chat Completions dialect and its embeddings, for any server that speaks it |
//! | [`anthropic`] | the Messages dialect |
//! | [`responses`] | the Responses dialect |
//! | `agent` | programs that play a model; feature `process`, on by default |
//! | [`agent_work`] | what a program finds besides its prompt, and what it did |
//! | [`provider`] | what is known about providers, as a table |
//! | [`anomaly`] | anomalies of servers that spoil results without being errors |
//! | [`listing`] | the models that a server lists, for checks before a run |
//! | [`http`] | what all dialects over HTTP share: addresses, keys, errors |
//! | [`reasoning`] | how much a model thinks, and under which names servers take that |
//! | [`scripted`] | replies from a file of rules, or from a function |
//! | `journal` | every reply once, in a SQLite file, and the layer that answers from it; feature `journal`, on by default |
//! | [`layer`] | retries, the pace, the budget and spans around any model |
//! | [`meter`] | sums of calls and tokens |
//! | [`transport`] | one HTTP exchange, replaceable in tests |
//! | [`secret`] | keys that cannot be printed, and are taken out of everything that comes in |
//! | [`prompt`] | prompt templates |
//! | [`text_file`] | text files of people and other programs |
//! | `process` | programs that run to a deadline and leave nothing behind; feature `process`, on by default |
//! | `testbed` | a provider in virtual time that fails by a seed; behind the feature of this name |
//!
//! A call, of a model that needs no network:
//!
//! ```
//! use skill_llm::{CallCtx, ChatModel, ChatRequest, Message, Script, ScriptedModel};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), skill_llm::LlmError> {
//! let rules = r#"{
//!     "version": 1,
//!     "rules": [{"when": {"user_contains": ["France"]}, "reply": "Paris"}],
//!     "otherwise": {"reply": "I do not know."}
//! }"#;
//! let model = ScriptedModel::from_rules("capitals", Script::parse("rules", rules)?);
//! let request = ChatRequest::new(vec![Message::user("What is the capital of France?")]);
//! let reply = model.chat(&request, &CallCtx::default()).await?;
//! assert_eq!(reply.text, "Paris");
//! assert_eq!(model.id().to_string(), "capitals at scripted");
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "process")]
pub mod agent;
pub mod agent_work;
pub mod anomaly;
pub mod anthropic;
pub mod attempt;
pub mod call;
pub mod chat;
pub mod dialect;
pub mod embedding;
pub mod error;
pub mod http;
#[cfg(feature = "journal")]
pub mod journal;
pub mod layer;
pub mod listing;
pub mod meter;
mod named;
pub mod openai;
pub mod price_table;
#[cfg(feature = "process")]
pub mod process;
pub mod prompt;
pub mod provider;
pub mod reasoning;
pub mod regular_file;
pub mod responses;
pub mod scope;
pub mod scripted;
pub mod secret;
pub mod telemetry;
#[cfg(any(test, feature = "testbed"))]
pub mod testbed;
pub mod text_file;
pub mod transport;
mod wire;

#[cfg(feature = "process")]
pub use agent::{AgentConfig, AgentKind, AgentModel};
pub use agent_work::{AgentFile, AgentProject, AgentToolCall, AgentWork};
pub use anthropic::{AnthropicChat, AnthropicConfig, PromptCache, SchemaMode};
pub use attempt::{Attempt, AttemptLog, AttemptOutcome};
pub use call::{CallCtx, CallPlace, Extensions};
pub use chat::{
    ChatModel, ChatReply, ChatRequest, ContentPart, FinishReason, ImageSource, Message, ModelId,
    ProviderState, ResponseSchema, Sampling, ToolCall, ToolChoice, ToolSpec, UsageGap,
};
pub use embedding::{EmbeddingModel, EmbeddingReply, EmbeddingRequest};
pub use error::{ErrorClass, GiveUpReason, LengthSource, LlmError};
pub use http::{KeyHeader, KeySource, Server};
#[cfg(feature = "journal")]
pub use journal::{
    Journal, JournalError, JournalOptions, JournalReader, Journaled, NotInRecording, Recording,
};
pub use layer::{
    AttemptsSeen, Batched, Budget, BudgetCaps, Budgeted, Metered, ModelSeen, PaceConfig, PaceSnapshot, Paced,
    Pacer, Prices, Retried, RetryBudget, RetryBudgetConfig, RetryPolicy, SeenReply, Spent, Traced, Trouble,
};
pub use meter::{Meter, MeterReading};
pub use named::model;
pub use openai::{
    MaxTokensField, OpenAiChat, OpenAiConfig, OpenAiEmbeddings, OpenAiEmbeddingsConfig, ResponseFormat,
};
pub use prompt::{PromptError, PromptTemplate};
pub use provider::{Dialect, PROVIDERS, Provider};
pub use reasoning::{Effort, EffortField, Reasoning, ThinkingField};
pub use responses::{ResponsesChat, ResponsesConfig};
pub use scope::CallScope;
pub use scripted::{Script, ScriptedModel};
pub use secret::{ApiKey, Secrets};
pub use skill_core::{ReplyTokens, Role, TokenLogprob, TopLogprob, Usage};
pub use transport::{HttpRequest, HttpResponse, ReqwestTransport, Transport, TransportError, proxy_variable};
