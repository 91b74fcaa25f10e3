//! The local back end behind the seam: repeated calls, faulty requests, exact resume.

use skill_train::TrainError;
use skill_train::checkpoint::StateStore;
use skill_train::local::LocalBackend;
use skill_train::lora::{LINEAR_LAYERS, LoraConfig};
use skill_train::model::Keep;
use skill_train::seam::{
    AdamSettings, CallId, ForwardBackward, GenerationSettings, LoadRequest, Loss, OptimStep, Pass, Policy,
    PolicyLoss, Row, SampleRequest, SaveRequest, TrainBackend,
};

use crate::small;

fn rows() -> Vec<Row> {
    let row = |tokens: &[u32]| {
        let mut weights = vec![1.0; tokens.len()];
        weights[0] = 0.0;
        Row { tokens: tokens.to_vec(), weights, ..Row::default() }
    };
    vec![row(&[1, 2, 3, 4]), row(&[9, 8, 7])]
}

fn call(step: u64, sequence: u64) -> CallId {
    CallId::new("run", step, sequence)
}

fn gradient(call: CallId, rows: Vec<Row>) -> ForwardBackward {
    let pass = Pass::Gradient { loss: Loss::CrossEntropy, denominator: 5.0 };
    ForwardBackward { call, rows, temperature: 1.0, pass }
}

async fn train(backend: &LocalBackend, steps: std::ops::Range<u64>) -> f64 {
    let mut loss = f64::NAN;
    for step in steps {
        loss = backend.forward_backward(gradient(call(step, 0), rows())).await.unwrap().metrics.loss;
        let settings = AdamSettings { learning_rate: 1e-2, ..AdamSettings::default() };
        let stepped = backend.optim_step(OptimStep { call: call(step, 1), settings }).await.unwrap();
        assert_eq!(stepped.n_steps, step + 1);
    }
    loss
}

fn backend(folder: &std::path::Path, has_adapter: bool) -> LocalBackend {
    let mut model = small::model("qwen2", &[]);
    if has_adapter {
        model.attach_new(LoraConfig::new(2, 4.0, &LINEAR_LAYERS, "small").unwrap(), 4).unwrap();
    }
    LocalBackend::new(model, None, Keep::Activations, StateStore::new(folder))
}

#[tokio::test]
async fn a_run_that_is_resumed_ends_with_the_same_bytes() {
    for has_adapter in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let first = backend(folder.path(), has_adapter);
        let at_start = train(&first, 0..1).await;
        train(&first, 1..3).await;
        let middle = first.save(SaveRequest { call: call(2, 9) }).await.unwrap();
        assert_eq!(middle.n_steps, 3);
        let at_end = train(&first, 3..6).await;
        assert!(at_end < at_start);
        let end = first.save(SaveRequest { call: call(5, 9) }).await.unwrap();
        assert_ne!(middle.hash, end.hash);

        let second = backend(folder.path(), has_adapter);
        // A gradient that was added up before the state is loaded has no effect.
        second.forward_backward(gradient(call(0, 0), rows())).await.unwrap();
        let load = LoadRequest { call: call(3, 8), hash: middle.hash.clone() };
        assert_eq!(second.load(load).await.unwrap(), middle);
        train(&second, 3..6).await;
        assert_eq!(second.save(SaveRequest { call: call(5, 9) }).await.unwrap(), end);
    }
}

#[tokio::test]
async fn a_repeated_call_does_no_work_twice() {
    let folder = tempfile::tempdir().unwrap();
    let settings = AdamSettings::default;
    let (once, twice) = (backend(folder.path(), false), backend(folder.path(), false));
    let step = || OptimStep { call: call(0, 2), settings: settings() };
    once.forward_backward(gradient(call(0, 0), rows())).await.unwrap();
    let expected = once.optim_step(step()).await.unwrap();

    let first = twice.forward_backward(gradient(call(0, 0), rows())).await.unwrap();
    assert_eq!(twice.forward_backward(gradient(call(0, 0), rows())).await.unwrap(), first);
    assert_eq!(twice.optim_step(step()).await.unwrap(), expected);
    assert_eq!(twice.optim_step(step()).await.unwrap(), expected);
    let [once, twice] = [once.model(), twice.model()].map(|model| model.trainable().unwrap());
    assert_eq!(once, twice);
}

#[tokio::test]
async fn an_id_stands_for_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(folder.path(), false);
    backend.forward_backward(gradient(call(0, 0), rows())).await.unwrap();
    let other = backend.forward_backward(gradient(call(0, 0), rows()[..1].to_vec())).await;
    assert!(matches!(other, Err(TrainError::CallConflict { .. })));
    let sample = SampleRequest {
        call: call(0, 0),
        prompts: vec![vec![1]],
        settings: GenerationSettings { max_tokens: 2, ..GenerationSettings::default() },
    };
    assert!(matches!(backend.sample(sample.clone()).await, Err(TrainError::CallConflict { .. })));
    let first = backend.sample(SampleRequest { call: call(0, 1), ..sample.clone() }).await.unwrap();
    train(&backend, 1..1).await;
    assert_eq!(backend.sample(SampleRequest { call: call(0, 1), ..sample }).await.unwrap(), first);
}

#[tokio::test]
async fn micro_batches_add_up_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, split) = (backend(folder.path(), false), backend(folder.path(), false));
    let output = whole.forward_backward(gradient(call(0, 0), rows())).await.unwrap();
    let mut metrics = skill_train::seam::LossMetrics::default();
    for (sequence, row) in rows().into_iter().enumerate() {
        let part = split.forward_backward(gradient(call(0, sequence as u64), vec![row])).await.unwrap();
        metrics.add(&part.metrics);
    }
    assert!((metrics.loss - output.metrics.loss).abs() < 1e-6);
    assert_eq!(metrics.n_tokens, 5);
    let settings = AdamSettings::default;
    let norms = [whole, split].map(|backend| async move {
        backend.optim_step(OptimStep { call: call(0, 9), settings: settings() }).await.unwrap().grad_norm
    });
    let [whole, split] = norms;
    let (whole, split) = (whole.await, split.await);
    assert!((whole - split).abs() < 1e-5 * whole, "{whole} is not {split}");
}

#[tokio::test]
async fn faulty_requests_are_refused_by_name_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(folder.path(), false);
    let before = backend.model().trainable().unwrap();
    let policy = || Pass::Gradient { loss: Loss::Policy(PolicyLoss::default()), denominator: 1.0 };
    type Change = fn(&mut ForwardBackward);
    let cases: [(&str, Change); 9] = [
        ("rows", |request| request.rows.clear()),
        ("rows[1].tokens", |request| request.rows[1] = Row::default()),
        ("rows[0].weights", |request| request.rows[0].weights.truncate(2)),
        ("rows[0].weights", |request| request.rows[0].weights[0] = 1.0),
        ("rows[1].weights", |request| request.rows[1].weights[1] = f32::NAN),
        ("tokens", |request| request.rows[0].tokens[0] = 23),
        ("temperature", |request| request.temperature = 0.0),
        ("pass.denominator", |request| {
            request.pass = Pass::Gradient { loss: Loss::CrossEntropy, denominator: 0.0 };
        }),
        ("pass.policy", |request| request.pass = Pass::LogProbs { policy: Policy::Reference }),
    ];
    for (sequence, (expected, change)) in cases.into_iter().enumerate() {
        let mut request = gradient(call(0, sequence as u64), rows());
        change(&mut request);
        match backend.forward_backward(request).await {
            Err(TrainError::Request { field, .. }) => assert_eq!(field, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    let mut request = gradient(call(0, 100), rows());
    request.pass = policy();
    match backend.forward_backward(request).await {
        Err(TrainError::Request { field, .. }) => assert_eq!(field, "rows[0].advantages"),
        other => panic!("{other:?}"),
    }
    let settings = AdamSettings::default();
    let stepped = backend.optim_step(OptimStep { call: call(0, 101), settings }).await.unwrap();
    assert_eq!(stepped.grad_norm, 0.0);
    assert_eq!(backend.model().trainable().unwrap(), before);
}

#[tokio::test]
async fn an_infinite_gradient_leaves_the_weights_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(folder.path(), false);
    let before = backend.model().trainable().unwrap();
    let mut request = gradient(call(0, 0), rows());
    request.rows[0].weights[1] = f32::MAX;
    request.pass = Pass::Gradient { loss: Loss::CrossEntropy, denominator: 1e-30 };
    let result = match backend.forward_backward(request).await {
        Ok(_) => {
            let settings = AdamSettings::default();
            backend.optim_step(OptimStep { call: call(0, 1), settings }).await.map(|_| ())
        }
        Err(error) => Err(error),
    };
    assert!(matches!(result, Err(TrainError::NotFinite { .. })), "{result:?}");
    assert_eq!(backend.model().trainable().unwrap(), before);

    // The gradient is gone: the next step is that of a model without such an accident.
    let loss = backend.forward_backward(gradient(call(0, 2), rows())).await.unwrap().metrics.loss;
    assert!(loss.is_finite());
    let settings = AdamSettings { learning_rate: 1e-2, ..AdamSettings::default() };
    backend.optim_step(OptimStep { call: call(0, 3), settings }).await.unwrap();
    let other = tempfile::tempdir().unwrap();
    let undisturbed = self::backend(other.path(), false);
    train(&undisturbed, 0..1).await;
    assert_eq!(backend.model().trainable().unwrap(), undisturbed.model().trainable().unwrap());
}

#[tokio::test]
async fn a_state_of_another_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let saved = backend(folder.path(), true).save(SaveRequest { call: call(0, 0) }).await.unwrap();
    let other = backend(folder.path(), false);
    let before = other.model().trainable().unwrap();
    let result = other.load(LoadRequest { call: call(0, 1), hash: saved.hash }).await;
    assert!(matches!(result, Err(TrainError::Model { .. })), "{result:?}");
    assert_eq!(other.model().trainable().unwrap(), before);
}
