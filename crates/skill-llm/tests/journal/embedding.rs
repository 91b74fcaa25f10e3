//! Embeddings: each text is sent once, whatever requests ask for it.

use crate::support::{Bench, at};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_llm::journal::{CallFilter, Pruned, prune, requests_written};
use skill_llm::{
    Budget, BudgetCaps, Budgeted, CallCtx, ChatModel as _, EmbeddingModel, EmbeddingReply, EmbeddingRequest,
    ErrorClass, HttpRequest, HttpResponse, Journal, Journaled, LengthSource, LlmError, Meter, Metered,
    ModelId, NotInRecording, OpenAiEmbeddings, OpenAiEmbeddingsConfig, PaceConfig, Paced, Pacer, Prices,
    Recording, Retried, RetryPolicy, Transport, TransportError, Usage,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Gives each text the vector of its length and its first byte, and counts a token for each byte.
pub(crate) struct Embedder {
    id: ModelId,
    parameters: Value,
    max_texts: usize,
    /// How many numbers a vector has, at least two.
    length: AtomicUsize,
    /// A request waits until it gets a permit.
    gate: Option<Arc<Semaphore>>,
    /// The texts of each request.
    asked: Mutex<Vec<Vec<String>>>,
}

impl Embedder {
    pub(crate) fn new() -> Self {
        Self {
            id: ModelId::new("http://llm.example", "vectors"),
            parameters: json!({"kind": "embedding", "dimensions": null}),
            max_texts: 4,
            length: AtomicUsize::new(2),
            gate: None,
            asked: Mutex::default(),
        }
    }

    fn with_parameters(self, parameters: Value) -> Self {
        Self { parameters, ..self }
    }

    fn with_length(self, length: usize) -> Self {
        self.length.store(length, Ordering::Relaxed);
        self
    }

    fn gated(self) -> (Arc<Self>, Arc<Semaphore>) {
        let gate = Arc::new(Semaphore::new(0));
        (Arc::new(Self { gate: Some(Arc::clone(&gate)), ..self }), gate)
    }

    pub(crate) fn n_requests(&self) -> usize {
        self.asked.lock().len()
    }

    /// All texts of all requests.
    fn texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = self.asked.lock().concat();
        texts.sort();
        texts
    }
}

pub(crate) fn vector(text: &str, length: usize) -> Vec<f32> {
    let first = text.bytes().next().map_or(0.0, f32::from);
    let known = [text.len() as f32, first / 3.0];
    known.into_iter().chain(std::iter::repeat(0.5)).take(length).collect()
}

#[async_trait]
impl EmbeddingModel for Embedder {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn parameters(&self) -> Value {
        self.parameters.clone()
    }

    fn max_texts(&self) -> usize {
        self.max_texts
    }

    async fn embed(&self, request: &EmbeddingRequest, call: &CallCtx) -> Result<EmbeddingReply, LlmError> {
        assert!((1..=self.max_texts).contains(&request.texts.len()), "{request:?}");
        self.asked.lock().push(request.texts.iter().map(ToString::to_string).collect());
        if let Some(gate) = &self.gate {
            tokio::select! {
                () = call.cancel.cancelled() => return Err(LlmError::Cancelled),
                permit = gate.acquire() => permit.unwrap().forget(),
            }
        }
        if request.texts.iter().any(|text| text.contains("fail")) {
            let (provider, message) = ("p".to_owned(), "no".to_owned());
            return Err(LlmError::ServerError { provider, status: 500, message, retry_after: None });
        }
        let length = self.length.load(Ordering::Relaxed);
        let n_bytes: usize = request.texts.iter().map(|text| text.len()).sum();
        Ok(EmbeddingReply::new(
            request.texts.iter().map(|text| vector(text, length)).collect(),
            Usage { input: n_bytes as u64, ..Usage::default() },
        ))
    }
}

pub(crate) fn journaled(model: &Arc<Embedder>, journal: &Journal) -> Journaled<dyn EmbeddingModel> {
    Journaled::embedding(Arc::clone(model) as Arc<dyn EmbeddingModel>, journal.clone())
}

/// All layers that a request passes.
fn sending(model: &Arc<Embedder>, journal: &Journal, budget: &Arc<Budget>) -> Journaled<dyn EmbeddingModel> {
    let paced =
        Paced::embedding(Arc::clone(model) as Arc<dyn EmbeddingModel>, Pacer::new(PaceConfig::default()));
    let budgeted = Budgeted::embedding(Arc::new(paced), Arc::clone(budget), Prices::default());
    let policy = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let retried = Retried::embedding(Arc::new(budgeted), policy, Arc::default());
    Journaled::embedding(Arc::new(retried), journal.clone())
}

fn no_caps() -> Arc<Budget> {
    Budget::new(BudgetCaps::default())
}

async fn embed(model: &dyn EmbeddingModel, texts: &[&str], place: &str) -> EmbeddingReply {
    model.embed(&EmbeddingRequest::new(texts.iter().copied()), &at(place)).await.unwrap()
}

#[track_caller]
fn assert_vectors(reply: &EmbeddingReply, texts: &[&str]) {
    let expect: Vec<Vec<f32>> = texts.iter().map(|text| vector(text, 2)).collect();
    assert_eq!(reply.vectors, expect);
}

#[tokio::test]
async fn each_text_is_sent_once_whatever_the_batch_and_the_place() {
    let (bench, model) = (Bench::new(), Arc::new(Embedder::new()));
    let texts = ["a", "bb", "ccc", "a", "dddd", "eeeee", "bb"];
    for process in 0..2 {
        let journal = bench.open();
        let kept = journaled(&model, &journal);
        let reply = embed(&kept, &texts, "step 1").await;
        assert_vectors(&reply, &texts);
        // Of distinct texts, in every process alike.
        assert_eq!(reply.usage, Usage { input: 15, ..Usage::default() });
        let reply = embed(&kept, &["ccc", "new"], &format!("step {process}")).await;
        assert_vectors(&reply, &["ccc", "new"]);
        assert!(embed(&kept, &[], "step 1").await.vectors.is_empty());
        journal.flush().await.unwrap();
    }
    assert_eq!(model.texts(), ["a", "bb", "ccc", "dddd", "eeeee", "new"]);
    assert_eq!(model.n_requests(), 3, "batches of at most four: {:?}", model.asked);
    // Before it is committed too.
    let journal = bench.open();
    let kept = journaled(&model, &journal);
    for _ in 0..2 {
        assert_vectors(&embed(&kept, &["later"], "step 2").await, &["later"]);
    }
    assert_eq!(model.n_requests(), 4);
}

/// A unit of work has the same sums when it is repeated.
#[tokio::test]
async fn a_meter_counts_a_text_alike_wherever_its_vector_comes_from() {
    let (bench, model) = (Bench::new(), Arc::new(Embedder::new()));
    let meter = Arc::new(Meter::default());
    for _ in 0..2 {
        let metered = Metered::embedding(Arc::new(journaled(&model, &bench.open())), Arc::clone(&meter));
        let call = at("step 1");
        metered.embed(&EmbeddingRequest::new(["abc", "de", "fghij", "k", "l"]), &call).await.unwrap();
        assert_eq!((call.scope.used().calls, call.scope.used().usage.input), (1, 12));
    }
    assert_eq!(model.n_requests(), 2);
    assert_eq!((meter.snapshot().calls, meter.snapshot().usage.input), (2, 24));
}

#[tokio::test]
async fn models_with_other_parameters_have_vectors_of_their_own() {
    let (bench, model) = (Bench::new(), Arc::new(Embedder::new()));
    let journal = bench.open();
    embed(&journaled(&model, &journal), &["a"], "step 1").await;
    let other = Arc::new(Embedder::new().with_parameters(json!({"dimensions": 3})).with_length(3));
    assert_eq!(embed(&journaled(&other, &journal), &["a"], "step 1").await.vectors, [vector("a", 3)]);
    assert_eq!((model.n_requests(), other.n_requests()), (1, 1));
    drop(journal);
    let journal = bench.open();
    assert_eq!(embed(&journaled(&other, &journal), &["a"], "step 1").await.vectors, [vector("a", 3)]);
    assert_vectors(&embed(&journaled(&model, &journal), &["a"], "step 1").await, &["a"]);
    assert_eq!((model.n_requests(), other.n_requests()), (1, 1));
}

#[tokio::test]
async fn equal_texts_under_way_share_one_request() {
    let bench = Bench::new();
    let (model, gate) = Embedder::new().gated();
    let kept = Arc::new(journaled(&model, &bench.open()));
    // Each pair of neighbours has a text in common, in both orders.
    let calls: Vec<_> = (0..20)
        .map(|number| {
            let kept = Arc::clone(&kept);
            tokio::spawn(async move {
                let (one, two) = (format!("text {number}"), format!("text {}", (number + 1) % 20));
                let texts = if number % 2 == 0 { [one.as_str(), &two] } else { [two.as_str(), &one] };
                assert_vectors(&embed(kept.as_ref(), &texts, "step 1").await, &texts);
            })
        })
        .collect();
    gate.add_permits(100);
    for call in calls {
        call.await.unwrap();
    }
    let texts = model.texts();
    assert_eq!(texts.len(), 20, "{texts:?}");
}

#[tokio::test]
async fn a_waiting_call_takes_over_a_text_whose_call_was_given_up() {
    for leader_is_dropped in [true, false] {
        let bench = Bench::new();
        let (model, gate) = Embedder::new().gated();
        let kept = Arc::new(journaled(&model, &bench.open()));
        let cancel = CancellationToken::new();
        let leader = tokio::spawn({
            let (kept, call) = (Arc::clone(&kept), CallCtx { cancel: cancel.clone(), ..at("step 1") });
            async move { kept.embed(&EmbeddingRequest::new(["a", "b"]), &call).await }
        });
        while model.n_requests() == 0 {
            tokio::task::yield_now().await;
        }
        let follower = tokio::spawn({
            let kept = Arc::clone(&kept);
            async move { embed(kept.as_ref(), &["b", "c"], "step 1").await }
        });
        while model.n_requests() < 2 {
            tokio::task::yield_now().await;
        }
        if leader_is_dropped {
            leader.abort();
        } else {
            cancel.cancel();
        }
        drop(leader.await);
        gate.add_permits(3);
        assert_vectors(&follower.await.unwrap(), &["b", "c"]);
        assert_eq!(model.texts(), ["a", "b", "b", "c"]);
    }
}

#[tokio::test]
async fn a_batch_that_fails_costs_no_other_batch() {
    let (bench, model) = (Bench::new(), Arc::new(Embedder::new()));
    let journal = bench.open();
    let texts = ["a", "b", "c", "d", "fail", "f", "g", "h", "i"];
    let kept = sending(&model, &journal, &no_caps());
    let error = kept.embed(&EmbeddingRequest::new(texts), &at("step 1")).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::ServerError);
    journal.flush().await.unwrap();
    let rows = bench.rows();
    let mut outcomes: Vec<_> = rows.iter().map(|row| (row.outcome.as_str(), row.attempts)).collect();
    outcomes.sort_unstable();
    assert_eq!(outcomes, [("reply", 1), ("reply", 1), ("server_error", 1)]);
    drop((kept, journal));
    let kept = journaled(&model, &bench.open());
    embed(&kept, &["a", "b", "c", "d", "i"], "step 2").await;
    assert_eq!(model.n_requests(), 3, "what came is kept");
}

#[tokio::test]
async fn an_empty_text_is_refused_before_anything_is_sent() {
    let (bench, model) = (Bench::new(), Arc::new(Embedder::new()));
    let kept = journaled(&model, &bench.open());
    let error = kept.embed(&EmbeddingRequest::new(["a", " "]), &at("step 1")).await.unwrap_err();
    assert!(matches!(error, LlmError::EmptyText { index: 1 }), "{error:?}");
    drop(kept);
    assert_eq!((model.n_requests(), bench.rows().len()), (0, 0));
}

#[tokio::test]
async fn vectors_of_another_length_than_in_the_journal_are_refused_and_their_cost_is_counted() {
    let (bench, model) = (Bench::new(), Arc::new(Embedder::new()));
    embed(&journaled(&model, &bench.open()), &["a"], "step 1").await;
    model.length.store(3, Ordering::Relaxed);
    {
        let journal = bench.open();
        let kept = sending(&model, &journal, &no_caps());
        for _ in 0..2 {
            let error = kept.embed(&EmbeddingRequest::new(["bbb"]), &at("step 1")).await.unwrap_err();
            let LlmError::VectorLength { found, expected, expected_by, .. } = &error else {
                panic!("{error:?}")
            };
            assert_eq!((*found, *expected, *expected_by), (3, 2, LengthSource::Journal));
            assert!(error.class() == ErrorClass::Configuration && !error.is_retryable());
        }
    }
    assert_eq!(model.n_requests(), 3, "it is not retried");
    let totals = bench.reader().totals().unwrap();
    assert_eq!((totals.replies, totals.failed, totals.requests, totals.usage.input), (1, 2, 3, 7));
    // Once the vectors of the old model are gone, those of the new one are taken.
    prune(&bench.path(), &CallFilter { model: Some("vectors".to_owned()), ..CallFilter::default() }).unwrap();
    let reply = embed(&journaled(&model, &bench.open()), &["a"], "step 1").await;
    assert_eq!(reply.vectors, [vector("a", 3)]);
}

#[tokio::test]
async fn a_request_that_is_killed_before_its_reply_is_counted_and_repeated() {
    let bench = Bench::new();
    let (model, gate) = Embedder::new().gated();
    let journal = bench.open();
    let kept = sending(&model, &journal, &no_caps());
    let asking = tokio::spawn(async move { embed(&kept, &["abc", "de"], "step 1").await });
    while model.n_requests() == 0 {
        tokio::task::yield_now().await;
    }
    let dead = bench.killed();
    // A byte is a token until the server has reported usage; 64 for the server's own and 8 around each text.
    let reserved = Usage { input: 5 + 64 + 16, ..Usage::default() };
    let spent = dead.open().spent_before().to_vec();
    assert_eq!((spent[0].model.as_str(), spent[0].requests, spent[0].usage), ("vectors", 1, reserved));
    assert_eq!(requests_written(&dead.path()).unwrap(), Some(1));
    let (again, resumed) = (Arc::new(Embedder::new()), dead.open());
    embed(&sending(&again, &resumed, &no_caps()), &["de", "abc"], "step 1").await;
    assert_eq!(again.n_requests(), 1);
    drop(resumed);
    let resumed = dead.open();
    embed(&sending(&again, &resumed, &no_caps()), &["abc", "de"], "step 1").await;
    assert_eq!(again.n_requests(), 1, "a resumed run sends nothing that was answered");
    assert_eq!((resumed.spent_before()[0].requests, resumed.requests_committed()), (2, 2));
    gate.add_permits(1);
    asking.await.unwrap();
}

#[tokio::test]
async fn a_reply_that_is_killed_before_its_commit_is_counted_with_what_it_used() {
    let (bench, model) = (Bench::new(), Arc::new(Embedder::new()));
    let an_hour = std::time::Duration::from_secs(3_600);
    let options = skill_llm::JournalOptions { group_window: an_hour, ..Default::default() };
    let journal = Journal::open(&bench.path(), options).unwrap();
    embed(&sending(&model, &journal, &no_caps()), &["abc"], "step 1").await;
    let dead = bench.killed();
    assert_eq!(dead.open().spent_before()[0].usage, Usage { input: 3, ..Usage::default() });
    journal.flush().await.unwrap();
    let dead = bench.killed();
    let spent = dead.reader().spent().unwrap();
    assert_eq!((spent[0].requests, spent[0].usage.input), (1, 3));
    let again = Arc::new(Embedder::new());
    embed(&sending(&again, &dead.open(), &no_caps()), &["abc"], "step 1").await;
    assert_eq!(again.n_requests(), 0);
}

#[tokio::test]
async fn token_counts_of_earlier_replies_are_restored() {
    let (bench, model) = (Bench::new(), Arc::new(Embedder::new()));
    {
        let journal = bench.open();
        embed(&sending(&model, &journal, &no_caps()), &["abc", "de", "fghi"], "step 1").await;
    }
    let journal = bench.open();
    let [seen] = journal.seen_before() else { panic!("one model: {:?}", journal.seen_before()) };
    let last = seen.latest.last().unwrap();
    assert_eq!((last.prompt_bytes, last.n_messages, last.usage.input), (9, 3, 9));
    assert_eq!(seen.longest_reply, 0);
}

#[tokio::test]
async fn a_recording_answers_and_is_copied() {
    let (old, model) = (Bench::new(), Arc::new(Embedder::new()));
    embed(&journaled(&model, &old.open()), &["a", "b"], "step 1").await;
    let new = Bench::new();
    let recording = |otherwise| Recording { journal: Arc::new(old.reader()), otherwise };
    let silent = Arc::new(Embedder::new());
    {
        let kept = journaled(&silent, &new.open()).with_recording(recording(NotInRecording::Fail));
        assert_vectors(&embed(&kept, &["b", "a"], "step 7").await, &["b", "a"]);
        let error = kept.embed(&EmbeddingRequest::new(["a", "c"]), &at("step 7")).await.unwrap_err();
        assert!(matches!(error, LlmError::NotRecorded { .. }), "{error:?}");
    }
    {
        let kept = journaled(&silent, &new.open()).with_recording(recording(NotInRecording::Send));
        assert_vectors(&embed(&kept, &["a", "c"], "step 7").await, &["a", "c"]);
    }
    assert_eq!(silent.texts(), ["c"]);
    let totals = new.reader().totals().unwrap();
    assert_eq!((totals.replies, totals.requests, totals.embeddings), (2, 1, 3));
    assert!(new.reader().has_copies().unwrap());
    assert_vectors(&embed(&journaled(&silent, &new.open()), &["a"], "step 8").await, &["a"]);
    assert_eq!(silent.n_requests(), 1);
}

/// Two calls of an embedding model with three texts, and one of a chat model.
async fn filled() -> (Bench, Arc<Embedder>) {
    let (bench, model) = (Bench::new(), Arc::new(Embedder::new()));
    let journal = bench.open();
    let kept = sending(&model, &journal, &no_caps());
    embed(&kept, &["abc", "de"], "step 3 / retrieve / q1").await;
    embed(&kept, &["de", "f"], "step 30 / retrieve / q1").await;
    let chat = Arc::new(crate::support::Counting::new());
    crate::support::ask(&crate::support::journaled(&chat, &journal), "a", &at("step 3 / rollout / q1")).await;
    (bench, model)
}

#[tokio::test]
async fn people_see_calls_of_both_kinds() {
    let (bench, _) = filled().await;
    let rows = bench.rows();
    let shown: Vec<_> = rows
        .iter()
        .map(|row| (row.kind.as_str(), row.outcome.as_str(), row.usage.input, row.attempts))
        .collect();
    assert_eq!(shown, [("embedding", "reply", 5, 1), ("embedding", "reply", 1, 1), ("chat", "reply", 10, 1)]);
    let totals = bench.reader().totals().unwrap();
    assert_eq!((totals.replies, totals.requests, totals.embeddings), (3, 3, 3));
    assert_eq!(totals.usage.input, 16);
    let stages = bench.reader().by_stage().unwrap();
    let shown: Vec<_> = stages
        .iter()
        .map(|row| (row.stage.as_str(), row.model.as_str(), row.replies, row.usage.input))
        .collect();
    assert_eq!(shown, [("retrieve", "vectors", 2, 6), ("rollout", "m", 1, 10)]);
    let call = bench.reader().call(1).unwrap().unwrap();
    assert_eq!(call["kind"], "embedding");
    assert_eq!(call["messages"][1], json!({"role": "user", "text": "de"}));
    assert_eq!(call["vectors"], json!([vector("abc", 2), vector("de", 2)]));
    let mut out = Vec::new();
    bench.reader().export(&CallFilter::default(), &mut out).unwrap().unwrap();
    let lines: Vec<Value> =
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], call);
    assert_eq!((lines[2]["kind"].as_str(), lines[2].get("vectors")), (Some("chat"), None));
}

#[tokio::test]
async fn pruned_vectors_are_gone_and_what_they_cost_stays() {
    let (bench, model) = filled().await;
    let before = bench.reader().spent().unwrap();
    let filter = CallFilter { place: Some("step 3 / retrieve".to_owned()), ..CallFilter::default() };
    let expect = Pruned { calls: 1, results: 0, messages: 2, embeddings: 2 };
    assert_eq!(bench.reader().prunable(&filter).unwrap(), expect);
    assert_eq!(prune(&bench.path(), &filter).unwrap(), expect);
    assert_eq!(bench.reader().spent().unwrap(), before);
    let database = rusqlite::Connection::open(bench.path()).unwrap();
    let n_vectors: i64 = database.query_row("SELECT count(*) FROM vectors", [], |row| row.get(0)).unwrap();
    assert_eq!(n_vectors, 1);
    drop(database);
    let n_before = model.n_requests();
    let kept = journaled(&model, &bench.open());
    assert_vectors(&embed(&kept, &["f", "de", "abc"], "step 31").await, &["f", "de", "abc"]);
    assert_eq!(model.n_requests(), n_before + 1);
    assert_eq!(model.asked.lock().last().unwrap(), &["de", "abc"]);
}

#[tokio::test]
async fn a_damaged_vector_is_an_error_that_names_its_row() {
    let (bench, model) = (Bench::new(), Arc::new(Embedder::new()));
    embed(&journaled(&model, &bench.open()), &["a", "b"], "step 1").await;
    for damage in
        ["UPDATE vectors SET vector = x'0102' WHERE embedding = 1", "DELETE FROM vectors WHERE embedding = 1"]
    {
        rusqlite::Connection::open(bench.path()).unwrap().execute(damage, []).unwrap();
        let kept = journaled(&model, &bench.open());
        let error = kept.embed(&EmbeddingRequest::new(["a"]), &at("step 1")).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Journal);
        let message = error.to_string();
        assert!(message.contains("row 1 ") && message.contains("`embeddings`"), "{message}");
        assert_vectors(&embed(&kept, &["b"], "step 1").await, &["b"]);
    }
    assert_eq!(model.n_requests(), 1);
}

/// A chat model and an embedding model may have one name.
#[tokio::test]
async fn calls_of_both_kinds_are_told_apart() {
    let bench = Bench::new();
    let journal = bench.open();
    let chat = Arc::new(crate::support::Counting::new().with_parameters(Value::Null));
    let embedder = Embedder { id: chat.id().clone(), parameters: Value::Null, ..Embedder::new() };
    let embedder = Arc::new(embedder);
    for _ in 0..2 {
        let reply =
            crate::support::ask(&crate::support::journaled(&chat, &journal), "a", &at("step 1")).await;
        assert_eq!(reply, "reply 1 to a");
        assert_vectors(&embed(&journaled(&embedder, &journal), &["a"], "step 1").await, &["a"]);
    }
    assert_eq!((chat.n_requests(), embedder.n_requests()), (1, 1));
}

/// Fails in another way before each answer, which has the vectors of [`vector`].
#[derive(Default)]
struct Faulty {
    n_requests: AtomicUsize,
    /// The texts of the requests that were answered.
    answered: Mutex<Vec<String>>,
}

#[async_trait]
impl Transport for Faulty {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let number = self.n_requests.fetch_add(1, Ordering::Relaxed);
        let asked: Value = serde_json::from_slice(&request.body).unwrap();
        let texts: Vec<String> = serde_json::from_value(asked.get("input").cloned().unwrap()).unwrap();
        let row = |(index, text): (usize, &String)| json!({"index": index, "embedding": vector(text, 2)});
        let usage = json!({"prompt_tokens": 1, "total_tokens": 1});
        let rows: Vec<Value> = texts.iter().enumerate().map(row).collect();
        let whole = json!({"data": rows, "usage": usage}).to_string().into_bytes();
        let message = String::new;
        let (status, body) = match (number % 2, number / 2 % 9) {
            (0, 0) => (429, b"{}".to_vec()),
            (0, 1) => (500, b"{}".to_vec()),
            (0, 2) => (502, b"<html></html>".to_vec()),
            (0, 3) => return Err(TransportError::Broken { message: message() }),
            (0, 4) => return Err(TransportError::Truncated { message: message() }),
            (0, 5) => (200, whole.get(..whole.len() / 2).unwrap().to_vec()),
            (0, 6) => (200, json!({"data": [], "usage": usage}).to_string().into_bytes()),
            (0, 7) => {
                (200, json!({"data": [{"index": 0, "embedding": null}], "usage": usage}).to_string().into())
            }
            (0, _) => (200, b"\xff\xfe".to_vec()),
            _ => {
                self.answered.lock().extend(texts);
                (200, whole)
            }
        };
        Ok(HttpResponse { status, headers: Vec::new(), body })
    }
}

#[tokio::test(start_paused = true)]
async fn every_fault_is_survived_and_no_text_is_answered_twice() {
    let (bench, budget, transport) = (Bench::new(), no_caps(), Arc::new(Faulty::default()));
    let config = OpenAiEmbeddingsConfig::new("http://llm.example/v1", "vectors").with_max_texts(4);
    let dialect = OpenAiEmbeddings::with_transport(config, Arc::clone(&transport) as _).unwrap();
    let paced = Paced::embedding(Arc::new(dialect), Pacer::new(PaceConfig::default()));
    let budgeted = Budgeted::embedding(Arc::new(paced), Arc::clone(&budget), Prices::default());
    let policy = RetryPolicy { max_attempts: 20, ..RetryPolicy::default() };
    let retried: Arc<dyn EmbeddingModel> =
        Arc::new(Retried::embedding(Arc::new(budgeted), policy, Arc::default()));
    let texts: Vec<String> = (0..40).map(|number| format!("put {number} hot eggs into the fridge")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for _ in 0..2 {
        let journal = bench.open();
        let model = Journaled::embedding(Arc::clone(&retried), journal.clone());
        assert_vectors(&embed(&model, &texts, "step 1").await, &texts);
        journal.flush().await.unwrap();
        let n_requests = transport.n_requests.load(Ordering::Relaxed);
        assert_eq!(
            (budget.spent().calls, journal.requests_committed()),
            (n_requests as u64, n_requests as u64)
        );
    }
    let mut answered = transport.answered.lock().clone();
    answered.sort();
    let mut expect = texts.clone();
    expect.sort_unstable();
    assert_eq!(answered, expect);
}
