//! From a conversation to tokens, and which of them the agent says.

use super::special::{self, Mask, SpecialText};
use super::{ChatError, ChatTemplate, Conversation, RenderOptions};
use crate::tokenizer::TokenCodec;
use std::collections::BTreeMap;
use std::ops::Range;

/// A template with the tokenizer of its model.
#[derive(Clone, Copy)]
pub struct ChatEncoder<'a> {
    template: &'a ChatTemplate,
    codec: &'a dyn TokenCodec,
    special_text: SpecialText,
}

/// A conversation as tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Encoded {
    /// The rendered text.
    pub text: String,
    /// Its tokens.
    pub ids: Vec<u32>,
}

impl<'a> ChatEncoder<'a> {
    /// An encoder that refuses conversations with texts of special tokens.
    pub fn new(template: &'a ChatTemplate, codec: &'a dyn TokenCodec) -> Self {
        Self { template, codec, special_text: SpecialText::Refuse }
    }

    /// The same with another treatment of texts of special tokens.
    #[must_use]
    pub fn with_special_text(self, special_text: SpecialText) -> Self {
        Self { special_text, ..self }
    }

    /// The tokens of a conversation.
    ///
    /// # Errors
    ///
    /// [`ChatError::SpecialText`] where it is refused, and what [`ChatTemplate::render`] and the tokenizer refuse.
    pub fn encode(&self, conversation: &Conversation, options: &RenderOptions) -> Result<Encoded, ChatError> {
        let specials = self.specials();
        let (masked, mask) = self.guarded(conversation, &specials)?;
        self.encode_masked(&masked, &mask, &specials, options)
    }

    /// The tokens of a conversation, and the range of those that its last message adds: what a model learns by the
    /// rule of TRL for a prompt with a completion.
    ///
    /// The range begins at the first token in which the prompt, ended by the generation prompt, and the whole differ;
    /// it can begin inside the prompt, where a completion merges with its last characters. It ends with the whole,
    /// which includes the end of the turn.
    ///
    /// # Errors
    ///
    /// [`ChatError::NoCompletion`] if the last message is not the agent's or is the only one; as
    /// [`ChatEncoder::encode`].
    pub fn completion(
        &self,
        conversation: &Conversation,
        options: &RenderOptions,
    ) -> Result<(Encoded, Range<usize>), ChatError> {
        let n_messages = conversation.messages.len();
        let is_completion =
            n_messages > 1 && conversation.messages.last().is_some_and(Conversation::is_assistant);
        if !is_completion {
            return Err(ChatError::NoCompletion);
        }
        let specials = self.specials();
        let (masked, mask) = self.guarded(conversation, &specials)?;
        let whole = self.encode_masked(&masked, &mask, &specials, options)?;
        let prompt = RenderOptions { generation_prompt: true, ..options.clone() };
        let prompt = self.encode_masked(&masked.until(n_messages - 1), &mask, &specials, &prompt)?;
        let span = common(&prompt.ids, &whole.ids)..whole.ids.len();
        Ok((whole, span))
    }

    /// The tokens of a conversation, and for each message of the agent the range of the tokens that it adds, by the
    /// same rule as [`ChatEncoder::completion`]. A message of the agent without any before it has none.
    ///
    /// # Errors
    ///
    /// [`ChatError::Rewritten`] for a template that changes earlier messages when others follow; as
    /// [`ChatEncoder::encode`].
    pub fn assistant_spans(
        &self,
        conversation: &Conversation,
        options: &RenderOptions,
    ) -> Result<(Encoded, Vec<Range<usize>>), ChatError> {
        let specials = self.specials();
        let (masked, mask) = self.guarded(conversation, &specials)?;
        let rendered = self.template.render(&masked, options)?;
        let whole = self.encode_rendered(&rendered, &mask, &specials)?;
        // The beginnings of a conversation share nearly all of their pieces. A tokenizer that adds tokens of its own to a
        // text, or has other rules at special tokens, encodes each beginning as a whole.
        let mut known = KnownPieces::default();
        let is_in_pieces = self.ids_of_pieces(&rendered, &mask, &specials, &mut known)? == whole.ids;
        let mut encoded =
            |conversation: &Conversation, options: &RenderOptions| -> Result<Encoded, ChatError> {
                let rendered = self.template.render(conversation, options)?;
                if !is_in_pieces {
                    return self.encode_rendered(&rendered, &mask, &specials);
                }
                let ids = self.ids_of_pieces(&rendered, &mask, &specials, &mut known)?;
                Ok(Encoded { text: mask.undo(&rendered), ids })
            };
        let without_prompt = RenderOptions { generation_prompt: false, ..options.clone() };
        let with_prompt = RenderOptions { generation_prompt: true, ..options.clone() };
        let mut spans = Vec::new();
        let said = masked.messages.iter().enumerate().skip(1);
        for (message, _) in said.filter(|(_, message)| Conversation::is_assistant(message)) {
            let through = encoded(&masked.until(message + 1), &without_prompt)?;
            if !whole.text.starts_with(&through.text) {
                return Err(ChatError::Rewritten { message });
            }
            let before = encoded(&masked.until(message), &with_prompt)?;
            spans.push(common(&before.ids, &whole.ids)..common(&through.ids, &whole.ids));
        }
        Ok((whole, spans))
    }

    fn specials(&self) -> Vec<String> {
        self.codec.special_tokens().iter().map(|token| token.text.clone()).collect()
    }

    /// The conversation in which no text is taken for a special token.
    fn guarded(
        &self,
        conversation: &Conversation,
        specials: &[String],
    ) -> Result<(Conversation, Mask), ChatError> {
        match self.special_text {
            SpecialText::Escape => Ok(special::mask(conversation, specials)),
            SpecialText::Refuse => match special::find(conversation, specials) {
                Some(refused) => Err(refused),
                None => Ok((conversation.clone(), Mask::default())),
            },
        }
    }

    fn encode_masked(
        &self,
        conversation: &Conversation,
        mask: &Mask,
        specials: &[String],
        options: &RenderOptions,
    ) -> Result<Encoded, ChatError> {
        self.encode_rendered(&self.template.render(conversation, options)?, mask, specials)
    }

    fn encode_rendered(
        &self,
        rendered: &str,
        mask: &Mask,
        specials: &[String],
    ) -> Result<Encoded, ChatError> {
        let ids = match mask.is_empty() {
            true => self.codec.encode(rendered)?,
            false => self.ids_of_pieces(rendered, mask, specials, &mut KnownPieces::default())?,
        };
        Ok(Encoded { text: mask.undo(rendered), ids })
    }

    /// The tokens of a text piece by piece: special tokens, and what is between them.
    fn ids_of_pieces(
        &self,
        rendered: &str,
        mask: &Mask,
        specials: &[String],
        known: &mut KnownPieces,
    ) -> Result<Vec<u32>, ChatError> {
        let mut ids = Vec::new();
        for piece in special::pieces(rendered, specials) {
            match piece {
                Ok(text) => match known.get(text) {
                    Some(known) => ids.extend_from_slice(known),
                    None => {
                        let found = self.codec.encode_ordinary(&mask.undo(text))?;
                        ids.extend_from_slice(&found);
                        known.insert(text.to_owned(), found);
                    }
                },
                Err(place) => ids.extend(self.codec.special_tokens().get(place).map(|token| token.id)),
            }
        }
        Ok(ids)
    }
}

/// Pieces of a text between special tokens, with their tokens.
type KnownPieces = BTreeMap<String, Vec<u32>>;

impl std::fmt::Debug for ChatEncoder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatEncoder").field("special_text", &self.special_text).finish_non_exhaustive()
    }
}

/// The length of the common prefix.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
