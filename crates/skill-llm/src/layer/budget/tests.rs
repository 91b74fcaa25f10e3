use super::super::estimate::SeenReply;
use super::*;
use crate::agent_work::AgentWork;
use crate::attempt::AttemptOutcome;
use crate::chat::{ChatReply, ChatRequest, FinishReason, Message};
use crate::error::ErrorClass;
use crate::testbed::InjectedFault;
use crate::testbed::{SimAnswer, SimConfig, SimLatency, SimProvider};
use crate::{GiveUpReason, OpenAiChat, OpenAiConfig, PaceConfig, Paced, Pacer, Retried, RetryPolicy};
use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use proptest::prelude::*;
use serde_json::json;
use tokio::task::JoinSet;

const SECOND: Duration = Duration::from_secs(1);
/// A request of 40 bytes for a reply of at most 5 tokens: 117 are reserved for the first, with 72 for what servers add.
const PROMPT: &str = "0123456789012345678901234567890123456789";
const OUTPUT: u32 = 5;
const PRICES: Prices = Prices { input: 1.0, cached: 0.1, cache_write: 1.0, output: 10.0 };

fn request() -> ChatRequest {
    let mut request = ChatRequest::new(vec![Message::user(PROMPT)]);
    request.sampling.max_tokens = Some(OUTPUT);
    request
}

/// A model that takes a while and uses these tokens.
struct Model {
    id: ModelId,
    used: Usage,
    takes: Duration,
    fails: bool,
    keeps_limits: bool,
}

impl Model {
    fn using(input: u64, output: u64) -> Self {
        let used = Usage { input, output, ..Usage::default() };
        Self { id: ModelId::new("p", "m"), used, takes: SECOND, fails: false, keeps_limits: true }
    }
}

#[async_trait]
impl ChatModel for Model {
    fn id(&self) -> &ModelId {
        &self.id
    }

    async fn chat(&self, request: &ChatRequest, _: &CallCtx) -> Result<ChatReply, LlmError> {
        tokio::time::sleep(self.takes).await;
        let failed = || LlmError::Truncated { provider: "p".to_owned(), message: String::new() };
        let limit = request.sampling.max_tokens.filter(|_| self.keeps_limits).map_or(u64::MAX, u64::from);
        let (used, finish) = match self.used.output > limit {
            true => (Usage { output: limit, ..self.used }, FinishReason::Length),
            false => (self.used, FinishReason::Stop),
        };
        if self.fails { Err(failed()) } else { Ok(ChatReply::new("x", used, finish)) }
    }
}

/// Reports of 1,000 tokens for 4,000 bytes, and 500 of at most 500 for the reply. For the first call 4,572 tokens are
/// reserved; then 2,428: 928 of 4,000 bytes are 232 per mille, twice that of 4,000 are 1,856, and 72 and 500 are added.
fn long_request() -> ChatRequest {
    let mut request = ChatRequest::new(vec![Message::user("x".repeat(4_000))]);
    request.sampling.max_tokens = Some(500);
    request
}

fn budgeted(model: Model, budget: &Arc<Budget>) -> Arc<Budgeted> {
    Arc::new(Budgeted::new(Arc::new(model), Arc::clone(budget), PRICES))
}

/// Makes this many calls at once and says how many got a reply.
async fn crowd(model: &Arc<Budgeted>, n_calls: usize) -> usize {
    crowd_of(model, n_calls, request()).await
}

async fn crowd_of(model: &Arc<Budgeted>, n_calls: usize, request: ChatRequest) -> usize {
    let mut calls = JoinSet::new();
    for _ in 0..n_calls {
        let (model, request) = (Arc::clone(model), request.clone());
        calls.spawn(async move { model.chat(&request, &CallCtx::default()).await });
    }
    let outcomes = calls.join_all().await;
    for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert!(matches!(error, LlmError::BudgetExhausted { .. }), "{error:?}");
    }
    outcomes.iter().filter(|outcome| outcome.is_ok()).count()
}

#[track_caller]
fn assert_exhausted(error: &LlmError, expect: &str) {
    assert_eq!(error.to_string(), format!("the run's cap on {expect}"));
}

#[tokio::test(start_paused = true)]
async fn each_cap_ends_the_run_and_says_so() {
    async fn check(caps: BudgetCaps, expect_replies: usize, expect: &str) {
        let budget = Budget::new(caps);
        let model = budgeted(Model::using(1_000, 500), &budget);
        assert_eq!(crowd_of(&model, 100, long_request()).await, expect_replies, "{caps:?}");
        let begun = Instant::now();
        let error = model.chat(&long_request(), &CallCtx::default()).await.unwrap_err();
        assert_exhausted(&error, expect);
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
    let caps = BudgetCaps::default();
    check(BudgetCaps { calls: Some(7), ..caps }, 7, "calls is reached: 7 of 7").await;
    let next = "the next request may use 2428 tokens, and";
    let tokens = |cap| BudgetCaps { tokens: Some(cap), ..caps };
    check(tokens(15_928), 10, &format!("tokens is reached: 15000 of 15928; {next} 928 are left")).await;
    check(tokens(15_927), 9, &format!("tokens is reached: 13500 of 15927; {next} 2427 are left")).await;
    let next = "the next request may use 4572 tokens, and";
    check(tokens(4_087), 0, &format!("tokens is reached: 0 of 4087; {next} 4087 are left")).await;
    let next = "the next request may cost $0.006928 (at most 2,428 tokens), and";
    let money = |cap| BudgetCaps { money: Some(cap), ..caps };
    check(money(0.060_928), 10, &format!("money is reached: $0.0600 of $0.0609; {next} $0.000928 is left"))
        .await;
    check(money(0.060_927), 9, &format!("money is reached: $0.0540 of $0.0609; {next} $0.006927 is left"))
        .await;
    check(BudgetCaps { calls: Some(0), ..caps }, 0, "calls is reached: 0 of 0").await;
    check(BudgetCaps { time: Some(Duration::ZERO), ..caps }, 0, "time is reached: 0.0 s of 0.0 s").await;
    let time = Budget::new(BudgetCaps { time: Some(SECOND * 3), ..caps });
    let model = budgeted(Model::using(10, 5), &time);
    assert_eq!([crowd(&model, 2).await, crowd(&model, 2).await, crowd(&model, 2).await], [2, 2, 2]);
    assert_eq!(crowd(&model, 2).await, 0);
}

#[tokio::test(start_paused = true)]
async fn what_earlier_processes_spent_counts() {
    let caps = BudgetCaps { calls: Some(10), time: Some(SECOND * 100), ..BudgetCaps::default() };
    let budget = Budget::new(caps);
    tokio::time::sleep(SECOND * 500).await;
    budget.begin("run", Spent { calls: 7, tokens: 1_000, money: 0.5, time: SECOND * 60 });
    let model = budgeted(Model::using(10, 5), &budget);
    assert_eq!(crowd(&model, 5).await, 3);
    let spent = budget.spent();
    assert_eq!((spent.calls, spent.tokens, spent.time), (10, 1_045, SECOND * 61));
    assert!((spent.money - 0.500_18).abs() < 1e-12, "{spent:?}");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_an_answer_is_a_call_with_the_most_that_it_may_be_billed_with() {
    let budget = Budget::new(BudgetCaps { calls: Some(6), ..BudgetCaps::default() });
    let failing = Model { fails: true, ..Model::using(10, 5) };
    let inner = budgeted(failing, &budget);
    let model =
        Retried::new(inner, RetryPolicy { max_attempts: 4, ..RetryPolicy::default() }, Arc::default());
    let error = model.chat(&request(), &CallCtx::default()).await.unwrap_err();
    assert!(matches!(error, LlmError::GaveUp { why: GiveUpReason::Attempts, attempts: 4, .. }), "{error:?}");
    let call = CallCtx::default();
    let error = model.chat(&request(), &call).await.unwrap_err();
    assert_exhausted(
        &error,
        "calls is reached: 6 of 6; the attempt before it failed: the answer of p broke off: ",
    );
    assert_eq!(call.attempts.len(), 2, "what is not sent is no attempt");
    let Spent { calls, tokens, money, .. } = budget.spent();
    assert_eq!((calls, tokens, money), (6, 6 * 117, 0.000_972));
    let expect = AttemptOutcome::Failed {
        class: ErrorClass::Truncated,
        message: "the answer of p broke off: ".to_owned(),
        may_be_billed: Usage { input: 112, output: 5, ..Usage::default() },
    };
    assert_eq!(call.attempts.attempts()[0].outcome, expect, "the journal holds it too");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_waits_for_any_more_counts_with_its_prompt_and_its_limit() {
    let budget = Budget::new(BudgetCaps::default());
    let paced = Paced::new(Arc::new(Model::using(10, 5)), Pacer::new(PaceConfig::default()));
    let model = Budgeted::new(Arc::new(paced), Arc::clone(&budget), PRICES);
    let call = CallCtx::default();
    tokio::time::timeout(SECOND / 2, model.chat(&request(), &call)).await.unwrap_err();
    let Spent { calls, tokens, money, .. } = budget.spent();
    assert_eq!((calls, tokens, money), (1, 117, 0.000_162));
    // The longest reply until now is what another one may have had.
    model.chat(&long_request(), &CallCtx::default()).await.unwrap();
    tokio::time::timeout(SECOND / 2, model.chat(&long_request(), &CallCtx::default())).await.unwrap_err();
    assert_eq!(budget.spent().tokens, 117 + 15 + 72 + 5);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_what_others_leave() {
    // Room for one reservation at a time, of 117 tokens and then of 77, each of which uses 35.
    let budget = Budget::new(BudgetCaps { tokens: Some(150), ..BudgetCaps::default() });
    let model = budgeted(Model::using(30, 5), &budget);
    let begun = Instant::now();
    assert_eq!(crowd(&model, 10).await, 3);
    assert_eq!(begun.elapsed(), SECOND * 3);
    assert_eq!(budget.spent().tokens, 105);
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_noted_and_ends_with_the_call() {
    let budget = Budget::new(BudgetCaps { calls: Some(1), ..BudgetCaps::default() });
    let model = budgeted(Model { takes: SECOND * 60, ..Model::using(1, 1) }, &budget);
    let under_way = tokio::spawn({
        let model = Arc::clone(&model);
        async move { model.chat(&request(), &CallCtx::default()).await }
    });
    tokio::time::sleep(SECOND).await;
    let hasty = CallCtx { deadline: Some(Instant::now() + SECOND * 5), ..CallCtx::default() };
    let error = model.chat(&request(), &hasty).await.unwrap_err();
    assert!(matches!(error, LlmError::Timeout { .. }), "{error:?}");
    assert_eq!((hasty.attempts.take_wait(), hasty.attempts.take_unsent()), (SECOND * 5, true));
    let cancelled = CallCtx::default();
    cancelled.cancel.cancel();
    let error = model.chat(&request(), &cancelled).await.unwrap_err();
    assert!(matches!(error, LlmError::Cancelled), "{error:?}");
    // An attempt that is dropped settles as a request without tokens.
    under_way.abort();
    assert!(under_way.await.unwrap_err().is_cancelled());
    assert_eq!(budget.spent().calls, 1);
    assert_exhausted(
        &model.chat(&request(), &CallCtx::default()).await.unwrap_err(),
        "calls is reached: 1 of 1",
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_pace_never_sent_is_no_call() {
    let budget = Budget::new(BudgetCaps::default());
    let slow = Model { takes: SECOND * 60, ..Model::using(10, 5) };
    let paced = Paced::new(Arc::new(slow), Pacer::new(PaceConfig::fixed(1)));
    let model = Budgeted::new(Arc::new(paced), Arc::clone(&budget), PRICES);
    let hasty = CallCtx { deadline: Some(Instant::now() + SECOND * 5), ..CallCtx::default() };
    let (first, second) = (hasty.with_own_attempts(), hasty.with_own_attempts());
    let question = request();
    let (sent, unsent) = tokio::join!(model.chat(&question, &first), model.chat(&question, &second));
    assert!(sent.is_ok() && matches!(unsent, Err(LlmError::Timeout { .. })), "{unsent:?}");
    assert_eq!((first.attempts.take_unsent(), second.attempts.take_unsent()), (false, true));
    assert_eq!(budget.spent().calls, 1);
}

#[test]
fn prices_are_per_million_tokens() {
    let usage =
        Usage { input: 1_000_000, cached: 400_000, output: 10_000, reasoning: 5_000, ..Usage::default() };
    assert!((PRICES.cost(usage) - (0.6 + 0.04 + 0.1)).abs() < 1e-12);
    assert_eq!(Prices::default().cost(usage), 0.0);
    let odd = Usage { input: 1, cached: 5, ..Usage::default() };
    assert!((PRICES.cost(odd) - 1e-7).abs() < 1e-15);
    assert_eq!(Prices { input: -1.0, cached: f64::NAN, ..Prices::default() }.cost(usage), 0.0);
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_the_configuration_is_reserved() {
    let provider = SimProvider::new(SimConfig::default(), |asked| SimAnswer::text(asked, "yes"));
    let mut config = OpenAiConfig::new("http://sim.invalid/v1", "m");
    config.sampling.max_tokens = Some(5);
    let inner = Arc::new(OpenAiChat::with_transport(config, provider).unwrap());
    let budget = Budget::new(BudgetCaps::default());
    let model = Budgeted::new(inner, budget, PRICES);
    let open = ChatRequest::new(vec![Message::user(PROMPT)]);
    let reserved = |request: &ChatRequest| reserved(&model, request).output;
    assert_eq!((reserved(&open), reserved(&request())), (5, 5));
    model.chat(&open, &CallCtx::default()).await.unwrap();
    assert_eq!(reserved(&open), 5, "the reply had one token, and the next one may have five");
}

fn reserved(model: &Budgeted, request: &ChatRequest) -> Usage {
    let attempt = model.attempt(request);
    let granted = model.budget.reserve(&attempt).now_or_never().unwrap().unwrap();
    model.budget.settle(&attempt, granted.grant, AttemptUse::Unsent);
    granted.grant.bounds.reserved
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_the_longest_reply_is_reserved() {
    let budget = Budget::new(BudgetCaps::default());
    let open = ChatRequest::new(vec![Message::user(PROMPT)]);
    let small = budgeted(Model::using(10, 100), &budget);
    assert_eq!(reserved(&small, &open), Usage { input: 112, output: 4_096, ..Usage::default() });
    small.chat(&open, &CallCtx::default()).await.unwrap();
    assert_eq!(reserved(&small, &open).output, 200, "one reply alone says little");
    // Models of one name share what was seen.
    budgeted(Model::using(10, 9_000), &budget).chat(&open, &CallCtx::default()).await.unwrap();
    for _ in 0..50 {
        small.chat(&open, &CallCtx::default()).await.unwrap();
    }
    assert_eq!(reserved(&small, &open).output, 9_000);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_passes_a_limit_has_none() {
    let budget = Budget::new(BudgetCaps::default());
    let deaf = Model { keeps_limits: false, ..Model::using(10, 50) };
    let model = budgeted(deaf, &budget);
    assert_eq!(reserved(&model, &request()).output, 5);
    model.chat(&request(), &CallCtx::default()).await.unwrap();
    assert_eq!(reserved(&model, &request()).output, 100);
}

#[test]
fn each_interface_has_its_own_limit() {
    let tokens = |parameters: Value| ReplyLimit::of(&parameters).tokens(&request());
    let default = |parameters: Value| ReplyLimit::of(&parameters).tokens(&ChatRequest::default());
    assert_eq!(tokens(json!({"sampling": {"max_tokens": 9}})), Some(5), "the request has the last word");
    assert_eq!(default(json!({"sampling": {"max_tokens": 9}})), Some(9));
    assert_eq!(default(json!({"sampling": {"max_tokens": null}})), None);
    assert_eq!(
        default(json!({"dialect": "anthropic"})),
        Some(u64::from(crate::anthropic::DEFAULT_MAX_TOKENS))
    );
    assert_eq!(tokens(json!({"dialect": "agent"})), None, "a program is never told");
}

#[tokio::test(start_paused = true)]
async fn what_earlier_processes_saw_is_reserved() {
    let seen = |latest: Vec<SeenReply>, longest_reply| ModelSeen {
        provider: "p".to_owned(),
        model: "m".to_owned(),
        longest_reply,
        latest,
        ..ModelSeen::default()
    };
    let reply = |prompt_bytes, input, output| SeenReply {
        prompt_bytes,
        n_messages: 1,
        usage: Usage { input, output, ..Usage::default() },
    };
    let budget = Budget::new(BudgetCaps::default());
    let model = budgeted(Model::using(1_000, 500), &budget);
    budget.recall(&seen(vec![reply(4_000, 1_000, 300), reply(0, 9_999, 300)], 700));
    let open = ChatRequest { sampling: Default::default(), ..long_request() };
    assert_eq!(reserved(&model, &open), Usage { input: 1_928, output: 700, ..Usage::default() });
}

/// Thinking models are billed for the thoughts that go back to them.
#[test]
fn what_goes_back_to_the_provider_is_reserved_for() {
    let budget = Budget::new(BudgetCaps { tokens: Some(10_000), ..BudgetCaps::default() });
    let model = budgeted(Model::using(1_000, 5), &budget);
    let mut request = request();
    let reply = ChatReply::text("", Usage::default());
    request.messages.push(Message::reply(&reply));
    let without = reserved(&model, &request);
    let thoughts = json!([{"type": "thinking", "thinking": "x".repeat(3_000)}]);
    let n_bytes = thoughts.to_string().len() as u64;
    request.messages[1] = Message::reply(&reply.with_provider_state("anthropic", Some(thoughts)));
    assert_eq!(reserved(&model, &request).input, without.input + n_bytes);
}

/// The reply of a crowd is as long as its limit: the cap holds without one call at a time.
#[tokio::test(start_paused = true)]
async fn far_below_a_cap_no_call_waits() {
    let caps = BudgetCaps { tokens: Some(10_000_000), money: Some(100.0), ..BudgetCaps::default() };
    let budget = Budget::new(caps);
    let model = budgeted(Model::using(1_000, 8_000), &budget);
    let request = ChatRequest {
        sampling: crate::chat::Sampling { max_tokens: Some(8_000), ..Default::default() },
        ..long_request()
    };
    let begun = Instant::now();
    assert_eq!(crowd_of(&model, 256, request).await, 256);
    assert_eq!(begun.elapsed(), SECOND);
}

/// Replies of 8,000 tokens that nothing limits, in crowds: until one is known, one request is in flight.
#[tokio::test(start_paused = true)]
async fn until_a_model_has_answered_one_request_is_in_flight_and_then_twice_as_many_as_there_are_replies() {
    let open = ChatRequest::new(vec![Message::user(PROMPT)]);
    let crowd_in = |caps: BudgetCaps, n_calls: usize| {
        let open = open.clone();
        async move {
            let budget = Budget::new(caps);
            let model = budgeted(Model::using(100, 8_000), &budget);
            let begun = Instant::now();
            let n_replies = crowd_of(&model, n_calls, open).await;
            (n_replies, begun.elapsed(), budget.spent())
        }
    };
    // 1, 2, 6, 18, 54, 162 and 13 requests at once.
    let tokens = BudgetCaps { tokens: Some(10_000_000), ..BudgetCaps::default() };
    let (n_replies, took, _) = crowd_in(tokens, 256).await;
    assert_eq!((n_replies, took), (256, SECOND * 7));
    // Calls cannot be passed together, and without a cap nothing waits.
    let calls = BudgetCaps { calls: Some(256), ..BudgetCaps::default() };
    let (n_replies, took, _) = crowd_in(calls, 256).await;
    assert_eq!((n_replies, took), (256, SECOND));
    for n_calls in [1, 64, 256] {
        let caps = BudgetCaps { tokens: Some(100_000), ..BudgetCaps::default() };
        let (n_replies, _, spent) = crowd_in(caps, n_calls).await;
        assert!(spent.tokens <= 100_000 && n_replies == n_calls.min(12), "{n_replies} {spent:?}");
        let caps = BudgetCaps { money: Some(1.0), ..BudgetCaps::default() };
        let (n_replies, _, spent) = crowd_in(caps, n_calls).await;
        assert!(spent.money <= 1.0 && n_replies == n_calls.min(12), "{n_replies} {spent:?}");
    }
}

/// Without usage reports no reply has a length, and yet the model has answered.
#[tokio::test(start_paused = true)]
async fn a_server_that_reports_no_usage_is_asked_by_many_at_once() {
    let budget = Budget::new(BudgetCaps { tokens: Some(10_000_000), ..BudgetCaps::default() });
    let model = budgeted(Model::using(0, 0), &budget);
    let begun = Instant::now();
    let open = ChatRequest::new(vec![Message::user(PROMPT)]);
    assert_eq!(crowd_of(&model, 100, open).await, 100);
    assert_eq!(begun.elapsed(), SECOND * 6);
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_limited_to_what_is_left_of_a_cap_and_one_that_is_cut_is_no_reply() {
    let open = ChatRequest::new(vec![Message::user(PROMPT)]);
    let first = |output: u64, money: f64| {
        let open = open.clone();
        async move {
            let budget = Budget::new(BudgetCaps { money: Some(money), ..BudgetCaps::default() });
            let model = budgeted(Model::using(40, output), &budget);
            let call = CallCtx::default();
            (model.chat(&open, &call).await, budget.spent(), call.attempts.len())
        }
    };
    // 112 tokens may be in the prompt, and 988 in the reply.
    let (reply, spent, _) = first(900, 0.01).await;
    assert!(reply.is_ok() && (spent.money - 0.009_04).abs() < 1e-9, "{spent:?}");
    let (cut, spent, _) = first(1_200, 0.01).await;
    let error = cut.unwrap_err();
    assert_exhausted(
        &error,
        "money is reached: $0.0099 of $0.0100; the last reply did not fit into the 988 tokens that were left for it",
    );
    assert!((spent.money - 0.009_92).abs() < 1e-9, "what was cut is paid for: {spent:?}");
    // Not even the prompt.
    let (refused, spent, _) = first(1, 0.000_1).await;
    assert_exhausted(
        &refused.unwrap_err(),
        "money is reached: $0.0000 of $0.0001; the next request may cost $0.0411 (at most 4,208 tokens), and $0.000100 is left",
    );
    assert_eq!(spent.calls, 0);
}

/// The journal and the report have what the reply has cost, though the caller gets none.
#[tokio::test(start_paused = true)]
async fn a_cut_reply_is_an_attempt_with_its_tokens() {
    let budget = Budget::new(BudgetCaps { tokens: Some(1_000), ..BudgetCaps::default() });
    let inner = budgeted(Model::using(40, 9_000), &budget);
    let model = Retried::new(inner, RetryPolicy::default(), Arc::default());
    let call = CallCtx::default();
    let open = ChatRequest::new(vec![Message::user(PROMPT)]);
    model.chat(&open, &call).await.unwrap_err();
    let [attempt] = &call.attempts.attempts()[..] else { panic!("one request") };
    let AttemptOutcome::Failed { class, may_be_billed, .. } = &attempt.outcome else { panic!("{attempt:?}") };
    assert_eq!((*class, may_be_billed.output, budget.spent().tokens), (ErrorClass::Budget, 888, 928));
}

#[tokio::test(start_paused = true)]
async fn thoughts_that_are_asked_for_fit_into_every_limit() {
    assert_eq!(ReplyLimit::of(&json!({"reasoning": {"tokens": 2_000}})).least(), Some(2_001));
    assert_eq!(ReplyLimit::of(&json!({"dialect": "agent"})).least(), None);
}

/// A coding agent without prices: what it reports counts, and the most that it has reported is reserved.
#[tokio::test(start_paused = true)]
async fn what_an_agent_reports_counts_where_no_prices_are_known() {
    let agent = |cost: f64| Arc::new(Agent(Model::using(10, 10), cost));
    for (prices, cap, n_expected, spent) in [
        (Prices::default(), Some(1.1), 2, 1.0),
        (Prices::default(), None, 8, 4.0),
        (Prices { input: 1.0, ..Prices::default() }, None, 8, 8.0 * 10.0 / 1e6),
    ] {
        let budget = Budget::new(BudgetCaps { money: cap, ..BudgetCaps::default() });
        let model = Arc::new(Budgeted::new(agent(0.5), Arc::clone(&budget), prices));
        let open = ChatRequest::new(vec![Message::user(PROMPT)]);
        let call = CallCtx::default();
        let replies = join_all((0..8).map(|_| model.chat(&open, &call))).await;
        assert_eq!(replies.iter().filter(|reply| reply.is_ok()).count(), n_expected, "{cap:?}");
        assert!((budget.spent().money - spent).abs() < 1e-12, "{:?}", budget.spent());
    }
}

/// A model that is played by an agent, which reports what a reply has cost.
struct Agent(Model, f64);

#[async_trait]
impl ChatModel for Agent {
    fn id(&self) -> &ModelId {
        self.0.id()
    }

    fn parameters(&self) -> Value {
        json!({"dialect": "agent"})
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let work = AgentWork { cost: Some(self.1), ..AgentWork::default() };
        Ok(self.0.chat(request, call).await?.with_agent_work(&work))
    }
}

/// Prices of a provider that charges a quarter more for what it writes to its cache.
#[tokio::test(start_paused = true)]
async fn what_may_be_written_to_the_cache_is_reserved_and_paid_at_its_price() {
    const CACHING: Prices = Prices { input: 1.0, cached: 0.1, cache_write: 1.25, output: 10.0 };
    let used = Usage { input: 1_000, cached: 200, cache_written: 700, output: 100, reasoning: 0 };
    assert!((CACHING.cost(used) - (100.0 + 20.0 + 875.0 + 1_000.0) / 1e6).abs() < 1e-12);
    let budget = Budget::new(BudgetCaps::default());
    let model = Arc::new(Model { used, ..Model::using(0, 0) });
    let model = Budgeted::new(model, Arc::clone(&budget), CACHING);
    let expect = Usage { input: 4_072, cache_written: 4_072, output: 500, ..Usage::default() };
    assert_eq!(reserved(&model, &long_request()), expect);
    model.chat(&long_request(), &CallCtx::default()).await.unwrap();
    assert!((budget.spent().money - CACHING.cost(used)).abs() < 1e-12);
    // A request whose answer nobody saw may have been written as a whole.
    tokio::time::timeout(SECOND / 2, model.chat(&long_request(), &CallCtx::default())).await.unwrap_err();
    let unanswered = Usage { input: 1_000, cache_written: 1_000, output: 100, ..Usage::default() };
    assert!((budget.spent().money - CACHING.cost(used) - CACHING.cost(unanswered)).abs() < 1e-12);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_begun_twice_counts_once() {
    let spent = |calls| Spent { calls, tokens: calls * 15, money: 0.0, time: SECOND * calls as u32 };
    let budget = Budget::new(BudgetCaps { calls: Some(100), ..BudgetCaps::default() });
    let model = budgeted(Model::using(10, 5), &budget);
    budget.begin("a", spent(7));
    assert_eq!(crowd(&model, 3).await, 3);
    // The journal holds the three of this process now, and the second it has taken.
    budget.begin("a", Spent { time: SECOND * 8, ..spent(10) });
    assert_eq!((budget.spent().calls, budget.spent().tokens, budget.spent().time), (10, 150, SECOND * 8));
    assert_eq!(crowd(&model, 2).await, 2);
    budget.begin("a", Spent { time: SECOND * 9, ..spent(12) });
    assert_eq!((budget.spent().calls, budget.spent().time), (12, SECOND * 9));
    // Another process has gone on with the run meanwhile.
    budget.begin("a", spent(15));
    assert_eq!(budget.spent().calls, 15);
}

#[tokio::test(start_paused = true)]
async fn the_times_of_several_journals_add_up() {
    let spent = |calls: u64| Spent { calls, time: SECOND * 100, ..Spent::default() };
    let budget = Budget::new(BudgetCaps::default());
    budget.begin("collect", spent(1));
    tokio::time::sleep(SECOND).await;
    budget.begin("distill", spent(2));
    budget.begin("rl", spent(4));
    budget.begin("collect", spent(1));
    assert_eq!((budget.spent().calls, budget.spent().time), (7, SECOND * 301));
}

#[tokio::test(start_paused = true)]
async fn what_is_set_aside_is_for_later_alone() {
    let budget = Budget::new(BudgetCaps { calls: Some(10), ..BudgetCaps::default() });
    let model = budgeted(Model::using(10, 5), &budget);
    budget.set_aside(Spent { calls: 4, ..Spent::default() });
    assert_eq!(crowd(&model, 9).await, 6);
    assert!(model.chat(&request(), &CallCtx::default()).await.is_err());
    budget.set_aside(Spent::default());
    assert_eq!(crowd(&model, 9).await, 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Hundreds of calls at once, with faults and different latencies.
    #[test]
    fn caps_hold_however_many_calls_run(
        seed in 0_u64..1_000_000,
        n_calls in 1_usize..400,
        calls_cap in prop::option::of(0_u64..300),
        tokens_cap in prop::option::of(0_u64..5_000),
        money_cap in prop::option::of(0.0..0.02_f64),
        output_bytes in 1_usize..100,
        fault_rate in 0.0..0.03_f64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let caps = BudgetCaps { calls: calls_cap, tokens: tokens_cap, money: money_cap, time: None };
            let config = SimConfig {
                seed,
                latency: SimLatency { sigma: 1.0, ..SimLatency::default() },
                faults: InjectedFault::each(fault_rate),
                ..SimConfig::default()
            };
            let provider = SimProvider::new(config, move |asked| SimAnswer::text(asked, "x".repeat(output_bytes)));
            let transport = Arc::clone(&provider);
            let mut config = OpenAiConfig::new("http://sim.invalid/v1", "m");
            config.server.max_response_bytes = 100_000;
            let inner = OpenAiChat::with_transport(config, transport).unwrap();
            let budget = Budget::new(caps);
            let model = Arc::new(Budgeted::new(Arc::new(inner), Arc::clone(&budget), PRICES));
            let mut calls = JoinSet::new();
            for _ in 0..n_calls {
                let model = Arc::clone(&model);
                let mut request = request();
                request.sampling.max_tokens = Some(u32::try_from(output_bytes.div_ceil(4)).unwrap());
                calls.spawn(async move { model.chat(&request, &CallCtx::default()).await });
            }
            let mut refused = 0;
            while let Some(outcome) = calls.join_next().await {
                refused += usize::from(matches!(outcome.unwrap(), Err(LlmError::BudgetExhausted { .. })));
            }
            let (spent, seen) = (budget.spent(), provider.report());
            prop_assert_eq!(spent.calls, seen.requests, "every request is counted once");
            prop_assert_eq!(seen.requests, u64::try_from(n_calls - refused).unwrap());
            prop_assert!(calls_cap.is_none_or(|cap| spent.calls <= cap), "{spent:?} of {caps:?}");
            prop_assert!(tokens_cap.is_none_or(|cap| spent.tokens <= cap), "{spent:?} of {caps:?}");
            prop_assert!(money_cap.is_none_or(|cap| spent.money <= cap + 1e-12), "{spent:?} of {caps:?}");
            if refused > 0 {
                prop_assert!(model.chat(&request(), &CallCtx::default()).await.is_err());
            }
            Ok(())
        })?;
    }
}
