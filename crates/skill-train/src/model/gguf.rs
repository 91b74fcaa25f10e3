//! GGUF files of the three families: dequantized once to f32, or with matrices that stay in their blocks.
//!
//! The library reads the container and the quantized blocks. Names and configuration keys are those of llama.cpp. Its
//! converter reorders the rows of Llama's query and key matrices for another form of the rotation; they are put back.

use std::borrow::Cow;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use candle_core::Device;
use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::{QStorage, QTensor};

use super::frozen::FrozenMatrix;
use super::quantized::QuantizedMatrix;
use super::tensor::Floats;
use super::{Decoder, Stored, tensor};
use crate::error::{TensorFault, TrainError};
use crate::model_config::{Family, ModelConfig};
use crate::model_file::open_gguf;
use crate::weights::HostTensor;

type Result<T> = std::result::Result<T, TrainError>;

/// The longest list that is accepted in a file's metadata: vocabularies have up to 300,000 entries.
const MAX_VOCABULARY: usize = 1 << 24;

/// A GGUF file whose header was read.
struct GgufFile<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    content: Content,
}

impl Decoder {
    /// Reads a GGUF file of the Llama, Qwen2 or Qwen3 family and dequantizes it, for training and for inference in
    /// f32: four bytes for each parameter.
    ///
    /// # Errors
    /// [`TrainError::File`] for a file that is cut off or is not a GGUF file, [`TrainError::Model`] for another
    /// architecture or a missing key, [`TrainError::Tensor`] for a tensor that is missing, has another shape, a
    /// quantization that is not read or a value that is not finite.
    pub fn open_gguf(path: &Path) -> Result<Self> {
        let mut file = GgufFile::open(path)?;
        let config = file.config()?;
        let heads = reordered_heads(&config);
        Self::build(config, |name, shape| {
            let values = file.floats(name, shape)?;
            let values = match heads(name) {
                Some(n_heads) => restore_rows(&values, n_heads, shape),
                None => values,
            };
            Ok(HostTensor { shape: shape.to_vec(), values })
        })
    }

    /// Reads a GGUF file and keeps its quantized matrices as they are: a fraction of the memory, for models that answer.
    /// Norms, biases and matrices of floats are kept in f32.
    ///
    /// Such a model is not trained: whatever needs the values of its weights is [`TrainError::Model`].
    ///
    /// # Errors
    /// As [`Decoder::open_gguf`].
    pub fn open_gguf_quantized(path: &Path) -> Result<Self> {
        let mut file = GgufFile::open(path)?;
        let config = file.config()?;
        let heads = reordered_heads(&config);
        let is_tied = config.has_tied_embeddings;
        Self::build_from(config, |name, shape| {
            let is_factor = is_tied || name != "model.embed_tokens.weight";
            file.stored(name, shape, heads(name), |read| {
                Ok(match QuantizedMatrix::of(read, is_factor)? {
                    Some(matrix) => (matrix.first_not_finite()?, Some(Stored::Quantized(matrix))),
                    None => (None, None),
                })
            })
        })
    }

    /// Reads a GGUF file whose matrices are not trained, as a base for an adapter: they are kept as the file has them,
    /// and all results are those of [`Decoder::open_gguf`].
    ///
    /// # Errors
    /// As [`Decoder::open_gguf`].
    pub fn open_gguf_frozen(path: &Path) -> Result<Self> {
        let mut file = GgufFile::open(path)?;
        let config = file.config()?;
        let heads = reordered_heads(&config);
        Self::build_from(config, |name, shape| {
            file.stored(name, shape, heads(name), |read| {
                let read = Arc::new(read);
                let matrix = match FrozenMatrix::of_blocks(Arc::clone(&read)) {
                    Some(matrix) => Some(matrix),
                    None => FrozenMatrix::of_floats(&read.dequantize(&Device::Cpu)?)?,
                };
                let Some(matrix) = matrix else { return Ok((None, None)) };
                let floats = matrix.floats()?;
                let not_finite = Floats::of(&floats)?.slice()?.iter().position(|value| !value.is_finite());
                Ok((not_finite, Some(Stored::Frozen(matrix))))
            })
        })
    }
}

/// The number of heads of a matrix whose rows the converter of llama.cpp has reordered.
fn reordered_heads(config: &ModelConfig) -> impl Fn(&str) -> Option<usize> + use<> {
    let (family, n_heads, n_kv_heads) = (config.family, config.n_heads, config.n_kv_heads);
    move |name| match (family, name) {
        (Family::Llama, name) if name.contains("q_proj") => Some(n_heads),
        (Family::Llama, name) if name.contains("k_proj") => Some(n_kv_heads),
        _ => None,
    }
}

impl Decoder {
    /// The configuration of a GGUF file, from its header alone.
    ///
    /// # Errors
    /// [`TrainError::File`] and [`TrainError::Model`] as [`Decoder::open_gguf`].
    pub(crate) fn gguf_config(path: &Path) -> Result<ModelConfig> {
        GgufFile::open(path)?.config()
    }
}

/// From the order of llama.cpp (pairs of the rotation side by side) to that of published checkpoints (first halves of
/// all pairs, then second halves), within each head. Rows are of values, or of the bytes of quantized blocks.
fn restore_rows<T: Copy>(values: &[T], n_heads: usize, shape: &[usize]) -> Vec<T> {
    let n_rows = shape.first().copied().unwrap_or(0);
    let width = (values.len() / n_rows.max(1)).max(1);
    let head = (n_rows / n_heads.max(1)).max(1);
    let mut output = Vec::with_capacity(values.len());
    for row in 0..n_rows {
        let (first, row) = (row - row % head, row % head);
        let (half, pair) = (row / (head / 2).max(1), row % (head / 2).max(1));
        let source = first + 2 * pair + half;
        output.extend_from_slice(values.get(source * width..(source + 1) * width).unwrap_or_default());
    }
    output
}

/// The name of a parameter in GGUF files.
fn gguf_name(name: &str) -> String {
    let Some(rest) = name.strip_prefix("model.layers.") else {
        return match name {
            "model.embed_tokens.weight" => "token_embd.weight",
            "model.norm.weight" => "output_norm.weight",
            "lm_head.weight" => "output.weight",
            other => other,
        }
        .to_owned();
    };
    let (index, part) = rest.split_once('.').unwrap_or((rest, ""));
    let (part, kind) = part.rsplit_once('.').unwrap_or((part, ""));
    let part = match part {
        "input_layernorm" => "attn_norm",
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "self_attn.q_norm" => "attn_q_norm",
        "self_attn.k_norm" => "attn_k_norm",
        "post_attention_layernorm" => "ffn_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        other => other,
    };
    format!("blk.{index}.{part}.{kind}")
}

/// Keys behind the architecture's name that change the arithmetic, with the value that does not.
const GGUF_VARIANTS: [(&str, f64); 9] = [
    ("attention.sliding_window", 0.0),
    ("attention.scale", 0.0),
    ("attn_logit_softcapping", 0.0),
    ("final_logit_softcapping", 0.0),
    ("logit_scale", 1.0),
    ("residual_scale", 1.0),
    ("embedding_scale", 1.0),
    ("expert_count", 0.0),
    ("attention.clamp_kqv", 0.0),
];

impl<'a> GgufFile<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        let (reader, content) = open_gguf(path)?;
        let file = Self { path, reader, content };
        match file.number("split.count") {
            Some(count) if count > 1 => {
                let number = file.number("split.no").unwrap_or_default() + 1;
                let fault = format!(
                    "file {number} of {count} of a model: join them (`llama-gguf-split --merge`), and name the joined file"
                );
                Err(TrainError::file(path, fault))
            }
            _ => Ok(file),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.content.tensor_infos.contains_key(&gguf_name(name))
    }

    fn config(&self) -> Result<ModelConfig> {
        let architecture = match self.content.metadata.get("general.architecture") {
            Some(Value::String(name)) => name.clone(),
            _ => return Err(TrainError::model("general.architecture", "not found")),
        };
        let key = |name: &str| format!("{architecture}.{name}");
        let shape = self.content.tensor_infos.get("token_embd.weight").map(|info| info.shape.dims().to_vec());
        let vocab_size =
            shape.and_then(|shape| shape.first().copied()).filter(|size| *size <= MAX_VOCABULARY);
        let refused = GGUF_VARIANTS.into_iter().find(|(name, neutral)| {
            let number = self.number(&key(name)).map(|number| number as f64);
            number.or_else(|| self.float(&key(name))).is_some_and(|number| number != *neutral)
        });
        if let Some((name, _)) = refused {
            return Err(TrainError::model(key(name), "is not implemented"));
        }
        let rotated = self.number(&key("rope.dimension_count")).zip(self.head_dim(&architecture));
        if let Some((rotated, head_dim)) = rotated.filter(|(rotated, head_dim)| rotated != head_dim) {
            let fault = format!("{rotated} of {head_dim}: rotations of a part of a head are not implemented");
            return Err(TrainError::model(key("rope.dimension_count"), fault));
        }
        let scaling = match self.content.metadata.get(&key("rope.scaling.type")) {
            Some(Value::String(kind)) if kind != "none" => Some(kind.as_str()),
            _ if self.content.tensor_infos.contains_key("rope_freqs.weight") => Some("llama3"),
            _ => None,
        };
        let config = serde_json::json!({
            "model_type": architecture,
            "vocab_size": vocab_size,
            "hidden_size": self.number(&key("embedding_length")),
            "intermediate_size": self.number(&key("feed_forward_length")),
            "num_hidden_layers": self.number(&key("block_count")),
            "num_attention_heads": self.number(&key("attention.head_count")),
            "num_key_value_heads": self.number(&key("attention.head_count_kv")),
            "head_dim": self.number(&key("attention.key_length")),
            "max_position_embeddings": self.number(&key("context_length")),
            "rms_norm_eps": self.float(&key("attention.layer_norm_rms_epsilon")),
            "rope_theta": self.float(&key("rope.freq_base")),
            "rope_scaling": scaling.map(|kind| serde_json::json!({ "rope_type": kind })),
            "tie_word_embeddings": !self.has("lm_head.weight"),
            "attention_bias": architecture == "llama" && self.has("model.layers.0.self_attn.q_proj.bias"),
            "mlp_bias": self.has("model.layers.0.mlp.gate_proj.bias"),
            "eos_token_id": self.number("tokenizer.ggml.eos_token_id"),
        });
        ModelConfig::from_json(&config.to_string())
    }

    /// The width of a head, where the file tells it.
    fn head_dim(&self, architecture: &str) -> Option<u64> {
        let number = |name: &str| self.number(&format!("{architecture}.{name}"));
        let derived = || number("embedding_length")?.checked_div(number("attention.head_count")?);
        number("attention.key_length").or_else(derived)
    }

    fn number(&self, key: &str) -> Option<u64> {
        match self.content.metadata.get(key)? {
            Value::U8(number) => Some(u64::from(*number)),
            Value::U16(number) => Some(u64::from(*number)),
            Value::U32(number) => Some(u64::from(*number)),
            Value::U64(number) => Some(*number),
            Value::I32(number) => u64::try_from(*number).ok(),
            Value::I64(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// A float with the shortest digits that mean it, so that 1e-5 stays 1e-5 in f64.
    fn float(&self, key: &str) -> Option<f64> {
        match self.content.metadata.get(key)? {
            Value::F32(number) => number.to_string().parse().ok(),
            Value::F64(number) => Some(*number),
            _ => None,
        }
    }

    fn fault(&self, name: &str, fault: TensorFault) -> TrainError {
        TrainError::Tensor { path: self.path.to_path_buf(), tensor: gguf_name(name), fault }
    }

    /// A tensor as the file has it, with the shape that is expected.
    fn read(&mut self, name: &str, shape: &[usize]) -> Result<QTensor> {
        let gguf = gguf_name(name);
        let found = self.content.tensor_infos.get(&gguf);
        let found = found.ok_or_else(|| self.fault(name, TensorFault::Missing))?;
        if found.shape.dims() != shape {
            let found = found.shape.dims().to_vec();
            return Err(self.fault(name, TensorFault::Shape { expected: shape.to_vec(), found }));
        }
        let read = self.content.tensor(&mut self.reader, &gguf, &Device::Cpu);
        read.map_err(|error| TrainError::file(self.path, format!("tensor {gguf}: {error}")))
    }

    fn floats(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let values = tensor::values(&self.read(name, shape)?.dequantize(&Device::Cpu)?)?;
        match values.iter().position(|value| !value.is_finite()) {
            Some(index) => Err(self.fault(name, TensorFault::NotFinite { index })),
            None => Ok(values),
        }
    }

    /// A parameter that is not trained; the rows of reordered heads are put back. `keep` gives the form in which a matrix
    /// is kept, if it is another than f32, with the index of its first value that is not finite.
    fn stored(
        &mut self,
        name: &str,
        shape: &[usize],
        heads: Option<usize>,
        keep: impl Fn(QTensor) -> Result<(Option<usize>, Option<Stored>)>,
    ) -> Result<Stored> {
        if let [_, _] = shape {
            let mut read = self.read(name, shape)?;
            if let Some(n_heads) = heads {
                let rows = restore_rows(&read.data()?, n_heads, shape);
                let storage = QStorage::from_data(Cow::Owned(rows), &Device::Cpu, read.dtype())?;
                read = QTensor::new(storage, shape)?;
            }
            match keep(read)? {
                (Some(index), _) => return Err(self.fault(name, TensorFault::NotFinite { index })),
                (None, Some(stored)) => return Ok(stored),
                (None, None) => {}
            }
        }
        let values = self.floats(name, shape)?;
        let values = match heads {
            Some(n_heads) => restore_rows(&values, n_heads, shape),
            None => values,
        };
        Ok(Stored::Floats(HostTensor { shape: shape.to_vec(), values }))
    }
}
