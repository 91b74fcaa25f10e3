//! Any program as the environment: one JSON object a line over its standard input and output.
//!
//! `docs/env-protocol.md` describes the protocol for people who write programs; [`protocol`] holds its types.
//! A program is either a world that the engine steps through ([`ExecWorld`]), or it runs its own agent and gives back
//! the result ([`ExecEnv`]); it says itself which, when it is started by [`ExecProgram::start`].
//!
//! # Processes
//!
//! Up to [`ExecConfig::processes`] of them run side by side. They are started when they are needed, lead process groups
//! of their own, and see only the environment variables that they are meant to see. A process that dies, misses a
//! deadline or prints what is no answer is killed with everything that it has started, and the next request gets a new
//! one; the item under way ends in [`crate::EnvError::Broken`], which is retried and never becomes a score. A
//! program that dies again and again, or that does not say what the protocol wants, ends in
//! [`crate::EnvError::Program`]. Either way the message names the line of its standard output and shows the end of its
//! standard error.
//!
//! A rollout that is no longer awaited takes its process with it, so that nothing of it reaches the next one.
//!
//! # Invariants
//!
//! - Whatever a program prints, and however it ends, is an error and no score, and nothing of it reaches the next
//!   rollout. Held by `tricks.rs` in the tests of this module.
//! - The schema of the protocol, its page and its code name the same fields. Held by `schema.rs` in the tests of
//!   this module.
//! - A program sees only the environment variables that are named. Held by
//!   `the_environment_of_the_program_is_what_was_named`.

mod agent;
mod config;
mod env;
mod fault;
mod items;
mod pool;
mod process;
mod program;
pub mod protocol;
mod spawn;
mod stderr;
mod supervise;
mod world;

pub use agent::ENDPOINT_VARIABLES;
pub use config::{DEFAULT_MAX_ERRORS, ExecConfig, ExecDeadlines, ExecLimits, OnError, SkillDelivery};
pub use env::ExecEnv;
pub use program::ExecProgram;
pub use protocol::{Mode, PROTOCOL_VERSION};
pub use skill_llm::process::BASE_VARIABLES;
pub use world::ExecWorld;
