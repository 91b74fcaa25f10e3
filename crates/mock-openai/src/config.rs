//! What a server is made from.

use crate::error::ConfigError;
use crate::fault::FaultPlan;
use crate::latency::Latency;
use crate::workload::Workload;
use std::net::{Ipv4Addr, SocketAddr};

/// What a server is made from; the default answers `OK` at once, on a port that the system chooses.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// Where to listen; port 0 lets the system choose.
    pub address: SocketAddr,
    /// Threads that serve; 1 is the least work for a machine that the client shares.
    pub threads: usize,
    /// Decides faults and latencies.
    pub seed: u64,
    /// What the replies say.
    pub replies: Replies,
    /// How long replies take, those with a fault too.
    pub latency: Latency,
    /// Which requests get something else than a reply.
    pub faults: FaultPlan,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            threads: 1,
            seed: 0,
            replies: Replies::Fixed("OK".to_owned()),
            latency: Latency::default(),
            faults: FaultPlan::default(),
        }
    }
}

impl ServerConfig {
    /// Refuses what cannot work.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.threads == 0 {
            return Err(ConfigError::Threads);
        }
        self.latency.check()?;
        self.faults.check()?;
        match &self.replies {
            Replies::Fixed(_) => Ok(()),
            Replies::Workload(workload) => workload.check(),
        }
    }
}

/// What the replies say.
#[derive(Debug, Clone, PartialEq)]
pub enum Replies {
    /// Always this text.
    Fixed(String),
    /// The scripted training world.
    Workload(Workload),
}
