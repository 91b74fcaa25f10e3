//! Conversations as rows of tokens: each episode is one row, and only what the agent says is learnt.

use crate::model::{CHAT_TEMPLATE, END, role_token};
use anyhow::{Result, ensure};
use serde_json::Map;
use skill_llm::{Message, Role};
use skill_sim::demonstrations::{Demonstration, EpisodePrompt};
use skill_train::chat::{ChatEncoder, ChatTemplate, Conversation, RenderOptions};
use skill_train::seam::Row;
use skill_train::tokenizer::{JsonTokenizer, TokenCodec as _};

/// The tokens of a message with the marks around it.
pub(crate) fn message_tokens(tokenizer: &JsonTokenizer, message: &Message) -> Result<Vec<u32>> {
    let mut tokens = vec![role_token(message.role)];
    tokens.extend(tokenizer.encode_ordinary(&message.text())?);
    tokens.push(END);
    Ok(tokens)
}

/// The row of a demonstration: what the expert says is learnt, slips are not.
pub(crate) fn row(
    tokenizer: &JsonTokenizer,
    prompt: &EpisodePrompt,
    demonstration: &Demonstration,
) -> Result<Row> {
    let messages = prompt.conversation(demonstration)?;
    let mut turns = demonstration.walk.iter();
    let is_learnt =
        |message: &Message| message.role == Role::Assistant && turns.next().is_some_and(|turn| !turn.is_slip);
    let learnt: Vec<bool> = messages.iter().map(is_learnt).collect();
    row_of(tokenizer, &messages, &learnt)
}

/// The row of messages some of which are learnt.
///
/// Messages are encoded one by one, which is what the chat template comes to and many times as fast.
fn row_of(tokenizer: &JsonTokenizer, messages: &[Message], learnt: &[bool]) -> Result<Row> {
    let mut row = Row::default();
    for (message, is_learnt) in messages.iter().zip(learnt) {
        let tokens = message_tokens(tokenizer, message)?;
        let learnt = f32::from(u8::from(*is_learnt));
        // The mark of the role is a part of the prompt.
        row.weights.push(0.0);
        row.weights.extend(std::iter::repeat_n(learnt, tokens.len() - 1));
        row.tokens.extend(tokens);
    }
    Ok(row)
}

/// Checks that a row is what the chat template gives.
pub(crate) fn check(tokenizer: &JsonTokenizer, messages: &[Message]) -> Result<()> {
    let template = ChatTemplate::parse(CHAT_TEMPLATE, Map::new())?;
    let encoder = ChatEncoder::new(&template, tokenizer);
    let options = RenderOptions::default();
    let (encoded, spans) = encoder.assistant_spans(&Conversation::new(messages)?, &options)?;
    let said: Vec<bool> = messages.iter().map(|message| message.role == Role::Assistant).collect();
    let row = row_of(tokenizer, messages, &said)?;
    let in_spans = |place: usize| f32::from(u8::from(spans.iter().any(|span| span.contains(&place))));
    let weights: Vec<f32> = (0..encoded.ids.len()).map(in_spans).collect();
    ensure!(row.tokens == encoded.ids, "the tokens of a row are not those of the chat template");
    ensure!(row.weights == weights, "the learnt tokens of a row are not those of the chat template");
    Ok(())
}
