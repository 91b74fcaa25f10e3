//! Models that need no network: a target that reads its skill, and an optimizer that works by rules.
//!
//! They stand in for real models in the demo and in tests. Both see exactly the prompts that a real model would see
//! and answer in text. The target's success depends on what the skill says, in whatever words it says it; the
//! optimizer compares answers with references and proposes general rules, and is sometimes bad at it, as real models
//! are. Neither knows an item of any data set, and the same seed and prompt give the same bytes on every machine.
//!
//! [`SimulatedOptimizer`] may also teach a real target: its diagnosis is about the difference between an answer and
//! its reference, not about the simulated one.

mod clause;
mod conventions;
#[cfg(test)]
mod conventions_tests;
mod diagnosis;
mod flaws;
pub(crate) mod hash;
mod lessons;
mod optimizer;
mod prompts;
mod proposals;
mod records;
mod target;
mod values;

pub use optimizer::SimulatedOptimizer;
pub use target::SimulatedTarget;

use crate::chat::{ChatReply, ChatRequest};
use skill_core::Usage;

const PROVIDER: &str = "simulated";
/// How many characters a token is taken to have.
const CHARACTERS_PER_TOKEN: u64 = 4;

/// A reply with the usage that its length and the request's suggest.
fn reply_to(request: &ChatRequest, text: String) -> ChatReply {
    let asked: usize = request.messages.iter().map(|message| message.text().chars().count()).sum();
    let usage = Usage { input: tokens(asked), output: tokens(text.chars().count()), ..Usage::default() };
    ChatReply::text(text, usage)
}

fn tokens(characters: usize) -> u64 {
    u64::try_from(characters).unwrap_or(u64::MAX).div_ceil(CHARACTERS_PER_TOKEN)
}
