//! Models that need no network: targets that read their skill, and an optimizer and a teacher that work by rules.
//!
//! They stand in for real models in the demos and in tests. They see exactly the prompts that a real model would see
//! and answer in text. A target's success depends on what the skill says, in whatever words it says it; the
//! optimizer compares answers with references and proposes general rules, the teacher writes skills from episodes, and
//! both are sometimes bad at it, as real models are. None of them knows an item of any data set, and the same seed and prompt give the same bytes on every machine.
//!
//! # Who should depend on this crate
//!
//! Programs that show or test training without a model server. No environment, no stage of training and no model
//! dialect depends on it.
//!
//! | model | its part |
//! |---|---|
//! | [`SimulatedTarget`] | a clerk who answers questions about records by the conventions of its skill |
//! | [`SimulatedAgent`] | the moves of a [`Player`] in a world of several turns: [`SimulatedHousehold`] in ALFWorld, [`SimulatedShopper`] in WebShop, [`SimulatedSearcher`] with a search tool; [`HouseholdExpert`] and [`ShopExpert`] have every habit without a skill, and [`SearchExpert`] knows the supporting facts |
//! | [`SimulatedOptimizer`] | the optimizer, for all of them |
//! | [`SimulatedTeacher`] | the teacher of skill banks, for all of them |
//!
//! [`SimulatedOptimizer`] and [`SimulatedTeacher`] may also teach a real target: their diagnosis is about the difference
//! between an answer and its reference, not about the simulated one.
//!
//! # Example
//!
//! The same question under two skills:
//!
//! ```
//! use skill_llm::{CallCtx, ChatModel, ChatRequest, LlmError, Message};
//! use skill_sim::SimulatedTarget;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LlmError> {
//! let clerk = SimulatedTarget::new(42);
//! let record = "Ship: Good Riddance\nSailing date: 7 February 1897\nFlag: plain yellow";
//! let task = format!("Context:\n{record}\n\nQuestion: What is the sailing date of the Good Riddance?");
//! for (skill, is_iso) in [("Be quick.", false), ("Write dates as YYYY-MM-DD.", true)] {
//!     let request = ChatRequest::new(vec![Message::system(skill), Message::user(task.as_str())]);
//!     let reply = clerk.chat(&request, &CallCtx::default()).await?;
//!     assert_eq!(reply.text.contains("1897-02-07"), is_iso, "{}", reply.text);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Cargo features
//!
//! - `live`: the players also recognize the instructions of worlds on running servers.
//! - `weights`: `household_decoder`, a small decoder to fine-tune; brings a tensor library.

mod agent;
mod clause;
mod conventions;
#[cfg(test)]
mod conventions_tests;
#[cfg(feature = "weights")]
mod decoder;
mod diagnosis;
mod flaws;
mod habits;
mod household;
mod lessons;
mod optimizer;
mod played;
mod prompts;
mod proposals;
mod records;
mod rewriting;
mod search;
mod shop;
mod target;
mod teacher;
mod values;
mod worlds;
#[cfg(test)]
mod worlds_tests;

pub use agent::{Move, PastTurn, Player, SimulatedAgent, Situation};
#[cfg(feature = "weights")]
pub use decoder::household_decoder;
pub use household::player::{HouseholdExpert, SimulatedHousehold};
pub use optimizer::SimulatedOptimizer;
pub use search::{SearchExpert, SimulatedSearcher};
pub use shop::player::{ShopExpert, SimulatedShopper};
pub use target::SimulatedTarget;
pub use teacher::SimulatedTeacher;

use skill_core::Usage;
use skill_llm::{ChatReply, ChatRequest};

/// The provider of simulated models in records.
pub const PROVIDER: &str = "simulated";
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
