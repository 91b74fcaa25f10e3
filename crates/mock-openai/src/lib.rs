//! A server that speaks enough of OpenAI's Chat Completions and embeddings for tests over real sockets and for
//! benchmarks.
//!
//! It is fast, so that a benchmark measures its client; it counts, so that a test can say that nothing was asked
//! twice; and whatever it does by chance it decides from a seed, the bytes of the request and how often these bytes
//! came before, so that nothing depends on the order in which requests arrive.
//!
//! It must not be used by anything but tests and benchmarks: it takes any key, keeps no conversation, and does not
//! stream.
//!
//! ```
//! use mock_openai::{MockServer, ServerConfig};
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), mock_openai::StartError> {
//!     let server = MockServer::start(ServerConfig::default()).await?;
//!     assert!(server.base_url().ends_with("/v1"));
//!     Ok(assert_eq!(server.stats().requests, 0))
//! }
//! ```

pub mod config;
pub mod cpu;
mod dice;
pub mod embedding;
mod error;
pub mod fault;
pub mod latency;
mod reply;
mod server;
mod service;
pub mod stats;
pub mod workload;

pub use config::{Replies, ServerConfig};
pub use error::ConfigError;
pub use fault::{Fault, FaultPlan};
pub use latency::Latency;
pub use server::{MockServer, StartError};
pub use stats::Stats;
pub use workload::Workload;
