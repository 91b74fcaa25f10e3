//! Chat models behind one trait.
//!
//! # Who should depend on this crate alone
//!
//! Anybody who wants a chat client with typed errors and honest outcomes, or a model to test against without
//! a network. It knows nothing of skills, tasks or training.
//!
//! [`ChatModel`] is the seam: dialects that speak to a provider, layers around them, and models that need no
//! network (scripted and simulated ones) all implement it.

pub mod call;
pub mod chat;
pub mod error;
pub mod prompt;

pub use call::{CallCtx, CallPlace};
pub use chat::{
    ChatModel, ChatReply, ChatRequest, ContentPart, FinishReason, ImageSource, Message, ModelId,
    ResponseSchema, Sampling, ToolCall, ToolSpec,
};
pub use error::{ErrorClass, LlmError};
pub use prompt::{PromptError, PromptTemplate};
pub use skill_core::{Role, Usage};
