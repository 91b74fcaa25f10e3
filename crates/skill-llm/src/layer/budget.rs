//! Caps of a run on calls, tokens, money and time.
//!
//! Every attempt reserves the most that it may use before it is sent, and settles what it used after: the bytes of its
//! prompt, or what the server's reports have shown of its tokens, and the whole limit of its reply. So calls that run at
//! the same time cannot pass a cap together. Without a limit on replies a cap is approximate: the longest reply seen is
//! reserved then. Where the cap would be passed only because of what others have reserved, a call waits for them to
//! settle, in order. Once a cap is reached, nothing more is sent.

use super::estimate::{ModelSeen, Seen};
use super::layered::{Layered, Prompt, Used as _, layer};
use super::limits::{AttemptSize, AttemptUse};
use crate::anthropic::DEFAULT_MAX_TOKENS;
use crate::attempt::{AttemptLog, Bounds};
use crate::call::CallCtx;
use crate::chat::{ChatModel, ModelId};
use crate::embedding::EmbeddingModel;
use crate::error::LlmError;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skill_core::Usage;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

/// Money is kept in units of 1e-12, so that sums are exact; a price per million tokens is a million of them per token.
const UNITS_PER_ONE: f64 = 1e12;
const UNITS_PER_TOKEN: f64 = 1e6;

/// What a run may use; `None`, the default, sets no cap.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct BudgetCaps {
    /// Requests that are sent, every attempt counted.
    pub calls: Option<u64>,
    /// Tokens of prompts and replies.
    pub tokens: Option<u64>,
    /// Money, in the currency of the prices.
    pub money: Option<f64>,
    /// How long the run may take, over all its processes.
    pub time: Option<Duration>,
}

/// What a run has used.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spent {
    /// Requests that were sent, every attempt counted.
    pub calls: u64,
    /// Tokens of prompts and replies.
    pub tokens: u64,
    /// Money, in the currency of the prices.
    pub money: f64,
    /// How long the run has taken, over all its processes.
    pub time: Duration,
}

/// What a million tokens of one model cost; nothing by default.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Prices {
    /// Tokens of prompts.
    pub input: f64,
    /// Tokens of prompts that the provider took from its cache.
    pub cached: f64,
    /// Tokens of replies.
    pub output: f64,
}

impl Prices {
    /// What these tokens cost.
    pub fn cost(&self, usage: Usage) -> f64 {
        money_of(self.units(usage))
    }

    /// The most that these tokens cost, however many of them are cached.
    fn most_units(&self, usage: Usage) -> u128 {
        let cached = Usage { cached: usage.input, ..usage };
        self.units(Usage { cached: 0, ..usage }).max(self.units(cached))
    }

    fn units(&self, usage: Usage) -> u128 {
        let per_token = |price: f64| u128::from((price * UNITS_PER_TOKEN).round() as u64);
        let cached = usage.cached.min(usage.input);
        u128::from(usage.input - cached) * per_token(self.input)
            + u128::from(cached) * per_token(self.cached)
            + u128::from(usage.output) * per_token(self.output)
    }
}

fn units_of(money: f64) -> u128 {
    // A float becomes the nearest number that there is: less than nothing is nothing.
    (money * UNITS_PER_ONE).round() as u128
}

fn money_of(units: u128) -> f64 {
    units as f64 / UNITS_PER_ONE
}

/// Calls, tokens and units of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Amount {
    calls: u64,
    tokens: u64,
    units: u128,
}

impl Amount {
    /// A call with these tokens.
    fn of(usage: Usage, prices: &Prices) -> Self {
        Self { calls: 1, tokens: usage.input.saturating_add(usage.output), units: prices.units(usage) }
    }

    /// The most that a call with these tokens comes to.
    fn at_most(usage: Usage, prices: &Prices) -> Self {
        Self { units: prices.most_units(usage), ..Self::of(usage, prices) }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            tokens: self.tokens.saturating_add(other.tokens),
            units: self.units.saturating_add(other.units),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(other.calls),
            tokens: self.tokens.saturating_sub(other.tokens),
            units: self.units.saturating_sub(other.units),
        }
    }
}

/// The budget of a run, shared by all its models.
#[derive(Debug)]
pub struct Budget {
    caps: BudgetCaps,
    state: Mutex<State>,
    /// What the replies of each model have shown, regardless of who asked.
    seen: Mutex<HashMap<ModelId, Arc<Mutex<Seen>>>>,
    /// The one permit belongs to the first of those that wait; the semaphore hands it on in order.
    turn: Semaphore,
    /// Wakes the first of those that wait.
    settled: Notify,
}

#[derive(Debug)]
struct State {
    /// What is used for good.
    spent: Amount,
    /// What attempts under way may use.
    reserved: Amount,
    under_way: usize,
    /// The time of earlier processes.
    earlier: Duration,
    begun: Instant,
    exhausted: Option<Exhausted>,
}

/// The cap that was reached.
#[derive(Debug, Clone)]
struct Exhausted {
    what: &'static str,
    spent: String,
    cap: String,
}

impl From<Exhausted> for LlmError {
    fn from(exhausted: Exhausted) -> Self {
        let Exhausted { what, spent, cap } = exhausted;
        Self::BudgetExhausted { what, spent: spent.into(), cap: cap.into(), failed: None }
    }
}

impl Budget {
    /// A budget of which nothing is used; its time begins now.
    pub fn new(caps: BudgetCaps) -> Arc<Self> {
        let state = State {
            spent: Amount::default(),
            reserved: Amount::default(),
            under_way: 0,
            earlier: Duration::ZERO,
            begun: Instant::now(),
            exhausted: None,
        };
        Arc::new(Self {
            caps,
            state: Mutex::new(state),
            seen: Mutex::default(),
            turn: Semaphore::new(1),
            settled: Notify::new(),
        })
    }

    /// Takes in what earlier processes of the run saw of a model's replies, so that this one reserves as they did.
    pub fn recall(&self, seen: &ModelSeen) {
        let model = self.seen_of(&ModelId::new(&seen.provider, &seen.model));
        model.lock().recall(seen);
    }

    fn seen_of(&self, model: &ModelId) -> Arc<Mutex<Seen>> {
        let mut seen = self.seen.lock();
        match seen.get(model) {
            Some(seen) => Arc::clone(seen),
            None => Arc::clone(seen.entry(model.clone()).or_default()),
        }
    }

    /// Begins the time of this process and adds what earlier processes of the run have spent.
    pub fn begin(&self, spent: Spent) {
        let mut state = self.state.lock();
        let Spent { calls, tokens, money, time } = spent;
        state.spent = state.spent.plus(Amount { calls, tokens, units: units_of(money) });
        state.earlier = time;
        state.begun = Instant::now();
    }

    /// What the run may use.
    pub fn caps(&self) -> BudgetCaps {
        self.caps
    }

    /// What the run has spent until now, over all its processes; attempts under way count as calls when they end.
    pub fn spent(&self) -> Spent {
        let state = self.state.lock();
        let Amount { calls, tokens, units } = state.spent;
        Spent { calls, tokens, money: money_of(units), time: state.time() }
    }

    fn bounds(&self, attempt: &AttemptSize) -> Bounds {
        self.seen_of(&attempt.model).lock().bounds(attempt.prompt, attempt.max_reply_tokens)
    }

    /// Learns from the tokens of a reply.
    fn learn(&self, attempt: &AttemptSize, usage: Usage) {
        let limit = attempt.max_reply_tokens;
        let is_first_beyond = self.seen_of(&attempt.model).lock().reply(attempt.prompt, limit, usage);
        if is_first_beyond {
            let (model, limit, tokens) = (&attempt.model, limit.unwrap_or_default(), usage.output);
            tracing::warn!(
                %model,
                "a reply has {tokens} tokens where `max_tokens` allows {limit}: the server does not keep to the limit, so caps on tokens and money are approximate for this model"
            );
        }
    }

    /// Reserves the most that this attempt may use, and waits where others may leave room; dropping the future reserves
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`LlmError::BudgetExhausted`].
    async fn reserve(&self, attempt: &AttemptSize) -> Result<Bounds, LlmError> {
        // The semaphore is never closed; and if it were, calls would only lose their order.
        let _first = self.turn.acquire().await;
        loop {
            // Before the state is read, so that no change in between is lost.
            let settled = self.settled.notified();
            // Each time anew, since the replies of others change them.
            let bounds = self.bounds(attempt);
            let own = Amount::at_most(bounds.reserved, &attempt.prices);
            let time_is_up = {
                let mut state = self.state.lock();
                match state.check(&self.caps, own) {
                    Room::Enough => {
                        state.reserved = state.reserved.plus(own);
                        state.under_way += 1;
                        return Ok(bounds);
                    }
                    Room::Never(exhausted) => return Err(exhausted.into()),
                    Room::WhenOthersSettle => {}
                }
                self.caps.time.and_then(|cap| state.begun.checked_add(cap.saturating_sub(state.earlier)))
            };
            match time_is_up {
                Some(time) => {
                    tokio::select! {
                        () = settled => {}
                        () = tokio::time::sleep_until(time) => {}
                    }
                }
                None => settled.await,
            }
        }
    }

    /// Gives back what was reserved for this attempt, and counts what it used.
    fn settle(&self, attempt: &AttemptSize, granted: Bounds, used: AttemptUse) {
        let used = match used {
            AttemptUse::Replied(usage) => {
                self.learn(attempt, usage);
                Amount::of(usage, &attempt.prices)
            }
            AttemptUse::Billed(usage) => Amount::of(usage, &attempt.prices),
            AttemptUse::Unsent => Amount::default(),
        };
        let own = Amount::at_most(granted.reserved, &attempt.prices);
        let mut state = self.state.lock();
        state.reserved = state.reserved.minus(own);
        state.under_way = state.under_way.saturating_sub(1);
        state.spent = state.spent.plus(used);
        drop(state);
        self.settled.notify_one();
    }
}

/// Whether an attempt may be sent.
enum Room {
    Enough,
    WhenOthersSettle,
    Never(Exhausted),
}

impl State {
    fn time(&self) -> Duration {
        self.earlier.saturating_add(self.begun.elapsed())
    }

    fn check(&mut self, caps: &BudgetCaps, own: Amount) -> Room {
        if let Some(exhausted) = &self.exhausted {
            return Room::Never(exhausted.clone());
        }
        let (time, spent) = (self.time(), self.spent);
        let time_is_up = caps.time.filter(|cap| time >= *cap);
        let wanted = spent.plus(self.reserved).plus(own);
        let passed = |cap: Option<u64>, wanted: u64| cap.filter(|cap| wanted > *cap);
        let exhausted = if let Some(cap) = time_is_up {
            let shown = |time: Duration| format!("{:.0} s", time.as_secs_f64());
            // Time does not come back, regardless of who settles.
            let exhausted = Exhausted { what: "time", spent: shown(time), cap: shown(cap) };
            self.exhausted = Some(exhausted.clone());
            return Room::Never(exhausted);
        } else if let Some(cap) = passed(caps.calls, wanted.calls) {
            Exhausted { what: "calls", spent: spent.calls.to_string(), cap: cap.to_string() }
        } else if let Some(cap) = passed(caps.tokens, wanted.tokens) {
            Exhausted { what: "tokens", spent: spent.tokens.to_string(), cap: cap.to_string() }
        } else if let Some(cap) = caps.money.filter(|cap| wanted.units > units_of(*cap)) {
            let spent = format!("{:.4}", money_of(spent.units));
            Exhausted { what: "money", spent, cap: format!("{cap:.4}") }
        } else {
            return Room::Enough;
        };
        if self.under_way > 0 {
            return Room::WhenOthersSettle;
        }
        self.exhausted = Some(exhausted.clone());
        Room::Never(exhausted)
    }
}

/// What one attempt has reserved; dropping it settles.
struct Reservation<'a> {
    budget: &'a Budget,
    attempt: AttemptSize,
    granted: Bounds,
    /// Whether the request is out.
    log: &'a AttemptLog,
    /// What it has used; `None` if nobody waited for that.
    used: Option<AttemptUse>,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let used = match self.used {
            Some(used) => used,
            // A request that is out may be billed.
            None if self.log.may_be_out() => {
                self.log.settle_request(self.granted.unanswered);
                AttemptUse::Billed(self.granted.unanswered)
            }
            None => {
                self.log.retract_request();
                AttemptUse::Unsent
            }
        };
        // What it used is on record before others may have what it leaves.
        self.budget.settle(&self.attempt, self.granted, used);
    }
}

/// How long a model's replies may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplyLimit {
    /// As long as the request says, else the configuration.
    Asked(Option<u64>),
    /// Whatever is requested: programs that play a model take no limit.
    None,
}

impl ReplyLimit {
    fn of(parameters: &Value) -> Self {
        let max_tokens = parameters.pointer("/sampling/max_tokens").and_then(Value::as_u64);
        match parameters.get("dialect").and_then(Value::as_str) {
            Some("agent") => Self::None,
            // Every request of this interface has a limit.
            Some("anthropic") => Self::Asked(max_tokens.or(Some(u64::from(DEFAULT_MAX_TOKENS)))),
            Some(_) | None => Self::Asked(max_tokens),
        }
    }

    fn tokens(self, request: &impl Prompt) -> Option<u64> {
        match self {
            Self::Asked(max_tokens) => request.max_tokens().or(max_tokens),
            Self::None => None,
        }
    }
}

/// A model whose attempts count against the budget of the run.
pub struct Budgeted<M: ?Sized = dyn ChatModel> {
    inner: Arc<M>,
    budget: Arc<Budget>,
    prices: Prices,
    limit: ReplyLimit,
}

impl Budgeted {
    /// Reserves for the calls of `inner` at these prices.
    pub fn new(inner: Arc<dyn ChatModel>, budget: Arc<Budget>, prices: Prices) -> Self {
        let limit = ReplyLimit::of(&inner.parameters());
        Self { inner, budget, prices, limit }
    }
}

impl Budgeted<dyn EmbeddingModel> {
    /// As [`Budgeted::new`], for an embedding model; the price of its tokens is that of input.
    pub fn embedding(inner: Arc<dyn EmbeddingModel>, budget: Arc<Budget>, prices: Prices) -> Self {
        Self { inner, budget, prices, limit: ReplyLimit::Asked(None) }
    }
}

layer!(Budgeted);

impl<M: ?Sized> Budgeted<M> {
    /// Makes a call with what it may use reserved.
    async fn run(&self, request: &M::Request, call: &CallCtx) -> Result<M::Reply, LlmError>
    where
        M: Layered,
    {
        let begun = Instant::now();
        let attempt = self.attempt(request);
        let reserve = self.budget.reserve(&attempt);
        let reserved = super::before_sending(self.inner.model_id(), call, reserve).await?;
        let granted = reserved.inspect_err(|_| call.attempts.note_unsent())?;
        let log = call.attempts.as_ref();
        log.note_bounds(granted);
        let budget = self.budget.as_ref();
        let mut reservation = Reservation { budget, attempt, granted, log, used: None };
        log.add_wait(begun.elapsed());
        let outcome = self.inner.ask(request, call).await;
        reservation.used = Some(Self::used(&outcome, request, log));
        outcome
    }

    fn attempt(&self, request: &M::Request) -> AttemptSize
    where
        M: Layered,
    {
        let model = self.inner.model_id().clone();
        AttemptSize::new(model, request.size(), self.limit.tokens(request), self.prices)
    }

    /// What an attempt has used, which is on record from then on.
    fn used(outcome: &Result<M::Reply, LlmError>, request: &M::Request, log: &AttemptLog) -> AttemptUse
    where
        M: Layered,
    {
        match outcome {
            Ok(reply) => {
                log.settle_request(reply.usage());
                AttemptUse::Replied(reply.usage())
            }
            Err(error) => {
                if log.take_unsent() {
                    // The layers above want to know it too.
                    log.note_unsent();
                    log.retract_request();
                    return AttemptUse::Unsent;
                }
                let usage = log.may_be_billed(error, || request.may_be_billed(error));
                log.settle_request(usage);
                AttemptUse::Billed(usage)
            }
        }
    }
}

#[cfg(test)]
mod tests;
