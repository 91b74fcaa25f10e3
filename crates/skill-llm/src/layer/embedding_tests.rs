//! The layers around an embedding model, in virtual time and with the dialect on a transport in memory.

use super::*;
use crate::attempt::AttemptOutcome;
use crate::embedding::{EmbeddingModel, EmbeddingReply, EmbeddingRequest};
use crate::error::ErrorClass;
use crate::openai::{OpenAiEmbeddings, OpenAiEmbeddingsConfig};
use crate::transport::{HttpRequest, HttpResponse, Transport, TransportError};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_core::Usage;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const SECOND: Duration = Duration::from_secs(1);

/// A server that takes a second for a request, and counts a token for each text.
#[derive(Default)]
struct Server {
    /// Answers to the first requests, in reverse.
    failures: Mutex<Vec<(u16, &'static str)>>,
    n_requests: AtomicUsize,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
    sent_at: Mutex<Vec<Instant>>,
}

impl Server {
    fn failing(failures: &[(u16, &'static str)]) -> Arc<Self> {
        Arc::new(Self { failures: Mutex::new(failures.iter().rev().copied().collect()), ..Self::default() })
    }

    fn n_requests(&self) -> usize {
        self.n_requests.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Transport for Server {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        self.n_requests.fetch_add(1, Ordering::SeqCst);
        self.sent_at.lock().push(Instant::now());
        let in_flight = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_in_flight.fetch_max(in_flight, Ordering::SeqCst);
        tokio::time::sleep(SECOND).await;
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        let failure = self.failures.lock().pop();
        if let Some((status, body)) = failure {
            let headers = vec![("retry-after".to_owned(), "20".to_owned())];
            return Ok(HttpResponse { status, headers, body: body.into() });
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let texts = body["input"].as_array().unwrap();
        let vector = |(index, text): (usize, &Value)| {
            let length = text.as_str().unwrap().len();
            json!({"index": index, "embedding": [length, 1]})
        };
        let data: Vec<Value> = texts.iter().enumerate().map(vector).collect();
        let reply = json!({"data": data, "usage": {"prompt_tokens": texts.len()}});
        Ok(HttpResponse { status: 200, headers: Vec::new(), body: reply.to_string().into() })
    }
}

fn dialect(server: &Arc<Server>) -> Arc<OpenAiEmbeddings> {
    let config = OpenAiEmbeddingsConfig::new("http://h/v1", "vectors").with_max_texts(4);
    Arc::new(OpenAiEmbeddings::with_transport(config, Arc::clone(server) as Arc<dyn Transport>).unwrap())
}

fn layers(server: &Arc<Server>, pace: PaceConfig, budget: &Arc<Budget>, prices: Prices) -> Arc<Batched> {
    let paced = Arc::new(Paced::embedding(dialect(server), Pacer::new(pace)));
    let budgeted = Arc::new(Budgeted::embedding(paced, Arc::clone(budget), prices));
    let retried = Arc::new(Retried::embedding(budgeted, RetryPolicy::default(), Arc::default()));
    Arc::new(Batched::new(Arc::new(Traced::embedding(retried))))
}

fn no_caps() -> Arc<Budget> {
    Budget::new(BudgetCaps::default())
}

fn texts(n_texts: usize) -> EmbeddingRequest {
    EmbeddingRequest::new((1..=n_texts).map(|length| "x".repeat(length)))
}

#[track_caller]
fn assert_vectors(reply: &EmbeddingReply, n_texts: usize) {
    let lengths: Vec<usize> = reply.vectors.iter().map(|vector| vector[0] as usize).collect();
    assert_eq!(lengths, (1..=n_texts).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn any_number_of_texts_is_sent_in_batches_and_comes_back_in_order() {
    for (n_texts, n_requests) in [(0, 0), (1, 1), (4, 1), (5, 2), (200, 50)] {
        let server = Server::failing(&[]);
        let model = layers(&server, PaceConfig::default(), &no_caps(), Prices::default());
        let reply = model.embed(&texts(n_texts), &CallCtx::default()).await.unwrap();
        assert_vectors(&reply, n_texts);
        assert_eq!(reply.usage.input, n_texts as u64);
        assert_eq!(server.n_requests(), n_requests);
        assert!(server.most_in_flight.load(Ordering::SeqCst) <= 16, "of one call");
    }
}

#[tokio::test(start_paused = true)]
async fn temporary_failures_are_retried_after_the_stated_wait() {
    let server = Server::failing(&[(429, ""), (200, r#"{"data": []}"#), (500, "")]);
    let model = layers(&server, PaceConfig::default(), &no_caps(), Prices::default());
    let call = CallCtx::default();
    let reply = model.embed(&texts(3), &call).await.unwrap();
    assert_vectors(&reply, 3);
    let attempts = call.attempts.attempts();
    let outcomes: Vec<_> = attempts
        .iter()
        .map(|attempt| match &attempt.outcome {
            AttemptOutcome::Reply(usage) => (None, usage.input),
            AttemptOutcome::Failed { class, may_be_billed, .. } => (Some(*class), may_be_billed.input),
        })
        .collect();
    // A body that cannot be read may be billed with as much as was reserved: 6 bytes, 64 and 8 for each text.
    let expect = [
        (Some(ErrorClass::RateLimited), 0),
        (Some(ErrorClass::InvalidReply), 6 + 64 + 24),
        (Some(ErrorClass::ServerError), 0),
        (None, 3),
    ];
    assert_eq!(outcomes, expect);
    let sent_at = server.sent_at.lock();
    assert!(sent_at[1] - sent_at[0] >= SECOND * 21, "{sent_at:?}");
}

#[tokio::test(start_paused = true)]
async fn permanent_failures_are_not_retried_and_end_the_other_batches() {
    let server = Server::failing(&[(401, ""); 100]);
    let model = layers(&server, PaceConfig::fixed(2), &no_caps(), Prices::default());
    let error = model.embed(&texts(400), &CallCtx::default()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Authentication);
    assert!(server.n_requests() <= 16, "100 batches, of which {} were sent", server.n_requests());
}

#[tokio::test(start_paused = true)]
async fn a_cap_holds_however_many_calls_run() {
    async fn crowd(budget: &Arc<Budget>, prices: Prices) -> (usize, usize) {
        let server = Server::failing(&[]);
        let model = layers(&server, PaceConfig::fixed(64), budget, prices);
        let mut calls = JoinSet::new();
        for _ in 0..64 {
            let model = Arc::clone(&model);
            calls.spawn(async move { model.embed(&texts(2), &CallCtx::default()).await });
        }
        let outcomes = calls.join_all().await;
        for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
            assert!(matches!(error, LlmError::BudgetExhausted { .. }), "{error:?}");
        }
        (outcomes.iter().filter(|outcome| outcome.is_ok()).count(), server.n_requests())
    }
    let calls = Budget::new(BudgetCaps { calls: Some(7), ..BudgetCaps::default() });
    assert_eq!(crowd(&calls, Prices::default()).await, (7, 7));
    assert_eq!(calls.spent().calls, 7);
    // 3 bytes, 64 and 16 are reserved for a request that uses 2 tokens.
    for (cap, expect) in [(82, 0), (83, 1), (103, 11)] {
        let tokens = Budget::new(BudgetCaps { tokens: Some(cap), ..BudgetCaps::default() });
        let (n_replies, n_requests) = crowd(&tokens, Prices::default()).await;
        assert!(
            n_replies == n_requests && n_replies >= expect && tokens.spent().tokens <= cap,
            "{n_replies}"
        );
    }
    let prices = Prices { input: 1_000.0, cached: 1.0, cache_write: 1_000.0, output: 9e9 };
    let money = Budget::new(BudgetCaps { money: Some(0.1), ..BudgetCaps::default() });
    let (n_replies, _) = crowd(&money, prices).await;
    let spent = money.spent().money;
    assert!(n_replies > 0 && (spent - 0.002 * n_replies as f64).abs() < 1e-9 && spent <= 0.1, "{spent}");
}

#[tokio::test(start_paused = true)]
async fn vectors_of_a_wrong_length_are_counted_and_not_retried() {
    let server = Server::failing(&[]);
    let budget = no_caps();
    let config = OpenAiEmbeddingsConfig::new("http://h/v1", "vectors").with_dimensions(3);
    let dialect =
        OpenAiEmbeddings::with_transport(config, Arc::clone(&server) as Arc<dyn Transport>).unwrap();
    let budgeted = Arc::new(Budgeted::embedding(Arc::new(dialect), Arc::clone(&budget), Prices::default()));
    let model = Retried::embedding(budgeted, RetryPolicy::default(), Arc::default());
    let call = CallCtx::default();
    let error = model.embed(&texts(2), &call).await.unwrap_err();
    assert!(matches!(error, LlmError::VectorLength { found: 2, expected: 3, .. }), "{error:?}");
    // As much as was reserved: 3 bytes, 64 and 8 for each text.
    assert_eq!((server.n_requests(), call.attempts.len(), budget.spent().tokens), (1, 1, 83));
}

#[tokio::test(start_paused = true)]
async fn an_empty_text_costs_no_request_in_any_layer() {
    let server = Server::failing(&[]);
    let budget = no_caps();
    let budgeted = Arc::new(Budgeted::embedding(dialect(&server), Arc::clone(&budget), Prices::default()));
    let model = Retried::embedding(budgeted, RetryPolicy::default(), Arc::default());
    let call = CallCtx::default();
    let error = model.embed(&EmbeddingRequest::new(["a", ""]), &call).await.unwrap_err();
    assert!(matches!(error, LlmError::EmptyText { index: 1 }), "{error:?}");
    assert_eq!((server.n_requests(), call.attempts.len(), budget.spent().calls), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn requests_keep_the_pace_of_the_provider() {
    let server = Server::failing(&[]);
    let pace = PaceConfig { requests_per_minute: Some(60), ..PaceConfig::fixed(64) };
    let model = layers(&server, pace, &no_caps(), Prices::default());
    let began = Instant::now();
    model.embed(&texts(40), &CallCtx::default()).await.unwrap();
    assert!(began.elapsed() >= SECOND * 9, "ten requests at one a second: {:?}", began.elapsed());
    let server = Server::failing(&[]);
    let model = layers(&server, PaceConfig::fixed(3), &no_caps(), Prices::default());
    model.embed(&texts(40), &CallCtx::default()).await.unwrap();
    assert_eq!(server.most_in_flight.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_and_cancelling_end_a_call() {
    let server = Server::failing(&[]);
    let model = layers(&server, PaceConfig::fixed(1), &no_caps(), Prices::default());
    let call = CallCtx { deadline: Some(Instant::now() + SECOND * 3), ..CallCtx::default() };
    let error = model.embed(&texts(40), &call).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Timeout);
    let call = CallCtx::default();
    call.cancel.cancel();
    let n_before = server.n_requests();
    let error = model.embed(&texts(1), &call).await.unwrap_err();
    assert!(matches!(error, LlmError::Cancelled));
    assert_eq!(server.n_requests(), n_before);
}

#[tokio::test(start_paused = true)]
async fn longer_batches_do_not_look_like_a_slower_provider() {
    /// Takes a millisecond for each token.
    struct PerToken(ModelId);

    #[async_trait]
    impl EmbeddingModel for PerToken {
        fn id(&self) -> &ModelId {
            &self.0
        }

        async fn embed(&self, request: &EmbeddingRequest, _: &CallCtx) -> Result<EmbeddingReply, LlmError> {
            let input: u64 = request.texts.iter().map(|text| text.len() as u64).sum();
            tokio::time::sleep(Duration::from_millis(input)).await;
            let usage = Usage { input, ..Usage::default() };
            Ok(EmbeddingReply::new(vec![vec![1.0]; request.texts.len()], usage))
        }
    }
    let pacer = Pacer::new(PaceConfig::default());
    let model = Paced::embedding(Arc::new(PerToken(ModelId::new("p", "m"))), Arc::clone(&pacer));
    let before = pacer.snapshot().limit;
    for length in [10, 1_000] {
        for _ in 0..128 {
            let request = EmbeddingRequest::new(["x".repeat(length)]);
            model.embed(&request, &CallCtx::default()).await.unwrap();
        }
    }
    assert!(pacer.snapshot().limit >= before);
}
