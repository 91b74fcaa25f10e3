//! Rollouts on several machines: a driver, workers, and a broker between them.
//!
//! # Who should depend on this crate alone
//!
//! Anybody who has rollouts made elsewhere by way of NATS; people take `skillrl train` and `skillrl worker`.
//!
//! ```
//! use skill_nats::{BrokerAddress, Connect, DriverConfig, NatsRunner};
//! use std::sync::Arc;
//!
//! /// Has workers make the rollouts; sends nothing before the first one.
//! fn runner(connect: Arc<dyn Connect>, config: DriverConfig) -> NatsRunner {
//!     NatsRunner::new(connect, config)
//! }
//!
//! // Nothing leaves this machine without TLS and credentials.
//! assert!(BrokerAddress::new("nats://127.0.0.1:4222").check().is_ok());
//! assert!(BrokerAddress::new("nats://broker.example.org:4222").check().is_err());
//! ```
//!
//! # How it works
//!
//! [`NatsRunner`] is a [`skill_envs::RolloutRunner`]. It puts the key of each job into a JetStream stream; a
//! [`Worker`] with a free slot takes one, asks the driver for the job, and makes the rollout with an environment of its
//! own. Each model call is a question to the driver: its journal answers, or the worker sends the request, with the keys
//! of its machine, and the reply is in the driver's journal before the worker goes on. So the models keep all their
//! layers in one process (journal, caps, pace, retries), the files of a run are those of a run on one machine, and
//! a process that dies loses at most its calls in flight.
//!
//! The broker is a pump and no record: whether a job is done is decided by the driver's journal.
//!
//! # Features
//!
//! `client` is the real broker (`client::NatsClient`). Without it there are the protocol, driver and worker over
//! [`Broker`]; `testbed` has a broker in this process that fails on request.
//!
//! # Invariants
//!
//! - A reply is in the driver's journal before its worker makes the next call. Held by
//!   `a_reply_is_in_the_journal_before_the_worker_makes_its_next_call`.
//! - A killed worker loses at most one call per slot; a killed broker, or a killed driver whose workers live, loses
//!   none. Held by `tests/it/faults.rs`, and with real processes by `cargo xtask check nats`.
//! - An empty queue does not mean that a job is done, and no message holds a time of day. Held by
//!   `a_broker_that_dies_costs_no_call_whatever_it_has_lost`, `no_message_holds_a_time_of_day`.

mod address;
mod broker;
#[cfg(feature = "client")]
pub mod client;
mod driver;
#[cfg(feature = "testbed")]
pub mod fake;
mod frames;
mod protocol;
mod remote_model;
mod setup;
mod times;
mod worker;

pub use address::{BrokerAddress, Credentials};
pub use broker::{Broker, BrokerError, BrokerFacts, Delivery, Inbox, QueueConfig};
pub use driver::{Connect, DriverConfig, NatsRunner, ReadWorkers, WorkerNow, WorkersNow};
pub use protocol::{Announcement, Doing, ModelFacts, PROTOCOL, WorkerFacts};
pub use remote_model::RemoteModel;
pub use setup::Contents;
pub use times::Times;
pub use worker::{
    FetchContent, Worker, WorkerAgent, WorkerConfig, WorkerEvent, WorkerEvents, WorkerStop, Workshop,
};
