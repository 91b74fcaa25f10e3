//! The simulated provider as the run reaches it: what arrived there is written down by the place of the call.

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use skill_llm::testbed::SimProvider;
use skill_llm::{
    Budget, BudgetCaps, Budgeted, CallCtx, ChatModel, ChatReply, ChatRequest, HttpRequest, HttpResponse,
    LlmError, Message, ModelId, OpenAiChat, OpenAiConfig, PaceConfig, Paced, Pacer, Prices, Retried,
    RetryPolicy, Traced, Transport, TransportError, Usage,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What comes before the place of a call, in its last message.
const PLACE: &str = "place: ";
/// No reply of the worlds is longer, so that all limits are known.
pub(crate) const MAX_REPLY_TOKENS: u32 = 400;
pub(crate) const PRICES: Prices = Prices { input: 1.0, cached: 0.1, cache_write: 1.0, output: 10.0 };

/// A whole answer.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) place: String,
    pub(crate) at: Instant,
}

/// What the provider has billed, over all processes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Billed {
    pub(crate) calls: u64,
    pub(crate) tokens: u64,
    pub(crate) money: f64,
}

/// What arrived at the provider.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The body that each place sends; the same in every process.
    bodies: BTreeMap<String, Vec<u8>>,
    in_flight: usize,
    pub(crate) billed: Billed,
    /// Of the process that runs now, or ran last: when it began,
    begun: Instant,
    /// the place of every request, and how long after the beginning it came,
    pub(crate) arrived: Vec<(String, Duration)>,
    /// every whole answer,
    pub(crate) answered: Vec<Answered>,
    /// and the most requests at once.
    pub(crate) max_in_flight: usize,
}

/// Carries requests to the provider and writes them down.
pub(crate) struct Witness {
    provider: Arc<SimProvider>,
    seen: Mutex<Seen>,
}

impl Witness {
    pub(crate) fn new(provider: Arc<SimProvider>) -> Arc<Self> {
        let seen = Seen {
            bodies: BTreeMap::new(),
            in_flight: 0,
            billed: Billed::default(),
            begun: Instant::now(),
            arrived: Vec::new(),
            answered: Vec::new(),
            max_in_flight: 0,
        };
        Arc::new(Self { provider, seen: Mutex::new(seen) })
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock()
    }

    /// Forgets what the last process did.
    pub(crate) fn begin_process(&self) {
        let mut seen = self.seen();
        assert_eq!(seen.in_flight, 0, "a process is gone and its requests are not");
        seen.begun = Instant::now();
        seen.arrived.clear();
        seen.answered.clear();
        seen.max_in_flight = 0;
    }
}

/// A request but for its limit, which close to a cap is what is left.
fn without_limit(body: &[u8]) -> Vec<u8> {
    let mut asked: Value = serde_json::from_slice(body).unwrap();
    asked.as_object_mut().unwrap().remove("max_tokens");
    serde_json::to_vec(&asked).unwrap()
}

struct InFlight<'a>(&'a Witness);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.seen().in_flight -= 1;
    }
}

#[async_trait]
impl Transport for Witness {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let place = place_of(&request.body);
        {
            let mut seen = self.seen();
            let asked = without_limit(&request.body);
            let first = seen.bodies.entry(place.clone()).or_insert_with(|| asked.clone());
            assert_eq!(*first, asked, "{place} does not ask the same again");
            let since = seen.begun.elapsed();
            seen.arrived.push((place.clone(), since));
            seen.billed.calls += 1;
            seen.in_flight += 1;
            seen.max_in_flight = seen.max_in_flight.max(seen.in_flight);
        }
        let _in_flight = InFlight(self);
        let response = self.provider.send(request).await?;
        if let Some(usage) = usage_of_whole(&response) {
            assert!(usage.output <= u64::from(MAX_REPLY_TOKENS), "{place} has {} tokens", usage.output);
            let mut seen = self.seen();
            seen.billed.tokens += usage.input + usage.output;
            seen.billed.money += PRICES.cost(usage);
            seen.answered.push(Answered { place, at: Instant::now() });
        }
        Ok(response)
    }
}

/// Nothing but the last message ends a text with a place, and a place has no quotes.
fn place_of(body: &[u8]) -> String {
    let body = std::str::from_utf8(body).unwrap();
    let (_, place) = body.rsplit_once(PLACE).unwrap();
    place.split_once('"').unwrap().0.to_owned()
}

/// What a response was billed with, if it is a whole answer.
fn usage_of_whole(response: &HttpResponse) -> Option<Usage> {
    let body: Value = serde_json::from_slice(&response.body).ok()?;
    let _text = body["choices"].get(0)?["message"]["content"].as_str()?;
    let count = |name: &str| body["usage"][name].as_u64().unwrap();
    Some(Usage { input: count("prompt_tokens"), output: count("completion_tokens"), ..Usage::default() })
}

/// Writes its place into every request, so that no two calls of a run look alike to the provider.
struct Placed<M>(M);

#[async_trait]
impl<M: ChatModel> ChatModel for Placed<M> {
    fn id(&self) -> &ModelId {
        self.0.id()
    }

    fn parameters(&self) -> Value {
        self.0.parameters()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let mut request = request.clone();
        request.messages.push(Message::user(format!("{PLACE}{}", call.place)));
        self.0.chat(&request, call).await
    }
}

/// The models of one process, with all layers but the journal.
pub(crate) struct Models {
    pub(crate) target: Arc<dyn ChatModel>,
    pub(crate) optimizer: Arc<dyn ChatModel>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) prices: Vec<(ModelId, Prices)>,
}

impl Models {
    pub(crate) fn new(
        witness: &Arc<Witness>,
        pace: PaceConfig,
        policy: RetryPolicy,
        caps: BudgetCaps,
    ) -> Self {
        let (pacer, budget, retries) = (Pacer::new(pace), Budget::new(caps), Arc::default());
        let mut prices = Vec::new();
        let [target, optimizer] = ["target", "optimizer"].map(|name| {
            let mut config = OpenAiConfig::new("http://sim.invalid/v1", name);
            config.server.timeout = Duration::from_secs(60);
            config.server.max_response_bytes = 1_000_000;
            config.sampling.max_tokens = Some(MAX_REPLY_TOKENS);
            prices.push((config.model_id().unwrap(), PRICES));
            let transport = Arc::clone(witness);
            let dialect = Arc::new(OpenAiChat::with_transport(config, transport).unwrap());
            let paced = Arc::new(Paced::new(dialect, Arc::clone(&pacer)));
            let budgeted = Arc::new(Budgeted::new(paced, Arc::clone(&budget), PRICES));
            let retried = Arc::new(Retried::new(budgeted, policy, Arc::clone(&retries)));
            Arc::new(Placed(Traced::new(retried))) as Arc<dyn ChatModel>
        });
        Self { target, optimizer, budget, prices }
    }
}
