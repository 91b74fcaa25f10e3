//! A test bench for search: families of simulated tasks on which settings, prompts and other systems are compared.
//!
//! A [`World`] hides rules, and its tasks need them. What the agent answers depends on the rules that the skill states,
//! and what the optimizer proposes depends on what its prompt shows ([`statement`]); no reply depends on the words
//! around that. So whole trainings run in a fraction of a second, and differences of a few points can be shown over
//! seeds. The numbers are those of these worlds: they rank ways of searching, and say nothing of a real model.

pub mod arm;
pub mod models;
pub mod optimizer;
pub mod peers;
pub mod serve;
pub mod statement;
pub mod table;
pub mod world;

pub use world::{Family, Sizes, World};
