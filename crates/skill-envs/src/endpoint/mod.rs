//! An endpoint for agents that bring their own loop: any program that speaks to a chat model over HTTP.
//!
//! An agent is pointed at [`EndpointSession::base_url_openai`] or [`EndpointSession::base_url_anthropic`] with
//! [`EndpointSession::token`] as its key. Its calls are answered by the run's target, with all the layers around it:
//! they are kept in the journal, counted against the budget, paced and retried. What it did comes back as a
//! [`SessionRecord`], and its system prompt contains the skill, as [`SkillInPrompt`] says.
//!
//! One listener on loopback serves all rollouts of an environment; a token tells them apart. The server's tasks only
//! read and write: a request goes through a channel to its session, which calls the target inside the rollout's own
//! future, so nothing goes on once the rollout is given up.
//!
//! It knows nothing of programs and how they are started, and judges nothing.
//!
//! ```
//! use skill_envs::RolloutCtx;
//! use skill_envs::endpoint::{Endpoint, SessionSettings, SkillInPrompt};
//! use skill_llm::ScriptedModel;
//!
//! # async fn run_the_agent(_: String, _: &str) {}
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), skill_envs::EnvError> {
//! let endpoint = Endpoint::start().await?;
//! let skill = SkillInPrompt::Appended("Answer with the bare name.".to_owned());
//! let mut session = endpoint.session(SessionSettings { skill, ..SessionSettings::default() });
//! let (base_url, token) = (session.base_url_openai(), session.token().to_owned());
//! let (target, ctx) = (ScriptedModel::answering("parrot", |_| "The Nile.".to_owned()), RolloutCtx::default());
//! tokio::select! {
//!     () = run_the_agent(base_url, &token) => {}
//!     never = session.serve(&target, &ctx) => match never {},
//! }
//! let record = session.finish()?;
//! assert_eq!(record.n_calls, 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Invariants
//!
//! - What the model answers nobody (a prompt that is too long, a refusal) is reported to the agent, and is no
//!   outage. Held by `a_request_that_the_model_does_not_take_is_told_to_the_agent_which_goes_on`,
//!   `an_agent_that_gives_up_after_a_refusal_has_failed_its_task`.
//! - No call of an agent and no token outlives its rollout. Held by
//!   `a_rollout_that_is_given_up_takes_its_calls_with_it`, `a_token_opens_its_own_session_and_nothing_else`.

mod anthropic;
mod fields;
mod openai;
mod presence;
mod problem;
mod registry;
mod request;
mod responses;
mod server;
mod session;
mod states;
mod streaming;
#[cfg(test)]
mod tests;
mod trajectory;
mod wire;

pub use session::{DEFAULT_MAX_IN_FLIGHT, EndpointSession, SessionSettings, SkillInPrompt};
pub use trajectory::{AgentCall, Reach, RefusedCall, SessionRecord};
pub use wire::{read_chat_completions, write_tool_calls};

use crate::error::EnvError;
use registry::Registry;
use ring::hmac;
use ring::rand::SystemRandom;
use server::Server;
use session::OpenSession;
use skill_llm::Secrets;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// What clients may take of the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointLimits {
    /// The most connections at once; a further one takes the place of one that has no request under way, or waits.
    pub max_connections: usize,
    /// The most bytes of a request's body.
    pub max_body_bytes: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// How long a request may wait for its reply, in case that nobody serves its session.
    pub answer_timeout: Duration,
}

impl Default for EndpointLimits {
    fn default() -> Self {
        Self {
            max_connections: 1_024,
            // A long history with pictures.
            max_body_bytes: 64 * 1024 * 1024,
            body_timeout: Duration::from_secs(60),
            answer_timeout: Duration::from_secs(6 * 3_600),
        }
    }
}

/// A server on loopback; dropping it stops it and closes all connections.
pub struct Endpoint {
    address: SocketAddr,
    registry: Arc<Registry>,
    accepting: AbortHandle,
}

impl Endpoint {
    /// Starts a server at a port that the system chooses, with the default limits.
    ///
    /// It lives in the runtime of the caller.
    ///
    /// # Errors
    ///
    /// The system gives no port or no random numbers.
    pub async fn start() -> Result<Self, EnvError> {
        Self::start_with(EndpointLimits::default()).await
    }

    /// Starts a server with these limits, see [`Endpoint::start`].
    ///
    /// # Errors
    ///
    /// As [`Endpoint::start`].
    pub async fn start_with(limits: EndpointLimits) -> Result<Self, EnvError> {
        Self::start_scrubbing(limits, Secrets::default()).await
    }

    /// Starts a server that takes the secrets of a run out of what agents send, see [`Endpoint::start`].
    ///
    /// # Errors
    ///
    /// As [`Endpoint::start`].
    pub async fn start_scrubbing(limits: EndpointLimits, secrets: Secrets) -> Result<Self, EnvError> {
        let secret = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| cannot_start("the system gives no random numbers"))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(|error| cannot_start(&error.to_string()))?;
        let address = listener.local_addr().map_err(|error| cannot_start(&error.to_string()))?;
        let registry = Arc::new(Registry::new(secret));
        let server = Arc::new(Server { registry: Arc::clone(&registry), limits, secrets });
        let accepting = tokio::spawn(server::accept(listener, server)).abort_handle();
        tracing::debug!(%address, "the endpoint for agents listens");
        Ok(Self { address, registry, accepting })
    }

    /// Opens a session for one rollout, with a token of its own.
    pub fn session(&self, settings: SessionSettings) -> EndpointSession {
        let (token, key, asked) = self.registry.open(settings.clone());
        let open = OpenSession { key, registry: Arc::clone(&self.registry) };
        EndpointSession::new(token, self.address, settings, asked, open)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("address", &self.address).finish_non_exhaustive()
    }
}

fn cannot_start(message: &str) -> EnvError {
    EnvError::Configuration { message: format!("the endpoint for agents cannot be started: {message}") }
}
