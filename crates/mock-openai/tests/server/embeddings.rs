//! Embeddings over real sockets, by the client and the layers of skillrl.

use crate::client::start;
use mock_openai::embedding::{DEFAULT_DIMENSIONS, vector};
use mock_openai::fault::FaultRate;
use mock_openai::{Fault, FaultPlan, MockServer, ServerConfig};
use skill_llm::{
    Batched, Budget, BudgetCaps, Budgeted, CallCtx, EmbeddingModel, EmbeddingRequest, ErrorClass, Journal,
    JournalOptions, Journaled, OpenAiEmbeddings, OpenAiEmbeddingsConfig, PaceConfig, Paced, Pacer, Prices,
    ReqwestTransport, Retried, RetryPolicy, Traced,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn config(server: &MockServer) -> OpenAiEmbeddingsConfig {
    OpenAiEmbeddingsConfig::new(server.base_url(), "vectors").with_max_texts(8)
}

/// A model of the server, which a proxy cannot come between.
fn dialect(config: OpenAiEmbeddingsConfig) -> Arc<OpenAiEmbeddings> {
    let transport = Arc::new(ReqwestTransport::direct().unwrap());
    Arc::new(OpenAiEmbeddings::with_transport(config, transport).unwrap())
}

/// The layers of a run, but for the journal.
fn layers(dialect: Arc<OpenAiEmbeddings>, budget: &Arc<Budget>) -> Arc<dyn EmbeddingModel> {
    let paced = Arc::new(Paced::embedding(dialect, Pacer::new(PaceConfig::default())));
    let budgeted = Arc::new(Budgeted::embedding(paced, Arc::clone(budget), Prices::default()));
    let delay = Duration::from_millis(1);
    let policy =
        RetryPolicy { first_delay: delay, max_delay: delay, max_attempts: 20, ..RetryPolicy::default() };
    Arc::new(Traced::embedding(Arc::new(Retried::embedding(budgeted, policy, Arc::default()))))
}

fn journaled(model: Arc<dyn EmbeddingModel>, path: &Path) -> Journaled<dyn EmbeddingModel> {
    Journaled::embedding(model, Journal::open(path, JournalOptions::default()).unwrap())
}

fn goals(n_goals: usize) -> Vec<String> {
    (0..n_goals).map(|number| format!("put {number} hot eggs into the fridge")).collect()
}

#[tokio::test]
async fn vectors_are_those_of_the_server_in_every_encoding() {
    let server = start(ServerConfig::default()).await;
    let texts = goals(3);
    let request = EmbeddingRequest::new(texts.iter().map(String::as_str));
    for (config, length) in [
        (config(&server), DEFAULT_DIMENSIONS),
        (config(&server).with_dimensions(16), 16),
        (config(&server).with_extra("encoding_format", "base64"), DEFAULT_DIMENSIONS),
    ] {
        let reply = dialect(config).embed(&request, &CallCtx::default()).await.unwrap();
        let expect: Vec<Vec<f32>> = texts.iter().map(|text| vector(text, length)).collect();
        assert_eq!(reply.vectors, expect);
        assert!(reply.usage.input > 0);
    }
}

#[tokio::test]
async fn every_fault_is_survived_and_no_text_is_answered_twice() {
    // Those that a client without a short timeout waits long for are apart.
    let faults = [
        Fault::RateLimit,
        Fault::RateLimitRetryAfterMs,
        Fault::InternalError,
        Fault::BadGateway,
        Fault::Unavailable,
        Fault::Reset,
        Fault::Truncated,
        Fault::EmptyChoices,
        Fault::NullContent,
        Fault::InvalidUtf8,
        Fault::Html,
    ];
    let rates = faults.map(|fault| FaultRate { fault, rate: 0.05 }).to_vec();
    let faults = FaultPlan { rates, retry_after: Duration::from_millis(1), ..FaultPlan::default() };
    let server = start(ServerConfig { seed: 7, faults, ..ServerConfig::default() }).await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.sqlite");
    let texts = goals(300);
    let expect: Vec<Vec<f32>> = texts.iter().map(|text| vector(text, DEFAULT_DIMENSIONS)).collect();
    let budget = Budget::new(BudgetCaps::default());
    for _ in 0..2 {
        let model = journaled(layers(dialect(config(&server)), &budget), &path);
        let request = EmbeddingRequest::new(texts.iter().map(String::as_str));
        let reply = model.embed(&request, &CallCtx::default()).await.unwrap();
        assert_eq!(reply.vectors, expect);
    }
    let stats = server.stats();
    assert_eq!((stats.answered, stats.repeated), (38, 0), "{stats:?}");
    assert!(stats.by_fault.len() > 5, "{stats:?}");
    assert_eq!(budget.spent().calls, stats.requests, "every request is counted");
    let spent = Journal::open(&path, JournalOptions::default()).unwrap().spent_before().to_vec();
    assert_eq!(spent[0].requests, stats.requests);
}

#[tokio::test]
async fn an_oversized_reply_and_a_refused_request_are_errors() {
    let faults = FaultPlan::only(Fault::Oversized, 1.0);
    let server = start(ServerConfig { faults, ..ServerConfig::default() }).await;
    let mut config = config(&server);
    config.server.max_response_bytes = 1_000_000;
    let request = EmbeddingRequest::new(["a"]);
    let error = dialect(config).embed(&request, &CallCtx::default()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::InvalidReply);
    let server = start(ServerConfig::default()).await;
    let config = OpenAiEmbeddingsConfig::new(server.base_url(), "vectors").with_dimensions(1_000_000);
    let error = dialect(config).embed(&request, &CallCtx::default()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::BadRequest);
    assert_eq!(server.stats().by_status[&400], 1);
}

#[tokio::test]
async fn without_a_journal_batches_do_the_same() {
    let server = start(ServerConfig::default()).await;
    let budget = Budget::new(BudgetCaps { calls: Some(3), ..BudgetCaps::default() });
    let model = Batched::new(layers(dialect(config(&server)), &budget));
    let texts = goals(20);
    let request = EmbeddingRequest::new(texts.iter().map(String::as_str));
    let reply = model.embed(&request, &CallCtx::default()).await.unwrap();
    assert_eq!((reply.vectors.len(), server.stats().requests), (20, 3));
    let error = model.embed(&request, &CallCtx::default()).await.unwrap_err();
    assert_eq!((error.class(), server.stats().requests), (ErrorClass::Budget, 3));
}
