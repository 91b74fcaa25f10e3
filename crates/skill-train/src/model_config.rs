//! The configuration of a decoder, from `config.json` of the Llama, Qwen2 and Qwen3 families.
//!
//! It needs no tensor library: `doctor` and estimates of memory read it too.

use serde_json::{Map, Value};
use skill_core::python_json;

use crate::error::TrainError;

/// A family of decoders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Family {
    /// Llama and models of its shape (SmolLM2, TinyLlama): no biases, or biases by `attention_bias` and `mlp_bias`.
    Llama,
    /// Qwen2 and Qwen2.5: biases on the projections to queries, keys and values.
    Qwen2,
    /// Qwen3: no biases, and an RMS norm of each head's queries and keys before the rotation.
    Qwen3,
}

/// The shape of a decoder and the constants of its layers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The family.
    pub family: Family,
    /// Tokens of the vocabulary.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Layers.
    pub n_layers: usize,
    /// Heads of queries.
    pub n_heads: usize,
    /// Heads of keys and values; divides `n_heads`.
    pub n_kv_heads: usize,
    /// Width of a head; even.
    pub head_dim: usize,
    /// Added to the mean square in RMS norms.
    pub rms_norm_eps: f64,
    /// Base of the rotary position embedding.
    pub rope_theta: f64,
    /// The longest sequence, in tokens.
    pub max_positions: usize,
    /// True if the output layer is the embedding.
    pub has_tied_embeddings: bool,
    /// True if queries, keys and values have biases.
    pub has_qkv_bias: bool,
    /// True if the output projection of attention has a bias.
    pub has_output_bias: bool,
    /// True if the feed-forward layers have biases.
    pub has_mlp_bias: bool,
    /// Tokens that end a reply.
    pub eos_tokens: Vec<u32>,
}

/// The largest value of any size in a configuration: far above real models, and far below an overflow of products.
const MAX_SIZE: u64 = 1 << 24;
/// More layers than any published model has; their parameters are listed before any is read.
const MAX_LAYERS: usize = 4096;

impl ModelConfig {
    /// Reads the text of a `config.json`, with the keys of published checkpoints (`rope_theta`) or those of
    /// transformers 5 (`rope_parameters.rope_theta`).
    ///
    /// # Errors
    /// [`TrainError::Model`] with the key: another family, a missing or invalid number, or a variant that is not
    /// implemented (scaled rotations, sliding windows, another activation).
    pub fn from_json(text: &str) -> Result<Self, TrainError> {
        let config: Map<String, Value> =
            python_json::read(text).map_err(|error| TrainError::model("config.json", error.to_string()))?;
        let keys = Keys(&config);
        let family = family(&config)?;
        refuse_variants(&config)?;
        let hidden_size = keys.size("hidden_size")?;
        let n_heads = keys.size("num_attention_heads")?;
        let n_kv_heads = keys.size_or("num_key_value_heads", n_heads)?;
        let head_dim = keys.size_or("head_dim", hidden_size / n_heads)?;
        if n_heads % n_kv_heads != 0 {
            let fault = format!("{n_heads} heads cannot share {n_kv_heads} heads of keys and values");
            return Err(TrainError::model("num_key_value_heads", fault));
        }
        if head_dim == 0 || head_dim % 2 != 0 {
            return Err(TrainError::model("head_dim", format!("{head_dim} is not a positive even number")));
        }
        let n_layers = keys.size("num_hidden_layers")?;
        if n_layers > MAX_LAYERS {
            return Err(TrainError::model(
                "num_hidden_layers",
                format!("{n_layers} are more than {MAX_LAYERS}"),
            ));
        }
        let has_attention_bias = keys.flag("attention_bias", false)?;
        Ok(Self {
            family,
            vocab_size: keys.size("vocab_size")?,
            hidden_size,
            intermediate_size: keys.size("intermediate_size")?,
            n_layers,
            n_heads,
            n_kv_heads,
            head_dim,
            rms_norm_eps: keys.number("rms_norm_eps", 1e-6)?,
            rope_theta: rope_theta(&config)?,
            max_positions: keys.size_or("max_position_embeddings", 2048)?,
            has_tied_embeddings: keys.flag("tie_word_embeddings", false)?,
            has_qkv_bias: family == Family::Qwen2 || has_attention_bias,
            has_output_bias: family != Family::Qwen2 && has_attention_bias,
            has_mlp_bias: keys.flag("mlp_bias", false)?,
            eos_tokens: eos_tokens(&config)?,
        })
    }

    /// The names and shapes of all parameters, as published checkpoints name them, in the order of computation.
    ///
    /// Matrices are `[out, in]`. With tied embeddings there is no `lm_head.weight`.
    pub fn parameters(&self) -> Vec<(String, Vec<usize>)> {
        let hidden = self.hidden_size;
        let (queries, keys) = (self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim);
        let mut all = vec![("model.embed_tokens.weight".to_owned(), vec![self.vocab_size, hidden])];
        for layer in 0..self.n_layers {
            let mut add = |name: &str, shape: &[usize]| {
                all.push((format!("model.layers.{layer}.{name}"), shape.to_vec()));
            };
            add("input_layernorm.weight", &[hidden]);
            for (name, out) in [("q_proj", queries), ("k_proj", keys), ("v_proj", keys)] {
                add(&format!("self_attn.{name}.weight"), &[out, hidden]);
                if self.has_qkv_bias {
                    add(&format!("self_attn.{name}.bias"), &[out]);
                }
            }
            if self.family == Family::Qwen3 {
                add("self_attn.q_norm.weight", &[self.head_dim]);
                add("self_attn.k_norm.weight", &[self.head_dim]);
            }
            add("self_attn.o_proj.weight", &[hidden, queries]);
            if self.has_output_bias {
                add("self_attn.o_proj.bias", &[hidden]);
            }
            add("post_attention_layernorm.weight", &[hidden]);
            let inner = self.intermediate_size;
            for (name, out, input) in
                [("gate_proj", inner, hidden), ("up_proj", inner, hidden), ("down_proj", hidden, inner)]
            {
                add(&format!("mlp.{name}.weight"), &[out, input]);
                if self.has_mlp_bias {
                    add(&format!("mlp.{name}.bias"), &[out]);
                }
            }
        }
        all.push(("model.norm.weight".to_owned(), vec![hidden]));
        if !self.has_tied_embeddings {
            all.push(("lm_head.weight".to_owned(), vec![self.vocab_size, hidden]));
        }
        all
    }

    /// The number of parameters.
    pub fn n_parameters(&self) -> usize {
        self.parameters().iter().map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }
}

fn family(config: &Map<String, Value>) -> Result<Family, TrainError> {
    match config.get("model_type").and_then(Value::as_str) {
        Some("llama") => Ok(Family::Llama),
        Some("qwen2") => Ok(Family::Qwen2),
        Some("qwen3") => Ok(Family::Qwen3),
        Some(other) => {
            Err(TrainError::model("model_type", format!("{other} is not one of llama, qwen2 and qwen3")))
        }
        None => Err(TrainError::model("model_type", "not found")),
    }
}

/// True for a value of a key that changes nothing.
type IsNeutral = fn(&Value) -> bool;

/// Keys of other families and of variants that change the arithmetic, with the values that do not.
const VARIANTS: [(&str, IsNeutral, &str); 22] = [
    ("hidden_act", is_silu, "an activation other than silu is not implemented"),
    ("hidden_activation", is_silu, "an activation other than silu is not implemented"),
    ("use_sliding_window", is_off, "attention with a window is not implemented"),
    ("dual_chunk_attention_config", is_null, "attention in chunks is not implemented"),
    ("is_causal", is_on, "attention to later tokens is not implemented"),
    ("use_bidirectional_attention", is_off, "attention to later tokens is not implemented"),
    ("attn_logit_softcapping", is_null, "a soft cap of scores is not implemented"),
    ("final_logit_softcapping", is_null, "a soft cap of scores is not implemented"),
    ("query_pre_attn_scalar", is_null, "scores of attention with another scale are not implemented"),
    ("attention_multiplier", is_null, "scores of attention with another scale are not implemented"),
    ("embedding_multiplier", is_one, "embeddings with a factor are not implemented"),
    ("scale_emb", is_one, "embeddings with a factor are not implemented"),
    ("residual_multiplier", is_one, "residuals with a factor are not implemented"),
    ("scale_depth", is_null, "residuals with a factor are not implemented"),
    ("logits_scaling", is_one, "scores with a factor are not implemented"),
    ("logit_scale", is_one, "scores with a factor are not implemented"),
    ("clip_qkv", is_null, "clipped queries, keys and values are not implemented"),
    ("rope_local_base_freq", is_null, "rotations per layer type are not implemented"),
    ("no_rope_layers", is_ones, "layers without rotations are not implemented"),
    ("num_local_experts", is_off, "layers of experts are not implemented"),
    ("num_experts", is_off, "layers of experts are not implemented"),
    (
        "quantization_config",
        is_null,
        "quantized safetensors are not read; take the original weights, or a GGUF file",
    ),
];

fn is_null(value: &Value) -> bool {
    value.is_null()
}

fn is_silu(value: &Value) -> bool {
    value.is_null() || matches!(value.as_str(), Some("silu" | "swish"))
}

fn is_off(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(false)) || value.as_u64().is_some_and(|number| number == 0)
}

fn is_on(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(true))
}

fn is_one(value: &Value) -> bool {
    value.is_null() || value.as_f64() == Some(1.0)
}

fn is_ones(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(|values| values.iter().all(is_one))
}

/// Variants that would give other numbers without a word.
fn refuse_variants(config: &Map<String, Value>) -> Result<(), TrainError> {
    for (key, is_neutral, fault) in VARIANTS {
        if let Some(value) = config.get(key).filter(|value| !is_neutral(value)) {
            // A configuration of a quantization is long.
            let value = Some(value).filter(|value| !value.is_object()).map(|value| format!("{value}: "));
            return Err(TrainError::model(key, format!("{}{fault}", value.unwrap_or_default())));
        }
    }
    let windowed = |kinds: &Value| {
        let is_whole = |kind: &Value| kind.as_str() == Some("full_attention");
        kinds.as_array().is_none_or(|kinds| !kinds.iter().all(is_whole))
    };
    if config.get("layer_types").filter(|kinds| !kinds.is_null()).is_some_and(windowed) {
        return Err(TrainError::model("layer_types", "layers without full attention are not implemented"));
    }
    let rotations = config.get("rope_parameters").and_then(Value::as_object);
    if rotations.is_some_and(|settings| settings.values().any(Value::is_object)) {
        return Err(TrainError::model("rope_parameters", "rotations per layer type are not implemented"));
    }
    let parts =
        [config.get("partial_rotary_factor"), rotations.and_then(|keys| keys.get("partial_rotary_factor"))];
    if parts.into_iter().flatten().any(|part| !part.is_null() && part.as_f64() != Some(1.0)) {
        return Err(TrainError::model(
            "partial_rotary_factor",
            "rotations of a part of a head are not implemented",
        ));
    }
    for key in ["rope_scaling", "rope_parameters"] {
        let Some(settings) = config.get(key).filter(|settings| !settings.is_null()) else { continue };
        let Some(settings) = settings.as_object() else {
            return Err(TrainError::model(key, format!("{settings} is not an object")));
        };
        let has_type = settings.contains_key("rope_type") || settings.contains_key("type");
        if !has_type && settings.get("factor").is_some_and(|factor| !is_one(factor)) {
            return Err(TrainError::model(key, "has a `factor` and no `rope_type`"));
        }
        let kind = settings.get("rope_type").or_else(|| settings.get("type")).and_then(Value::as_str);
        if let Some(kind) = kind.filter(|kind| *kind != "default") {
            return Err(TrainError::model(
                "rope_type",
                format!("rotations of type {kind} are not implemented"),
            ));
        }
    }
    Ok(())
}

fn rope_theta(config: &Map<String, Value>) -> Result<f64, TrainError> {
    const DEFAULT: f64 = 10_000.0;
    let nested = config.get("rope_parameters").and_then(Value::as_object).map(Keys);
    match nested {
        Some(keys) if keys.0.contains_key("rope_theta") => keys.number("rope_theta", DEFAULT),
        _ => Keys(config).number("rope_theta", DEFAULT),
    }
}

fn eos_tokens(config: &Map<String, Value>) -> Result<Vec<u32>, TrainError> {
    let one = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let found = match config.get("eos_token_id") {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(ids)) => ids.iter().map(one).collect(),
        Some(id) => one(id).map(|id| vec![id]),
    };
    found.ok_or_else(|| TrainError::model("eos_token_id", "not a token id or a list of them"))
}

/// Typed access to the keys of a configuration.
struct Keys<'a>(&'a Map<String, Value>);

impl Keys<'_> {
    fn size(&self, key: &str) -> Result<usize, TrainError> {
        match self.0.get(key) {
            None | Some(Value::Null) => Err(TrainError::model(key, "not found")),
            Some(value) => match value.as_u64().filter(|size| (1..=MAX_SIZE).contains(size)) {
                Some(size) => Ok(usize::try_from(size).unwrap_or(usize::MAX)),
                None => {
                    Err(TrainError::model(key, format!("{value} is not a size between 1 and {MAX_SIZE}")))
                }
            },
        }
    }

    fn size_or(&self, key: &str, default: usize) -> Result<usize, TrainError> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(_) => self.size(key),
        }
    }

    fn number(&self, key: &str, default: f64) -> Result<f64, TrainError> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => value
                .as_f64()
                .filter(|number| *number > 0.0)
                .ok_or_else(|| TrainError::model(key, format!("{value} is not a positive number"))),
        }
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool, TrainError> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => {
                value.as_bool().ok_or_else(|| TrainError::model(key, format!("{value} is not true or false")))
            }
        }
    }
}
