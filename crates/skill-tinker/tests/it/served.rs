//! The client and the server of this crate over real sockets, beside the local back end.

use serde_json::{Value, json};
use skill_http_server::access::Token;
use skill_llm::ApiKey;
use skill_llm::transport::{
    HeaderText, HttpMethod, HttpRequest, HttpResponse, MAX_RESPONSE_BYTES, ReqwestTransport, Transport as _,
};
use skill_tinker::server::{LORA_ALPHA, ServerSettings, TinkerServer};
use skill_tinker::{Connection, ConnectionSettings, TinkerBackend, TinkerSettings};
use skill_train::chat_model::ModelFiles;
use skill_train::checkpoint::StateStore;
use skill_train::local::LocalBackend;
use skill_train::lora::{LINEAR_LAYERS, LoraConfig};
use skill_train::model::Keep;
use skill_train::seam::{
    AdamSettings, CallId, ForwardBackward, GenerationSettings, KlPenalty, LoadRequest, Loss, OptimStep, Pass,
    Policy, PolicyLoss, Row, SampleRequest, SaveRequest, TrainBackend,
};
use skill_train::{RemoteFault, TrainError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const RANK: usize = 3;
const SEED: u64 = 11;

/// A model with a tokenizer and random weights, which the tests of skill-train use too.
fn model_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../skill-train/tests/data/own/chat-tiny")
}

struct Served {
    address: String,
    task: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(directory: &Path, key: Option<&str>) -> Served {
    let settings = ServerSettings {
        models: vec![("tiny".to_owned(), model_folder())],
        directory: directory.to_owned(),
        token: key.map(|key| Token::new(key).unwrap()),
    };
    let server = TinkerServer::open(settings).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    Served { address, task: tokio::spawn(async move { server.serve(listener).await.unwrap() }) }
}

impl Served {
    fn connection(&self, key: Option<&str>) -> Connection {
        let mut settings = ConnectionSettings::new(&self.address);
        settings.key = key.map(|key| ApiKey::new(key).unwrap());
        Connection::new(Arc::new(ReqwestTransport::direct().unwrap()), &settings).unwrap()
    }

    fn backend(&self, folder: &Path) -> TinkerBackend {
        let settings = TinkerSettings {
            base_model: "tiny".to_owned(),
            rank: RANK,
            seed: SEED,
            start: None,
            has_reference: true,
        };
        TinkerBackend::new(self.connection(None), settings, StateStore::new(folder))
    }

    async fn post(&self, call: &str, body: &Value) -> (u16, Value) {
        let response = send(&format!("{}/api/v1/{call}", self.address), body.to_string().into_bytes()).await;
        (response.status, serde_json::from_slice(&response.body).unwrap_or_default())
    }
}

async fn get(url: &str) -> Value {
    serde_json::from_slice(&send_by(HttpMethod::Get, url, Vec::new()).await.body).unwrap()
}

async fn send(url: &str, body: Vec<u8>) -> HttpResponse {
    send_by(HttpMethod::Post, url, body).await
}

async fn send_by(method: HttpMethod, url: &str, body: Vec<u8>) -> HttpResponse {
    let request = HttpRequest {
        method,
        url: url.to_owned(),
        headers: vec![("content-type".to_owned(), HeaderText::Plain("application/json".to_owned()))],
        body,
        timeout: None,
        max_response_bytes: MAX_RESPONSE_BYTES,
    };
    ReqwestTransport::direct().unwrap().send(request).await.unwrap()
}

fn local(folder: &Path) -> LocalBackend {
    let mut model = ModelFiles::open(&model_folder(), None).unwrap().load_to_adapt().unwrap();
    let lora = LoraConfig::new(RANK, LORA_ALPHA, &LINEAR_LAYERS, "tiny").unwrap();
    model.attach_new(lora, SEED).unwrap();
    LocalBackend::new(model, None, Keep::Activations, StateStore::new(folder))
}

fn call(step: u64, sequence: u64) -> CallId {
    CallId::new("run", step, sequence)
}

fn rows() -> Vec<Row> {
    let row = |tokens: &[u32], advantage: f32| {
        let mut weights = vec![1.0; tokens.len()];
        weights[0] = 0.0;
        weights[1] = 0.0;
        Row {
            tokens: tokens.to_vec(),
            weights,
            advantages: vec![advantage; tokens.len()],
            old_logprobs: vec![-4.0; tokens.len()],
            ..Row::default()
        }
    };
    vec![row(&[1, 2, 3, 4, 5], 1.0), row(&[9, 8, 7], -0.5)]
}

/// Steps of GRPO with every term of the loss; the log-probabilities before each.
async fn train(backend: &dyn TrainBackend, steps: std::ops::Range<u64>) -> Vec<f64> {
    let mut seen = Vec::new();
    for step in steps {
        let mut rows = rows();
        let pass = Pass::LogProbs { policy: Policy::Reference };
        let asked = ForwardBackward { call: call(step, 0), rows: rows.clone(), temperature: 1.0, pass };
        let reference = backend.forward_backward(asked).await.unwrap().logprobs;
        for (row, logprobs) in rows.iter_mut().zip(reference) {
            row.reference_logprobs = logprobs;
        }
        let kl = Some(KlPenalty { coefficient: 0.05, ..KlPenalty::default() });
        let loss = Loss::Policy(PolicyLoss { kl, clip_high: 50.0, ..PolicyLoss::default() });
        let pass = Pass::Gradient { loss, denominator: 3.0 };
        let asked = ForwardBackward { call: call(step, 1), rows, temperature: 1.0, pass };
        let output = backend.forward_backward(asked).await.unwrap();
        seen.push(output.metrics.loss);
        seen.push(output.metrics.kl);
        seen.extend(output.logprobs.iter().flatten().map(|value| f64::from(*value)));
        let settings = AdamSettings { learning_rate: 0.02, ..AdamSettings::default() };
        let stepped = backend.optim_step(OptimStep { call: call(step, 2), settings }).await.unwrap();
        assert_eq!(stepped.n_steps, step + 1);
        seen.push(stepped.grad_norm);
    }
    seen
}

#[track_caller]
fn assert_close(ours: &[f64], theirs: &[f64]) {
    assert_eq!(ours.len(), theirs.len());
    for (place, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert!((ours - theirs).abs() < 2e-4 * theirs.abs().max(1.0), "{place}: {ours} and {theirs}");
    }
}

#[tokio::test]
async fn a_server_trains_as_the_local_back_end_does() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let served = serve(folders[0].path(), None).await;
    let remote = train(&served.backend(folders[1].path()), 0..4).await;
    let here = train(&local(folders[2].path()), 0..4).await;
    assert_close(&remote, &here);
}

#[tokio::test]
async fn samples_have_the_log_probabilities_of_the_weights_that_train() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let served = serve(folders[0].path(), None).await;
    let backend = served.backend(folders[1].path());
    train(&backend, 0..1).await;
    let request = SampleRequest {
        call: call(1, 0),
        prompts: (0..20).map(|n| vec![1, 2, 3 + n % 3]).collect(),
        settings: GenerationSettings { max_tokens: 6, seed: 3, ..GenerationSettings::default() },
    };
    let samples = backend.sample(request.clone()).await.unwrap();
    let rows: Vec<Row> = request
        .prompts
        .iter()
        .zip(&samples)
        .map(|(prompt, sample)| {
            let tokens = [prompt.as_slice(), sample.tokens.as_slice()].concat();
            let weights = (0..tokens.len()).map(|place| f32::from(u8::from(place >= prompt.len())));
            Row { weights: weights.collect(), tokens, ..Row::default() }
        })
        .collect();
    let pass = Pass::LogProbs { policy: Policy::Current };
    let asked = ForwardBackward { call: call(1, 1), rows, temperature: 1.0, pass };
    let output = backend.forward_backward(asked).await.unwrap();
    for ((prompt, sample), logprobs) in request.prompts.iter().zip(&samples).zip(&output.logprobs) {
        let ours: Vec<f64> = sample.logprobs.iter().map(|value| f64::from(*value)).collect();
        let theirs: Vec<f64> = logprobs[prompt.len()..].iter().map(|value| f64::from(*value)).collect();
        assert_close(&ours, &theirs);
    }
    // Prompts that are equal have samples of their own, and the same request has the same samples again.
    assert!(samples.iter().any(|sample| sample.tokens != samples[0].tokens));
    let again = SampleRequest { call: call(1, 2), ..request };
    let tokens = |samples: &[skill_train::seam::Sample]| -> Vec<Vec<u32>> {
        samples.iter().map(|sample| sample.tokens.clone()).collect()
    };
    assert_eq!(tokens(&backend.sample(again).await.unwrap()), tokens(&samples));
}

#[tokio::test]
async fn a_run_goes_on_from_what_a_server_has_saved_also_after_the_server_was_started_again() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let served = serve(folders[0].path(), None).await;
    let first = served.backend(folders[1].path());
    let mut whole = train(&first, 0..2).await;
    let saved = first.save(SaveRequest { call: call(1, 9) }).await.unwrap();
    whole.extend(train(&first, 2..4).await);
    drop((first, served));

    let served = serve(folders[0].path(), None).await;
    let second = served.backend(folders[1].path());
    let load = LoadRequest { call: call(2, 9), hash: saved.hash.clone() };
    assert_eq!(second.load(load).await.unwrap().n_steps, 2);
    let rest = train(&second, 2..4).await;
    assert_close(&rest, &whole[whole.len() - rest.len()..]);
    let load = LoadRequest { call: call(5, 0), hash: "0".repeat(64) };
    assert!(matches!(second.load(load).await.unwrap_err(), TrainError::State { .. }));
}

#[tokio::test]
async fn the_adapter_comes_back_and_gives_the_same_numbers_here() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let served = serve(folders[0].path(), None).await;
    let backend = served.backend(folders[1].path());
    train(&backend, 0..2).await;
    let asked = |step| ForwardBackward {
        call: call(step, 0),
        rows: rows(),
        temperature: 1.0,
        pass: Pass::LogProbs { policy: Policy::Current },
    };
    let theirs = backend.forward_backward(asked(5)).await.unwrap().logprobs;
    let saved = backend.adapter().await.unwrap();
    for (name, bytes) in &saved.files {
        std::fs::write(folders[2].path().join(name), bytes).unwrap();
    }
    let model = ModelFiles::open(&model_folder(), Some(folders[2].path())).unwrap().load_to_train().unwrap();
    let here = LocalBackend::new(model, None, Keep::Activations, StateStore::new(folders[1].path()));
    let ours = here.forward_backward(asked(0)).await.unwrap().logprobs;
    let flat =
        |rows: &[Vec<f32>]| -> Vec<f64> { rows.iter().flatten().map(|value| f64::from(*value)).collect() };
    assert_close(&flat(&ours), &flat(&theirs));
}

/// The result of a call that is queued.
async fn finished(served: &Served, call: &str, body: &Value) -> Value {
    let (status, queued) = served.post(call, body).await;
    assert_eq!(status, 200, "{call}: {queued}");
    loop {
        let (status, result) =
            served.post("retrieve_future", &json!({"request_id": queued["request_id"]})).await;
        assert_eq!(status, 200, "{call}: {result}");
        if result["type"] != "try_again" {
            return result;
        }
    }
}

/// As the SDK 0.3.0 sends it: parts without a type, samplers without a name, samples by their session.
#[tokio::test]
async fn samples_of_a_session_come_from_the_weights_that_it_began_with() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), None).await;
    let (_, session) = served.post("create_session", &json!({})).await;
    let lora = json!({"rank": RANK, "seed": SEED});
    let create = json!({"session_id": session["session_id"], "base_model": "tiny", "lora_config": lora});
    let model = finished(&served, "create_model", &create).await["model_id"].clone();
    let save = json!({"model_id": model, "sampling_session_seq_id": 0, "seq_id": 1});
    let saved = finished(&served, "save_weights_for_sampler", &save).await;
    assert_eq!(saved["path"], json!(null));
    let sampler = saved["sampling_session_id"].clone();
    let prompt = json!({"chunks": [{"tokens": [1, 2, 3]}]});
    let ask = json!({"sampling_session_id": sampler, "seq_id": 0, "prompt": prompt, "prompt_logprobs": true,
                     "sampling_params": {"max_tokens": 2, "temperature": 0.0}});
    let before = finished(&served, "asample", &ask).await;
    let of_prompt = before["prompt_logprobs"].as_array().unwrap();
    let is_known: Vec<bool> = of_prompt.iter().map(Value::is_number).collect();
    assert_eq!(is_known, [false, true, true], "nothing predicts the first token");
    let ones = json!({"data": [1.0, 1.0, 1.0], "dtype": "float32", "shape": [3]});
    let inputs =
        json!({"target_tokens": {"data": [2, 3, 4], "dtype": "int64", "shape": [3]}, "weights": ones});
    let input =
        json!({"data": [{"model_input": prompt, "loss_fn_inputs": inputs}], "loss_fn": "cross_entropy"});
    let step = json!({"model_id": model, "forward_backward_input": input, "seq_id": 2});
    finished(&served, "forward_backward", &step).await;
    finished(
        &served,
        "optim_step",
        &json!({"model_id": model, "adam_params": {"learning_rate": 0.1}, "seq_id": 3}),
    )
    .await;
    assert_eq!(
        finished(&served, "asample", &ask).await,
        before,
        "the session has the weights of its beginning"
    );
    let save = json!({"model_id": model, "path": "later", "seq_id": 4});
    let path = finished(&served, "save_weights_for_sampler", &save).await["path"].clone();
    let open = json!({"session_id": session["session_id"], "sampling_session_seq_id": 1, "model_path": path});
    let (status, opened) = served.post("create_sampling_session", &open).await;
    assert_eq!(status, 200, "{opened}");
    let mut again = ask.clone();
    again["sampling_session_id"] = opened["sampling_session_id"].clone();
    assert_ne!(finished(&served, "asample", &again).await["prompt_logprobs"], before["prompt_logprobs"]);
    again["sampling_session_id"] = json!("sampling_0");
    assert_eq!(served.post("asample", &again).await.0, 404);
    let run = format!("{}/api/v1/training_runs/{}", served.address, model.as_str().unwrap());
    let found = get(&run).await;
    assert_eq!([&found["base_model"], &found["lora_rank"]], [&json!("tiny"), &json!(RANK)]);
}

#[tokio::test]
async fn a_server_with_a_key_answers_nobody_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), Some("sesame-sesame-sesame")).await;
    assert_eq!(served.connection(Some("sesame-sesame-sesame")).base_models().await.unwrap(), ["tiny"]);
    for key in [None, Some("sesame-sesame-sesamE")] {
        let error = served.connection(key).base_models().await.unwrap_err();
        assert!(matches!(error, TrainError::Remote { fault: RemoteFault::Refused { status: 401, .. }, .. }));
    }
}

#[tokio::test]
async fn bad_requests_are_refused_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), None).await;
    let (status, body) = served.post("optim_step", &json!({"model_id": "nope", "adam_params": {}})).await;
    assert_eq!((status, &body["detail"]), (404, &json!("Model not found")));
    let asked = json!({"model_id": "m", "forward_backward_input": {"data": [], "loss_fn": "nonsense"}});
    let (status, body) = served.post("forward_backward", &asked).await;
    assert_eq!((status, &body["detail"][0]["type"]), (422, &json!("literal_error")));
    assert_eq!(body["detail"][0]["loc"], json!(["body", "forward_backward_input", "loss_fn"]));
    let (_, session) = served.post("create_session", &json!({"sdk_version": "1"})).await;
    let model = |base: &str, rank: u64| json!({"session_id": session["session_id"], "base_model": base, "lora_config": {"rank": rank}});
    assert_eq!(served.post("create_model", &model("other", 4)).await.0, 422);
    assert_eq!(served.post("create_model", &model("tiny", 0)).await.0, 422);
    let (status, made) = served.post("create_model", &model("tiny", 4)).await;
    assert_eq!(status, 200);
    let model_id = &made["model_id"];
    let shifted = json!({"model_id": model_id, "forward_backward_input": {"loss_fn": "cross_entropy", "data": [{
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": [1, 2]}]},
        "loss_fn_inputs": {"target_tokens": {"data": [5, 3]}},
    }]}});
    assert_eq!(served.post("forward_backward", &shifted).await.0, 422);
    // A step by such settings would leave a model that computes nothing finite any more.
    for (field, value) in [
        ("learning_rate", 1e38),
        ("learning_rate", -1.0),
        ("beta1", 1.0),
        ("eps", 0.0),
        ("weight_decay", 1e30),
        ("grad_clip_norm", -1.0),
    ] {
        let step = json!({"model_id": model_id, "adam_params": {field: value}});
        let (status, body) = served.post("optim_step", &step).await;
        assert_eq!((status, &body["detail"][0]["loc"]), (422, &json!(["body", "adam_params", field])));
    }
    for path in ["../x", "", "a/b", ".hidden"] {
        let (status, _) = served.post("save_weights", &json!({"model_id": model_id, "path": path})).await;
        assert_eq!(status, 422, "{path}");
    }
    assert_eq!(served.post("retrieve_future", &json!({"request_id": "999"})).await.0, 404);
    assert_eq!(served.post("nonsense", &json!({})).await.0, 404);
    let garbage = send(&format!("{}/api/v1/create_session", served.address), b"{".to_vec()).await;
    assert_eq!(garbage.status, 422);
}

#[tokio::test]
async fn a_repeated_call_is_carried_out_once() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), None).await;
    let (_, session) = served.post("create_session", &json!({})).await;
    let asked =
        json!({"session_id": session["session_id"], "base_model": "tiny", "lora_config": {"rank": 2}});
    let (_, made) = served.post("create_model", &asked).await;
    let step = json!({"model_id": made["model_id"], "adam_params": {}, "seq_id": 1});
    let (first, second) = (served.post("optim_step", &step).await, served.post("optim_step", &step).await);
    assert_eq!(first, second);
}

#[tokio::test]
async fn pages_of_other_origins_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), None).await;
    for (header, value) in [("origin", "https://evil.example"), ("host", "evil.example")] {
        let request = HttpRequest {
            method: HttpMethod::Post,
            url: format!("{}/api/v1/create_session", served.address),
            headers: vec![(header.to_owned(), HeaderText::Plain(value.to_owned()))],
            body: b"{}".to_vec(),
            timeout: None,
            max_response_bytes: MAX_RESPONSE_BYTES,
        };
        let response = ReqwestTransport::direct().unwrap().send(request).await.unwrap();
        assert_eq!(response.status, 403, "{header}");
    }
}
