//! The text side of a model under training.

use skill_train::chat::{ChatTemplate, RenderOptions};
use skill_train::tokenizer::TokenCodec;
use std::fmt;
use std::sync::Arc;

/// What turns conversations into tokens and tokens into replies.
#[derive(Clone)]
pub struct PolicyText {
    /// The chat template of the model.
    pub template: ChatTemplate,
    /// Its tokenizer.
    pub codec: Arc<dyn TokenCodec>,
    /// Variables of the template.
    pub options: RenderOptions,
    /// Tokens that end a reply.
    pub stop_tokens: Vec<u32>,
}

impl fmt::Debug for PolicyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyText")
            .field("template", &self.template)
            .field("options", &self.options)
            .field("stop_tokens", &self.stop_tokens)
            .finish_non_exhaustive()
    }
}
