//! What providers need back with the results of tool calls, kept for agents whose interface has no place for it.
//!
//! An agent resends the tool calls of the model as its own client writes them, and so loses the signatures and thoughts
//! that came with them. They are found again by the calls themselves.

use super::trajectory::Said;
use skill_llm::{ChatReply, Message, ProviderState};
use std::collections::HashMap;
use std::sync::Arc;

/// The states of replies that called tools, by the id of the first call; servers may give an id twice.
#[derive(Debug, Default)]
pub(super) struct States(HashMap<String, Vec<(Said, Arc<ProviderState>)>>);

impl States {
    /// Keeps the state of a reply, if there is one.
    pub(super) fn keep(&mut self, reply: &ChatReply) {
        if let (Some(state), Some(call)) = (&reply.provider_state, reply.tool_calls.first()) {
            let known = self.0.entry(call.id.clone()).or_default();
            known.push((Said::of(reply), Arc::clone(state)));
        }
    }

    /// Puts the states of replies back into the messages that resend them.
    pub(super) fn restore(&self, messages: &mut [Message]) {
        if self.0.is_empty() {
            return;
        }
        for message in messages {
            let known = message.tool_calls.first().and_then(|call| self.0.get(&call.id));
            let same = known.and_then(|known| known.iter().rfind(|(said, _)| said.is(message)));
            if let Some((_, state)) = same {
                message.provider_state = Some(Arc::clone(state));
            }
        }
    }
}
