//! Models that need no network: a target that reads its skill, and an optimizer that works by rules.
//!
//! They stand in for real models in the demo and in tests. Both see exactly the prompts that a real model would see
//! and answer in text. The target's success depends on what the skill says, in whatever words it says it; the
//! optimizer compares answers with references and proposes general rules, and is sometimes bad at it, as real models
//! are. Neither knows an item of any data set, and the same seed and prompt give the same bytes on every machine.
//!
//! What an agent does in a world with several turns follows from its habits ([`HouseholdHabit`], [`ShopHabit`]), which
//! a skill asks for or speaks against ([`Conduct`]); the players themselves stand beside their worlds, in `skill-envs`.
//!
//! [`SimulatedOptimizer`] may also teach a real target: its diagnosis is about the difference between an answer and
//! its reference, not about the simulated one.

mod clause;
mod conventions;
#[cfg(test)]
mod conventions_tests;
mod diagnosis;
mod flaws;
mod habits;
mod household;
mod lessons;
mod optimizer;
mod prompts;
mod proposals;
mod records;
mod rewriting;
mod shop;
mod shop_page;
mod target;
mod values;
mod worlds;
#[cfg(test)]
mod worlds_tests;

pub use habits::{Conduct, ConductReader, Habit, Pattern};
pub use household::HouseholdHabit;
pub use optimizer::SimulatedOptimizer;
pub use shop::ShopHabit;
pub use shop_page::{ShopListing, ShopPage, ShopWish, is_option_name};
pub use target::SimulatedTarget;

use crate::chat::{ChatReply, ChatRequest};
use skill_core::Usage;

/// How records name whoever serves simulated models.
pub const PROVIDER: &str = "simulated";
/// How many characters a token is taken to have.
const CHARACTERS_PER_TOKEN: u64 = 4;

/// A reply with the usage that its length and the request's suggest.
pub fn reply_to(request: &ChatRequest, text: String) -> ChatReply {
    let asked: usize = request.messages.iter().map(|message| message.text().chars().count()).sum();
    let usage = Usage { input: tokens(asked), output: tokens(text.chars().count()), ..Usage::default() };
    ChatReply::text(text, usage)
}

fn tokens(characters: usize) -> u64 {
    u64::try_from(characters).unwrap_or(u64::MAX).div_ceil(CHARACTERS_PER_TOKEN)
}
