//! The JSON of the Tinker API, as open servers read it: bodies of requests and replies, for both sides.
//!
//! Keys that are not known here are ignored, since servers add some of their own. A call that takes long is answered
//! at once with a [`Pending`], whose `request_id` is exchanged for the result by `retrieve_future`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The path of every call, below the address of the server.
pub const PREFIX: &str = "/api/v1";

/// `create_session`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CreateSession {
    /// Words that the server shows with the session.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Further words.
    pub user_metadata: Option<Value>,
    /// The version of the client.
    #[serde(default)]
    pub sdk_version: String,
}

/// Reply of `create_session`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The session, which later calls name.
    pub session_id: String,
}

/// The adapter that is trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoraSettings {
    /// The rank of its matrices.
    pub rank: usize,
    /// The seed of its first weights.
    pub seed: Option<u64>,
    /// True if the output matrix has an adapter too.
    pub train_unembed: Option<bool>,
    /// True if the matrices of MLPs have one.
    pub train_mlp: Option<bool>,
    /// True if the matrices of attention have one.
    pub train_attn: Option<bool>,
}

/// `create_model`: a base model with a new adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateModel {
    /// The session.
    pub session_id: String,
    /// The number of the model in its session.
    #[serde(default)]
    pub model_seq_id: u64,
    /// The name of the base model, as the server has it.
    pub base_model: String,
    /// Further words.
    pub user_metadata: Option<Value>,
    /// The adapter.
    pub lora_config: LoraSettings,
}

/// The first answer of a call that takes long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// What `retrieve_future` is asked for.
    pub request_id: String,
    /// The model that `create_model` makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
}

/// `retrieve_future`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retrieve {
    /// The request whose result is wanted.
    pub request_id: String,
}

/// A sequence of tokens in parts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ModelInput {
    /// The parts.
    pub chunks: Vec<Chunk>,
}

/// A part of a sequence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// Its kind; the SDK leaves it out.
    #[serde(rename = "type", default)]
    pub kind: ChunkKind,
    /// The token ids.
    pub tokens: Vec<u32>,
}

/// What a part of a sequence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkKind {
    /// Token ids.
    #[default]
    EncodedText,
}

impl ModelInput {
    /// A sequence in one part.
    pub fn of(tokens: impl Into<Vec<u32>>) -> Self {
        Self { chunks: vec![Chunk { kind: ChunkKind::EncodedText, tokens: tokens.into() }] }
    }

    /// The tokens of all parts.
    pub fn tokens(&self) -> Vec<u32> {
        let parts = self.chunks.iter().map(|chunk| chunk.tokens.as_slice());
        parts.collect::<Vec<_>>().concat()
    }
}

/// A list of numbers with its type and shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tensor {
    /// The numbers, row by row.
    pub data: Vec<f64>,
    /// `int64` or `float32`; some clients leave it out.
    #[serde(default = "float")]
    pub dtype: String,
    /// The shape; a list of one number for a list.
    pub shape: Option<Vec<usize>>,
}

fn float() -> String {
    "float32".to_owned()
}

impl Tensor {
    /// A list of 32-bit numbers.
    pub fn of_floats(values: &[f32]) -> Self {
        let data: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
        Self { shape: Some(vec![data.len()]), data, dtype: float() }
    }
}

/// A list of token ids with its shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenTensor {
    /// The ids.
    pub data: Vec<u32>,
    /// `int64`.
    #[serde(default)]
    pub dtype: String,
    /// The shape.
    pub shape: Option<Vec<usize>>,
}

impl TokenTensor {
    /// A list of token ids.
    pub fn of(tokens: &[u32]) -> Self {
        Self { data: tokens.to_vec(), dtype: "int64".to_owned(), shape: Some(vec![tokens.len()]) }
    }
}

/// What a loss needs besides the input: one number for each position of the input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LossInputs {
    /// The token that each position predicts.
    pub target_tokens: TokenTensor,
    /// The weight of each prediction; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Tensor>,
    /// Log-probabilities of the targets under the policy that sampled them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Tensor>,
    /// Advantages of the targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advantages: Option<Tensor>,
}

/// One sequence that is trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Datum {
    /// The input.
    pub model_input: ModelInput,
    /// What the loss needs.
    pub loss_fn_inputs: LossInputs,
}

/// Rows with their loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForwardBackwardInput {
    /// The rows.
    pub data: Vec<Datum>,
    /// The name of the loss, such as `cross_entropy`.
    pub loss_fn: String,
    /// Settings of the loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_fn_config: Option<BTreeMap<String, f64>>,
}

/// `forward_backward`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForwardBackwardRequest {
    /// The model.
    pub model_id: String,
    /// The rows.
    pub forward_backward_input: ForwardBackwardInput,
    /// The number of the call among those that change the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq_id: Option<u64>,
}

/// `forward`: log-probabilities without a gradient.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForwardRequest {
    /// The model.
    pub model_id: String,
    /// The rows.
    pub forward_input: ForwardBackwardInput,
    /// The number of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq_id: Option<u64>,
}

/// The result of both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForwardBackwardResult {
    /// The form of `loss_fn_outputs`.
    #[serde(default)]
    pub loss_fn_output_type: String,
    /// One entry for each row.
    pub loss_fn_outputs: Vec<LossOutput>,
    /// Further numbers.
    #[serde(default)]
    pub metrics: BTreeMap<String, f64>,
}

/// What a loss gives for one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LossOutput {
    /// Log-probabilities of the targets, in nats.
    pub logprobs: Tensor,
    /// The loss of each target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elementwise_loss: Option<Tensor>,
}

/// Settings of Adam.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdamParams {
    /// The learning rate.
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay, times the learning rate.
    pub weight_decay: f64,
    /// The largest norm of the gradient; 0 sets no limit. Servers of the first versions do not know it.
    #[serde(skip_serializing_if = "is_zero")]
    pub grad_clip_norm: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Default for AdamParams {
    fn default() -> Self {
        Self {
            learning_rate: 1e-4,
            beta1: 0.9,
            beta2: 0.95,
            eps: 1e-12,
            weight_decay: 0.0,
            grad_clip_norm: 0.0,
        }
    }
}

/// `optim_step`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OptimStepRequest {
    /// The model.
    pub model_id: String,
    /// Settings of the optimizer.
    #[serde(default)]
    pub adam_params: AdamParams,
    /// The number of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq_id: Option<u64>,
}

/// Result of `optim_step`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OptimStepResult {
    /// Numbers under names of the server, such as `skyrl.ai/grad_norm`.
    pub metrics: Option<BTreeMap<String, f64>>,
}

/// `save_weights`, `save_weights_for_sampler` and `load_weights`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeightsRequest {
    /// The model.
    pub model_id: String,
    /// A name to save under, or the whole path of what is loaded.
    pub path: String,
    /// True if the state of the optimizer is loaded too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<bool>,
    /// The number of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq_id: Option<u64>,
}

/// `save_weights_for_sampler` as the SDK sends it: without a name, a sampling session has the weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SaveForSamplerRequest {
    /// The model.
    pub model_id: String,
    /// A name to save under.
    pub path: Option<String>,
    /// The number of the sampling session in its session.
    pub sampling_session_seq_id: Option<u64>,
    /// The number of the call.
    pub seq_id: Option<u64>,
}

/// `create_sampling_session`: what later samples come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateSamplingSession {
    /// The session.
    pub session_id: String,
    /// The base model, where it is asked without an adapter.
    pub base_model: Option<String>,
    /// Weights of a call of `save_weights_for_sampler`.
    pub model_path: Option<String>,
}

/// Result of these calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeightsResult {
    /// Where the weights are, such as `tinker://MODEL/weights/NAME`.
    pub path: Option<String>,
}

/// How tokens are sampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplingParams {
    /// The most tokens of a sample.
    pub max_tokens: Option<usize>,
    /// The seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Tokens, or texts, that end a sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Value>,
    /// Divisor of the logits; 0 takes the most probable token.
    #[serde(default = "one")]
    pub temperature: f64,
    /// The number of most probable tokens that remain; all at -1.
    #[serde(default = "all")]
    pub top_k: i64,
    /// The mass of the most probable tokens that remain.
    #[serde(default = "one")]
    pub top_p: f64,
}

fn one() -> f64 {
    1.0
}

fn all() -> i64 {
    -1
}

/// `asample`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleRequest {
    /// Samples of the prompt.
    #[serde(default = "one_sample")]
    pub num_samples: usize,
    /// The prompt.
    pub prompt: ModelInput,
    /// How tokens are sampled.
    pub sampling_params: SamplingParams,
    /// The base model, where it is asked without an adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_model: Option<String>,
    /// Weights of a call of `save_weights_for_sampler`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_path: Option<String>,
    /// A sampling session instead of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling_session_id: Option<String>,
    /// True if the log-probabilities of the prompt are wanted.
    pub prompt_logprobs: Option<bool>,
}

fn one_sample() -> usize {
    1
}

/// Result of `asample`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleResult {
    /// The samples.
    pub sequences: Vec<Sequence>,
    /// Log-probabilities of the prompt from its second token on; some servers put a null in front.
    pub prompt_logprobs: Option<Vec<Option<f64>>>,
}

/// One sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sequence {
    /// `stop` or `length`.
    pub stop_reason: String,
    /// The sampled tokens.
    pub tokens: Vec<u32>,
    /// The log-probability of each.
    pub logprobs: Option<Vec<f64>>,
}

/// The models of a server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Capabilities {
    /// The base models.
    #[serde(default)]
    pub supported_models: Vec<SupportedModel>,
}

/// A base model of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SupportedModel {
    /// Its name.
    pub model_name: Option<String>,
}
