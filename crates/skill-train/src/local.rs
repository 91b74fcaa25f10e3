//! The local back end: a [`Decoder`] behind the seam.
//!
//! Calls are ordered by one lock and run on threads for blocking work, so that the caller's runtime is never held up.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use crate::answers::IdempotencyCache;
use crate::checkpoint::{StateFile, StateStore};
use crate::error::TrainError;
use crate::generate::{IsCancelled, KeptSequences, generate, generate_by};
use crate::loss::TokenInput;
use crate::model::{Adapters, Batch, Coefficients, Decoder, Gradients, Keep, Scores, Target};
use crate::optim::AdamW;
use crate::sampling::TokenDice;
use crate::seam::{
    ForwardBackward, ForwardOutput, GenerationSettings, LoadRequest, Loss, LossMetrics, OptimStep, Pass,
    Policy, Row, Sample, SampleRequest, SaveRequest, SavedState, StepOutput, TrainBackend,
};
use crate::state;

type Result<T> = std::result::Result<T, TrainError>;

/// A model on this machine that samples and learns.
#[derive(Debug, Clone)]
pub struct LocalBackend {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    model: Decoder,
    reference: Option<Decoder>,
    optimizer: AdamW,
    gradients: Gradients,
    keep: Keep,
    store: StateStore,
    answers: IdempotencyCache<Answer>,
    /// Sequences that prompts of the same step of a run may continue.
    kept: (Option<(String, u64)>, KeptSequences),
}

#[derive(Debug, Clone)]
enum Answer {
    Samples(Vec<Sample>),
    Forward(ForwardOutput),
    Step(StepOutput),
    State(SavedState),
}

/// Sets a flag when the future that waits for a call is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl LocalBackend {
    /// A back end for this model, which saves its states in this store.
    ///
    /// `reference` is the policy that a KL penalty refers to; a model with an adapter needs none, because its reference
    /// is the model without the adapter. `keep` is [`Keep::Activations`], or [`Keep::LayerInputs`] to save memory.
    pub fn new(model: Decoder, reference: Option<Decoder>, keep: Keep, store: StateStore) -> Self {
        let inner = Inner {
            model,
            reference,
            optimizer: AdamW::default(),
            gradients: Gradients::default(),
            keep,
            store,
            answers: IdempotencyCache::default(),
            kept: Default::default(),
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// A copy of the model as it is now, which shares its weights until one of the two is trained.
    pub fn model(&self) -> Decoder {
        self.inner.lock().model.clone()
    }

    /// Samples a continuation of each prompt, whose random numbers follow from its own seed alone: prompts of several
    /// callers may be sampled together. The seed of the settings is not used, and no answer is kept.
    ///
    /// # Errors
    /// As [`TrainBackend::sample`].
    pub async fn sample_each(
        &self,
        prompts: Vec<(Vec<u32>, u64)>,
        settings: GenerationSettings,
    ) -> Result<Vec<Sample>> {
        self.call(move |inner, is_cancelled| {
            let (prompts, seeds): (Vec<Vec<u32>>, Vec<u64>) = prompts.into_iter().unzip();
            let dice: Vec<TokenDice> = seeds.into_iter().map(|seed| TokenDice::new(seed, "prompt")).collect();
            let Inner { model, kept: (_, kept), .. } = inner;
            generate_by(model, &prompts, &dice, &settings, Adapters::On, kept, is_cancelled)
        })
        .await
    }

    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Inner, IsCancelled<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = Arc::clone(&self.inner);
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let guard = CancelOnDrop(Arc::clone(&is_cancelled));
        let result = tokio::task::spawn_blocking(move || {
            // No call leaves a half-changed model behind, so a lock that a panic has poisoned is usable.
            let mut inner = inner.lock();
            let is_cancelled = || is_cancelled.load(Ordering::Relaxed);
            if is_cancelled() {
                return Err(TrainError::Cancelled);
            }
            // Inside of the pool, so that no part of the work has to wake it up. The lock is taken before: a thread of
            // the pool that waited for it would keep its owner waiting too.
            let inner = &mut *inner;
            rayon::scope(|_| work(inner, &is_cancelled))
        })
        .await;
        drop(guard);
        result.map_err(|error| TrainError::Compute { what: "a call", source: Box::new(error) })?
    }
}

#[async_trait]
impl TrainBackend for LocalBackend {
    async fn sample(&self, request: SampleRequest) -> Result<Vec<Sample>> {
        self.call(move |inner, is_cancelled| {
            if let Some(Answer::Samples(samples)) = inner.answers.find(&request.call, &request)? {
                return Ok(samples);
            }
            let Inner { model, kept: (step, kept), .. } = inner;
            // What is kept must follow from the calls of the step alone, or a resumed run would round differently.
            let asked = Some((request.call.run.clone(), request.call.step));
            if *step != asked {
                kept.clear();
                *step = asked;
            }
            let (prompts, settings) = (&request.prompts, &request.settings);
            let samples = generate(model, prompts, settings, Adapters::On, kept, is_cancelled)?;
            inner.answers.keep(&request.call, &request, Answer::Samples(samples.clone()))?;
            Ok(samples)
        })
        .await
    }

    async fn forward_backward(&self, request: ForwardBackward) -> Result<ForwardOutput> {
        self.call(move |inner, is_cancelled| {
            if let Some(Answer::Forward(output)) = inner.answers.find(&request.call, &request)? {
                return Ok(output);
            }
            let output = inner.forward_backward(&request, is_cancelled)?;
            inner.answers.keep(&request.call, &request, Answer::Forward(output.clone()))?;
            Ok(output)
        })
        .await
    }

    async fn optim_step(&self, request: OptimStep) -> Result<StepOutput> {
        self.call(move |inner, _| {
            if let Some(Answer::Step(output)) = inner.answers.find(&request.call, &request)? {
                return Ok(output);
            }
            request.settings.check()?;
            let Inner { model, optimizer, gradients, kept: (_, kept), .. } = inner;
            kept.clear();
            // A step that fails drops its gradients, or it would fail for ever.
            let gradients = std::mem::take(gradients);
            let grad_norm = model.step(optimizer, &request.settings, &gradients)?;
            let output = StepOutput { grad_norm, n_steps: optimizer.n_steps };
            inner.answers.keep(&request.call, &request, Answer::Step(output))?;
            Ok(output)
        })
        .await
    }

    async fn save(&self, request: SaveRequest) -> Result<SavedState> {
        self.call(move |inner, _| {
            if let Some(Answer::State(saved)) = inner.answers.find(&request.call, &request)? {
                return Ok(saved);
            }
            let files = state::files(&inner.model, &inner.optimizer)?;
            let saved = inner.store.save(inner.optimizer.n_steps, &files)?;
            inner.answers.keep(&request.call, &request, Answer::State(saved.clone()))?;
            Ok(saved)
        })
        .await
    }

    async fn load(&self, request: LoadRequest) -> Result<SavedState> {
        self.call(move |inner, _| {
            if let Some(Answer::State(saved)) = inner.answers.find(&request.call, &request)? {
                return Ok(saved);
            }
            let (saved, files) = inner.store.load(&request.hash)?;
            inner.restore(&saved, &files)?;
            inner.answers.keep(&request.call, &request, Answer::State(saved.clone()))?;
            Ok(saved)
        })
        .await
    }
}

impl Inner {
    fn restore(&mut self, saved: &SavedState, files: &[StateFile]) -> Result<()> {
        let (weights, optimizer) = state::read(saved, files)?;
        self.model.replace(&weights)?;
        self.optimizer = optimizer;
        self.kept.1.clear();
        self.gradients = Gradients::default();
        Ok(())
    }

    fn forward_backward(
        &mut self,
        request: &ForwardBackward,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<ForwardOutput> {
        check_rows(request)?;
        let batch = Batch::new(request.rows.iter().map(|row| row.tokens.as_slice()));
        let (targets, places) = targets(&request.rows);
        let mut metrics = LossMetrics::default();
        let scores = match &request.pass {
            Pass::LogProbs { policy } => {
                let (model, adapters) = self.policy(*policy)?;
                let forward = model.forward(batch, adapters, Keep::Nothing)?;
                metrics.n_tokens = targets.len() as u64;
                model.log_probs(&forward, &targets, request.temperature)?
            }
            Pass::Gradient { loss, denominator } => {
                loss.check(&request.rows)?;
                let forward = self.model.forward(batch, Adapters::On, self.keep)?;
                let mut gradients = Gradients::default();
                let (scores, hidden) = self.model.score(
                    &forward,
                    &targets,
                    request.temperature,
                    &mut gradients,
                    |first, scores| {
                        let places = places.iter().skip(first);
                        Ok(differentiate(loss, *denominator, &request.rows, places, scores, &mut metrics))
                    },
                )?;
                if !metrics.loss.is_finite() {
                    return Err(TrainError::NotFinite { quantity: "the loss".to_owned() });
                }
                self.model.backward(forward, hidden, &mut gradients)?;
                if is_cancelled() {
                    return Err(TrainError::Cancelled);
                }
                self.gradients.merge(gradients)?;
                scores
            }
        };
        let mut output = ForwardOutput { metrics, ..ForwardOutput::default() };
        output.logprobs = spread(&request.rows, &places, &scores.logprobs);
        output.entropies = spread(&request.rows, &places, &scores.entropies);
        Ok(output)
    }

    fn policy(&self, policy: Policy) -> Result<(&Decoder, Adapters)> {
        match (policy, &self.reference) {
            (Policy::Current, _) => Ok((&self.model, Adapters::On)),
            (Policy::Reference, Some(reference)) => Ok((reference, Adapters::On)),
            (Policy::Reference, None) if self.model.lora().is_some() => Ok((&self.model, Adapters::Off)),
            (Policy::Reference, None) => {
                Err(TrainError::request("pass.policy", "the back end has no reference policy"))
            }
        }
    }
}

/// Row and token of a target.
type Place = (usize, usize);

/// The tokens whose weight is not 0, with the positions in the batch that predict them.
fn targets(rows: &[Row]) -> (Vec<Target>, Vec<Place>) {
    let mut targets = Vec::new();
    let mut places = Vec::new();
    let mut start = 0;
    for (row_idx, row) in rows.iter().enumerate() {
        for (index, (token, weight)) in row.tokens.iter().zip(&row.weights).enumerate().skip(1) {
            if *weight != 0.0 {
                targets.push(Target { position: start + index - 1, token: *token });
                places.push((row_idx, index));
            }
        }
        start += row.tokens.len();
    }
    (targets, places)
}

fn check_rows(request: &ForwardBackward) -> Result<()> {
    if !(request.temperature.is_finite() && request.temperature > 0.0) {
        return Err(TrainError::request("temperature", "not above 0"));
    }
    if let Pass::Gradient { denominator, .. } = request.pass
        && !(denominator.is_finite() && denominator > 0.0)
    {
        return Err(TrainError::request("pass.denominator", "not above 0"));
    }
    for (index, row) in request.rows.iter().enumerate() {
        let field = format!("rows[{index}].weights");
        if row.weights.len() != row.tokens.len() {
            let fault = format!("{} numbers for {} tokens", row.weights.len(), row.tokens.len());
            return Err(TrainError::request(field, fault));
        }
        if row.weights.first().is_some_and(|weight| *weight != 0.0) {
            return Err(TrainError::request(
                field,
                "nothing predicts the first token, so its weight must be 0",
            ));
        }
        if let Some(index) = row.weights.iter().position(|weight| !weight.is_finite()) {
            return Err(TrainError::request(field, format!("number {index} is not finite")));
        }
    }
    Ok(())
}

fn differentiate<'a>(
    loss: &Loss,
    denominator: f64,
    rows: &[Row],
    places: impl Iterator<Item = &'a Place>,
    scores: &Scores,
    metrics: &mut LossMetrics,
) -> Vec<Coefficients> {
    let scored = scores.logprobs.iter().zip(&scores.entropies);
    scored
        .zip(places)
        .map(|((logprob, entropy), (row, token))| {
            let row = rows.get(*row);
            let at = |list: fn(&Row) -> &Vec<f32>| {
                f64::from(row.and_then(|row| list(row).get(*token)).copied().unwrap_or(0.0))
            };
            let input = TokenInput {
                weight: at(|row| &row.weights),
                logprob: f64::from(*logprob),
                entropy: f64::from(*entropy),
                advantage: at(|row| &row.advantages),
                old_logprob: at(|row| &row.old_logprobs),
                reference_logprob: at(|row| &row.reference_logprobs),
            };
            let gradient = loss.token(&input, denominator, metrics);
            Coefficients { by_logprob: gradient.by_logprob as f32, by_entropy: gradient.by_entropy as f32 }
        })
        .collect()
}

/// Numbers of targets as a list for each row, with 0 at the other tokens.
fn spread(rows: &[Row], places: &[Place], values: &[f32]) -> Vec<Vec<f32>> {
    let mut output: Vec<Vec<f32>> = rows.iter().map(|row| vec![0.0; row.tokens.len()]).collect();
    for ((row, token), value) in places.iter().zip(values) {
        if let Some(target) = output.get_mut(*row).and_then(|row| row.get_mut(*token)) {
            *target = *value;
        }
    }
    output
}
