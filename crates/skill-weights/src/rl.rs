//! Reinforcement learning: GRPO on a local model, in any environment.
//!
//! An iteration plays groups of episodes of some training tasks with the weights as they are, compares the episodes of
//! a group with each other, and moves the weights by mini-batches of episodes. [`RlTrainer`] does it through the seam of
//! `skill_train`.
//!
//! With a bank in the loop ([`RlBank`]) the groups of an iteration are the trials of its candidates, and a teacher proposes
//! more at each validation.
//!
//! The tokens of an episode are kept as they were sampled and shown: nothing is tokenized twice. An episode is one row
//! where its prompts only grow, and a row for each turn otherwise.
//!
//! # Invariants
//!
//! - A run of GRPO that is killed anywhere ends with the same bytes, and no token of an episode is tokenized twice.
//!   Held by `a_run_that_dies_in_any_call_ends_with_the_same_bytes`, `no_token_of_an_episode_is_tokenized_twice`.

mod bank;
mod calls;
mod evolve;
mod lessons;
mod measure;
mod replies;
mod rollout;
mod run;
mod trainer;
mod update;

pub use bank::RlBank;
pub use measure::RlCost;
pub use trainer::RlTrainer;
