//! The server on loopback, asked by a client that knows nothing but HTTP.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod access;
mod banks;
mod client;
mod damage;
mod live;
mod notes;
mod pages;
mod site;
