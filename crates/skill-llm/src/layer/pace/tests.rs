use super::*;
use crate::chat::{ChatRequest, Message, ResponseSchema};
use crate::testbed::{Ask, Burst, SimAnswer, SimConfig, SimLatency, SimProvider};
use crate::{OpenAiChat, OpenAiConfig};
use serde_json::Value;
use tokio::task::JoinSet;

const SECOND: Duration = Duration::from_secs(1);

fn request(text: impl Into<String>) -> ChatRequest {
    ChatRequest::new(vec![Message::user(text)])
}

fn paced(provider: &Arc<SimProvider>, pacer: &Arc<Pacer>) -> Arc<Paced> {
    let transport = Arc::clone(provider);
    let inner =
        OpenAiChat::with_transport(OpenAiConfig::new("http://sim.invalid/v1", "m"), transport).unwrap();
    Arc::new(Paced::new(Arc::new(inner), Arc::clone(pacer)))
}

fn provider(config: SimConfig) -> Arc<SimProvider> {
    SimProvider::new(config, |asked| SimAnswer::text(asked, "yes"))
}

/// Keeps this many calls under way for a time and says how many got a reply.
async fn load(model: &Arc<Paced>, n_workers: usize, span: Duration) -> usize {
    let until = Instant::now() + span;
    let mut workers = JoinSet::new();
    for worker in 0..n_workers {
        let model = Arc::clone(model);
        workers.spawn(async move {
            let mut replies = 0;
            while Instant::now() < until {
                replies += usize::from(
                    model.chat(&request(format!("{worker} {replies}")), &CallCtx::default()).await.is_ok(),
                );
            }
            replies
        });
    }
    workers.join_all().await.into_iter().sum()
}

#[tokio::test(start_paused = true)]
async fn requests_per_minute_hold() {
    for (per_minute, burst) in [(60, SECOND), (600, SECOND * 10), (30, Duration::ZERO)] {
        let config = PaceConfig { requests_per_minute: Some(per_minute), burst, ..PaceConfig::fixed(50) };
        let sim = provider(SimConfig::default());
        let replies = load(&paced(&sim, &Pacer::new(config)), 50, SECOND * 120).await;
        let burst_requests = f64::from(per_minute) * burst.as_secs_f64() / 60.0;
        let most = usize::try_from(per_minute).unwrap() + burst_requests as usize + 1;
        assert!(sim.most_within(SECOND * 60) <= most, "{} of {most}", sim.most_within(SECOND * 60));
        let fewest = usize::try_from(per_minute).unwrap() * 2;
        assert!(replies >= fewest, "the rate is used: {replies} of {fewest}");
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_per_minute_hold_however_wrong_the_estimates_are() {
    // By its bytes the prompt has 250 tokens; this provider counts it in its own way.
    let text = "x".repeat(1_000);
    for (input, output) in [(750, 400), (250, 400), (60, 4)] {
        let sim = SimProvider::new(SimConfig::default(), move |asked| {
            let mut answer = SimAnswer::text(asked, "y".repeat(output));
            answer.usage.input = input;
            answer
        });
        let config = PaceConfig { tokens_per_minute: Some(60_000), ..PaceConfig::fixed(4) };
        let model = paced(&sim, &Pacer::new(config));
        let (begun, mut used) = (Instant::now(), 0);
        while begun.elapsed() < SECOND * 120 {
            let reply = model.chat(&request(text.as_str()), &CallCtx::default()).await.unwrap();
            used += reply.usage.input + reply.usage.output;
        }
        assert!((118_000..=123_000).contains(&used), "{used} tokens in two minutes at 60,000 per minute");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_sent_in_the_order_in_which_they_came() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    let sim = SimProvider::new(SimConfig::default(), move |asked| {
        let text = asked.pointer("/messages/0/content").unwrap().as_str().unwrap().parse::<usize>().unwrap();
        seen.lock().push(text);
        SimAnswer::text(asked, "yes")
    });
    let model = paced(&sim, &Pacer::new(PaceConfig::fixed(1)));
    let mut calls = JoinSet::new();
    for call_idx in 0..500 {
        let model = Arc::clone(&model);
        calls.spawn(
            async move { model.chat(&request(call_idx.to_string()), &CallCtx::default()).await.unwrap() },
        );
    }
    calls.join_all().await;
    assert_eq!(*order.lock(), (0..500).collect::<Vec<_>>());
    assert_eq!(sim.report().max_in_flight, 1);
}

#[tokio::test(start_paused = true)]
async fn dropped_waiters_and_calls_give_their_places_back() {
    let sim = provider(SimConfig {
        latency: SimLatency { median: SECOND * 10, ..SimLatency::default() },
        ..SimConfig::default()
    });
    let pacer = Pacer::new(PaceConfig::fixed(4));
    let model = paced(&sim, &pacer);
    let call = |text: &str| {
        let (model, request) = (Arc::clone(&model), request(text));
        tokio::spawn(async move { model.chat(&request, &CallCtx::default()).await })
    };
    let calls: Vec<_> = (0..100).map(|_| call("x")).collect();
    tokio::time::sleep(SECOND).await;
    assert_eq!(pacer.snapshot(), PaceSnapshot { limit: 4, in_flight: 4, waiting: 96 });
    // Of those in flight, of the first of the queue, and of the middle.
    for dropped in [&calls[..5], &calls[40..60]].concat_refs() {
        dropped.abort();
    }
    tokio::time::sleep(SECOND).await;
    assert_eq!(pacer.snapshot(), PaceSnapshot { limit: 4, in_flight: 4, waiting: 71 });
    for call in calls {
        drop(call.await);
    }
    assert_eq!(pacer.snapshot(), PaceSnapshot { limit: 4, in_flight: 0, waiting: 0 });
    assert_eq!(sim.report().answered, 75);
    call("y").await.unwrap().unwrap();
}

/// References to the elements of several slices.
trait ConcatRefs<T> {
    fn concat_refs(&self) -> Vec<&T>;
}

impl<T> ConcatRefs<T> for [&[T]] {
    fn concat_refs(&self) -> Vec<&T> {
        self.iter().flat_map(|slice| slice.iter()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_call_and_says_that_nothing_was_sent() {
    let sim = provider(SimConfig {
        latency: SimLatency { median: SECOND * 60, ..SimLatency::default() },
        ..SimConfig::default()
    });
    let pacer = Pacer::new(PaceConfig::fixed(1));
    let model = paced(&sim, &pacer);
    let under_way = tokio::spawn({
        let model = Arc::clone(&model);
        async move { model.chat(&request("x"), &CallCtx::default()).await }
    });
    tokio::time::sleep(SECOND).await;
    let hasty = CallCtx { deadline: Some(Instant::now() + SECOND * 5), ..CallCtx::default() };
    let error = model.chat(&request("y"), &hasty).await.unwrap_err();
    assert!(matches!(error, LlmError::Timeout { .. }), "{error:?}");
    assert_eq!((hasty.attempts.take_wait(), hasty.attempts.take_unsent()), (SECOND * 5, true));
    let cancelled = CallCtx::default();
    let cancel = cancelled.cancel.clone();
    let request = request("z");
    let (error, ()) = tokio::join!(model.chat(&request, &cancelled), async {
        tokio::time::sleep(SECOND).await;
        cancel.cancel();
    });
    assert!(matches!(error, Err(LlmError::Cancelled)), "{error:?}");
    let halted = CallCtx::default();
    let halt = halted.halt.clone();
    let (error, ()) = tokio::join!(model.chat(&request, &halted), async { halt.cancel() });
    assert!(matches!(error, Err(LlmError::Cancelled)) && halted.attempts.take_unsent(), "{error:?}");
    let patient = CallCtx::default();
    model.chat(&request, &patient).await.unwrap();
    assert_eq!((patient.attempts.take_wait(), patient.attempts.take_unsent()), (SECOND * 53, false));
    under_way.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_asked_for_holds_back_everybody() {
    let bursts = vec![Burst { from: SECOND, until: SECOND * 30, ask: Ask::RetryAfterMs }];
    for (max_hold, expect_requests) in [(SECOND * 600, 2), (SECOND * 5, 31)] {
        let sim = provider(SimConfig { bursts: bursts.clone(), ..SimConfig::default() });
        let model = paced(&sim, &Pacer::new(PaceConfig { max_hold, ..PaceConfig::fixed(8) }));
        tokio::time::sleep(SECOND).await;
        model.chat(&request("x"), &CallCtx::default()).await.unwrap_err();
        let begun = Instant::now();
        let mut failed = 0;
        while model.chat(&request("y"), &CallCtx::default()).await.is_err() {
            failed += 1;
            tokio::time::sleep(SECOND).await;
        }
        // The second model is held by its own wait of less than 5 s at last.
        assert!(begun.elapsed() >= SECOND * 28, "{:?}", begun.elapsed());
        assert!(sim.report().requests <= expect_requests, "{} after {failed}", sim.report().requests);
    }
}

#[tokio::test(start_paused = true)]
async fn it_finds_out_how_many_requests_the_provider_takes() {
    let sim = provider(SimConfig { refuse_above: Some(100), ..SimConfig::default() });
    let pacer = Pacer::new(PaceConfig { max_in_flight: 500, ..PaceConfig::default() });
    let model = paced(&sim, &pacer);
    let replies = load(&model, 500, SECOND * 6).await;
    let report = sim.report();
    let refused = report.requests - report.answered;
    // 100 in flight at 50 ms for 6 s are 12,000 replies.
    assert!(replies > 9_000, "{replies}");
    assert!(refused * 20 < report.requests, "{refused} of {}", report.requests);
    let limit = pacer.snapshot().limit;
    assert!((60..=101).contains(&limit), "{limit}");
}

#[tokio::test(start_paused = true)]
async fn it_lowers_the_number_when_replies_become_slow_and_keeps_the_least() {
    // Latency grows with what is in flight above 20; a reply comes at the same rate whatever is sent.
    let latency = SimLatency { capacity: Some(20), ..SimLatency::default() };
    let sim = provider(SimConfig { latency, ..SimConfig::default() });
    let pacer = Pacer::new(PaceConfig { min_in_flight: 4, max_in_flight: 200, ..PaceConfig::default() });
    let model = paced(&sim, &pacer);
    load(&model, 200, SECOND * 20).await;
    let limit = pacer.snapshot().limit;
    assert!((20..=50).contains(&limit), "{limit}");
    // A provider of constant latency is used as far as is allowed.
    let pacer = Pacer::new(PaceConfig { max_in_flight: 200, ..PaceConfig::default() });
    load(&paced(&provider(SimConfig::default()), &pacer), 200, SECOND / 2).await;
    assert_eq!(pacer.snapshot().limit, 200);
}

#[tokio::test(start_paused = true)]
async fn models_share_the_pace_and_keep_their_kinds_apart() {
    let (sim, pacer) = (provider(SimConfig::default()), Pacer::new(PaceConfig::fixed(3)));
    let (first, second) = (paced(&sim, &pacer), paced(&sim, &pacer));
    let kind = |model: &Paced, has_schema| {
        pacer.state.lock().kind(&PacedRequest::new(model.id().clone(), has_schema, 1))
    };
    let kinds = |model: &Paced| [kind(model, false), kind(model, true)];
    assert_eq!(kinds(&first), kinds(&second));
    assert_ne!(kind(&first, false), kind(&first, true));
    let mut with_schema = request("x");
    with_schema.response_schema = Some(ResponseSchema::new("s", Value::Null));
    first.chat(&with_schema, &CallCtx::default()).await.unwrap();
    let (a, b) = tokio::join!(load(&first, 5, SECOND * 2), load(&second, 5, SECOND * 2));
    assert!(a > 50 && b > 50, "{a} {b}");
    assert_eq!(sim.report().max_in_flight, 3);
}

#[tokio::test(flavor = "current_thread")]
async fn a_call_costs_little_with_thousands_waiting() {
    let model = Arc::new(Paced::new(
        Arc::new(crate::ScriptedModel::answering("at once", |_| "yes".to_owned())),
        Pacer::new(PaceConfig::fixed(2_048)),
    ));
    let mut workers = JoinSet::new();
    let begun = std::time::Instant::now();
    for _ in 0..4_096 {
        let model = Arc::clone(&model);
        workers.spawn(async move {
            for _ in 0..5 {
                model.chat(&request("x"), &CallCtx::default()).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
    }
    workers.join_all().await;
    let per_call = begun.elapsed() / (4_096 * 5);
    // Far above what it takes, and far below what waking everybody would take.
    assert!(per_call < Duration::from_micros(500), "{per_call:?}");
}
