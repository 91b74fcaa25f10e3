//! The server as its clients meet it: real sockets on loopback, real worlds.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod access;
mod damage;
mod http;
mod protocol;
mod recorded;
mod site;
mod skills;
mod trials;
mod worlds;
