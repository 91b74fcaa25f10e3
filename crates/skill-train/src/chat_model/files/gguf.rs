//! The header of a GGUF file: configuration, tokenizer, chat template, and the types of its tensors.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::{Content, TensorInfo, Value};
use serde_json::Map;

use super::{Base, Result, WeightFormat, today};
use crate::chat::ChatTemplate;
use crate::error::TrainError;
use crate::model::{Decoder, kept_type};
use crate::model_file::open_gguf;
use crate::tokenizer::{GgufVocabulary, JsonTokenizer};

/// Names of special tokens in templates, with the keys of their ids.
const NAMED_TOKENS: [(&str, &str); 4] = [
    ("bos_token", "tokenizer.ggml.bos_token_id"),
    ("eos_token", "tokenizer.ggml.eos_token_id"),
    ("unk_token", "tokenizer.ggml.unknown_token_id"),
    ("pad_token", "tokenizer.ggml.padding_token_id"),
];
/// Keys of tokens that end a reply.
const END_KEYS: [&str; 2] = ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"];

/// Reads the header.
pub(super) fn open(path: &Path) -> Result<Base> {
    let config = Decoder::gguf_config(path)?;
    let (reader, content) = open_gguf(path)?;
    let n_bytes = reader.get_ref().metadata().map_err(|source| TrainError::io(path, source))?.len();
    check_length(path, &content, n_bytes)?;
    let metadata = Metadata { path, all: &content.metadata };
    let vocabulary = metadata.vocabulary()?;
    let tokenizer =
        JsonTokenizer::from_gguf(&vocabulary).map_err(|error| TrainError::file(path, error.to_string()))?;
    let template = metadata.template(&vocabulary)?;
    let mut element_types = BTreeMap::new();
    for info in content.tensor_infos.values() {
        *element_types.entry(format!("{:?}", info.ggml_dtype)).or_insert(0) += info.shape.elem_count() as u64;
    }
    Ok(Base {
        format: WeightFormat::Gguf,
        config,
        tokenizer,
        template,
        stop_tokens: END_KEYS.iter().filter_map(|key| metadata.id(key)).collect(),
        element_types,
        n_stored_bytes: content.tensor_infos.values().map(stored_bytes).fold(0, u64::saturating_add),
        files: vec![path.to_path_buf()],
    })
}

/// Bytes of a tensor in the memory of a model that answers.
///
/// Matrices that stay quantized take what they take in the file. Of some types the kernels keep a second copy that is
/// faster to read; its size is that of candle 0.11 on x86-64.
fn stored_bytes(info: &TensorInfo) -> u64 {
    const FLOAT: u64 = 4;
    /// Values of a block of the copy.
    const BLOCK: usize = 256;
    let n_values = info.shape.elem_count() as u64;
    let dtype = kept_type(info.ggml_dtype);
    let width = info.shape.dims().last().copied().unwrap_or(0);
    let is_float = matches!(dtype, GgmlDType::F32 | GgmlDType::F16 | GgmlDType::BF16);
    if info.shape.rank() != 2 || is_float || width % dtype.block_size().max(1) != 0 {
        return n_values.saturating_mul(FLOAT);
    }
    let bytes = n_values / (dtype.block_size() as u64).max(1) * dtype.type_size() as u64;
    let bytes_of_copied_block = match dtype {
        GgmlDType::Q4K if width % BLOCK == 0 => 192,
        GgmlDType::Q6K if width % BLOCK == 0 => 320,
        GgmlDType::Q8_0 if width % BLOCK == 0 => 272,
        _ => 0,
    };
    bytes.saturating_add(n_values / BLOCK as u64 * bytes_of_copied_block)
}

/// The file has room for all tensors that its header names.
fn check_length(path: &Path, content: &Content, n_bytes: u64) -> Result<()> {
    let end = |info: &TensorInfo| {
        let blocks = info.shape.elem_count() / info.ggml_dtype.block_size().max(1);
        let size = (blocks as u64).saturating_mul(info.ggml_dtype.type_size() as u64);
        content.tensor_data_offset.saturating_add(info.offset).saturating_add(size)
    };
    let needed = content.tensor_infos.values().map(end).max().unwrap_or(0);
    if needed <= n_bytes {
        return Ok(());
    }
    Err(TrainError::file(
        path,
        format!("cut off: its header describes {needed} bytes, the file has {n_bytes}"),
    ))
}

struct Metadata<'a> {
    path: &'a Path,
    all: &'a HashMap<String, Value>,
}

impl Metadata<'_> {
    fn bad(&self, fault: impl Into<String>) -> TrainError {
        TrainError::file(self.path, fault)
    }

    fn text(&self, key: &str) -> Option<&str> {
        match self.all.get(key)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    fn id(&self, key: &str) -> Option<u32> {
        match self.all.get(key)? {
            Value::U32(id) => Some(*id),
            Value::I32(id) => u32::try_from(*id).ok(),
            Value::U64(id) => u32::try_from(*id).ok(),
            Value::I64(id) => u32::try_from(*id).ok(),
            _ => None,
        }
    }

    fn texts(&self, key: &str) -> Result<Vec<String>> {
        let Some(Value::Array(values)) = self.all.get(key) else {
            return Err(self.bad(format!("its tokenizer lacks {key}")));
        };
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            _ => None,
        };
        let texts: Option<Vec<String>> = values.iter().map(text).collect();
        texts.ok_or_else(|| self.bad(format!("{key} is not a list of texts")))
    }

    fn vocabulary(&self) -> Result<GgufVocabulary> {
        let model = self.text("tokenizer.ggml.model");
        let model = model.ok_or_else(|| self.bad("it has no tokenizer (tokenizer.ggml.model)"))?;
        let tokens = self.texts("tokenizer.ggml.tokens")?;
        let token_types = match self.all.get("tokenizer.ggml.token_type") {
            Some(Value::Array(values)) => {
                let number = |value: &Value| match value {
                    Value::I32(number) => u32::try_from(*number).ok(),
                    Value::U32(number) => Some(*number),
                    _ => None,
                };
                let numbers: Option<Vec<u32>> = values.iter().map(number).collect();
                numbers.ok_or_else(|| self.bad("tokenizer.ggml.token_type is not a list of numbers"))?
            }
            // All tokens are normal ones.
            _ => vec![1; tokens.len()],
        };
        let pre = self.text("tokenizer.ggml.pre").unwrap_or("default").to_owned();
        let merges = if model == "gpt2" { self.texts("tokenizer.ggml.merges")? } else { Vec::new() };
        Ok(GgufVocabulary { model: model.to_owned(), pre, tokens, token_types, merges })
    }

    fn template(&self, vocabulary: &GgufVocabulary) -> Result<ChatTemplate> {
        let tokens = NAMED_TOKENS.iter().filter_map(|(name, key)| {
            let text = vocabulary.tokens.get(self.id(key)? as usize)?;
            Some(((*name).to_owned(), serde_json::Value::from(text.as_str())))
        });
        let source = self.text("tokenizer.chat_template").ok_or_else(|| {
            self.bad("it has no chat template (tokenizer.chat_template), so it is probably a base model: take the instruct version")
        })?;
        let tokens: Map<String, serde_json::Value> = tokens.collect();
        ChatTemplate::parse(source, tokens)
            .and_then(|template| template.tried(today()))
            .map_err(|error| self.bad(error.to_string()))
    }
}
