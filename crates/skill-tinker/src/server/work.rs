//! The worker: one call after the other, in the order of their arrival.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use serde_json::json;
use skill_train::TrainError;
use skill_train::local::LocalBackend;
use skill_train::lora::LoraConfig;
use skill_train::model::Keep;
use skill_train::seam::{
    AdamSettings, CallId, Ended, ForwardBackward, GenerationSettings, LoadRequest, Loss, OptimStep, Pass,
    Policy, Row, Sample, SaveRequest, TrainBackend as _,
};
use tokio::sync::mpsc;

use super::checkpoints::{Address, Checkpoints, Kind, Saved};
use super::futures::{Content, Outcome};
use super::loss::result_of;
use super::{LORA_ALPHA, Shared, Trained};
use crate::archive::archive;
use crate::wire::{SampleResult, Sequence};

/// Sampled weights that stay in memory.
const MAX_SAMPLERS: usize = 4;
/// Snapshots that are kept for their sampling sessions; the oldest go first.
const MAX_SNAPSHOTS: usize = 16;
/// Samples that are decoded together.
const MAX_SAMPLES: usize = 512;
/// The name of the server in the calls of its back ends.
const RUN: &str = "server";

/// A call that was read and checked.
#[derive(Debug)]
pub(super) enum Job {
    Create { model_id: String, base_model: String, rank: usize, seed: u64, targets: Vec<&'static str> },
    Forward { model_id: String, rows: Vec<Row> },
    ForwardBackward { model_id: String, rows: Vec<Row>, loss: Loss },
    OptimStep { model_id: String, settings: AdamSettings },
    Save { address: Address, kind: Kind },
    Snapshot { model_id: String, sampling_session: String },
    Load { model_id: String, address: Address },
    Sample(SampleJob),
    Archive { address: Address },
    Unload { model_id: String },
}

/// Samples of one prompt.
#[derive(Debug)]
pub(super) struct SampleJob {
    pub(super) weights: Weights,
    pub(super) prompt: Vec<u32>,
    pub(super) n_samples: usize,
    /// The settings; those of jobs that are decoded together differ in nothing but the seed.
    pub(super) settings: GenerationSettings,
    pub(super) has_prompt_logprobs: bool,
}

/// What is sampled from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weights {
    Base(String),
    Saved(Address),
    /// Those of a model when this sampling session began.
    Snapshot(String),
}

impl SampleJob {
    fn goes_with(&self, other: &Self) -> bool {
        let settings = GenerationSettings { seed: self.settings.seed, ..other.settings.clone() };
        self.weights == other.weights && self.settings == settings
    }
}

#[derive(Debug)]
pub(super) struct Worker {
    shared: Arc<Shared>,
    waiting: mpsc::Receiver<(u64, Job)>,
    n_calls: AtomicU64,
    samplers: Vec<(Weights, LocalBackend)>,
    snapshots: Vec<(String, LocalBackend)>,
}

/// Why a call was not carried out, with its status.
type Failure = (u16, String);

fn failure(error: &TrainError) -> Failure {
    let status = match error {
        TrainError::Request { .. } | TrainError::NotFinite { .. } | TrainError::Model { .. } => 400,
        _ => 500,
    };
    (status, format!("failed to {}", skill_llm::error::with_causes(error)))
}

fn gone(model_id: &str) -> Failure {
    (404, format!("Model not found: {model_id}"))
}

fn value(result: &impl Serialize) -> Outcome {
    serde_json::to_vec(result)
        .map(|bytes| Content::Json(bytes.into()))
        .map_err(|error| (500, error.to_string()))
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, waiting: mpsc::Receiver<(u64, Job)>) -> Self {
        Self { shared, waiting, n_calls: AtomicU64::new(0), samplers: Vec::new(), snapshots: Vec::new() }
    }

    /// Works until the server is dropped.
    pub(super) async fn work(mut self) {
        let mut next = None;
        loop {
            let job = match next.take() {
                Some(job) => Some(job),
                None => self.waiting.recv().await,
            };
            let Some((number, job)) = job else { return };
            match job {
                Job::Sample(first) => next = self.sample_together(number, first).await,
                job => {
                    let outcome = self.carry_out(job).await;
                    self.shared.futures.finish(number, outcome);
                }
            }
        }
    }

    /// Decodes this job and those that wait behind it and go with it; returns the first that does not.
    async fn sample_together(&mut self, number: u64, first: SampleJob) -> Option<(u64, Job)> {
        let mut numbers = vec![number];
        let mut jobs = vec![first];
        let mut left = None;
        while jobs.iter().map(|job| job.n_samples).sum::<usize>() < MAX_SAMPLES {
            match self.waiting.try_recv() {
                Ok((number, Job::Sample(job))) if jobs.first().is_some_and(|first| first.goes_with(&job)) => {
                    numbers.push(number);
                    jobs.push(job);
                }
                Ok(other) => {
                    left = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        match self.sample(&jobs).await {
            Ok(results) => {
                for (number, result) in numbers.into_iter().zip(results) {
                    self.shared.futures.finish(number, value(&result));
                }
            }
            // One bad prompt must not fail the others.
            Err(_) if jobs.len() > 1 => {
                for (number, job) in numbers.into_iter().zip(&jobs) {
                    let result = self.sample(std::slice::from_ref(job)).await;
                    let outcome = result.and_then(|results| value(&results.first()));
                    self.shared.futures.finish(number, outcome);
                }
            }
            Err(failure) => self.shared.futures.finish(number, Err(failure)),
        }
        left
    }

    async fn sample(&mut self, jobs: &[SampleJob]) -> Result<Vec<SampleResult>, Failure> {
        let Some(first) = jobs.first() else { return Ok(Vec::new()) };
        let backend = self.sampler(&first.weights).await?;
        let prompts = jobs.iter().flat_map(|job| {
            let seed = |n: usize| job.settings.seed.wrapping_add((n as u64) << 32);
            (0..job.n_samples).map(move |n| (job.prompt.clone(), seed(n)))
        });
        let samples = backend.sample_each(prompts.collect(), first.settings.clone()).await;
        let mut samples = samples.map_err(|error| failure(&error))?.into_iter();
        let mut results = Vec::with_capacity(jobs.len());
        for job in jobs {
            let prompt_logprobs = match job.has_prompt_logprobs {
                true => Some(self.prompt_logprobs(&backend, &job.prompt).await?),
                false => None,
            };
            let sequences = samples.by_ref().take(job.n_samples).map(sequence).collect();
            results.push(SampleResult { sequences, prompt_logprobs });
        }
        Ok(results)
    }

    async fn prompt_logprobs(
        &self,
        backend: &LocalBackend,
        prompt: &[u32],
    ) -> Result<Vec<Option<f64>>, Failure> {
        let weights = (0..prompt.len()).map(|place| f32::from(u8::from(place > 0))).collect();
        let rows = vec![Row { tokens: prompt.to_vec(), weights, ..Row::default() }];
        let pass = Pass::LogProbs { policy: Policy::Current };
        let request = ForwardBackward { call: self.call(), rows, temperature: 1.0, pass };
        let output = backend.forward_backward(request).await.map_err(|error| failure(&error))?;
        // Nothing predicts the first token, in whose place the SDK expects a null.
        let logprobs = output.logprobs.into_iter().flatten().skip(1);
        Ok(std::iter::once(None).chain(logprobs.map(|value| Some(f64::from(value)))).collect())
    }

    /// A back end with these weights; a few stay in memory.
    async fn sampler(&mut self, weights: &Weights) -> Result<LocalBackend, Failure> {
        if let Weights::Snapshot(session) = weights {
            let found = self.snapshots.iter().find(|(known, _)| known == session);
            let gone = || (404, format!("the weights of {session} are gone; save them under a name"));
            return found.map(|(_, backend)| backend.clone()).ok_or_else(gone);
        }
        if let Some(place) = self.samplers.iter().position(|(known, _)| known == weights) {
            let found = self.samplers.remove(place);
            let backend = found.1.clone();
            self.samplers.push(found);
            return Ok(backend);
        }
        let backend = match weights {
            Weights::Base(name) => {
                let base = self.shared.bases.get(name).ok_or_else(|| gone(name))?;
                LocalBackend::new(
                    base.model.clone(),
                    None,
                    Keep::Activations,
                    self.shared.checkpoints.store(),
                )
            }
            Weights::Snapshot(session) => return Err(gone(session)),
            Weights::Saved(address) => {
                let saved = self.shared.checkpoints.find(address, Kind::Sampler);
                let saved = saved.map_err(|error| failure(&error))?;
                let saved = saved.ok_or_else(|| (404, "Checkpoint not found".to_owned()))?;
                let targets: Vec<&str> = saved.targets.iter().map(String::as_str).collect();
                let backend = self.adapted(&saved.base_model, saved.rank, &targets, 0)?;
                let loaded = backend.load(LoadRequest { call: self.call(), hash: saved.hash }).await;
                loaded.map_err(|error| failure(&error))?;
                backend
            }
        };
        self.samplers.push((weights.clone(), backend.clone()));
        if self.samplers.len() > MAX_SAMPLERS {
            self.samplers.remove(0);
        }
        Ok(backend)
    }

    /// A base model with a new adapter.
    fn adapted(
        &self,
        base_model: &str,
        rank: usize,
        targets: &[&str],
        seed: u64,
    ) -> Result<LocalBackend, Failure> {
        let base = self.shared.bases.get(base_model).ok_or_else(|| gone(base_model))?;
        let path = std::path::absolute(&base.path).unwrap_or_else(|_| base.path.clone());
        let mut model = base.model.clone();
        let attached = LoraConfig::new(rank, LORA_ALPHA, targets, &path.display().to_string())
            .and_then(|config| model.attach_new(config, seed));
        attached.map_err(|error| failure(&error))?;
        Ok(LocalBackend::new(model, None, Keep::Activations, self.shared.checkpoints.store()))
    }

    fn call(&self) -> CallId {
        CallId::new(RUN, self.n_calls.fetch_add(1, Ordering::Relaxed), 0)
    }

    async fn carry_out(&mut self, job: Job) -> Outcome {
        let failed = |error: TrainError| failure(&error);
        let model = |id: &str| self.shared.model(id).ok_or_else(|| gone(id));
        match job {
            Job::Create { model_id, base_model, rank, seed, targets } => {
                let backend = self.adapted(&base_model, rank, &targets, seed)?;
                let lora = json!({"rank": rank, "alpha": LORA_ALPHA, "seed": seed});
                let trained = Trained { base_model, rank, targets, backend };
                let kept = self.shared.state.lock().keep_model(model_id.clone(), trained);
                kept.map_err(|full| (429, full))?;
                value(&json!({"type": "create_model", "model_id": model_id, "lora_config": lora}))
            }
            Job::Forward { model_id, rows } => {
                let pass = Pass::LogProbs { policy: Policy::Current };
                let request =
                    ForwardBackward { call: self.call(), rows: rows.clone(), temperature: 1.0, pass };
                let output = model(&model_id)?.backend.forward_backward(request).await.map_err(failed)?;
                value(&result_of(&rows, &output, None))
            }
            Job::ForwardBackward { model_id, rows, loss } => {
                let pass = Pass::Gradient { loss: loss.clone(), denominator: 1.0 };
                let request =
                    ForwardBackward { call: self.call(), rows: rows.clone(), temperature: 1.0, pass };
                let output = model(&model_id)?.backend.forward_backward(request).await.map_err(failed)?;
                self.shared.state.lock().models.has_gradient(&model_id);
                value(&result_of(&rows, &output, Some(&loss)))
            }
            Job::OptimStep { model_id, settings } => {
                let learning_rate = settings.learning_rate;
                let step = OptimStep { call: self.call(), settings };
                let stepped = model(&model_id)?.backend.optim_step(step).await;
                self.shared.state.lock().models.has_no_gradient(&model_id);
                let stepped = stepped.map_err(failed)?;
                let metrics: BTreeMap<&str, f64> =
                    [("skillrl/grad_norm", stepped.grad_norm), ("skillrl/learning_rate", learning_rate)]
                        .into();
                value(&json!({"metrics": metrics}))
            }
            Job::Save { address, kind } => {
                let trained = model(&address.model_id)?;
                let saved = trained.backend.save(SaveRequest { call: self.call() }).await.map_err(failed)?;
                let saved = Saved {
                    hash: saved.hash,
                    base_model: trained.base_model,
                    rank: trained.rank,
                    targets: trained.targets.iter().map(|target| (*target).to_owned()).collect(),
                };
                self.shared.checkpoints.note(&address, kind, &saved).map_err(failed)?;
                let name = match kind {
                    Kind::Training => "save_weights",
                    Kind::Sampler => "save_weights_for_sampler",
                };
                value(&json!({"path": Checkpoints::path(&address, kind), "type": name}))
            }
            Job::Snapshot { model_id, sampling_session } => {
                let (model, store) = (model(&model_id)?.backend.model(), self.shared.checkpoints.store());
                let backend = LocalBackend::new(model, None, Keep::Activations, store);
                self.snapshots.push((sampling_session.clone(), backend));
                if self.snapshots.len() > MAX_SNAPSHOTS {
                    self.snapshots.remove(0);
                }
                let kind = "save_weights_for_sampler";
                value(&json!({"path": null, "sampling_session_id": sampling_session, "type": kind}))
            }
            Job::Load { model_id, address } => {
                let saved = self.shared.checkpoints.find(&address, Kind::Training).map_err(failed)?;
                let saved = saved.ok_or_else(|| (404, "Checkpoint not found".to_owned()))?;
                let trained = model(&model_id)?;
                let is_same = trained.base_model == saved.base_model && trained.rank == saved.rank;
                if !is_same || trained.targets != saved.targets {
                    return Err((400, "the weights are of another base model or adapter".to_owned()));
                }
                let load = LoadRequest { call: self.call(), hash: saved.hash };
                trained.backend.load(load).await.map_err(failed)?;
                self.shared.state.lock().models.has_no_gradient(&model_id);
                value(&json!({"path": Checkpoints::path(&address, Kind::Training), "type": "load_weights"}))
            }
            Job::Archive { address } => {
                let backend = self.sampler(&Weights::Saved(address)).await?;
                let files = backend.model().adapter_files().map_err(failed)?;
                let files: Vec<(String, Vec<u8>)> =
                    files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
                let packed = archive(&files).map_err(|error| (500, error.to_string()))?;
                Ok(Content::Archive(packed.into()))
            }
            Job::Unload { model_id } => {
                self.shared.state.lock().forget_model(&model_id);
                value(&json!({"model_id": model_id, "type": "unload_model"}))
            }
            Job::Sample(_) => Err((500, "samples are decoded together".to_owned())),
        }
    }
}

fn sequence(sample: Sample) -> Sequence {
    let stop_reason = match sample.ended {
        Ended::Stop => "stop",
        _ => "length",
    };
    let logprobs = Some(sample.logprobs.into_iter().map(f64::from).collect());
    Sequence { stop_reason: stop_reason.to_owned(), tokens: sample.tokens, logprobs }
}
