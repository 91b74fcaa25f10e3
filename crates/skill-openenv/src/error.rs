//! Why a server cannot begin.

use std::net::SocketAddr;

/// A server of environments that cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenEnvError {
    /// Other machines could reach it, and nothing would keep anybody out.
    #[error("{listen} can be reached from other machines, so a token is required")]
    TokenNeeded {
        /// The address.
        listen: SocketAddr,
    },
    /// The port cannot be had.
    #[error("cannot listen on {listen}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// There is nothing to play.
    #[error("the environment `{env}` has no tasks")]
    NoTasks {
        /// The environment.
        env: String,
    },
}

impl OpenEnvError {
    /// What a person can do about it, as one sentence.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::TokenNeeded { .. } => "give it a token, or listen on 127.0.0.1",
            Self::Listen { .. } => "take another port; port 0 takes a free one",
            Self::NoTasks { .. } => "check the environment's data",
        }
    }
}
