//! Caps of a run on calls, tokens, money and time.
//!
//! Every attempt reserves the most that it may use before it is sent, and settles what it used after: the bytes of its
//! prompt, or what the server's reports have shown of its tokens, and the whole limit of its reply. So calls that run at
//! the same time cannot pass a cap together. A coding agent without prices reserves the most that it has reported for a reply,
//! and what it reports counts. Without a limit on replies the longest reply seen is reserved, and few
//! requests are in flight while few replies are known (`gate.rs`). Where the cap would be passed only because of what
//! others have reserved, a call waits for them to settle, in order. Where what is left is less than what an attempt
//! reserves, and nothing else is under way, its reply is limited to what is left (`room.rs`); a reply that this cuts is an
//! error. Once a cap is reached, nothing more is sent.

mod gate;
mod room;

use super::amount::{Amount, Prices, money_of, units_of};
use super::estimate::{AttemptsSeen, ModelSeen, Seen};
use super::layered::{Layered, Prompt, Used as _, layer};
use super::limits::{AttemptSize, AttemptUse};
use crate::attempt::{AttemptLog, Bounds};
use crate::call::CallCtx;
use crate::chat::{ChatModel, ModelId};
use crate::dialect::Dialect;
use crate::embedding::EmbeddingModel;
use crate::error::LlmError;
use gate::{InFlight, ModelGate};
use parking_lot::Mutex;
use room::{CapLimit, Grant, Ledger, Room};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skill_core::Usage;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

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

/// The budget of a run, shared by all its models.
#[derive(Debug)]
pub struct Budget {
    caps: BudgetCaps,
    ledger: Mutex<Ledger>,
    models: Mutex<HashMap<ModelId, Arc<ModelGate>>>,
    /// The one permit belongs to the first of those that wait; the semaphore hands it on in order.
    turn: Semaphore,
    /// Wakes the first of those that wait.
    settled: Notify,
}

/// An attempt with what it may use, as long as it is in flight.
#[derive(Debug)]
struct Granted {
    grant: Grant,
    _in_flight: InFlight,
}

impl Budget {
    /// A budget of which nothing is used; its time begins now.
    pub fn new(caps: BudgetCaps) -> Arc<Self> {
        Arc::new(Self {
            caps,
            ledger: Mutex::new(Ledger::new()),
            models: Mutex::default(),
            turn: Semaphore::new(1),
            settled: Notify::new(),
        })
    }

    /// Takes in what earlier processes of the run saw of a model's replies, so that this one reserves as they did.
    pub fn recall(&self, seen: &ModelSeen) {
        let model = self.model(&ModelId::new(&seen.provider, &seen.model));
        model.with_seen(|known| known.recall(seen));
    }

    /// Takes in what a model has reported for a reply in earlier processes of the run, in US dollars.
    pub fn recall_reported(&self, model: &ModelId, dollars: f64) {
        self.model(model).with_seen(|seen| seen.reported(units_of(dollars)));
    }

    fn model(&self, model: &ModelId) -> Arc<ModelGate> {
        let mut models = self.models.lock();
        match models.get(model) {
            Some(gate) => Arc::clone(gate),
            None => Arc::clone(models.entry(model.clone()).or_default()),
        }
    }

    /// Adds what the journal of a run says that it has spent before, and begins the time of this process.
    ///
    /// `run` names the journal. A run that is begun again counts once: what this process has sent meanwhile is in its
    /// journal and counted here. The times of several runs add up.
    pub fn begin(&self, run: &str, spent: Spent) {
        self.ledger.lock().begin(run, spent);
    }

    /// Sets aside what only later work may use, in place of what was set aside before: until then requests are refused as if
    /// the caps were lower. The time is not looked at.
    pub fn set_aside(&self, aside: Spent) {
        let Spent { calls, tokens, money, time: _ } = aside;
        self.ledger.lock().set_aside(Amount { calls, tokens, units: units_of(money) });
        self.settled.notify_one();
    }

    /// What the run may use.
    pub fn caps(&self) -> BudgetCaps {
        self.caps
    }

    /// What the run has spent until now, over all its processes; attempts under way count as calls when they end.
    pub fn spent(&self) -> Spent {
        let ledger = self.ledger.lock();
        let Amount { calls, tokens, units } = ledger.spent;
        Spent { calls, tokens, money: money_of(units), time: ledger.time() }
    }

    /// How many requests of all models were answered and how many failed, in earlier processes of the run too; calls that
    /// were dropped are not counted.
    pub fn attempts(&self) -> AttemptsSeen {
        let models = self.models.lock();
        models
            .values()
            .fold(AttemptsSeen::default(), |all, model| all.plus(model.with_seen(|seen| seen.attempts)))
    }

    /// Reserves the most that this attempt may use, and waits where others may leave room; dropping the future reserves
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`LlmError::BudgetExhausted`].
    async fn reserve(&self, attempt: &AttemptSize) -> Result<Granted, LlmError> {
        let model = self.model(&attempt.model);
        let in_flight = model.enter(self.is_guarded(attempt, &model)).await;
        // The semaphore is never closed; and if it were, calls would only lose their order.
        let _first = self.turn.acquire().await;
        loop {
            // Before the ledger is read, so that no change in between is lost.
            let settled = self.settled.notified();
            // Each time anew, since the replies of others change them.
            let (bounds, least, most) = model
                .with_seen(|seen| (bounds(seen, attempt), least_limit(seen, attempt), seen.most_units()));
            let reported = if attempt.prices.are_unknown() { most } else { 0 };
            let time_is_up = {
                let mut ledger = self.ledger.lock();
                match ledger.reserve(&self.caps, attempt, (bounds, reported), least) {
                    Room::Enough(grant) => return Ok(Granted { grant, _in_flight: in_flight }),
                    Room::Never(exhausted) => return Err(exhausted.into()),
                    Room::WhenOthersSettle => {}
                }
                ledger.time_is_up(&self.caps)
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

    /// True for requests that could pass a cap together because nobody knows how long their replies are.
    fn is_guarded(&self, attempt: &AttemptSize, model: &ModelGate) -> bool {
        // What an agent reports is known after its first reply.
        let may_report = attempt.least_limit.is_none() && attempt.prices.are_unknown();
        let costs = attempt.prices.output > 0.0 || may_report;
        let is_capped = self.caps.tokens.is_some() || self.caps.money.is_some() && costs;
        is_capped && model.with_seen(|seen| seen.known_limit(attempt.max_reply_tokens)).is_none()
    }

    /// Gives back what was reserved for this attempt, and counts what it used.
    fn settle(&self, attempt: &AttemptSize, granted: Grant, used: AttemptUse) {
        let used = match used {
            AttemptUse::Replied(usage, reported) => {
                self.learn(attempt, usage);
                let model = self.model(&attempt.model);
                model.with_seen(|seen| seen.reported(reported.unwrap_or_default()));
                Amount::of_reply(usage, &attempt.prices, reported)
            }
            AttemptUse::Failed(usage) => {
                self.model(&attempt.model).with_seen(|seen| seen.attempts.failed(usage));
                Amount::of(usage, &attempt.prices)
            }
            AttemptUse::Dropped(usage) => Amount::of(usage, &attempt.prices),
            AttemptUse::Unsent => Amount::default(),
        };
        self.ledger.lock().settle(granted.amount(attempt), used);
        self.settled.notify_one();
    }

    /// Learns from the tokens of a reply.
    fn learn(&self, attempt: &AttemptSize, usage: Usage) {
        let limit = attempt.max_reply_tokens;
        let model = self.model(&attempt.model);
        let is_first_beyond = model.with_seen(|seen| seen.reply(attempt.prompt, limit, usage));
        if is_first_beyond {
            let (model, limit, tokens) = (&attempt.model, limit.unwrap_or_default(), usage.output);
            tracing::warn!(
                %model,
                "a reply has {tokens} tokens where `max_tokens` allows {limit}: the server does not keep to the limit, so caps on tokens and money are approximate for this model"
            );
        }
    }

    /// The error for a reply that the limit of a cap has cut: it is no answer.
    fn cut(&self, limit: CapLimit) -> LlmError {
        self.ledger.lock().cut(&self.caps, limit).into()
    }
}

/// What an attempt may use, with its prompt at the highest price.
fn bounds(seen: &Seen, attempt: &AttemptSize) -> Bounds {
    let Bounds { reserved, unanswered } = seen.bounds(attempt.prompt, attempt.max_reply_tokens);
    let dearest = |usage| attempt.prices.dearest(usage);
    Bounds { reserved: dearest(reserved), unanswered: dearest(unanswered) }
}

/// The shortest reply that is worth a request near a cap; `None` where no limit holds. A reply that is shorter than most is
/// likely to be cut. A model that takes no limit is asked once, since nothing is known of it.
fn least_limit(seen: &Seen, attempt: &AttemptSize) -> Option<u64> {
    match attempt.least_limit {
        Some(least) if !seen.exceeds_limits() => Some(least.max(seen.mean_reply())),
        Some(_) | None => (seen.n_replies() == 0).then_some(0),
    }
}

/// What one attempt has reserved; dropping it settles.
struct Reservation<'a> {
    budget: &'a Budget,
    attempt: AttemptSize,
    granted: Granted,
    /// Whether the request is out.
    log: &'a AttemptLog,
    /// What it has used; `None` if nobody waited for that.
    used: Option<AttemptUse>,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let Bounds { unanswered, .. } = self.granted.grant.bounds;
        let used = match self.used {
            Some(used) => used,
            // A request that is out may be billed.
            None if self.log.may_be_out() => {
                self.log.settle_request(unanswered);
                AttemptUse::Dropped(unanswered)
            }
            None => {
                self.log.retract_request();
                AttemptUse::Unsent
            }
        };
        // What it used is on record before others may have what it leaves.
        self.budget.settle(&self.attempt, self.granted.grant, used);
    }
}

/// How long a model's replies may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplyLimit {
    /// As long as the request says, else the configuration; longer than the thoughts that are asked for, if that is.
    Asked { max_tokens: Option<u64>, thinking: u64 },
    /// Whatever is requested: programs that play a model take no limit.
    None,
}

impl ReplyLimit {
    fn of(parameters: &Value) -> Self {
        let max_tokens = parameters.pointer("/sampling/max_tokens").and_then(Value::as_u64);
        let thinking = parameters.pointer("/reasoning/tokens").and_then(Value::as_u64).unwrap_or(0);
        let dialect = parameters.get("dialect").and_then(Value::as_str);
        if dialect == Some("agent") {
            return Self::None;
        }
        let default = dialect.and_then(Dialect::parse).and_then(Dialect::default_max_tokens).map(u64::from);
        Self::Asked { max_tokens: max_tokens.or(default), thinking }
    }

    fn tokens(self, request: &impl Prompt) -> Option<u64> {
        match self {
            Self::Asked { max_tokens, .. } => request.max_tokens().or(max_tokens),
            Self::None => None,
        }
    }

    /// The fewest tokens that a reply can be limited to.
    fn least(self) -> Option<u64> {
        match self {
            Self::Asked { thinking, .. } => Some(thinking.saturating_add(1)),
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
        Self { inner, budget, prices, limit: ReplyLimit::Asked { max_tokens: None, thinking: 0 } }
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
        let mut attempt = self.attempt(request);
        let reserve = self.budget.reserve(&attempt);
        let reserved = super::before_sending(self.inner.model_id(), call, reserve).await?;
        let granted = reserved.inspect_err(|_| call.attempts.note_unsent())?;
        let Grant { bounds, limit, .. } = granted.grant;
        let log = call.attempts.as_ref();
        log.note_bounds(bounds);
        let budget = self.budget.as_ref();
        let limit = limit.filter(|_| attempt.least_limit.is_some());
        if let Some(limit) = limit {
            attempt.max_reply_tokens = Some(limit.tokens);
        }
        let mut reservation = Reservation { budget, attempt, granted, log, used: None };
        log.add_wait(begun.elapsed());
        let limited = limit.map(|limit| request.with_max_tokens(limit.tokens));
        let outcome = self.inner.ask(limited.as_ref().unwrap_or(request), call).await;
        reservation.used = Some(Self::used(&outcome, request, log));
        match (outcome, limit) {
            (Ok(reply), Some(limit)) if reply.is_cut() => {
                log.note_billed(reply.usage());
                drop(reservation);
                Err(budget.cut(limit))
            }
            (outcome, _) => outcome,
        }
    }

    fn attempt(&self, request: &M::Request) -> AttemptSize
    where
        M: Layered,
    {
        AttemptSize {
            model: self.inner.model_id().clone(),
            prompt: request.size(),
            max_reply_tokens: self.limit.tokens(request),
            least_limit: self.limit.least(),
            prices: self.prices,
        }
    }

    /// What an attempt has used, which is on record from then on.
    fn used(outcome: &Result<M::Reply, LlmError>, request: &M::Request, log: &AttemptLog) -> AttemptUse
    where
        M: Layered,
    {
        match outcome {
            Ok(reply) => {
                log.settle_request(reply.usage());
                AttemptUse::Replied(reply.usage(), reply.reported_cost().map(units_of))
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
                AttemptUse::Failed(usage)
            }
        }
    }
}

#[cfg(test)]
mod tests;
