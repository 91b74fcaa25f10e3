//! A model of plain numbers behind the seam: the next token depends on the last one alone.

use crate::codec::ByteCodec;
use async_trait::async_trait;
use parking_lot::Mutex;
use skill_train::TrainError;
use skill_train::checkpoint::{StateFile, StateStore};
use skill_train::optim::{AdamW, Moments, squared_norm};
use skill_train::sampling::TokenDice;
use skill_train::seam::{
    CallId, Ended, ForwardBackward, ForwardOutput, GenerationSettings, LoadRequest, Loss, LossMetrics,
    OptimStep, Pass, Row, Sample, SampleRequest, SaveRequest, SavedState, StepOutput, TrainBackend,
};
use skill_train::tokenizer::TokenCodec as _;
use skill_weights::policy::{PolicyFile, PolicyWriter};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const NAME: &str = "table";

/// A model of one table of logits, `[last token, next token]`.
#[derive(Clone)]
pub(crate) struct Bigram {
    inner: Arc<Mutex<Inner>>,
    n_tokens: usize,
}

struct Inner {
    table: Vec<f32>,
    gradient: Vec<f32>,
    optimizer: AdamW,
    store: StateStore,
    /// Calls so far, and the one that fails.
    n_calls: usize,
    fails_at: Option<usize>,
    fault: fn() -> TrainError,
    /// The step whose loss is not a number.
    nan_at: Option<u64>,
    /// Prompts with the tokens that were sampled behind them, and rows that a policy loss was computed for.
    sampled: Vec<(Vec<u32>, Sample)>,
    /// The prompts of each call of `sample`, to refuse an id that is used again for other prompts.
    asked: BTreeMap<CallId, Vec<Vec<u32>>>,
    learnt: Vec<Row>,
}

impl Bigram {
    pub(crate) fn new(states: &Path) -> Self {
        let n_tokens = ByteCodec::new().n_tokens();
        let inner = Inner {
            table: vec![0.0; n_tokens * n_tokens],
            gradient: vec![0.0; n_tokens * n_tokens],
            optimizer: AdamW::default(),
            store: StateStore::new(states),
            n_calls: 0,
            fails_at: None,
            fault: || TrainError::Cancelled,
            nan_at: None,
            sampled: Vec::new(),
            asked: BTreeMap::new(),
            learnt: Vec::new(),
        };
        Self { inner: Arc::new(Mutex::new(inner)), n_tokens }
    }

    /// Fails in its call of this number, from 0, as a process does that is killed there.
    pub(crate) fn failing_at(self, call: usize, fault: fn() -> TrainError) -> Self {
        {
            let mut inner = self.inner.lock();
            inner.fails_at = Some(call);
            inner.fault = fault;
        }
        self
    }

    /// Has a loss that is not a number in this step.
    pub(crate) fn with_nan_at(self, step: u64) -> Self {
        self.inner.lock().nan_at = Some(step);
        self
    }

    /// What was sampled, and the rows of policy losses.
    pub(crate) fn seen(&self) -> (Vec<(Vec<u32>, Sample)>, Vec<Row>) {
        let inner = self.inner.lock();
        (inner.sampled.clone(), inner.learnt.clone())
    }

    pub(crate) fn n_calls(&self) -> usize {
        self.inner.lock().n_calls
    }

    fn called(inner: &mut Inner) -> Result<(), TrainError> {
        let call = inner.n_calls;
        inner.n_calls += 1;
        if inner.fails_at == Some(call) { Err((inner.fault)()) } else { Ok(()) }
    }

    /// The log-probabilities of all next tokens.
    fn log_probs(&self, table: &[f32], last: u32) -> Vec<f32> {
        let row = &table[last as usize * self.n_tokens..][..self.n_tokens];
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = row.iter().map(|logit| (logit - max).exp()).sum();
        row.iter().map(|logit| logit - max - sum.ln()).collect()
    }
}

#[async_trait]
impl PolicyWriter for Bigram {
    async fn files(&self) -> Result<Vec<PolicyFile>, TrainError> {
        let inner = self.inner.lock();
        Ok(vec![("weights.bin".to_owned(), bytes(&inner.table))])
    }
}

#[async_trait]
impl TrainBackend for Bigram {
    async fn sample(&self, request: SampleRequest) -> Result<Vec<Sample>, TrainError> {
        let mut inner = self.inner.lock();
        Self::called(&mut inner)?;
        let known = inner.asked.entry(request.call.clone()).or_insert_with(|| request.prompts.clone());
        if *known != request.prompts {
            return Err(TrainError::CallConflict { call: request.call.to_string() });
        }
        let GenerationSettings { temperature, seed, max_tokens, stop_tokens, .. } = &request.settings;
        let mut samples = Vec::new();
        for (index, prompt) in request.prompts.iter().enumerate() {
            let dice = TokenDice::new(*seed, &format!("prompt {index}"));
            let mut last = *prompt.last().unwrap();
            let empty = serde_json::json!({"tokens": [], "logprobs": [], "ended": Ended::Length});
            let mut sample: Sample = serde_json::from_value(empty).unwrap();
            while sample.tokens.len() < *max_tokens {
                let scores = self.log_probs(&inner.table, last);
                let best = (0..self.n_tokens).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap();
                let mut left = dice.throw(sample.tokens.len());
                let thrown = scores.iter().position(|score| {
                    left -= f64::from(score.exp());
                    left < 0.0
                });
                let next = if *temperature == 0.0 { best } else { thrown.unwrap_or(best) };
                sample.logprobs.push(scores[next]);
                last = next as u32;
                sample.tokens.push(last);
                if stop_tokens.contains(&last) {
                    sample.ended = Ended::Stop;
                    break;
                }
            }
            inner.sampled.push((prompt.clone(), sample.clone()));
            samples.push(sample);
        }
        Ok(samples)
    }

    async fn forward_backward(&self, request: ForwardBackward) -> Result<ForwardOutput, TrainError> {
        let mut inner = self.inner.lock();
        Self::called(&mut inner)?;
        let (denominator, is_policy) = match &request.pass {
            Pass::Gradient { denominator, loss } => (Some(*denominator), matches!(loss, Loss::Policy(_))),
            _ => (None, false),
        };
        if is_policy {
            inner.learnt.extend(request.rows.iter().cloned());
        }
        if denominator.is_some() && inner.nan_at == Some(request.call.step) {
            return Err(TrainError::NotFinite { quantity: "the loss".to_owned() });
        }
        let mut output = ForwardOutput::default();
        for row in &request.rows {
            let mut logprobs = vec![0.0; row.tokens.len()];
            let weighted = row.weights.iter().enumerate().skip(1);
            for (place, &weight) in weighted {
                if weight == 0.0 {
                    continue;
                }
                let (last, next) = (row.tokens[place - 1], row.tokens[place] as usize);
                let scores = self.log_probs(&inner.table, last);
                logprobs[place] = scores[next];
                let mut metrics = LossMetrics::default();
                metrics.n_tokens = 1;
                if let Some(denominator) = denominator {
                    // Of a policy the gradient at the old weights, where the ratio is 1.
                    let scale = if is_policy { row.advantages[place] } else { 1.0 };
                    metrics.loss = f64::from(-scores[next] * scale) / denominator;
                    let start = last as usize * self.n_tokens;
                    for (token, score) in scores.iter().enumerate() {
                        let target = f32::from(u8::from(token == next));
                        inner.gradient[start + token] += scale * (score.exp() - target) / denominator as f32;
                    }
                }
                output.metrics.add(&metrics);
            }
            output.logprobs.push(logprobs);
        }
        Ok(output)
    }

    async fn optim_step(&self, request: OptimStep) -> Result<StepOutput, TrainError> {
        let mut inner = self.inner.lock();
        Self::called(&mut inner)?;
        let Inner { table, gradient, optimizer, .. } = &mut *inner;
        let grad_norm = squared_norm(gradient).sqrt();
        let factors = optimizer.begin_step(&request.settings, grad_norm);
        optimizer.update(&factors, NAME, 2, table, gradient);
        gradient.fill(0.0);
        let mut output = StepOutput::default();
        (output.grad_norm, output.n_steps) = (grad_norm, optimizer.n_steps);
        Ok(output)
    }

    async fn save(&self, _: SaveRequest) -> Result<SavedState, TrainError> {
        let mut inner = self.inner.lock();
        Self::called(&mut inner)?;
        let moments = inner.optimizer.moments.get(NAME).cloned().unwrap_or_default();
        let file = |name: &str, values: &[f32]| StateFile { name: name.to_owned(), bytes: bytes(values) };
        let files =
            [file("table", &inner.table), file("first", &moments.first), file("second", &moments.second)];
        inner.store.save(inner.optimizer.n_steps, &files)
    }

    async fn load(&self, request: LoadRequest) -> Result<SavedState, TrainError> {
        let mut inner = self.inner.lock();
        Self::called(&mut inner)?;
        let (saved, files) = inner.store.load(&request.hash)?;
        let of = |name: &str| values(&files.iter().find(|file| file.name == name).unwrap().bytes);
        inner.table = of("table");
        let moments = Moments { first: of("first"), second: of("second") };
        inner.optimizer.n_steps = saved.n_steps;
        inner.optimizer.moments.insert(NAME.to_owned(), moments);
        inner.gradient.fill(0.0);
        Ok(saved)
    }
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn values(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|value| f32::from_le_bytes(value.try_into().unwrap())).collect()
}
