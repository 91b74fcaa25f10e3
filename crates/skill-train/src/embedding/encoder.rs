//! The encoder of BERT (Devlin et al., 2019), for inference.

use candle_core::{D, Device, Tensor};
use serde_json::Value;
use skill_core::python_json;

use crate::error::TrainError;
use crate::weights::{HostTensor, WeightFiles};

type Result<T> = std::result::Result<T, TrainError>;

/// The shape of an encoder.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EncoderConfig {
    pub(super) hidden_size: usize,
    pub(super) max_positions: usize,
    n_layers: usize,
    n_heads: usize,
    intermediate_size: usize,
    vocab_size: usize,
    n_types: usize,
    eps: f64,
}

impl EncoderConfig {
    /// Reads `config.json`.
    pub(super) fn from_json(text: &str) -> Result<Self> {
        /// Far above real models, and far below an overflow of products.
        const MAX_SIZE: u64 = 1 << 24;
        let config: Value =
            python_json::read(text).map_err(|error| TrainError::model("config.json", error.to_string()))?;
        let word = |key: &str| config.get(key).and_then(Value::as_str);
        match word("model_type") {
            Some("bert") => {}
            found => {
                let fault = format!("{} is not bert", found.unwrap_or("nothing"));
                return Err(TrainError::model("model_type", fault));
            }
        }
        for (key, expect) in [("hidden_act", "gelu"), ("position_embedding_type", "absolute")] {
            if let Some(other) = word(key).filter(|found| *found != expect) {
                return Err(TrainError::model(key, format!("{other} is not {expect}")));
            }
        }
        let size = |key: &str| {
            let found = config.get(key).and_then(Value::as_u64).filter(|size| (1..=MAX_SIZE).contains(size));
            let size =
                found.ok_or_else(|| TrainError::model(key, format!("not a size from 1 to {MAX_SIZE}")))?;
            Ok::<_, TrainError>(usize::try_from(size).unwrap_or(usize::MAX))
        };
        let (hidden_size, n_heads) = (size("hidden_size")?, size("num_attention_heads")?);
        if hidden_size % n_heads != 0 {
            let fault = format!("{n_heads} heads do not divide a width of {hidden_size}");
            return Err(TrainError::model("num_attention_heads", fault));
        }
        Ok(Self {
            hidden_size,
            max_positions: size("max_position_embeddings")?,
            n_layers: size("num_hidden_layers")?,
            n_heads,
            intermediate_size: size("intermediate_size")?,
            vocab_size: size("vocab_size")?,
            n_types: size("type_vocab_size")?,
            eps: config.get("layer_norm_eps").and_then(Value::as_f64).unwrap_or(1e-12),
        })
    }
}

/// `x W^T + b`.
struct Linear {
    /// `[in, out]`.
    weight: Tensor,
    bias: Tensor,
}

impl Linear {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        Ok(input.matmul(&self.weight)?.broadcast_add(&self.bias)?)
    }
}

struct Norm {
    weight: Tensor,
    bias: Tensor,
    eps: f64,
}

impl Norm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let centred = input.broadcast_sub(&input.mean_keepdim(D::Minus1)?)?;
        let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
        let normed = centred.broadcast_div(&(variance + self.eps)?.sqrt()?)?;
        Ok(normed.broadcast_mul(&self.weight)?.broadcast_add(&self.bias)?)
    }
}

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    attention_norm: Norm,
    up: Linear,
    down: Linear,
    norm: Norm,
}

/// An encoder with its weights.
pub(super) struct Encoder {
    config: EncoderConfig,
    words: Tensor,
    /// Embeddings of positions, with that of the first type of token added.
    positions: Tensor,
    norm: Norm,
    layers: Vec<Layer>,
}

/// Reads weights by the names of published checkpoints, with or without `bert.` in front.
struct Source<'a> {
    files: &'a WeightFiles,
    prefix: &'static str,
    eps: f64,
}

impl Source<'_> {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let HostTensor { shape, values } = self.files.read(&format!("{}{name}", self.prefix), shape)?;
        Ok(Tensor::from_vec(values, shape, &Device::Cpu)?)
    }

    fn linear(&self, name: &str, [input, output]: [usize; 2]) -> Result<Linear> {
        Ok(Linear {
            weight: self.tensor(&format!("{name}.weight"), &[output, input])?.t()?.contiguous()?,
            bias: self.tensor(&format!("{name}.bias"), &[output])?,
        })
    }

    fn norm(&self, name: &str, width: usize) -> Result<Norm> {
        Ok(Norm {
            weight: self.tensor(&format!("{name}.weight"), &[width])?,
            bias: self.tensor(&format!("{name}.bias"), &[width])?,
            eps: self.eps,
        })
    }
}

impl Encoder {
    pub(super) fn load(config: EncoderConfig, files: &WeightFiles) -> Result<Self> {
        let is_prefixed = files.names().any(|name| name.starts_with("bert."));
        let source = Source { files, prefix: if is_prefixed { "bert." } else { "" }, eps: config.eps };
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let words = source.tensor("embeddings.word_embeddings.weight", &[config.vocab_size, hidden])?;
        let positions =
            source.tensor("embeddings.position_embeddings.weight", &[config.max_positions, hidden])?;
        let types = source.tensor("embeddings.token_type_embeddings.weight", &[config.n_types, hidden])?;
        let positions = positions.broadcast_add(&types.narrow(0, 0, 1)?)?;
        let layer = |index: usize| -> Result<Layer> {
            let name = |part: &str| format!("encoder.layer.{index}.{part}");
            let square = |part: &str| source.linear(&name(part), [hidden, hidden]);
            Ok(Layer {
                query: square("attention.self.query")?,
                key: square("attention.self.key")?,
                value: square("attention.self.value")?,
                output: square("attention.output.dense")?,
                attention_norm: source.norm(&name("attention.output.LayerNorm"), hidden)?,
                up: source.linear(&name("intermediate.dense"), [hidden, inner])?,
                down: source.linear(&name("output.dense"), [inner, hidden])?,
                norm: source.norm(&name("output.LayerNorm"), hidden)?,
            })
        };
        let layers = (0..config.n_layers).map(layer).collect::<Result<_>>()?;
        let norm = source.norm("embeddings.LayerNorm", hidden)?;
        Ok(Self { config, words, positions, norm, layers })
    }

    /// The mean of the last states of all tokens, scaled to length 1.
    pub(super) fn embed(&self, tokens: &[u32]) -> Result<Vec<f32>> {
        if tokens.is_empty() || tokens.len() > self.config.max_positions {
            let fault =
                format!("{} tokens, where 1 to {} are possible", tokens.len(), self.config.max_positions);
            return Err(TrainError::request("texts", fault));
        }
        if let Some(token) = tokens.iter().find(|token| **token as usize >= self.config.vocab_size) {
            return Err(TrainError::request("texts", format!("token {token} is not in the vocabulary")));
        }
        let ids = Tensor::new(tokens, &Device::Cpu)?;
        let words = self.words.index_select(&ids, 0)?;
        let mut states = self.norm.forward(&(words + self.positions.narrow(0, 0, tokens.len())?)?)?;
        for layer in &self.layers {
            states = self.layer(layer, &states)?;
        }
        let mean = states.mean(0)?.to_vec1::<f32>()?;
        let norm = mean.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        if !norm.is_finite() || norm == 0.0 {
            return Err(TrainError::NotFinite { quantity: "the vector of a text".to_owned() });
        }
        Ok(mean.into_iter().map(|value| (f64::from(value) / norm) as f32).collect())
    }

    fn layer(&self, layer: &Layer, states: &Tensor) -> Result<Tensor> {
        let n_tokens = states.dim(0)?;
        let (n_heads, width) = (self.config.n_heads, self.config.hidden_size / self.config.n_heads);
        // [heads, tokens, width]
        let heads = |linear: &Linear| -> Result<Tensor> {
            let all = linear.forward(states)?.reshape((n_tokens, n_heads, width))?;
            Ok(all.transpose(0, 1)?.contiguous()?)
        };
        let (query, key, value) = (heads(&layer.query)?, heads(&layer.key)?, heads(&layer.value)?);
        let scores = (query.matmul(&key.t()?.contiguous()?)? / (width as f64).sqrt())?;
        let shifted = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
        let weights = shifted.broadcast_div(&shifted.sum_keepdim(D::Minus1)?)?;
        let attended = weights.matmul(&value)?.transpose(0, 1)?.contiguous()?;
        let attended = layer.output.forward(&attended.reshape((n_tokens, self.config.hidden_size))?)?;
        let states = layer.attention_norm.forward(&(attended + states)?)?;
        let inner = layer.up.forward(&states)?.gelu_erf()?;
        layer.norm.forward(&(layer.down.forward(&inner)? + states)?)
    }
}
