//! Caps of a run on calls, tokens, money and time.
//!
//! Every attempt reserves what it may use before it is sent and settles what it used after, so calls that run at the
//! same time cannot pass a cap together by more than their estimates are wrong. Where the cap would be passed only
//! because of what others have reserved, a call waits for them to settle, in order. Once a cap is reached, nothing is
//! sent any more.

use super::estimate::{RunningMean, input_tokens, may_be_billed};
use crate::attempt::AttemptLog;
use crate::call::CallCtx;
use crate::chat::{ChatModel, ChatReply, ChatRequest, ModelId};
use crate::error::LlmError;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skill_core::Usage;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

/// The tokens that a model's first reply is taken to have, where the request sets no limit.
pub const DEFAULT_OUTPUT_TOKENS: u64 = 1_024;
/// How many times the mean of a model's replies is reserved for the next one.
const RESERVED_MEANS: u64 = 2;
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
        Arc::new(Self { caps, state: Mutex::new(state), turn: Semaphore::new(1), settled: Notify::new() })
    }

    /// Begins the time of this process and adds what earlier processes of the run have spent.
    pub fn begin(&self, spent: Spent) {
        let mut state = self.lock();
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
        let state = self.lock();
        let Amount { calls, tokens, units } = state.spent;
        Spent { calls, tokens, money: money_of(units), time: state.time() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole after every statement, so a panic elsewhere cannot have broken it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves for one attempt; waits where others may leave something. Dropping the future reserves nothing.
    ///
    /// The estimate is made anew whenever it is looked at, since what others used says what to expect.
    async fn reserve<'a>(
        &'a self,
        estimate: impl Fn() -> Amount,
        given_up: Amount,
        log: &'a AttemptLog,
    ) -> Result<Reservation<'a>, LlmError> {
        // The semaphore is never closed; and if it were, calls would only lose their order.
        let _first = self.turn.acquire().await;
        loop {
            // Before the state is read, so that no change in between is lost.
            let settled = self.settled.notified();
            let own = estimate();
            let time_is_up = {
                let mut state = self.lock();
                match state.check(&self.caps, own) {
                    Room::Enough => {
                        state.reserved = state.reserved.plus(own);
                        state.under_way += 1;
                        return Ok(Reservation { budget: self, own, given_up, log, used: None });
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
            // Time does not come back, whoever settles.
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
    own: Amount,
    /// What it may have used if nobody waits for its reply: a request that is out may be billed.
    given_up: Amount,
    /// Whether the request is out.
    log: &'a AttemptLog,
    /// What it has used; `None` if nobody waited for that.
    used: Option<Amount>,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        state.reserved = state.reserved.minus(self.own);
        state.under_way = state.under_way.saturating_sub(1);
        let given_up = if self.log.may_be_out() { self.given_up } else { Amount::default() };
        let used = self.used.unwrap_or(given_up);
        state.spent = state.spent.plus(used);
        drop(state);
        self.budget.settled.notify_one();
    }
}

/// A model whose attempts count against the budget of the run.
pub struct Budgeted {
    inner: Arc<dyn ChatModel>,
    budget: Arc<Budget>,
    prices: Prices,
    /// The limit on a reply's tokens that the model's configuration sets.
    max_tokens: Option<u64>,
    output_tokens: Mutex<RunningMean>,
}

impl Budgeted {
    /// Reserves for the calls of `inner` at these prices.
    pub fn new(inner: Arc<dyn ChatModel>, budget: Arc<Budget>, prices: Prices) -> Self {
        let parameters = inner.parameters();
        let max_tokens = parameters.pointer("/sampling/max_tokens").and_then(Value::as_u64);
        Self { inner, budget, prices, max_tokens, output_tokens: Mutex::default() }
    }

    /// What an attempt may use.
    fn estimate(&self, request: &ChatRequest, input: u64) -> Amount {
        let mean = self.mean().tokens().map(|mean| mean.saturating_mul(RESERVED_MEANS));
        let expected = mean.unwrap_or(DEFAULT_OUTPUT_TOKENS);
        let limit = request.sampling.max_tokens.map(u64::from).or(self.max_tokens);
        let output = limit.map_or(expected, |limit| limit.min(expected));
        self.amount(Usage { input, output, ..Usage::default() })
    }

    fn amount(&self, usage: Usage) -> Amount {
        let tokens = usage.input.saturating_add(usage.output);
        Amount { calls: 1, tokens, units: self.prices.units(usage) }
    }

    fn mean(&self) -> MutexGuard<'_, RunningMean> {
        self.output_tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an attempt has used.
    fn used(&self, outcome: &Result<ChatReply, LlmError>, request: &ChatRequest, log: &AttemptLog) -> Amount {
        match outcome {
            Ok(reply) => {
                if reply.usage.output > 0 {
                    self.mean().add(reply.usage.output);
                }
                self.amount(reply.usage)
            }
            Err(error) => {
                let unsent = log.take_unsent();
                if unsent {
                    // The layers above want to know it too.
                    log.note_unsent();
                    return Amount::default();
                }
                self.amount(may_be_billed(error.class(), request))
            }
        }
    }
}

#[async_trait]
impl ChatModel for Budgeted {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    fn parameters(&self) -> Value {
        self.inner.parameters()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let begun = Instant::now();
        let input = input_tokens(request);
        let given_up = self.amount(Usage { input, ..Usage::default() });
        let reserve = self.budget.reserve(|| self.estimate(request, input), given_up, &call.attempts);
        let reserved = super::before_sending(self.id(), call, reserve).await?;
        let mut reservation = reserved.inspect_err(|_| call.attempts.note_unsent())?;
        call.attempts.add_wait(begun.elapsed());
        let outcome = self.inner.chat(request, call).await;
        reservation.used = Some(self.used(&outcome, request, &call.attempts));
        outcome
    }
}

#[cfg(test)]
mod tests;
