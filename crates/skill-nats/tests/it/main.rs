//! Drivers and workers over a broker in this process, in virtual time: what they come to whatever fails, and how often a
//! request is sent.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bad_input;
mod cluster;
mod faults;
mod same;
