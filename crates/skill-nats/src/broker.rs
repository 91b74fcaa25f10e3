//! The seam to the broker: plain messages, and queues of jobs that are kept until they are acknowledged.
//!
//! The broker is a pump and never a record: a message may be lost, come twice or come late, and a queue may lose what
//! it has acknowledged. Nothing here decides whether a job is done.

use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// A connection to a broker.
#[async_trait]
pub trait Broker: Send + Sync {
    /// Sends a message to the current subscribers.
    ///
    /// # Errors
    ///
    /// A message that is too large, and a connection that is closed for good. A message to a broker that is away is
    /// lost without an error.
    async fn publish(&self, subject: &str, payload: Bytes) -> Result<(), BrokerError>;

    /// The messages to this subject from now on, over reconnects.
    ///
    /// # Errors
    ///
    /// A connection that is closed for good.
    async fn subscribe(&self, subject: &str) -> Result<Box<dyn Inbox>, BrokerError>;

    /// The broker's own description.
    ///
    /// # Errors
    ///
    /// A broker that cannot be asked, and [`BrokerError::NoJetStream`].
    async fn facts(&self) -> Result<BrokerFacts, BrokerError>;

    /// True while there is a connection.
    fn is_connected(&self) -> bool;

    /// The connections that were made so far: another number means that the broker was away, however briefly.
    fn n_connections(&self) -> u64;

    /// The most bytes of one message.
    fn max_payload(&self) -> usize;

    /// Makes a queue; one that is there with the same properties stays as it is.
    ///
    /// # Errors
    ///
    /// A broker that is away, has no JetStream, or has no room.
    async fn create_queue(&self, queue: &QueueConfig) -> Result<(), BrokerError>;

    /// Removes a queue with all that is in it; one that is not there is removed already.
    ///
    /// # Errors
    ///
    /// A broker that is away.
    async fn delete_queue(&self, name: &str) -> Result<(), BrokerError>;

    /// The names of the queues that begin like this.
    ///
    /// # Errors
    ///
    /// A broker that is away or has no JetStream.
    async fn queues(&self, prefix: &str) -> Result<Vec<String>, BrokerError>;

    /// Puts a message into the queue of this subject. After an error it may be there all the same.
    ///
    /// # Errors
    ///
    /// A broker that is away or full, and a queue that is not there.
    async fn put(&self, subject: &str, payload: Bytes) -> Result<(), BrokerError>;

    /// Takes the next message of a queue; `None` if none came in this time.
    ///
    /// # Errors
    ///
    /// A broker that is away, and a queue that is not there.
    async fn pull(&self, queue: &str, wait: Duration) -> Result<Option<Arc<dyn Delivery>>, BrokerError>;
}

/// The messages to one subject.
#[async_trait]
pub trait Inbox: Send {
    /// The next message; `None` when the connection is closed for good.
    async fn next(&mut self) -> Option<Bytes>;
}

/// A message of a queue, until it is acknowledged.
///
/// Acknowledgements are not confirmed: one that is lost brings the message back.
#[async_trait]
pub trait Delivery: Send + Sync {
    /// The content.
    fn payload(&self) -> &Bytes;

    /// Work on it continues: restarts the time in which it has to be acknowledged.
    async fn progress(&self);

    /// It is done with.
    async fn done(&self);

    /// It comes back after this time.
    async fn later(&self, wait: Duration);
}

/// A queue of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueConfig {
    /// Its name: letters, digits, `-` and `_`.
    pub name: String,
    /// The subject of its messages.
    pub subject: String,
    /// The time after which an unacknowledged message is delivered again.
    pub ack_wait: Duration,
}

/// What a broker says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerFacts {
    /// The version of the server.
    pub version: String,
    /// The most bytes of one message.
    pub max_payload: usize,
    /// Bytes that its queues may take in files; `None` without a limit.
    pub max_storage: Option<u64>,
    /// Bytes that its queues take in files.
    pub storage: u64,
    /// True if the connection is encrypted.
    pub has_tls: bool,
}

/// Why a broker did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// The connection failed, or no answer arrived in time.
    #[error("cannot reach the broker: {message}")]
    Unreachable {
        /// What happened.
        message: String,
    },
    /// It does not accept the credentials, or the connection without TLS.
    #[error("the broker refuses the connection: {message}")]
    Refused {
        /// What it said.
        message: String,
    },
    /// It keeps no queues.
    #[error("the broker has no JetStream")]
    NoJetStream,
    /// It has no room.
    #[error("the broker has no room for more: {message}")]
    Full {
        /// What it said.
        message: String,
    },
    /// The queue is not there: it was deleted, or the broker has lost its files.
    #[error("the broker has no stream \"{name}\"")]
    NoQueue {
        /// The name of the queue, or the subject of its messages.
        name: String,
    },
    /// A message that it does not take.
    #[error("a message of {bytes} bytes is larger than the broker's limit of {limit}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// An address, a key or a file that cannot be used.
    #[error("{message}")]
    Configuration {
        /// What is wrong.
        message: String,
    },
    /// Anything else.
    #[error("the broker failed: {message}")]
    Other {
        /// What it said.
        message: String,
    },
}

impl BrokerError {
    /// True if the same may succeed later without anybody's doing.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Full { .. } | Self::NoQueue { .. } | Self::Other { .. } => true,
            Self::Refused { .. } | Self::NoJetStream | Self::TooLarge { .. } | Self::Configuration { .. } => {
                false
            }
        }
    }

    /// What can be done about it, as one sentence.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "check the address, and that the server runs",
            Self::Refused { .. } => {
                "check user and password or the seed of the nkey, and for TLS the certificates of the authority"
            }
            Self::NoJetStream => "start the server with JetStream: `nats-server -js`",
            Self::Full { .. } => {
                "give JetStream more room in the server's configuration, or delete unused streams"
            }
            Self::NoQueue { .. } => "nothing needs to be done: the stream is recreated with the next job",
            Self::TooLarge { .. } => "raise `max_payload` in the server's configuration",
            Self::Configuration { .. } => "change the setting",
            Self::Other { .. } => "look into the log of the server",
        }
    }
}
