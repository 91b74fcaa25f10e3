//! `exec` environments, played by a program that is well behaved, and by one that is not.

mod answers;
mod context;
mod endpoint;
mod limits;
mod runtimes;
mod schema;
mod training;
mod tricks;
mod walk;
