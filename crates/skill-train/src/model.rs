//! Decoders of the Llama, Qwen2 and Qwen3 families with gradients of their own.
//!
//! A [`Decoder`] computes on the CPU in f32. The tensor library (candle) multiplies matrices; every layer has a forward
//! and a backward function written out here, because the library's fused operations lose gradients silently and its
//! tape keeps and copies more than is needed. Gradients are checked against recorded ones and by finite differences.
//!
//! A forward pass is [`Decoder::forward`], log-probabilities and the loss come from [`Decoder::score`], and
//! [`Decoder::backward`] goes the way back.
//!
//! # Invariants
//!
//! - A base that keeps the bytes of its file trains an adapter to the same bits as one in f32. Held by
//!   `a_frozen_base_takes_fewer_bytes_and_changes_no_bit`.
//! - A model that stays quantized agrees with the dequantized one up to the rounding of inputs to 8 bits, and is
//!   never trained. Held by `a_model_that_stays_quantized_agrees_with_the_dequantized_one`,
//!   `a_quantized_model_has_an_adapter_beside_it_and_is_not_written`.

mod attention;
mod batch;
mod decode;
mod device;
mod frozen;
mod gguf;
mod head;
mod layer;
mod lora;
mod math;
mod ops;
mod params;
mod quantized;
mod tensor;

use std::path::Path;

use candle_core::Tensor;
use skill_core::random::PyRandom;

pub use batch::Batch;
pub use decode::{Cache, Continued};
pub use head::{Coefficients, Scores, Target};
pub use params::{Adapters, Gradients};

use crate::error::{TensorFault, TrainError};
use crate::lora::LoraConfig;
use crate::model_config::{Family, ModelConfig};
use crate::model_file;
use crate::optim::AdamW;
use crate::seam::AdamSettings;
use crate::weights::{HostTensor, WeightFiles};
use attention::Heads;
use batch::Rotation;
use frozen::FrozenMatrix;
use layer::{Layer, LayerTape, Pass};
use ops::{rms_norm, rms_norm_backward, scatter_add};
use params::{Linear, ParamId, Parameters, Value, is_quantized};
use quantized::QuantizedMatrix;

pub(crate) use quantized::kept_type;
use tensor::{Floats, values, zeros};

type Result<T> = std::result::Result<T, TrainError>;

/// A decoder with its weights and, perhaps, an adapter.
///
/// A clone shares the weights until one of the two is trained.
#[derive(Debug, Clone)]
pub struct Decoder {
    config: ModelConfig,
    params: Parameters,
    /// Parameters of the base model; those of an adapter follow them.
    n_base: usize,
    embedding: ParamId,
    layers: Vec<Layer>,
    norm: ParamId,
    head: ParamId,
    lora: Option<LoraConfig>,
}

/// A parameter as it is kept in memory.
enum Stored {
    Floats(HostTensor),
    Frozen(FrozenMatrix),
    Quantized(QuantizedMatrix),
}

/// How much of a forward pass is kept for the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing: there is no backward pass.
    Nothing,
    /// What the backward pass of every layer needs.
    Activations,
    /// The input of each layer; the backward pass computes each layer a second time. About a third more time, for a
    /// fraction of the memory.
    LayerInputs,
}

#[derive(Debug)]
enum Kept {
    Nothing,
    Input(Tensor),
    Tape(LayerTape),
}

/// A forward pass over a batch.
#[derive(Debug)]
pub struct Forward {
    batch: Batch,
    rotation: Rotation,
    adapters: Adapters,
    kept: Vec<Kept>,
    /// The residual stream behind the last layer.
    last: Tensor,
    /// The same behind the last norm.
    hidden: Tensor,
}

impl Forward {
    /// The states behind the last norm, `[tokens, hidden]` row-major.
    ///
    /// # Errors
    /// [`TrainError::Compute`] if the tensor library fails.
    pub fn hidden(&self) -> Result<Vec<f32>> {
        values(&self.hidden)
    }
}

/// The gradient by the states behind the last norm, as [`Decoder::score`] returns it.
#[derive(Debug)]
pub struct HiddenGradient(Tensor);

impl Decoder {
    /// Reads a model directory with `config.json` and safetensors.
    ///
    /// # Errors
    /// [`TrainError`] with the file, the tensor or the key that is wrong.
    pub fn open(directory: &Path) -> Result<Self> {
        let path = directory.join("config.json");
        let text = model_file::read_text(&path)?;
        Self::load(ModelConfig::from_json(&text)?, &WeightFiles::open(directory)?)
    }

    /// Reads a model directory whose matrices are not trained, as a base for an adapter: those whose values are numbers
    /// of bf16 or f16 take two bytes a value in memory, and all results are those of [`Decoder::open`].
    ///
    /// # Errors
    /// As [`Decoder::open`].
    pub fn open_frozen(directory: &Path) -> Result<Self> {
        let path = directory.join("config.json");
        let text = model_file::read_text(&path)?;
        Self::load_by(ModelConfig::from_json(&text)?, &WeightFiles::open(directory)?, |found| {
            let matrix = match found.shape[..] {
                [_, _] => FrozenMatrix::of_floats(&tensor::tensor(found.values.clone(), &found.shape)?)?,
                _ => None,
            };
            Ok(matrix.map_or(Stored::Floats(found), Stored::Frozen))
        })
    }

    /// Reads the weights of a model.
    ///
    /// Names are those of published checkpoints, with or without `model.` in front. Tensors that the model does not
    /// have are errors, except stored frequencies of rotations, and an `lm_head.weight` that is the tied embedding.
    ///
    /// # Errors
    /// [`TrainError::Tensor`] with the file and the tensor that is missing, superfluous, or of the wrong shape, type
    /// or content.
    pub fn load(config: ModelConfig, files: &WeightFiles) -> Result<Self> {
        Self::load_by(config, files, |found| Ok(Stored::Floats(found)))
    }

    fn load_by(
        config: ModelConfig,
        files: &WeightFiles,
        stored: impl Fn(HostTensor) -> Result<Stored>,
    ) -> Result<Self> {
        let expected = config.parameters();
        let has = |name: &str| files.names().any(|found| found == name);
        let is_bare = !has("model.embed_tokens.weight") && has("embed_tokens.weight");
        let name_in_file = |name: &str| match name.strip_prefix("model.") {
            Some(bare) if is_bare => bare.to_owned(),
            _ => name.to_owned(),
        };
        let known: Vec<String> = expected.iter().map(|(name, _)| name_in_file(name)).collect();
        let is_harmless = |name: &str| name == "lm_head.weight" || name.ends_with("rotary_emb.inv_freq");
        if let Some(name) =
            files.names().find(|name| !known.iter().any(|known| known == name) && !is_harmless(name))
        {
            return Err(TrainError::Tensor {
                path: files.path_of(name).to_path_buf(),
                tensor: name.to_owned(),
                fault: TensorFault::Unexpected,
            });
        }
        const HEAD: &str = "lm_head.weight";
        if config.has_tied_embeddings && has(HEAD) {
            let shape = [config.vocab_size, config.hidden_size];
            let embedding = files.read(&name_in_file("model.embed_tokens.weight"), &shape)?;
            // Other libraries take one or the other, and the model was trained with one of them.
            if files.read(HEAD, &shape)?.values != embedding.values {
                let fault = "is true, but the files hold an `lm_head.weight` that is not the embedding";
                return Err(TrainError::model("tie_word_embeddings", fault));
            }
        }
        Self::build_from(config, |name, shape| stored(files.read(&name_in_file(name), shape)?))
    }

    /// A model with random weights, for training from nothing.
    ///
    /// Matrices are normal with standard deviation 0.02, norms 1 and biases 0, as in transformers. The same seed gives
    /// the same weights.
    ///
    /// # Errors
    /// [`TrainError::Compute`] if the tensor library fails.
    pub fn random(config: ModelConfig, seed: u64) -> Result<Self> {
        const STANDARD_DEVIATION: f64 = 0.02;
        let mut random = PyRandom::new(seed);
        Self::build(config, |name, shape| {
            let n_values = shape.iter().product();
            let values = match shape {
                [_] if name.ends_with("bias") => vec![0.0; n_values],
                [_] => vec![1.0; n_values],
                _ => (0..n_values).map(|_| (normal(&mut random) * STANDARD_DEVIATION) as f32).collect(),
            };
            Ok(HostTensor { shape: shape.to_vec(), values })
        })
    }

    /// Builds a model from a function that gives each parameter by its name and shape.
    ///
    /// # Errors
    /// Those of the function, and [`TrainError::Compute`] for a tensor of another size.
    pub fn build(
        config: ModelConfig,
        mut weight: impl FnMut(&str, &[usize]) -> Result<HostTensor>,
    ) -> Result<Self> {
        Self::build_from(config, |name, shape| weight(name, shape).map(Stored::Floats))
    }

    fn build_from(
        config: ModelConfig,
        mut weight: impl FnMut(&str, &[usize]) -> Result<Stored>,
    ) -> Result<Self> {
        let mut params = Parameters::default();
        for (name, shape) in config.parameters() {
            let value = match weight(&name, &shape)? {
                Stored::Floats(found) => Value::Floats(tensor::tensor(found.values, &shape)?),
                Stored::Frozen(matrix) => Value::Frozen(matrix),
                Stored::Quantized(matrix) => Value::Quantized(matrix),
            };
            params.push(name, value);
        }
        let id_of =
            |name: &str| params.iter().find(|(_, parameter)| parameter.name == name).map(|(id, _)| id);
        let id = |name: &str| {
            id_of(name).ok_or_else(|| TrainError::model(name, "the model has no such parameter"))
        };
        let embedding = id("model.embed_tokens.weight")?;
        let layers = (0..config.n_layers).map(|index| layer(&config, index, id, id_of));
        let layers = layers.collect::<Result<Vec<_>>>()?;
        let norm = id("model.norm.weight")?;
        let head = if config.has_tied_embeddings { embedding } else { id("lm_head.weight")? };
        let n_base = params.len();
        Ok(Self { config, params, n_base, embedding, layers, norm, head, lora: None })
    }

    /// The configuration.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Bytes of all weights as they are kept in memory, those of an adapter included.
    pub fn n_weight_bytes(&self) -> u64 {
        self.params.n_bytes()
    }

    /// Names, shapes and values of the trainable parameters, in a fixed order.
    ///
    /// # Errors
    /// [`TrainError::Compute`] if the tensor library fails.
    pub fn trainable(&self) -> Result<Vec<(String, HostTensor)>> {
        let trainable = self.params.iter().filter(|(_, parameter)| parameter.is_trainable);
        trainable.map(|(_, parameter)| Ok((parameter.name.clone(), host(&parameter.floats()?)?))).collect()
    }

    /// Names, shapes and values of the parameters of the base model, without its adapter, in a fixed order.
    ///
    /// # Errors
    /// [`TrainError::Model`] for quantized weights, [`TrainError::Compute`] if the tensor library fails.
    pub fn base(&self) -> Result<Vec<(String, HostTensor)>> {
        if self.params.has_quantized() {
            return Err(is_quantized());
        }
        let base = self.params.iter().take(self.n_base);
        base.map(|(_, parameter)| Ok((parameter.name.clone(), host(&parameter.floats()?)?))).collect()
    }

    /// Replaces the values of parameters by name.
    ///
    /// # Errors
    /// [`TrainError::Model`] for a name that the model does not have or a value of another shape; nothing is replaced
    /// then.
    pub fn replace(&mut self, new: &[(String, HostTensor)]) -> Result<()> {
        for (name, value) in new {
            let found = self.params.iter().find(|(_, parameter)| parameter.name == *name);
            let Some((_, parameter)) = found else {
                return Err(TrainError::model(name, "the model has no such parameter"));
            };
            if !parameter.has_shape(&value.shape)? {
                return Err(TrainError::model(name, "the value has another shape"));
            }
        }
        for (_, parameter) in self.params.iter_mut() {
            if let Some((_, value)) = new.iter().find(|(name, _)| *name == parameter.name) {
                parameter.set(value.clone())?;
            }
        }
        Ok(())
    }

    /// Names and gradients of the parameters that have one.
    ///
    /// # Errors
    /// [`TrainError::Compute`] if the tensor library fails.
    pub fn named_gradients(&self, gradients: &Gradients) -> Result<Vec<(String, HostTensor)>> {
        let all = self.params.iter().filter_map(|(id, parameter)| Some((parameter, gradients.get(id)?)));
        all.map(|(parameter, gradient)| Ok((parameter.name.clone(), host(gradient)?))).collect()
    }

    /// One step of AdamW; returns the norm of the gradient before clipping.
    ///
    /// # Errors
    /// [`TrainError::NotFinite`] for a gradient whose norm is NaN or infinite; nothing is changed then.
    pub fn step(&mut self, adam: &mut AdamW, settings: &AdamSettings, gradients: &Gradients) -> Result<f64> {
        let norm = gradients.norm()?;
        if !norm.is_finite() {
            return Err(TrainError::NotFinite { quantity: "the norm of the gradient".to_owned() });
        }
        let factors = adam.begin_step(settings, norm);
        for (id, parameter) in self.params.iter_mut() {
            if let (Some(gradient), true) = (gradients.get(id), parameter.is_trainable) {
                let HostTensor { shape, values: mut new } = host(&parameter.floats()?)?;
                let gradient = Floats::of(gradient)?;
                adam.update(&factors, &parameter.name, shape.len(), &mut new, gradient.slice()?);
                parameter.set(HostTensor { shape, values: new })?;
            }
        }
        Ok(norm)
    }

    /// Computes the states of all tokens of a batch.
    ///
    /// # Errors
    /// [`TrainError::Request`] for an empty batch, an empty sequence, an unknown token, or a sequence longer than the
    /// model's context.
    pub fn forward(&self, batch: Batch, adapters: Adapters, keep: Keep) -> Result<Forward> {
        self.check(&batch)?;
        let rotation = Rotation::of(&batch, self.config.head_dim, self.config.rope_theta);
        let pass = Pass { params: &self.params, batch: &batch, rotation: &rotation, adapters };
        let mut last = self.params.rows(self.embedding, batch.tokens())?;
        let mut kept = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            let (output, tape) = layer.forward(pass, &last)?;
            kept.push(match keep {
                Keep::Nothing => Kept::Nothing,
                Keep::LayerInputs => Kept::Input(last),
                Keep::Activations => Kept::Tape(tape),
            });
            last = output;
        }
        let hidden = rms_norm(&last, &self.params.get(self.norm)?, self.config.rms_norm_eps)?;
        Ok(Forward { batch, rotation, adapters, kept, last, hidden })
    }

    fn check(&self, batch: &Batch) -> Result<()> {
        batch.check(self.config.vocab_size)?;
        let limit = self.config.max_positions;
        match batch.lengths().iter().enumerate().find(|(_, length)| !(1..=limit).contains(*length)) {
            _ if batch.lengths().is_empty() => Err(TrainError::request("rows", "there are none")),
            Some((row, length)) => {
                let fault = format!("{length} tokens, where 1 to {limit} are possible");
                Err(TrainError::request(format!("rows[{row}].tokens"), fault))
            }
            None => Ok(()),
        }
    }

    /// Adds the gradient of all trainable parameters to `gradients`.
    ///
    /// # Errors
    /// [`TrainError::Request`] if the forward pass kept nothing or ran without the adapter that is trained.
    pub fn backward(
        &self,
        forward: Forward,
        hidden: HiddenGradient,
        gradients: &mut Gradients,
    ) -> Result<()> {
        if forward.adapters == Adapters::Off && self.lora.is_some() {
            return Err(TrainError::request(
                "pass",
                "a gradient of a model without its adapter is not computed",
            ));
        }
        let pass = Pass {
            params: &self.params,
            batch: &forward.batch,
            rotation: &forward.rotation,
            adapters: forward.adapters,
        };
        let weight = &self.params.get(self.norm)?;
        let (mut gradient, by_weight) =
            rms_norm_backward(&forward.last, weight, self.config.rms_norm_eps, &hidden.0, None)?;
        if self.params.is_trainable(self.norm) {
            gradients.add(self.norm, by_weight)?;
        }
        for (layer, kept) in self.layers.iter().zip(forward.kept).rev() {
            let tape = match kept {
                Kept::Tape(tape) => tape,
                Kept::Input(input) => layer.forward(pass, &input)?.1,
                Kept::Nothing => {
                    return Err(TrainError::request("pass", "the forward pass kept no activations"));
                }
            };
            gradient = layer.backward(pass, &tape, &gradient, gradients)?;
        }
        if self.params.is_trainable(self.embedding) {
            if gradients.get(self.embedding).is_none() {
                gradients.add(self.embedding, zeros(self.params.get(self.embedding)?.dims())?)?;
            }
            if let Some(by_embedding) = gradients.get(self.embedding) {
                let tokens = forward.batch.tokens().iter().map(|token| *token as usize);
                scatter_add(by_embedding, tokens, &gradient)?;
            }
        }
        Ok(())
    }
}

fn host(value: &Tensor) -> Result<HostTensor> {
    Ok(HostTensor { shape: value.dims().to_vec(), values: values(value)? })
}

/// A standard normal number (Box and Muller, 1958).
fn normal(random: &mut PyRandom) -> f64 {
    let radius = (-2.0 * (1.0 - random.random()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * random.random()).cos()
}

fn layer(
    config: &ModelConfig,
    index: usize,
    id: impl Fn(&str) -> Result<ParamId>,
    id_of: impl Fn(&str) -> Option<ParamId>,
) -> Result<Layer> {
    let name = |part: &str| format!("model.layers.{index}.{part}");
    let linear = |part: &str| -> Result<Linear> {
        Ok(Linear {
            weight: id(&name(&format!("{part}.weight")))?,
            bias: id_of(&name(&format!("{part}.bias"))),
            adapter: None,
        })
    };
    let head_norms = match config.family {
        Family::Qwen3 => Some([id(&name("self_attn.q_norm.weight"))?, id(&name("self_attn.k_norm.weight"))?]),
        Family::Llama | Family::Qwen2 => None,
    };
    Ok(Layer {
        heads: Heads {
            n_shared: config.n_kv_heads,
            group: config.n_heads / config.n_kv_heads,
            width: config.head_dim,
        },
        eps: config.rms_norm_eps,
        input_norm: id(&name("input_layernorm.weight"))?,
        query: linear("self_attn.q_proj")?,
        key: linear("self_attn.k_proj")?,
        value: linear("self_attn.v_proj")?,
        output: linear("self_attn.o_proj")?,
        head_norms,
        inner_norm: id(&name("post_attention_layernorm.weight"))?,
        gate: linear("mlp.gate_proj")?,
        up: linear("mlp.up_proj")?,
        down: linear("mlp.down_proj")?,
    })
}
