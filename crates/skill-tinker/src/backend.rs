//! The four verbs over a training server.
//!
//! Each process makes a model of its own on the server, and takes up the saved state that its run names: whatever an
//! earlier process had begun there is left behind. A saved state is a name of the server's; the file that holds it is
//! kept here like the states of other back ends.
//!
//! # Invariants
//!
//! - No call that changes a model is sent twice, and no result is used of weights that are in doubt. Held by
//!   `what_changes_the_model_is_never_sent_twice_and_leaves_it_in_doubt`,
//!   `a_call_that_nobody_waits_for_leaves_the_model_in_doubt`.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use skill_core::random::Dice;
use skill_train::answers::IdempotencyCache;
use skill_train::checkpoint::{StateFile, StateStore};
use skill_train::seam::{
    AdamSettings, Ended, ForwardBackward, ForwardOutput, GenerationSettings, LoadRequest, Loss, LossMetrics,
    OptimStep, Pass, Policy, Row, Sample, SampleRequest, SaveRequest, SavedState, StepOutput, TrainBackend,
};
use skill_train::{RemoteFault, TrainError};
use tokio::sync::Mutex;

use crate::archive;
use crate::connection::{Connection, Repeat};
use crate::loss;
use crate::wire::{self, CreateModel, Datum, ForwardBackwardInput, LoraSettings, ModelInput};

type Result<T> = std::result::Result<T, TrainError>;

/// Calls of `asample` that are under way at once.
const MAX_SAMPLES_IN_FLIGHT: usize = 256;
/// The file of a saved state, which says where the server has it.
const STATE_FILE: &str = "server_state.json";
/// Seeds are below this: servers read them as 32-bit numbers with a sign.
const SEEDS: f64 = (1_u64 << 31) as f64;

/// The `top_k` of samples from all tokens.
const ALL_TOKENS: i64 = -1;

/// The model that a server makes for a run.
#[derive(Debug, Clone, PartialEq)]
pub struct TinkerSettings {
    /// The name of the base model, as the server has it.
    pub base_model: String,
    /// The rank of the adapter; its scale is the server's choice.
    pub rank: usize,
    /// The seed of the adapter's first weights.
    pub seed: u64,
    /// Saved weights that the adapter begins with, such as `tinker://MODEL/weights/NAME`.
    pub start: Option<String>,
    /// True if the first weights are needed later, as the reference of a KL penalty.
    pub has_reference: bool,
}

/// A model on a training server that samples and learns.
#[derive(Debug, Clone)]
pub struct TinkerBackend {
    connection: Connection,
    settings: TinkerSettings,
    store: StateStore,
    /// The calls are ordered by this lock, which is held while the server works.
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    answers: IdempotencyCache<Answer>,
    /// The model, once a call has needed it.
    model: Option<Model>,
    /// The number of the next call that changes the model.
    next_seq: u64,
    /// The weights that samples come from, until the next optimizer step.
    sampler: Option<String>,
    n_samplers: u64,
    n_steps: u64,
    /// A call that changes the model was begun and not finished.
    is_in_doubt: bool,
}

/// An adapter that a server keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedAdapter {
    /// The weights to sample from.
    pub sampler: String,
    /// The weights to go on training from.
    pub training: String,
    /// The files of the adapter as peft names them; none where the server hands them out to nobody.
    pub files: Vec<(String, Vec<u8>)>,
}

/// A model on the server.
#[derive(Debug, Clone)]
struct Model {
    id: String,
    /// The first weights, for sampling.
    reference: Option<String>,
}

#[derive(Debug, Clone)]
enum Answer {
    Samples(Vec<Sample>),
    Forward(ForwardOutput),
    Step(StepOutput),
    State(SavedState),
}

impl TinkerBackend {
    /// A model that the server makes when the first call needs it, and whose saved states are noted in this store.
    pub fn new(connection: Connection, settings: TinkerSettings, store: StateStore) -> Self {
        Self { connection, settings, store, state: Arc::default() }
    }

    /// The model, which is made if it is not there yet.
    async fn model(&self, state: &mut State) -> Result<Model> {
        if let Some(model) = &state.model {
            return Ok(model.clone());
        }
        let session = wire::CreateSession {
            tags: vec!["skillrl".to_owned()],
            user_metadata: None,
            sdk_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let session = typed("create_session", &session)?;
        let session: wire::Session = self.connection.post("create_session", &session, Repeat::Always).await?;
        let asked = CreateModel {
            session_id: session.session_id,
            model_seq_id: 0,
            base_model: self.settings.base_model.clone(),
            user_metadata: None,
            lora_config: LoraSettings {
                rank: self.settings.rank,
                seed: Some(self.settings.seed % SEEDS as u64),
                train_unembed: Some(false),
                train_mlp: Some(true),
                train_attn: Some(true),
            },
        };
        let asked = typed("create_model", &asked)?;
        let pending: wire::Pending = self.connection.post("create_model", &asked, Repeat::UntilBegun).await?;
        let made: Value = self.connection.result("create_model", &pending.request_id).await?;
        let named = made.get("model_id").and_then(Value::as_str).map(str::to_owned).or(pending.model_id);
        let id = named.ok_or_else(|| {
            self.connection.fault("create_model", RemoteFault::Incomplete("no model_id".to_owned()))
        })?;
        let mut model = Model { id, reference: None };
        if let Some(start) = self.settings.start.clone() {
            self.load_weights(state, &model, start, false).await?;
        }
        if self.settings.has_reference {
            model.reference = Some(self.sampler(state, &model).await?);
        }
        state.model = Some(model.clone());
        Ok(model)
    }

    /// The adapter as it is now: where the server keeps it, and its files where the server hands them out.
    ///
    /// # Errors
    /// [`TrainError::Remote`] where the weights cannot be saved, or the archive cannot be used.
    pub async fn adapter(&self) -> Result<SavedAdapter> {
        let mut state = self.state.lock().await;
        let model = self.model(&mut state).await?;
        let sampler = self.sampler(&mut state, &model).await?;
        let name = sampler.rsplit('/').next().unwrap_or_default().to_owned();
        let training = self.save_weights(&model, "save_weights", format!("policy-{name}")).await?;
        let archive = format!("training_runs/{}/checkpoints/{name}/archive", model.id);
        let files = match self.connection.archive("archive", &archive).await {
            Ok(bytes) => archive::adapter_files(&bytes)
                .map_err(|fault| self.connection.fault("archive", RemoteFault::Incomplete(fault)))?,
            // A server that hands out no weights.
            Err(TrainError::Remote {
                fault: RemoteFault::Forgotten(_) | RemoteFault::Refused { status: 405 | 501, .. },
                ..
            }) => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(SavedAdapter { sampler, training, files })
    }

    /// Refuses calls of a model whose state is not known.
    fn check(&self, state: &State, call: &'static str) -> Result<()> {
        if state.is_in_doubt {
            let fault = "an earlier call was not finished; start the same command again".to_owned();
            return Err(self.connection.fault(call, RemoteFault::InDoubt(fault)));
        }
        Ok(())
    }

    /// Sends a call that changes the model. If it is not answered, or nobody waits for it, the model is in doubt.
    async fn change<B: Serialize, T: DeserializeOwned>(
        &self,
        state: &mut State,
        call: &'static str,
        body: impl FnOnce(u64) -> Result<B>,
    ) -> Result<T> {
        self.check(state, call)?;
        let body = body(state.next_seq)?;
        state.next_seq += 1;
        state.is_in_doubt = true;
        let result: Result<T> = self.connection.call(call, &body, Repeat::UntilBegun).await;
        let is_settled = match &result {
            Ok(_) => true,
            Err(TrainError::Remote { fault, .. }) => {
                matches!(fault, RemoteFault::Refused { .. } | RemoteFault::Unreachable(_))
            }
            Err(_) => false,
        };
        state.is_in_doubt = !is_settled;
        result
    }

    /// The weights that samples come from, which are saved for it after each change.
    async fn sampler(&self, state: &mut State, model: &Model) -> Result<String> {
        if let Some(sampler) = &state.sampler {
            return Ok(sampler.clone());
        }
        self.check(state, "save_weights_for_sampler")?;
        state.n_samplers += 1;
        let path = format!("s{}", state.n_samplers);
        let saved = self.save_weights(model, "save_weights_for_sampler", path).await?;
        state.sampler = Some(saved.clone());
        Ok(saved)
    }

    async fn save_weights(&self, model: &Model, call: &'static str, path: String) -> Result<String> {
        let model_id = model.id.clone();
        let body = typed(call, &wire::WeightsRequest { model_id, path, optimizer: None, seq_id: None })?;
        let saved: wire::WeightsResult = self.connection.call(call, &body, Repeat::UntilBegun).await?;
        saved.path.ok_or_else(|| self.connection.fault(call, RemoteFault::Incomplete("no path".to_owned())))
    }

    async fn load_weights(
        &self,
        state: &mut State,
        model: &Model,
        path: String,
        with_optimizer: bool,
    ) -> Result<()> {
        let model_id = model.id.clone();
        state.sampler = None;
        let body = |seq| {
            let optimizer = Some(with_optimizer);
            typed("load_weights", &wire::WeightsRequest { model_id, path, optimizer, seq_id: Some(seq) })
        };
        let _: Value = self.change(state, "load_weights", body).await?;
        Ok(())
    }

    async fn sample_one(
        &self,
        path: &str,
        prompt: &[u32],
        seed: u64,
        settings: &GenerationSettings,
    ) -> Result<Sample> {
        let body = typed("sample", &sample_request(path, prompt, seed, settings))?;
        let result: wire::SampleResult = self.connection.call("asample", &body, Repeat::Always).await?;
        let sampled = result.sequences.into_iter().next();
        sampled.and_then(|sequence| sample_of(sequence, settings)).ok_or_else(|| {
            let fault = "a sample without a log-probability for each token".to_owned();
            self.connection.fault("asample", RemoteFault::Incomplete(fault))
        })
    }

    /// Log-probabilities of the tokens of each row under the current weights.
    async fn log_probs(&self, model: &Model, rows: &[Row]) -> Result<Vec<Vec<f32>>> {
        let all = |row: &Row| vec![1.0; row.tokens.len()];
        let input = input_of(rows, &rows.iter().map(all).collect::<Vec<_>>());
        let body = wire::ForwardRequest { model_id: model.id.clone(), forward_input: input, seq_id: None };
        let result = self.connection.call("forward", &body, Repeat::Always).await?;
        self.spread("forward", rows, result)
    }

    /// Log-probabilities of the tokens of one row under the first weights: those of a prompt that is not continued.
    async fn reference_log_probs(&self, model: &Model, row: &Row) -> Result<Vec<f32>> {
        let Some(reference) = &model.reference else {
            return Err(request("pass.policy", "the back end was made without a reference policy"));
        };
        let settings = GenerationSettings { max_tokens: 1, ..GenerationSettings::default() };
        let mut body = sample_request(reference, &row.tokens, 0, &settings);
        body.prompt_logprobs = Some(true);
        let body = typed("sample", &body)?;
        let result: wire::SampleResult = self.connection.call("asample", &body, Repeat::Always).await?;
        let mut logprobs = result.prompt_logprobs.unwrap_or_default();
        if logprobs.len() == row.tokens.len() {
            logprobs.remove(0);
        }
        let known: Option<Vec<f64>> = logprobs.into_iter().collect();
        let known = known.filter(|known| known.len() + 1 == row.tokens.len()).ok_or_else(|| {
            let fault = "no log-probability for each token of the prompt".to_owned();
            self.connection.fault("asample", RemoteFault::Incomplete(fault))
        })?;
        let all = std::iter::once(0.0).chain(known.into_iter().map(|value| value as f32));
        Ok(masked(row, all.collect()))
    }

    /// The numbers of a result, one for each token of each row.
    fn spread(
        &self,
        call: &'static str,
        rows: &[Row],
        result: wire::ForwardBackwardResult,
    ) -> Result<Vec<Vec<f32>>> {
        let incomplete = |fault: String| self.connection.fault(call, RemoteFault::Incomplete(fault));
        let mut outputs = result.loss_fn_outputs.into_iter();
        let mut spread = Vec::with_capacity(rows.len());
        for (index, row) in rows.iter().enumerate() {
            if row.tokens.len() < 2 {
                spread.push(vec![0.0; row.tokens.len()]);
                continue;
            }
            let output = outputs.next().ok_or_else(|| incomplete(format!("nothing for row {index}")))?;
            let values = output.logprobs.data;
            if values.len() + 1 != row.tokens.len() {
                let fault =
                    format!("{} numbers for {} targets of row {index}", values.len(), row.tokens.len() - 1);
                return Err(incomplete(fault));
            }
            let all = std::iter::once(0.0).chain(values.into_iter().map(|value| value as f32));
            spread.push(masked(row, all.collect()));
        }
        Ok(spread)
    }

    async fn gradient(
        &self,
        state: &mut State,
        model: &Model,
        rows: &[Row],
        loss: &Loss,
        denominator: f64,
    ) -> Result<ForwardOutput> {
        self.check(state, "forward_backward")?;
        let mut metrics = LossMetrics::default();
        let (weights, first_pass) = match loss {
            // The loss of the interface, but for the denominator.
            Loss::CrossEntropy => {
                let share = |weight: &f32| (f64::from(*weight) / denominator) as f32;
                let weights = rows.iter().map(|row| row.weights.iter().map(share).collect());
                (weights.collect::<Vec<Vec<f32>>>(), None)
            }
            _ => {
                let logprobs = self.log_probs(model, rows).await?;
                let weights = loss::linear_weights(loss, denominator, rows, &logprobs, &mut metrics);
                (weights, Some(logprobs))
            }
        };
        if weights.iter().flatten().any(|weight| !weight.is_finite()) {
            return Err(TrainError::NotFinite { quantity: "the loss".to_owned() });
        }
        let body = |seq| {
            Ok(wire::ForwardBackwardRequest {
                model_id: model.id.clone(),
                forward_backward_input: input_of(rows, &weights),
                seq_id: Some(seq),
            })
        };
        let result = self.change(state, "forward_backward", body).await?;
        let logprobs = self.spread("forward_backward", rows, result)?;
        // A server may leave out tokens whose derivative is 0, such as those that were clipped.
        let logprobs = match first_pass {
            Some(first_pass) => first_pass,
            None => {
                loss::linear_weights(loss, denominator, rows, &logprobs, &mut metrics);
                logprobs
            }
        };
        Ok(output_of(logprobs, metrics))
    }
}

#[async_trait]
impl TrainBackend for TinkerBackend {
    async fn sample(&self, request: SampleRequest) -> Result<Vec<Sample>> {
        let mut state = self.state.lock().await;
        if let Some(Answer::Samples(samples)) = state.answers.find(&request.call, &request)? {
            return Ok(samples);
        }
        check_sampling(&request.settings)?;
        let model = self.model(&mut state).await?;
        let path = self.sampler(&mut state, &model).await?;
        let dice = Dice::new(request.settings.seed, &["sample"]);
        let calls = request.prompts.iter().enumerate().map(|(index, prompt)| {
            let seed = (dice.unit(&index.to_string()) * SEEDS) as u64;
            self.sample_one(&path, prompt, seed, &request.settings)
        });
        let samples: Vec<Sample> = side_by_side(calls.collect()).await?;
        state.answers.keep(&request.call, &request, Answer::Samples(samples.clone()))?;
        Ok(samples)
    }

    async fn forward_backward(&self, request: ForwardBackward) -> Result<ForwardOutput> {
        let mut state = self.state.lock().await;
        if let Some(Answer::Forward(output)) = state.answers.find(&request.call, &request)? {
            return Ok(output);
        }
        if (request.temperature - 1.0).abs() > f32::EPSILON {
            let fault = "a training server computes log-probabilities at temperature 1 alone";
            return Err(self::request("temperature", fault));
        }
        if let Pass::Gradient { loss, .. } = &request.pass {
            loss::check(loss, &request.rows)?;
        }
        let model = self.model(&mut state).await?;
        let output = match &request.pass {
            Pass::Gradient { loss, denominator } => {
                self.gradient(&mut state, &model, &request.rows, loss, *denominator).await?
            }
            Pass::LogProbs { policy } => {
                let logprobs = match policy {
                    Policy::Reference => {
                        let calls = request.rows.iter().map(|row| self.reference_log_probs(&model, row));
                        side_by_side(calls.collect()).await?
                    }
                    _ => self.log_probs(&model, &request.rows).await?,
                };
                let targets = request.rows.iter().flat_map(|row| row.weights.iter().skip(1));
                let mut metrics = LossMetrics::default();
                metrics.n_tokens = targets.filter(|weight| **weight != 0.0).count() as u64;
                output_of(logprobs, metrics)
            }
            _ => return Err(self::request("pass", "not known to this back end")),
        };
        state.answers.keep(&request.call, &request, Answer::Forward(output.clone()))?;
        Ok(output)
    }

    async fn optim_step(&self, request: OptimStep) -> Result<StepOutput> {
        let mut state = self.state.lock().await;
        if let Some(Answer::Step(output)) = state.answers.find(&request.call, &request)? {
            return Ok(output);
        }
        let model_id = self.model(&mut state).await?.id;
        let body = |seq| {
            let adam_params = adam_params(&request.settings);
            Ok(wire::OptimStepRequest { model_id, adam_params, seq_id: Some(seq) })
        };
        state.sampler = None;
        let result: wire::OptimStepResult = self.change(&mut state, "optim_step", body).await?;
        state.n_steps += 1;
        let mut output = StepOutput::default();
        output.n_steps = state.n_steps;
        output.grad_norm = grad_norm(&result);
        state.answers.keep(&request.call, &request, Answer::Step(output))?;
        Ok(output)
    }

    async fn save(&self, request: SaveRequest) -> Result<SavedState> {
        let mut state = self.state.lock().await;
        if let Some(Answer::State(saved)) = state.answers.find(&request.call, &request)? {
            return Ok(saved);
        }
        let model = self.model(&mut state).await?;
        self.check(&state, "save_weights")?;
        let name = format!("state-{}-{}", request.call.step, request.call.sequence);
        let path = self.save_weights(&model, "save_weights", name).await?;
        let noted = json!({"base_model": self.settings.base_model, "path": path});
        let files = [StateFile { name: STATE_FILE.to_owned(), bytes: noted.to_string().into_bytes() }];
        let saved = self.store.save(state.n_steps, &files)?;
        state.answers.keep(&request.call, &request, Answer::State(saved.clone()))?;
        Ok(saved)
    }

    async fn load(&self, request: LoadRequest) -> Result<SavedState> {
        let mut state = self.state.lock().await;
        if let Some(Answer::State(saved)) = state.answers.find(&request.call, &request)? {
            return Ok(saved);
        }
        let (saved, files) = self.store.load(&request.hash)?;
        let noted = files.iter().find(|file| file.name == STATE_FILE);
        let noted: Option<Value> = noted.and_then(|file| serde_json::from_slice(&file.bytes).ok());
        let path = noted.as_ref().and_then(|noted| noted.get("path")).and_then(Value::as_str);
        let Some(path) = path else {
            let fault = "it is not a state on a training server".to_owned();
            return Err(TrainError::State { hash: request.hash, fault });
        };
        let model = self.model(&mut state).await?;
        self.load_weights(&mut state, &model, path.to_owned(), true).await?;
        state.n_steps = saved.n_steps;
        state.answers.keep(&request.call, &request, Answer::State(saved.clone()))?;
        Ok(saved)
    }
}

/// The results of calls in their order, of which some are under way at once.
async fn side_by_side<T>(calls: Vec<impl Future<Output = Result<T>>>) -> Result<Vec<T>> {
    stream::iter(calls).buffered(MAX_SAMPLES_IN_FLIGHT).try_collect().await
}

fn request(field: &str, fault: &str) -> TrainError {
    TrainError::Request { field: field.to_owned(), fault: fault.to_owned() }
}

/// A body with its name, which some servers read.
fn typed(kind: &str, body: &impl Serialize) -> Result<Value> {
    let mut body = serde_json::to_value(body)
        .map_err(|error| TrainError::Request { field: kind.to_owned(), fault: error.to_string() })?;
    let fields = body.as_object_mut().expect("a body has fields");
    fields.insert("type".to_owned(), json!(kind));
    Ok(body)
}

fn input_of(rows: &[Row], weights: &[Vec<f32>]) -> ForwardBackwardInput {
    let data: Vec<Datum> =
        rows.iter().zip(weights).filter_map(|(row, weights)| loss::datum(row, weights)).collect();
    ForwardBackwardInput { data, loss_fn: "cross_entropy".to_owned(), loss_fn_config: None }
}

fn output_of(logprobs: Vec<Vec<f32>>, metrics: LossMetrics) -> ForwardOutput {
    let mut output = ForwardOutput::default();
    output.entropies = logprobs.iter().map(|row| row.iter().map(|value| -value).collect()).collect();
    output.logprobs = logprobs;
    output.metrics = metrics;
    output
}

/// The numbers of tokens that count, and 0 for the others.
fn masked(row: &Row, mut values: Vec<f32>) -> Vec<f32> {
    for (value, weight) in values.iter_mut().zip(&row.weights) {
        if *weight == 0.0 {
            *value = 0.0;
        }
    }
    values
}

fn sample_request(
    path: &str,
    prompt: &[u32],
    seed: u64,
    settings: &GenerationSettings,
) -> wire::SampleRequest {
    let stop = (!settings.stop_tokens.is_empty()).then(|| json!(settings.stop_tokens));
    // A larger number than the interface has is more than any vocabulary has tokens.
    let top_k = settings.top_k.map_or(ALL_TOKENS, |top_k| i64::try_from(top_k).unwrap_or(ALL_TOKENS));
    wire::SampleRequest {
        num_samples: 1,
        prompt: ModelInput::of(prompt),
        sampling_params: wire::SamplingParams {
            max_tokens: Some(settings.max_tokens),
            seed: Some(seed),
            stop,
            temperature: settings.temperature,
            top_k,
            top_p: settings.top_p,
        },
        base_model: None,
        model_path: Some(path.to_owned()),
        sampling_session_id: None,
        prompt_logprobs: Some(false),
    }
}

/// A sample of the seam; `None` if log-probabilities are missing.
///
/// A sample has ended only if it has the token that ended it: where a server takes that token away, the loops append it
/// as something that was not sampled.
fn sample_of(sequence: wire::Sequence, settings: &GenerationSettings) -> Option<Sample> {
    let logprobs = sequence.logprobs.filter(|logprobs| logprobs.len() == sequence.tokens.len())?;
    let has_stop = sequence.tokens.last().is_some_and(|token| settings.stop_tokens.contains(token));
    let ended = if has_stop { Ended::Stop } else { Ended::Length };
    let logprobs = logprobs.into_iter().map(|value| value as f32).collect();
    Some(Sample::new(sequence.tokens, logprobs, ended))
}

fn check_sampling(settings: &GenerationSettings) -> Result<()> {
    if settings.min_p != 0.0 {
        return Err(request("settings.min_p", "a training server has no such setting; set it to 0"));
    }
    if settings.repetition_penalty != 1.0 {
        let fault = "a training server has no such setting; set it to 1";
        return Err(request("settings.repetition_penalty", fault));
    }
    Ok(())
}

fn adam_params(settings: &AdamSettings) -> wire::AdamParams {
    wire::AdamParams {
        learning_rate: settings.learning_rate,
        beta1: settings.beta1,
        beta2: settings.beta2,
        eps: settings.epsilon,
        weight_decay: settings.weight_decay,
        grad_clip_norm: settings.max_grad_norm.unwrap_or(0.0),
    }
}

/// The norm of the gradient, under whatever prefix the server has it; 0 if it reports none.
fn grad_norm(result: &wire::OptimStepResult) -> f64 {
    let metrics = result.metrics.iter().flatten();
    let mut found = metrics.filter(|(name, _)| name.rsplit(['/', ':']).next() == Some("grad_norm"));
    found.next().map_or(0.0, |(_, value)| *value)
}
