//! Questions that an agent answers with a search tool: several turns of thinking and searching, then an answer.
//!
//! B. Jin et al., "Search-R1: Training LLMs to Reason and Leverage Search Engines with Reinforcement Learning", 2025; it
//! is the third domain of the SkillRL paper.
//! Questions come from the files of Natural Questions, TriviaQA, PopQA, HotpotQA, 2WikiMultiHopQA, MuSiQue and
//! Bamboogle, or are made up; passages from a local index, a server that speaks Search-R1's protocol, or a program
//! ([`Retriever`]). Answers score by exact match and F1 after SQuAD's normalisation, as Search-R1 scores them.
//!
//! # Invariants
//!
//! - A retriever that fails is an error and never a score. Held by `a_retriever_that_fails_is_an_error_and_no_score`.

mod corpus;
mod made_up;
mod question;
mod retriever;
#[cfg(test)]
mod tests;
mod world;

pub use made_up::MadeUp;
pub use question::Question;
pub use retriever::{CommandRetriever, HttpRetriever, LocalRetriever, Retriever};
pub use world::{INSTRUCTIONS, PassageSource, SearchConfig, SearchWorld};
