//! The pace: requests and tokens per minute, and how many requests are in flight.
//!
//! All models of one provider share a [`Pacer`]. Calls queue in the order in which they came, and only the first of
//! the queue watches for its turn, so a change wakes one task however many wait. The pace's own lock is held for a
//! few additions and never while waiting.

mod gcra;
mod latency;
mod limit;

use self::gcra::Gcra;
use self::latency::Latency;
use self::limit::AdaptiveLimit;
use super::estimate::RunningMean;
use super::layered::{Layered, Prompt as _, Used, layer};
use super::limits::{PaceEnd, PaceGrant, PacedRequest};
use crate::call::CallCtx;
use crate::chat::{ChatModel, ModelId};
use crate::embedding::EmbeddingModel;
use crate::error::LlmError;
use parking_lot::Mutex;
use skill_core::Usage;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

/// The lower end of what adapts by itself.
const DEFAULT_MIN_IN_FLIGHT: u32 = 1;
/// Where it begins.
const DEFAULT_START_IN_FLIGHT: u32 = 16;
/// The upper end of what adapts by itself.
pub const DEFAULT_MAX_IN_FLIGHT: u32 = 64;
/// How much of a rate may be used at once.
const DEFAULT_BURST: Duration = Duration::from_secs(1);
/// The longest that a provider can hold back all its calls.
const DEFAULT_MAX_HOLD: Duration = Duration::from_secs(10 * 60);

/// The limits of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaceConfig {
    /// The most requests per minute; `None`, the default, sets no limit.
    pub requests_per_minute: Option<u32>,
    /// The most tokens per minute, of prompts and replies; `None`, the default, sets no limit.
    pub tokens_per_minute: Option<u64>,
    /// How much of the rates may be used at once after a pause: what they give in this time; 1 s by default.
    pub burst: Duration,
    /// The fewest requests that may be in flight, however slow the provider is; 1 by default.
    pub min_in_flight: u32,
    /// How many requests may be in flight at first; 16 by default.
    pub start_in_flight: u32,
    /// The most requests that may be in flight; 64 by default.
    pub max_in_flight: u32,
    /// The longest wait asked for by the provider that holds back other calls; a longer one concerns only the call
    /// that it was said to. 10 minutes by default.
    pub max_hold: Duration,
}

impl Default for PaceConfig {
    fn default() -> Self {
        Self {
            requests_per_minute: None,
            tokens_per_minute: None,
            burst: DEFAULT_BURST,
            min_in_flight: DEFAULT_MIN_IN_FLIGHT,
            start_in_flight: DEFAULT_START_IN_FLIGHT,
            max_in_flight: DEFAULT_MAX_IN_FLIGHT,
            max_hold: DEFAULT_MAX_HOLD,
        }
    }
}

impl PaceConfig {
    /// A fixed number of requests in flight, without rates.
    pub fn fixed(in_flight: u32) -> Self {
        Self {
            min_in_flight: in_flight,
            start_in_flight: in_flight,
            max_in_flight: in_flight,
            ..Self::default()
        }
    }
}

/// What a [`Pacer`] does at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaceSnapshot {
    /// How many requests may be in flight.
    pub limit: usize,
    /// How many are.
    pub in_flight: usize,
    /// How many calls wait for their turn.
    pub waiting: usize,
}

/// The pace of one provider, shared by its models.
#[derive(Debug)]
pub struct Pacer {
    max_hold: Duration,
    state: Mutex<State>,
    /// The one permit belongs to the first of the queue; the semaphore hands it on in order.
    turn: Semaphore,
    /// Wakes the first of the queue.
    changed: Notify,
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct State {
    requests: Option<Gcra>,
    tokens: Option<Gcra>,
    limit: AdaptiveLimit,
    in_flight: usize,
    held_until: Option<Instant>,
    kinds: Vec<Kind>,
    kind_of: HashMap<ModelId, KindsOfModel>,
}

/// The kinds of request that one model has had.
#[derive(Debug, Default)]
struct KindsOfModel {
    plain: Option<usize>,
    with_schema: Option<usize>,
}

impl KindsOfModel {
    fn of(&self, has_schema: bool) -> Option<usize> {
        if has_schema { self.with_schema } else { self.plain }
    }
}

/// What is known of one kind of request: those of one model, with or without a schema for the reply.
#[derive(Debug, Default)]
struct Kind {
    latency: Latency,
    output_tokens: RunningMean,
}

/// What the first of the queue has to wait for.
enum Turn {
    Go(PaceGrant),
    Until(Instant),
    Change,
}

impl Pacer {
    /// A pace by these limits.
    pub fn new(config: PaceConfig) -> Arc<Self> {
        let now = Instant::now();
        let rate = |per_minute| Gcra::new(per_minute, config.burst, now);
        let state = State {
            requests: config.requests_per_minute.map(|requests| rate(u64::from(requests))),
            tokens: config.tokens_per_minute.map(rate),
            limit: AdaptiveLimit::new(config.min_in_flight, config.start_in_flight, config.max_in_flight),
            in_flight: 0,
            held_until: None,
            kinds: Vec::new(),
            kind_of: HashMap::new(),
        };
        Arc::new(Self {
            max_hold: config.max_hold,
            state: Mutex::new(state),
            turn: Semaphore::new(1),
            changed: Notify::new(),
            waiting: AtomicUsize::new(0),
        })
    }

    /// What it does now.
    pub fn snapshot(&self) -> PaceSnapshot {
        let waiting = self.waiting.load(Ordering::Relaxed);
        let state = self.state.lock();
        PaceSnapshot { limit: state.limit.whole(), in_flight: state.in_flight, waiting }
    }

    /// Waits for the turn of this request; dropping the future leaves the queue.
    async fn admit(&self, request: &PacedRequest) -> PaceGrant {
        let _counted = Counted::new(&self.waiting);
        // The semaphore is never closed; and if it were, calls would only lose their order.
        let _first = self.turn.acquire().await;
        loop {
            // Before the state is read, so that no change in between is lost.
            let changed = self.changed.notified();
            let turn = {
                let mut state = self.state.lock();
                let kind = state.kind(request);
                state.turn(kind, request.input_tokens)
            };
            match turn {
                Turn::Go(granted) => return granted,
                Turn::Change => changed.await,
                Turn::Until(time) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(time) => {}
                        () = changed => {}
                    }
                }
            }
        }
    }

    /// Gives the place of a request back and learns from how it ended.
    fn settle(&self, request: &PacedRequest, granted: PaceGrant, end: PaceEnd) {
        let now = Instant::now();
        let sent = |took: Duration| now.checked_sub(took).unwrap_or(now);
        let mut state = self.state.lock();
        match end {
            PaceEnd::Replied { usage, paced_tokens, took } => {
                let kind = state.kind(request);
                state.replied(kind, granted, (usage, paced_tokens), (sent(took), now));
            }
            PaceEnd::RateLimited { took, retry_after } => {
                state.limit.rate_limited(sent(took), now);
                if let Some(wait) = retry_after.filter(|wait| *wait <= self.max_hold) {
                    state.held_until = state.held_until.max(now.checked_add(wait));
                }
            }
            PaceEnd::Failed => {}
        }
        state.in_flight = state.in_flight.saturating_sub(1);
        drop(state);
        self.changed.notify_one();
    }
}

impl State {
    fn kind(&mut self, request: &PacedRequest) -> usize {
        let known = self.kind_of.get(&request.model).and_then(|kinds| kinds.of(request.has_schema));
        known.unwrap_or_else(|| {
            let kind = self.kinds.len();
            self.kinds.push(Kind::default());
            let kinds = self.kind_of.entry(request.model.clone()).or_default();
            if request.has_schema {
                kinds.with_schema = Some(kind);
            } else {
                kinds.plain = Some(kind);
            }
            kind
        })
    }

    fn turn(&mut self, kind: usize, input_tokens: u64) -> Turn {
        if self.in_flight >= self.limit.whole() {
            return Turn::Change;
        }
        let now = Instant::now();
        let held = self.held_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        let rate = |rate: &Option<Gcra>| rate.map_or(Duration::ZERO, |rate| rate.wait(now));
        let wait = held.max(rate(&self.requests)).max(rate(&self.tokens));
        if !wait.is_zero() {
            return Turn::Until(now + wait);
        }
        let output_tokens = self.kinds.get(kind).and_then(|kind| kind.output_tokens.tokens()).unwrap_or(0);
        let reserved_tokens = input_tokens.saturating_add(output_tokens);
        if let Some(requests) = &mut self.requests {
            requests.take(1, now);
        }
        if let Some(tokens) = &mut self.tokens {
            tokens.take(reserved_tokens, now);
        }
        self.in_flight += 1;
        Turn::Go(PaceGrant { reserved_tokens })
    }

    fn replied(
        &mut self,
        kind: usize,
        granted: PaceGrant,
        (usage, paced_tokens): (Usage, u64),
        (sent, now): (Instant, Instant),
    ) {
        let used = usage.input.saturating_add(usage.output);
        let mut is_high = false;
        if let Some(kind) = self.kinds.get_mut(kind) {
            if usage.output > 0 {
                kind.output_tokens.add(usage.output);
            }
            let took = now.saturating_duration_since(sent);
            if self.limit.is_after_decrease(sent) && kind.latency.add(took, paced_tokens, now) {
                self.limit.latency_rises(now);
            }
            is_high = kind.latency.is_high();
        }
        if !is_high {
            self.limit.replied(self.in_flight);
        }
        // A server that counts nothing leaves the estimate standing.
        if let Some(tokens) = self.tokens.as_mut().filter(|_| used > 0) {
            if used >= granted.reserved_tokens {
                tokens.take(used - granted.reserved_tokens, now);
            } else {
                tokens.give_back(granted.reserved_tokens - used);
            }
        }
    }
}

/// A place among the requests in flight; dropping it gives the place back.
struct Permit<'a> {
    pacer: &'a Pacer,
    request: PacedRequest,
    granted: PaceGrant,
    sent: Instant,
    end: PaceEnd,
}

impl Permit<'_> {
    /// How the request ended, for those who keep the pace.
    fn ended(&mut self, outcome: &Result<impl Used, LlmError>) {
        let took = self.sent.elapsed();
        self.end = match outcome {
            Ok(reply) => PaceEnd::Replied { usage: reply.usage(), paced_tokens: reply.paced_tokens(), took },
            Err(LlmError::RateLimited { retry_after, .. }) => {
                PaceEnd::RateLimited { took, retry_after: *retry_after }
            }
            Err(_) => PaceEnd::Failed,
        };
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.pacer.settle(&self.request, self.granted, self.end);
    }
}

/// Counts itself while it lives.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A model that keeps the pace of its provider.
pub struct Paced<M: ?Sized = dyn ChatModel> {
    inner: Arc<M>,
    pacer: Arc<Pacer>,
}

impl Paced {
    /// Sends the calls of `inner` at this pace.
    pub fn new(inner: Arc<dyn ChatModel>, pacer: Arc<Pacer>) -> Self {
        Self { inner, pacer }
    }
}

impl Paced<dyn EmbeddingModel> {
    /// As [`Paced::new`], for an embedding model.
    pub fn embedding(inner: Arc<dyn EmbeddingModel>, pacer: Arc<Pacer>) -> Self {
        Self { inner, pacer }
    }
}

layer!(Paced);

impl<M: ?Sized> Paced<M> {
    /// Makes a call when its turn has come.
    async fn run(&self, request: &M::Request, call: &CallCtx) -> Result<M::Reply, LlmError>
    where
        M: Layered,
    {
        let model = self.inner.model_id();
        let paced = PacedRequest::new(model.clone(), request.has_schema(), request.input_tokens());
        call.attempts.note_out(false);
        let begun = Instant::now();
        let granted = super::before_sending(model, call, self.pacer.admit(&paced)).await?;
        let (pacer, sent, end) = (self.pacer.as_ref(), Instant::now(), PaceEnd::Failed);
        let mut permit = Permit { pacer, request: paced, granted, sent, end };
        call.attempts.add_wait(permit.sent.saturating_duration_since(begun));
        // Before it is sent, so that it is counted even if this process is killed while it is out.
        call.attempts
            .begin_request(permit.request.input_tokens)
            .inspect_err(|_| call.attempts.note_unsent())?;
        // From here on it may be billed: anyone who drops this call while it is out finds that in the log.
        call.attempts.note_out(true);
        let outcome = self.inner.ask(request, call).await;
        call.attempts.note_out(false);
        permit.ended(&outcome);
        outcome
    }
}

#[cfg(test)]
mod tests;
