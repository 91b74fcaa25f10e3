//! The server as its clients meet it: real sockets on loopback, real worlds.

mod access;
mod damage;
mod http;
mod protocol;
mod recorded;
mod site;
mod skills;
mod trials;
mod worlds;
