//! Simulated environments for comparing ways of searching, sampled from a table of parameters.
//!
//! An [`Environment`] hides rules that its tasks need. It plays both models: the target answers a task by what its skill
//! states, and the optimizer proposes what the prompt that it is sent shows ([`optimizer`]), with the faults that
//! [`Parameters`] gives it. Both read whole prompts, of skillrl and of its peers, and answer in text. Only *marks* in
//! these texts have a meaning ([`text`]), so no reply depends on wording.
//!
//! # Invariants
//!
//! - A seed decides the environment and every reply: equal requests of a run differ by their number alone. Held by
//!   `a_seed_gives_the_same_environment` and `equal_requests_differ_by_their_number_alone`.
//! - The scores of the report are exact expectations over unseen tasks, not samples. Held by
//!   `the_expected_score_is_the_mean_of_many_attempts`.

pub mod environment;
pub mod optimizer;
pub mod parameters;
pub(crate) mod patches;
pub(crate) mod prompt;
pub mod seeds;
pub(crate) mod stream;
pub mod target;
pub mod text;

pub use environment::Environment;
pub use parameters::{Parameters, Variant};
