//! The real broker: a server of NATS with JetStream, by the official client.
//!
//! Streams alone are used, as a queue of work with explicit acknowledgements; the key-value stores of this client do
//! not work with the servers that distributions package.

use crate::address::{BrokerAddress, Credentials};
use crate::broker::{Broker, BrokerError, BrokerFacts, Delivery, Inbox, QueueConfig};
use crate::driver::Connect;
use async_nats::connection::State as ConnectionState;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::context::{CreateStreamErrorKind, PublishErrorKind};
use async_nats::jetstream::message::AckKind;
use async_nats::jetstream::stream::{Config as StreamConfig, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{ConnectErrorKind, ConnectOptions, RequestErrorKind, StatusCode, Subscriber};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The consumer that all workers share.
const CONSUMER: &str = "workers";
/// A silent connection is given up after two of these.
const PING_INTERVAL: Duration = Duration::from_secs(3);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// An answer of the broker takes at most so long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest wait between two attempts to reconnect.
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// Messages that wait to be sent, or to be read, at most.
const MAX_WAITING: usize = 65_536;
/// Requests for a job that wait at the broker, of all workers together.
const MAX_PULLS: i64 = 65_536;

/// A connection, or how to make one.
pub struct NatsConnect {
    address: BrokerAddress,
    name: String,
}

impl NatsConnect {
    /// Connects to this address; `name` is what the server calls the connection.
    ///
    /// # Errors
    ///
    /// As [`BrokerAddress::check`].
    pub fn new(address: BrokerAddress, name: impl Into<String>) -> Result<Self, BrokerError> {
        address.check()?;
        Ok(Self { address, name: name.into() })
    }
}

#[async_trait]
impl Connect for NatsConnect {
    async fn connect(&self) -> Result<Arc<dyn Broker>, BrokerError> {
        let mut options = ConnectOptions::new()
            .name(&self.name)
            .ping_interval(PING_INTERVAL)
            .connection_timeout(CONNECT_TIMEOUT)
            .request_timeout(Some(ANSWER_TIMEOUT))
            .client_capacity(MAX_WAITING)
            .subscription_capacity(MAX_WAITING)
            .ignore_discovered_servers()
            .reconnect_delay_callback(|attempts| {
                let doublings = u32::try_from(attempts).unwrap_or(u32::MAX).min(10);
                Duration::from_millis(10).saturating_mul(1 << doublings).min(MAX_RECONNECT_DELAY)
            });
        options = match &self.address.credentials {
            Credentials::None => options,
            Credentials::User { name, password } => {
                options.user_and_password(name.clone(), password.expose().to_owned())
            }
            Credentials::Nkey { seed } => options.nkey(seed.expose().to_owned()),
        };
        if self.address.url.starts_with("tls://") {
            options = options.require_tls(true);
        }
        if let Some(ca_file) = &self.address.ca_file {
            options = options.add_root_certificates(ca_file.clone());
        }
        if let Some((certificate, key)) = &self.address.client_certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        let client = options.connect(&self.address.url).await.map_err(|error| {
            let message = format!("{}: {}", self.address.shown(), text_of(&error));
            match error.kind() {
                ConnectErrorKind::Io if is_certificate_error(&error) => BrokerError::Refused { message },
                ConnectErrorKind::Authentication
                | ConnectErrorKind::AuthorizationViolation
                | ConnectErrorKind::Tls => BrokerError::Refused { message },
                ConnectErrorKind::ServerParse => BrokerError::Configuration { message },
                ConnectErrorKind::Dns
                | ConnectErrorKind::TimedOut
                | ConnectErrorKind::Io
                | ConnectErrorKind::MaxReconnects => BrokerError::Unreachable { message },
            }
        })?;
        Ok(Arc::new(NatsClient::new(client, self.address.url.starts_with("tls://"))))
    }
}

/// True for an exchange that failed because this side does not trust the other, or the other way around: the client
/// reports it as a failure of the connection.
fn is_certificate_error(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|error| error.kind() == std::io::ErrorKind::InvalidData) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// An error with its causes.
fn text_of(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // The errors of this client say their causes themselves now and then.
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// A connection to a server of NATS.
pub struct NatsClient {
    client: async_nats::Client,
    streams: jetstream::Context,
    /// Inboxes for answers to requests for jobs that no request uses now.
    inboxes: Mutex<Vec<PullInbox>>,
    has_tls: bool,
}

impl NatsClient {
    fn new(client: async_nats::Client, has_tls: bool) -> Self {
        let streams = jetstream::context::ContextBuilder::new()
            .timeout(ANSWER_TIMEOUT)
            .ack_timeout(ANSWER_TIMEOUT)
            .build(client.clone());
        Self { client, streams, inboxes: Mutex::default(), has_tls }
    }

    /// An inbox that no request uses. An inbox is dropped if its request was cancelled, because the answer may still arrive.
    async fn inbox(&self) -> Result<PullInbox, BrokerError> {
        if let Some(inbox) = self.inboxes.lock().pop() {
            return Ok(inbox);
        }
        let subject = self.client.new_inbox();
        let subscribed = self.client.subscribe(subject.clone()).await;
        let messages = subscribed.map_err(|error| BrokerError::Other { message: text_of(&error) })?;
        Ok(PullInbox { subject, messages })
    }

    /// What the server says of the account. The client's own type does not read what servers of version 2.9 say.
    async fn account(&self) -> Result<Value, BrokerError> {
        let answer = self.client.request("$JS.API.INFO", Bytes::new()).await.map_err(|error| {
            let message = text_of(&error);
            match error.kind() {
                RequestErrorKind::NoResponders => BrokerError::NoJetStream,
                _ => BrokerError::Unreachable { message },
            }
        })?;
        let account: Value = serde_json::from_slice(&answer.payload)
            .map_err(|error| BrokerError::Other { message: error.to_string() })?;
        match account.pointer("/error/err_code").and_then(Value::as_u64) {
            Some(_) if account.pointer("/error/code").and_then(Value::as_u64) == Some(503) => {
                Err(BrokerError::NoJetStream)
            }
            Some(code) => Err(BrokerError::Other { message: format!("JetStream's error {code}") }),
            None => Ok(account),
        }
    }

    fn unreachable(&self) -> Result<(), BrokerError> {
        if self.is_connected() {
            return Ok(());
        }
        Err(BrokerError::Unreachable { message: "the connection was lost and is being restored".to_owned() })
    }
}

/// The code of the server's error that is behind this one.
fn code_of(error: &(dyn std::error::Error + 'static)) -> Option<ErrorCode> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<jetstream::Error>() {
            return Some(error.error_code());
        }
        cause = error.source();
    }
    None
}

/// What an error of JetStream means.
fn stream_error(error: &(dyn std::error::Error + 'static), name: &str) -> BrokerError {
    let message = text_of(error);
    match code_of(error) {
        Some(ErrorCode::STREAM_NOT_FOUND | ErrorCode::CONSUMER_NOT_FOUND) => {
            BrokerError::NoQueue { name: name.to_owned() }
        }
        Some(ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT) => {
            BrokerError::NoJetStream
        }
        Some(
            ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
            | ErrorCode::INSUFFICIENT_RESOURCES
            | ErrorCode::STORAGE_RESOURCES_EXCEEDED
            | ErrorCode::MEMORY_RESOURCES_EXCEEDED
            | ErrorCode::STREAM_STORE_FAILED
            | ErrorCode::MAXIMUM_STREAMS_LIMIT,
        ) => BrokerError::Full { message },
        _ if message.contains("timed out") => BrokerError::Unreachable { message },
        _ => BrokerError::Other { message },
    }
}

/// The inbox for the answer to a request for a job.
struct PullInbox {
    subject: String,
    messages: Subscriber,
}

/// The body of a request for a job.
#[derive(Serialize)]
struct PullRequest {
    batch: u32,
    /// How long the request waits at the server, in nanoseconds.
    expires: u64,
}

struct NatsInbox(Subscriber);

#[async_trait]
impl Inbox for NatsInbox {
    async fn next(&mut self) -> Option<Bytes> {
        self.0.next().await.map(|message| message.payload)
    }
}

struct NatsDelivery {
    message: jetstream::Message,
}

impl NatsDelivery {
    /// A lost acknowledgement only causes another delivery, which the driver recognises.
    async fn acknowledge(&self, kind: AckKind) {
        if let Err(error) = self.message.ack_with(kind).await {
            tracing::debug!(%error, "an acknowledgement could not be sent");
        }
    }
}

#[async_trait]
impl Delivery for NatsDelivery {
    fn payload(&self) -> &Bytes {
        &self.message.payload
    }

    async fn progress(&self) {
        self.acknowledge(AckKind::Progress).await;
    }

    async fn done(&self) {
        self.acknowledge(AckKind::Ack).await;
    }

    async fn later(&self, wait: Duration) {
        let wait = (!wait.is_zero()).then_some(wait);
        self.acknowledge(AckKind::Nak(wait)).await;
    }
}

#[async_trait]
impl Broker for NatsClient {
    async fn publish(&self, subject: &str, payload: Bytes) -> Result<(), BrokerError> {
        let (bytes, limit) = (payload.len(), self.max_payload());
        if bytes > limit {
            return Err(BrokerError::TooLarge { bytes, limit });
        }
        if !self.is_connected() {
            // It would wait with thousands of others, and be of no use when it arrives.
            return Ok(());
        }
        let sent = self.client.publish(subject.to_owned(), payload);
        match tokio::time::timeout(ANSWER_TIMEOUT, sent).await {
            Ok(sent) => sent.map_err(|error| BrokerError::Other { message: text_of(&error) }),
            Err(_) => Ok(()),
        }
    }

    async fn subscribe(&self, subject: &str) -> Result<Box<dyn Inbox>, BrokerError> {
        let subscribed = self.client.subscribe(subject.to_owned()).await;
        let subscriber = subscribed.map_err(|error| BrokerError::Other { message: text_of(&error) })?;
        // The server knows of it before anything is published in answer to it.
        self.client.flush().await.map_err(|error| BrokerError::Unreachable { message: text_of(&error) })?;
        Ok(Box::new(NatsInbox(subscriber)))
    }

    async fn facts(&self) -> Result<BrokerFacts, BrokerError> {
        self.unreachable()?;
        let info = self.client.server_info();
        if !info.jetstream {
            return Err(BrokerError::NoJetStream);
        }
        let account = self.account().await?;
        let number = |pointer: &str| account.pointer(pointer).and_then(Value::as_i64);
        Ok(BrokerFacts {
            version: info.version,
            max_payload: info.max_payload,
            max_storage: number("/limits/max_storage").and_then(|limit| u64::try_from(limit).ok()),
            storage: number("/storage").and_then(|used| u64::try_from(used).ok()).ok_or_else(|| {
                BrokerError::Other { message: "it does not say how much storage is in use".to_owned() }
            })?,
            has_tls: self.has_tls || info.tls_required,
        })
    }

    fn is_connected(&self) -> bool {
        self.client.connection_state() == ConnectionState::Connected
    }

    fn n_connections(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Relaxed)
    }

    fn max_payload(&self) -> usize {
        self.client.max_payload()
    }

    async fn create_queue(&self, queue: &QueueConfig) -> Result<(), BrokerError> {
        self.unreachable()?;
        let config = StreamConfig {
            name: queue.name.clone(),
            subjects: vec![queue.subject.clone()],
            retention: RetentionPolicy::WorkQueue,
            discard: DiscardPolicy::New,
            storage: StorageType::File,
            num_replicas: 1,
            ..StreamConfig::default()
        };
        let made = self.streams.create_stream(config).await;
        let stream = made.map_err(|error| match error.kind() {
            CreateStreamErrorKind::JetStreamUnavailable => BrokerError::NoJetStream,
            CreateStreamErrorKind::TimedOut => BrokerError::Unreachable { message: text_of(&error) },
            _ => stream_error(&error, &queue.name),
        })?;
        let consumer = pull::Config {
            durable_name: Some(CONSUMER.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: queue.ack_wait,
            max_deliver: -1,
            max_ack_pending: -1,
            max_waiting: MAX_PULLS,
            ..pull::Config::default()
        };
        let made = stream.create_consumer(consumer).await;
        made.map_err(|error| stream_error(&error, &queue.name))?;
        Ok(())
    }

    async fn delete_queue(&self, name: &str) -> Result<(), BrokerError> {
        self.unreachable()?;
        match self.streams.delete_stream(name).await {
            Ok(_) => Ok(()),
            Err(error) => match stream_error(&error, name) {
                BrokerError::NoQueue { .. } => Ok(()),
                error => Err(error),
            },
        }
    }

    async fn queues(&self, prefix: &str) -> Result<Vec<String>, BrokerError> {
        self.unreachable()?;
        let mut names = self.streams.stream_names();
        let mut found = Vec::new();
        while let Some(name) = names.next().await {
            let name = name.map_err(|error| stream_error(&error, prefix))?;
            if name.starts_with(prefix) {
                found.push(name);
            }
        }
        Ok(found)
    }

    async fn put(&self, subject: &str, payload: Bytes) -> Result<(), BrokerError> {
        self.unreachable()?;
        let (bytes, limit) = (payload.len(), self.max_payload());
        if bytes > limit {
            return Err(BrokerError::TooLarge { bytes, limit });
        }
        let put = async { self.streams.publish(subject.to_owned(), payload).await?.await };
        put.await.map(drop).map_err(|error| match error.kind() {
            PublishErrorKind::StreamNotFound => BrokerError::NoQueue { name: subject.to_owned() },
            PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => {
                BrokerError::Unreachable { message: text_of(&error) }
            }
            _ => stream_error(&error, subject),
        })
    }

    async fn pull(&self, queue: &str, wait: Duration) -> Result<Option<Arc<dyn Delivery>>, BrokerError> {
        self.unreachable()?;
        let request = PullRequest { batch: 1, expires: u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX) };
        let payload = serde_json::to_vec(&request)
            .map_err(|error| BrokerError::Other { message: error.to_string() })?;
        let mut inbox = self.inbox().await?;
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{queue}.{CONSUMER}");
        let requested = self.client.publish_with_reply(subject, inbox.subject.clone(), payload.into()).await;
        requested.map_err(|error| BrokerError::Other { message: text_of(&error) })?;
        // If the broker dies, the subscription yields nothing more and does not end.
        let answer = tokio::time::timeout(wait + ANSWER_TIMEOUT, inbox.messages.next()).await;
        let Ok(Some(message)) = answer else {
            return Err(BrokerError::Unreachable { message: "no answer to a request for a job".to_owned() });
        };
        self.inboxes.lock().push(inbox);
        match message.status {
            None | Some(StatusCode::OK) => {
                let message = jetstream::Message { message, context: self.streams.clone() };
                Ok(Some(Arc::new(NatsDelivery { message })))
            }
            Some(StatusCode::TIMEOUT | StatusCode::NOT_FOUND) => Ok(None),
            // The stream or its consumer does not exist, or was deleted meanwhile.
            Some(StatusCode::NO_RESPONDERS | StatusCode::REQUEST_TERMINATED) => {
                Err(BrokerError::NoQueue { name: queue.to_owned() })
            }
            Some(status) => {
                let description = message.description.unwrap_or_default();
                Err(BrokerError::Other { message: format!("status {status} {description}") })
            }
        }
    }
}
