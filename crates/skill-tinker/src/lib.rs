//! Weights that are trained on another machine, over the JSON form of the Tinker API.
//!
//! [`TinkerBackend`] is a [`TrainBackend`](skill_train::seam::TrainBackend): the loops of fine-tuning and of
//! reinforcement learning run here, samples and gradients are computed by a server. `server` (feature `server`) is
//! such a server over the local back end, so that one machine can train for others.
//!
//! The JSON form is what open servers read (SkyRL, among others). The official service went over to protobuf for its
//! largest calls; a server that answers so is refused by name.
//!
//! # Who should depend on this crate
//!
//! Programs that train by a server of this interface, and those that offer one.
//!
//! # Example
//!
//! ```
//! use skill_llm::ReqwestTransport;
//! use skill_tinker::{Connection, ConnectionSettings, TinkerBackend, TinkerSettings};
//! use skill_train::checkpoint::StateStore;
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let transport = Arc::new(ReqwestTransport::new()?);
//! let connection = Connection::new(transport, &ConnectionSettings::new("http://127.0.0.1:8600"))?;
//! let settings = TinkerSettings {
//!     base_model: "Qwen/Qwen3-4B".to_owned(),
//!     rank: 16,
//!     seed: 42,
//!     start: None,
//!     has_reference: true,
//! };
//! // Nothing is sent before the first call of one of the four verbs.
//! let backend = TinkerBackend::new(connection, settings, StateStore::new("run/checkpoints"));
//! # drop(backend);
//! # Ok(())
//! # }
//! ```

mod archive;
mod backend;
mod connection;
mod loss;
#[cfg(feature = "server")]
pub mod server;
pub mod wire;

pub use backend::{SavedAdapter, TinkerBackend, TinkerSettings};
pub use connection::{Connection, ConnectionSettings};
