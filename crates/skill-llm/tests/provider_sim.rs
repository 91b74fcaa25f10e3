//! All layers on a provider that fails in every way, in virtual time.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use parking_lot::Mutex;
use skill_llm::testbed::{InjectedFault, Outage, SimAnswer, SimConfig, SimLatency, SimProvider, SimReport};
use skill_llm::{
    AttemptOutcome, Budget, BudgetCaps, Budgeted, CallCtx, CallPlace, ChatModel, ChatRequest, GiveUpReason,
    LlmError, Message, OpenAiChat, OpenAiConfig, PaceConfig, Paced, Pacer, Prices, Retried, RetryPolicy,
    Traced, Usage,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const N_CALLS: usize = 200;
const REQUESTS_PER_MINUTE: u32 = 600;
/// Kinds of faults, each way to ask for a wait counted.
const N_FAULTS: usize = 17;
const PRICES: Prices = Prices { input: 1.0, cached: 0.1, cache_write: 1.0, output: 10.0 };

fn pace() -> PaceConfig {
    PaceConfig { requests_per_minute: Some(REQUESTS_PER_MINUTE), ..PaceConfig::default() }
}

/// Every other seed keeps requests per minute; the others send whatever may be in flight.
fn has_rate(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

/// Bursts, outages and faults of a storm may follow each other for a minute, which is what the default policy
/// outlasts; twice its attempts leave no seed to chance.
fn storm_policy(seed: u64) -> RetryPolicy {
    RetryPolicy { seed, max_attempts: 16, ..RetryPolicy::default() }
}

/// All layers around the dialect.
struct Stack {
    provider: Arc<SimProvider>,
    pacer: Arc<Pacer>,
    budget: Arc<Budget>,
    model: Arc<dyn ChatModel>,
}

impl Stack {
    fn new(config: SimConfig, pace: PaceConfig, policy: RetryPolicy) -> Self {
        let provider = SimProvider::new(config, |asked| {
            let question = asked.pointer("/messages/0/content").unwrap().as_str().unwrap();
            SimAnswer::text(asked, expected(question))
        });
        let mut config = OpenAiConfig::new("http://sim.invalid/v1", "m");
        config.server.timeout = SECOND * 60;
        config.server.max_response_bytes = 100_000;
        let transport = Arc::clone(&provider);
        let dialect = Arc::new(OpenAiChat::with_transport(config, transport).unwrap());
        let (pacer, budget) = (Pacer::new(pace), Budget::new(BudgetCaps::default()));
        let paced = Arc::new(Paced::new(dialect, Arc::clone(&pacer)));
        let budgeted = Arc::new(Budgeted::new(paced, Arc::clone(&budget), PRICES));
        let retried = Arc::new(Retried::new(budgeted, policy, Arc::default()));
        Self { provider, pacer, budget, model: Arc::new(Traced::new(retried)) }
    }

    /// Makes all calls at once; those that got no reply. Checks what must hold whatever happened.
    async fn run(&self) -> Vec<LlmError> {
        let mut calls = JoinSet::new();
        for call_idx in 0..N_CALLS {
            let model = Arc::clone(&self.model);
            calls.spawn(async move {
                let question = format!("question {call_idx}");
                let call = CallCtx::new(CallPlace::new(&question));
                let request = ChatRequest::new(vec![Message::user(&question)]);
                let outcome = model.chat(&request, &call).await;
                if let Ok(reply) = &outcome {
                    assert_eq!(reply.text, expected(&question));
                }
                (outcome, call.attempts.attempts())
            });
        }
        let (mut errors, mut n_attempts, mut used) = (Vec::new(), 0, Usage::default());
        for (outcome, attempts) in calls.join_all().await {
            n_attempts += attempts.len();
            for attempt in attempts {
                used += match attempt.outcome {
                    AttemptOutcome::Reply(usage) | AttemptOutcome::Failed { may_be_billed: usage, .. } => {
                        usage
                    }
                };
            }
            errors.extend(outcome.err());
        }
        let (seen, spent) = (self.provider.report(), self.budget.spent());
        assert_eq!(u64::try_from(n_attempts).unwrap(), seen.requests, "every request is an attempt");
        assert_eq!(spent.calls, seen.requests, "every request is counted");
        assert_eq!(spent.tokens, used.input + used.output);
        assert!((spent.money - PRICES.cost(used)).abs() < 1e-9);
        assert_eq!(seen.answered_again, 0, "nothing is paid for twice");
        assert_eq!(usize::try_from(seen.answered).unwrap() + errors.len(), N_CALLS);
        assert_eq!((self.pacer.snapshot().in_flight, self.pacer.snapshot().waiting), (0, 0));
        errors
    }
}

fn expected(question: &str) -> String {
    format!("the answer to {question}")
}

fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(future)
}

/// One seed: every call ends with the right reply, at the pace.
fn weather(seed: u64) -> SimReport {
    in_virtual_time(async {
        let stack = Stack::new(
            SimConfig::storm(seed, SECOND * 10),
            if has_rate(seed) { pace() } else { PaceConfig::default() },
            storm_policy(seed),
        );
        let errors = stack.run().await;
        assert!(errors.is_empty(), "seed {seed}: {errors:?}");
        let report = stack.provider.report();
        let most = usize::try_from(REQUESTS_PER_MINUTE).unwrap();
        let burst = most / 60 + 1;
        let within = stack.provider.most_within(MINUTE);
        assert!(!has_rate(seed) || within <= most + burst, "seed {seed}: {within} within a minute");
        assert!(report.max_in_flight <= 64, "seed {seed}: {report:?}");
        report
    })
}

fn seeds(seeds: std::ops::Range<u64>) {
    let (mut faults, mut max_in_flight) = (BTreeSet::new(), 0);
    for seed in seeds {
        let report = weather(seed);
        faults.extend(report.faults.into_keys());
        max_in_flight = max_in_flight.max(report.max_in_flight);
    }
    assert_eq!(max_in_flight, 64);
    assert_eq!(faults.len(), N_FAULTS, "the seeds see faults of every kind: {faults:?}");
}

#[test]
fn storms_0() {
    seeds(0..50);
}

#[test]
fn storms_1() {
    seeds(50..100);
}

#[test]
fn storms_2() {
    seeds(100..150);
}

#[test]
fn storms_3() {
    seeds(150..200);
}

#[test]
fn a_seed_gives_the_same_weather_again() {
    assert_eq!(weather(7), weather(7));
    assert_ne!(weather(7), weather(8));
}

fn outage(fault: InjectedFault, seconds: u32) -> (Vec<LlmError>, SimReport) {
    in_virtual_time(async {
        let config = SimConfig {
            outages: vec![Outage { from: SECOND, until: SECOND * seconds, fault }],
            latency: SimLatency { median: SECOND, sigma: 0.3, ..SimLatency::default() },
            ..SimConfig::default()
        };
        let stack = Stack::new(config, pace(), RetryPolicy::default());
        (stack.run().await, stack.provider.report())
    })
}

#[test]
fn an_outage_longer_than_the_policy_ends_each_call_with_its_reason() {
    for fault in [
        InjectedFault::Refused,
        InjectedFault::Unavailable,
        InjectedFault::Hang,
        InjectedFault::ResetBefore,
        InjectedFault::NullContent,
    ] {
        let (errors, report) = outage(fault, 100_000);
        assert!(!errors.is_empty());
        for error in &errors {
            let LlmError::GaveUp { why, last, .. } = error else { panic!("{error:?}") };
            assert!(
                matches!(why, GiveUpReason::Attempts | GiveUpReason::RetryBudget | GiveUpReason::Deadline),
                "{why:?}"
            );
            assert!(last.is_retryable(), "{last:?}");
        }
        // The calls, the retry budget, and a probe per second while the calls last: not 8 per call.
        assert!(report.requests < 1_300, "{report:?}");
    }
}

#[test]
fn an_outage_shorter_than_the_policy_costs_no_call() {
    for fault in [
        InjectedFault::Refused,
        InjectedFault::Unavailable,
        InjectedFault::ResetBefore,
        InjectedFault::NullContent,
    ] {
        let (errors, report) = outage(fault, 20);
        assert!(errors.is_empty(), "{fault:?}: {errors:?}");
        assert!(report.requests > 250, "{report:?}");
    }
}

/// Tokens of a long reply, which is as long as its limit.
const LONG_REPLY: u64 = 8_000;

/// Calls with long replies under caps on tokens and money, in a storm; the provider bills what it has written, also where
/// the answer breaks on its way.
fn long_replies(n_workers: u32, seed: u64, caps: BudgetCaps) -> (Usage, Usage) {
    let billed = Arc::new(Mutex::new(Usage::default()));
    let counted = Arc::clone(&billed);
    in_virtual_time(async move {
        let provider = SimProvider::new(SimConfig::storm(seed, SECOND * 10), move |asked| {
            let SimAnswer { text, usage } = SimAnswer::text(asked, "x");
            let usage = Usage { output: LONG_REPLY, ..usage };
            *counted.lock() += usage;
            SimAnswer { text, usage }
        });
        let mut config = OpenAiConfig::new("http://sim.invalid/v1", "m");
        config.server.timeout = SECOND * 60;
        config.server.max_response_bytes = 100_000;
        config.sampling.max_tokens = Some(u32::try_from(LONG_REPLY).unwrap());
        let dialect = Arc::new(OpenAiChat::with_transport(config, provider).unwrap());
        let pace =
            PaceConfig { start_in_flight: n_workers, max_in_flight: n_workers, ..PaceConfig::default() };
        let budget = Budget::new(caps);
        let paced = Arc::new(Paced::new(dialect, Pacer::new(pace)));
        let budgeted = Arc::new(Budgeted::new(paced, Arc::clone(&budget), PRICES));
        let model = Arc::new(Retried::new(budgeted, storm_policy(seed), Arc::default()));
        let mut workers = JoinSet::new();
        for worker in 0..n_workers {
            let model = Arc::clone(&model);
            workers.spawn(async move {
                for call_idx in 0.. {
                    let question = format!("question {call_idx} of {worker} {}", "word ".repeat(400));
                    let call = CallCtx::new(CallPlace::new(&question));
                    let asked = ChatRequest::new(vec![Message::user(&question)]);
                    if let Err(LlmError::BudgetExhausted { .. }) = model.chat(&asked, &call).await {
                        break;
                    }
                }
            });
        }
        workers.join_all().await;
        let billed = *billed.lock();
        let spent = budget.spent();
        assert!(spent.tokens >= billed.input + billed.output, "{spent:?} {billed:?}");
        let spent = Usage { input: spent.tokens, ..Usage::default() };
        (billed, spent)
    })
}

#[test]
fn long_replies_pass_no_cap_on_tokens_or_money() {
    for n_workers in [1, 64, 256] {
        for seed in 0..6 {
            let tokens = 100_000 * (1 + seed);
            let caps = BudgetCaps { tokens: Some(tokens), ..BudgetCaps::default() };
            let (billed, spent) = long_replies(n_workers, seed, caps);
            let used = billed.input + billed.output;
            assert!(used <= tokens && spent.input <= tokens, "{n_workers} workers: {used} of {tokens}");
            assert!(
                spent.input + 2 * LONG_REPLY > tokens,
                "{n_workers} workers stop early: {spent:?} of {tokens}"
            );
            let money = 1.0 + seed as f64;
            let caps = BudgetCaps { money: Some(money), ..BudgetCaps::default() };
            let (billed, _) = long_replies(n_workers, seed, caps);
            let used = PRICES.cost(billed);
            assert!(used <= money, "{n_workers} workers: {used} of {money}");
        }
    }
}

#[test]
fn a_body_of_ten_megabytes_is_read_only_where_that_is_allowed() {
    in_virtual_time(async {
        let faults = vec![(InjectedFault::Oversized, 1.0)];
        let provider = SimProvider::new(SimConfig { faults, ..SimConfig::default() }, |asked| {
            SimAnswer::text(asked, "yes")
        });
        let request = ChatRequest::new(vec![Message::user("well?")]);
        for (limit, is_read) in [(1_000_000, false), (16 * 1024 * 1024, true)] {
            let mut config = OpenAiConfig::new("http://sim.invalid/v1", "m");
            config.server.max_response_bytes = limit;
            let transport = Arc::clone(&provider);
            let model = OpenAiChat::with_transport(config, transport).unwrap();
            let outcome = model.chat(&request, &CallCtx::default()).await;
            match outcome {
                Ok(reply) => assert!(is_read && reply.text == "yes"),
                Err(error) => {
                    assert!(!is_read && matches!(error, LlmError::InvalidReply { .. }), "{error:?}");
                }
            }
        }
    });
}
