//! Servers that fail, forget, or speak another form.

use crate::script::{Script, answer, json_answer};
use serde_json::json;
use skill_llm::transport::TransportError;
use skill_tinker::{Connection, ConnectionSettings, TinkerBackend};
use skill_train::seam::{
    AdamSettings, CallId, ForwardBackward, GenerationSettings, Loss, OptimStep, Pass, Policy, PolicyLoss,
    Row, SampleRequest, TrainBackend as _,
};
use skill_train::{RemoteFault, TrainError};
use std::sync::Arc;

fn broken() -> TransportError {
    TransportError::Broken { message: "reset by peer".to_owned() }
}

fn step(number: u64) -> OptimStep {
    OptimStep { call: CallId::new("run", number, 0), settings: AdamSettings::default() }
}

fn row() -> Row {
    Row { tokens: vec![1, 2, 3], weights: vec![0.0, 0.0, 1.0], ..Row::default() }
}

fn gradient(loss: Loss, row: Row) -> ForwardBackward {
    let pass = Pass::Gradient { loss, denominator: 2.0 };
    ForwardBackward { call: CallId::new("run", 0, 1), rows: vec![row], temperature: 1.0, pass }
}

fn fault(error: TrainError) -> RemoteFault {
    match error {
        TrainError::Remote { fault, .. } => fault,
        other => panic!("{other:?}"),
    }
}

fn connected(script: &Arc<Script>) -> (tempfile::TempDir, TinkerBackend) {
    let folder = tempfile::tempdir().unwrap();
    let backend = script.backend(folder.path());
    (folder, backend)
}

#[tokio::test(start_paused = true)]
async fn what_changes_nothing_is_sent_again_until_the_server_is_back() {
    let script = Script::new(|call, _, n_before| match (call, n_before) {
        ("create_session", 0..2) => {
            Some(Err(TransportError::Connect { message: "connection refused".to_owned() }))
        }
        ("create_session", 2) => Some(json_answer(503, &json!({}))),
        ("retrieve_future", 0) => Some(Err(broken())),
        ("retrieve_future", 1) => Some(json_answer(408, &json!({"detail": "Timeout"}))),
        ("retrieve_future", 2) => Some(json_answer(200, &json!({"type": "try_again", "request_id": "1"}))),
        _ => None,
    });
    let (_folder, backend) = connected(&script);
    backend.optim_step(step(0)).await.unwrap();
    assert_eq!((script.count("create_session"), script.count("retrieve_future")), (4, 5));
    assert_eq!(script.count("create_model"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_changes_the_model_is_never_sent_twice_and_leaves_it_in_doubt() {
    let script = Script::new(|call, _, _| (call == "optim_step").then(|| Err(broken())));
    let (_folder, backend) = connected(&script);
    let error = backend.optim_step(step(0)).await.unwrap_err();
    assert!(error.is_retryable());
    assert!(matches!(fault(error), RemoteFault::InDoubt(_)));
    // Neither another step nor a sample may follow from weights that nobody knows.
    assert!(matches!(fault(backend.optim_step(step(1)).await.unwrap_err()), RemoteFault::InDoubt(_)));
    assert_eq!(script.count("optim_step"), 1);
    let request = SampleRequest {
        call: CallId::new("run", 1, 0),
        prompts: vec![vec![1]],
        settings: GenerationSettings::default(),
    };
    assert!(matches!(fault(backend.sample(request).await.unwrap_err()), RemoteFault::InDoubt(_)));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_waits_for_leaves_the_model_in_doubt() {
    let script = Script::new(|call, body, _| {
        let is_step = body.to_string().contains("optim_step");
        (call == "retrieve_future" && is_step)
            .then(|| json_answer(200, &json!({"type": "try_again", "request_id": "1"})))
    });
    let (_folder, backend) = connected(&script);
    let waiting = tokio::time::timeout(std::time::Duration::from_secs(5), backend.optim_step(step(0)));
    waiting.await.unwrap_err();
    assert!(matches!(fault(backend.optim_step(step(1)).await.unwrap_err()), RemoteFault::InDoubt(_)));
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_leaves_the_model_as_it_was() {
    let script = Script::new(|call, _, n_before| {
        (call == "optim_step" && n_before == 0)
            .then(|| json_answer(422, &json!({"detail": [{"msg": "learning_rate is too high"}]})))
    });
    let (_folder, backend) = connected(&script);
    let error = fault(backend.optim_step(step(0)).await.unwrap_err());
    assert_eq!(error, RemoteFault::Refused { status: 422, message: "learning_rate is too high".to_owned() });
    assert_eq!(backend.optim_step(step(0)).await.unwrap().n_steps, 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_forgotten_a_model_is_named() {
    let script = Script::new(|call, _, _| {
        (call == "optim_step").then(|| json_answer(404, &json!({"detail": "Model not found"})))
    });
    let (_folder, backend) = connected(&script);
    let error = backend.optim_step(step(0)).await.unwrap_err();
    assert!(error.is_retryable(), "a new process makes a new model");
    assert_eq!(fault(error), RemoteFault::Forgotten("Model not found".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_protobuf_is_named() {
    let script = Script::new(|call, body, _| {
        let is_forward = body.to_string().contains("forward_backward_input");
        (call == "retrieve_future" && is_forward)
            .then(|| answer(200, "application/x-protobuf", vec![0x0a, 0x06, 0xff]))
    });
    let (_folder, backend) = connected(&script);
    let error = backend.forward_backward(gradient(Loss::CrossEntropy, row())).await.unwrap_err();
    assert_eq!(fault(error), RemoteFault::NotJson("application/x-protobuf".to_owned()));
    // So is one that does not say so.
    let script = Script::new(|call, _, _| {
        (call == "create_session").then(|| answer(200, "application/json", vec![0x0a, 0x06, 0xff]))
    });
    let folder = tempfile::tempdir().unwrap();
    let error = script.backend(folder.path()).optim_step(step(0)).await.unwrap_err();
    assert!(matches!(fault(error), RemoteFault::NotJson(_)));
}

#[tokio::test(start_paused = true)]
async fn a_failed_request_and_a_short_result_are_told_apart() {
    let script = Script::new(|call, body, n_before| {
        let is_forward = call == "retrieve_future" && body.to_string().contains("forward_input");
        match (is_forward, n_before) {
            (true, 1) => Some(json_answer(200, &json!({"error": "out of memory", "category": "server"}))),
            (true, _) => Some(json_answer(
                200,
                &json!({"loss_fn_outputs": [{"logprobs": {"data": [-1.0], "dtype": "float32"}}], "metrics": {}}),
            )),
            _ => None,
        }
    });
    let (_folder, backend) = connected(&script);
    let request = |sequence| ForwardBackward {
        call: CallId::new("run", 0, sequence),
        rows: vec![row()],
        temperature: 1.0,
        pass: Pass::LogProbs { policy: Policy::Current },
    };
    let error = backend.forward_backward(request(0)).await.unwrap_err();
    assert_eq!(fault(error), RemoteFault::Failed("out of memory".to_owned()));
    let error = backend.forward_backward(request(1)).await.unwrap_err();
    assert!(matches!(fault(error), RemoteFault::Incomplete(_)));
}

#[tokio::test(start_paused = true)]
async fn results_that_never_come_end_the_wait() {
    let script = Script::new(|call, _, _| {
        (call == "retrieve_future").then(|| json_answer(200, &json!({"type": "try_again"})))
    });
    let folder = tempfile::tempdir().unwrap();
    let error = script.backend(folder.path()).optim_step(step(0)).await.unwrap_err();
    assert_eq!(fault(error), RemoteFault::TimedOut(3_600));
}

#[tokio::test]
async fn what_the_interface_has_no_place_for_is_refused_before_anything_is_sent() {
    let script = Script::new(|_, _, _| None);
    let (_folder, backend) = connected(&script);
    let field = |error: TrainError| match error {
        TrainError::Request { field, .. } => field,
        other => panic!("{other:?}"),
    };
    let entropy = Loss::Policy(PolicyLoss { entropy_coefficient: 0.1, kl: None, ..PolicyLoss::default() });
    let scored = Row { advantages: vec![0.0; 3], old_logprobs: vec![0.0; 3], ..row() };
    let error = backend.forward_backward(gradient(entropy, scored)).await.unwrap_err();
    assert_eq!(field(error), "loss.entropy_coefficient");
    let warm = ForwardBackward { temperature: 0.4, ..gradient(Loss::CrossEntropy, row()) };
    assert_eq!(field(backend.forward_backward(warm).await.unwrap_err()), "temperature");
    let settings = GenerationSettings { min_p: 0.1, ..GenerationSettings::default() };
    let request = SampleRequest { call: CallId::new("run", 0, 0), prompts: vec![vec![1]], settings };
    assert_eq!(field(backend.sample(request).await.unwrap_err()), "settings.min_p");
    let reference = ForwardBackward {
        pass: Pass::LogProbs { policy: Policy::Reference },
        ..gradient(Loss::CrossEntropy, row())
    };
    assert_eq!(field(backend.forward_backward(reference).await.unwrap_err()), "pass.policy");
    assert_eq!(script.count("forward_backward") + script.count("asample") + script.count("forward"), 0);
}

#[test]
fn addresses_that_cannot_be_used_are_refused() {
    for address in ["gpu:8600", "ftp://gpu", "http://", "http://user:pw@gpu", "http://gpu/?key=1"] {
        let script = Script::new(|_, _, _| None);
        assert!(Connection::new(script, &ConnectionSettings::new(address)).is_err(), "{address}");
    }
}
