//! Compares searches in the environments of [`crate::generator`], at equal caps over all calls of all models.
//!
//! Every system is a program of its own, skillrl too, and reaches the models of its environment over HTTP at a
//! [`server`] that counts each call. [`systems`] starts them, [`results`] keeps one row for each run, and [`report`]
//! makes tables of the rows. [`real`] has public tasks and a real target in place of simulated ones.

pub mod real;
pub mod report;
pub mod results;
pub mod server;
mod statistics;
pub mod systems;

/// Why a comparison cannot go on.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
