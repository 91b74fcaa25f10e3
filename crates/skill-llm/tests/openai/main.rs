//! The wire contract of the dialect: what is sent, and what is made of every answer.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod embeddings;
mod failures;
mod replies;
mod requests;
#[path = "../support/said.rs"]
mod said;
mod socket;
mod support;
