//! Train the skill document of an LLM agent: the facade, and the configuration file of a run.

pub mod config;

pub use config::{Config, ConfigError, LoadedConfig};
