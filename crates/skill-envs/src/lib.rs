//! Task environments: where the items of a data set come from, and how one item is run and scored.
//!
//! # Who should depend on this crate alone
//!
//! Anybody who wants the built-in worlds without training, or who writes an [`Env`] of their own.
//! Nothing here knows about training.

pub mod env;
pub mod error;

pub use env::{Env, Item, RolloutCtx, Split};
pub use error::EnvError;
