//! The endpoint for agents, over sockets on this machine.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../../skill-llm/tests/support/said.rs"]
mod said;
mod session;
mod support;
mod trajectory;
mod wire;
