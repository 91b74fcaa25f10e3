//! The files of a model: a GGUF file, or a folder as published checkpoints have it, with an adapter beside it.
//!
//! Opening reads headers, tokenizer and chat template, and no weights.

mod gguf;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};
use skill_core::python_json;

use crate::chat::ChatTemplate;
use crate::error::TrainError;
use crate::lora::{self, LoraConfig};
use crate::model::Decoder;
use crate::model_config::ModelConfig;
use crate::model_file::{self, optional_text, read_text};
use crate::tokenizer::{JsonTokenizer, TokenCodec as _};
use crate::weights::WeightFiles;

type Result<T> = std::result::Result<T, TrainError>;

/// Tokens that end a reply wherever a vocabulary has them as special tokens: files often name one of several.
const END_TOKENS: [&str; 8] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end|>",
    "<end_of_turn>",
    "</s>",
];
const CONFIG: &str = "config.json";
const GENERATION_CONFIG: &str = "generation_config.json";
const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const TEMPLATE: &str = "chat_template.jinja";
/// Hexadecimal digits of the hash that names weights.
const REVISION_DIGITS: usize = 16;

/// How the weights of a model are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WeightFormat {
    /// One GGUF file.
    Gguf,
    /// A folder with safetensors.
    Safetensors,
}

/// A model's files whose headers were read and whose weights were not.
#[derive(Debug)]
pub struct ModelFiles {
    pub(super) path: PathBuf,
    pub(super) adapter: Option<PathBuf>,
    pub(super) format: WeightFormat,
    pub(super) config: ModelConfig,
    pub(super) tokenizer: JsonTokenizer,
    pub(super) template: ChatTemplate,
    pub(super) stop_tokens: Vec<u32>,
    n_bytes: u64,
    /// Element types of tensors with the number of values that have them.
    element_types: BTreeMap<String, u64>,
    n_adapter_values: u64,
    /// See [`ModelFiles::n_weight_bytes`]; of GGUF files.
    n_stored_bytes: u64,
    revision: String,
}

/// Contents of a model's files, without its adapter.
struct Base {
    format: WeightFormat,
    config: ModelConfig,
    tokenizer: JsonTokenizer,
    template: ChatTemplate,
    /// Tokens that end a reply, as the files name them.
    stop_tokens: Vec<u32>,
    element_types: BTreeMap<String, u64>,
    /// Bytes of the weights of a GGUF file in memory.
    n_stored_bytes: u64,
    files: Vec<PathBuf>,
}

impl ModelFiles {
    /// Opens a GGUF file, or a folder with `config.json`, safetensors, `tokenizer.json` and a chat template; `adapter`
    /// is a folder as peft writes it.
    ///
    /// Reads all bytes once, for the hash that names the weights.
    ///
    /// # Errors
    /// [`TrainError`] with the file and what is wrong with it: not found, cut off, an unknown quantization, another
    /// family, no tokenizer, no chat template, an adapter that cannot be used.
    pub fn open(path: &Path, adapter: Option<&Path>) -> Result<Self> {
        let metadata = std::fs::metadata(path).map_err(|source| TrainError::io(path, source))?;
        let base = if metadata.is_dir() { open_folder(path)? } else { gguf::open(path)? };
        let Base {
            format,
            config,
            tokenizer,
            template,
            mut stop_tokens,
            element_types,
            n_stored_bytes,
            mut files,
        } = base;
        let special = tokenizer.special_tokens().iter();
        stop_tokens
            .extend(special.filter(|token| END_TOKENS.contains(&token.text.as_str())).map(|token| token.id));
        stop_tokens.sort_unstable();
        stop_tokens.dedup();
        if tokenizer.n_tokens() > config.vocab_size {
            let (tokens, rows) = (tokenizer.n_tokens(), config.vocab_size);
            let fault = format!("its tokenizer has {tokens} tokens, its weights have {rows}");
            return Err(TrainError::file(path, fault));
        }
        let mut n_adapter_values = 0;
        if let Some(folder) = adapter {
            LoraConfig::open(folder)?;
            let weights = folder.join(lora::WEIGHTS_FILE);
            n_adapter_values = WeightFiles::open_file(&weights)?.element_types().values().sum();
            files.extend([folder.join(lora::CONFIG_FILE), weights]);
        }
        let (revision, n_bytes) = revision(&files)?;
        Ok(Self {
            path: path.to_path_buf(),
            adapter: adapter.map(Path::to_path_buf),
            format,
            config,
            tokenizer,
            template,
            stop_tokens,
            n_bytes,
            element_types,
            n_adapter_values,
            n_stored_bytes,
            revision,
        })
    }

    /// The name of the file or folder, with that of the adapter behind a plus sign.
    pub fn name(&self) -> String {
        let name = |path: &Path| {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
            absolute.file_name().unwrap_or_default().to_string_lossy().into_owned()
        };
        match &self.adapter {
            Some(adapter) => format!("{}+{}", name(&self.path), name(adapter)),
            None => name(&self.path),
        }
    }

    /// The format of the weights.
    pub fn format(&self) -> WeightFormat {
        self.format
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &JsonTokenizer {
        &self.tokenizer
    }

    /// The chat template.
    pub fn template(&self) -> &ChatTemplate {
        &self.template
    }

    /// Tokens that end a reply.
    pub fn stop_tokens(&self) -> &[u32] {
        &self.stop_tokens
    }

    /// The shape of the model.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// A hash over the bytes of all files, those of the adapter included, in 16 hexadecimal digits.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// The size of all files in bytes.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// The element type that most weights have in the files, such as `Q4K` or `BF16`.
    pub fn quantization(&self) -> &str {
        let most = self.element_types.iter().max_by_key(|(_, n_values)| **n_values);
        most.map_or("none", |(name, _)| name.as_str())
    }

    /// Numbers of the adapter; 0 without one.
    pub(super) fn n_adapter_values(&self) -> u64 {
        self.n_adapter_values
    }

    /// Reads the weights of a model that answers: quantized matrices stay as they are.
    ///
    /// # Errors
    /// As [`Decoder::open`], [`Decoder::open_gguf_quantized`] and [`Decoder::attach_from`].
    pub fn load(&self) -> Result<Decoder> {
        self.load_by(Decoder::open_gguf_quantized, Decoder::open)
    }

    /// Reads the weights of a model that is trained: all in f32.
    ///
    /// # Errors
    /// As [`Decoder::open`], [`Decoder::open_gguf`] and [`Decoder::attach_from`].
    pub fn load_to_train(&self) -> Result<Decoder> {
        self.load_by(Decoder::open_gguf, Decoder::open)
    }

    /// Reads the weights of a model of which only an adapter is trained: matrices keep the bytes of their file where
    /// these say the same as f32, so that results are those of [`ModelFiles::load_to_train`].
    ///
    /// # Errors
    /// As [`ModelFiles::load_to_train`].
    pub fn load_to_adapt(&self) -> Result<Decoder> {
        self.load_by(Decoder::open_gguf_frozen, Decoder::open_frozen)
    }

    fn load_by(
        &self,
        open_gguf: fn(&Path) -> Result<Decoder>,
        open_folder: fn(&Path) -> Result<Decoder>,
    ) -> Result<Decoder> {
        let mut model = match self.format {
            WeightFormat::Gguf => open_gguf(&self.path)?,
            WeightFormat::Safetensors => open_folder(&self.path)?,
        };
        if let Some(adapter) = &self.adapter {
            model.attach_from(adapter)?;
        }
        Ok(model)
    }

    /// Bytes of the weights of [`ModelFiles::load_to_adapt`], as they are kept in memory; at most.
    pub fn n_frozen_bytes(&self) -> u64 {
        const FLOAT: u64 = 4;
        self.n_bytes.min((self.config.n_parameters() as u64).saturating_mul(FLOAT))
    }

    /// Bytes of the weights of a model that answers, as they are kept in memory; without its adapter.
    ///
    /// The kernels keep quantized matrices a second time, in the order in which they read them.
    pub fn n_weight_bytes(&self) -> u64 {
        const FLOAT: u64 = 4;
        match self.format {
            WeightFormat::Gguf => self.n_stored_bytes,
            WeightFormat::Safetensors => (self.config.n_parameters() as u64).saturating_mul(FLOAT),
        }
    }
}

fn open_folder(folder: &Path) -> Result<Base> {
    let config_path = folder.join(CONFIG);
    let config = ModelConfig::from_json(&read_text(&config_path)?)?;
    let weights = WeightFiles::open(folder)?;
    let tokenizer_path = folder.join(TOKENIZER);
    model_file::refuse_pointer(&tokenizer_path)?;
    let tokenizer = JsonTokenizer::from_file(&tokenizer_path)
        .map_err(|error| TrainError::file(&tokenizer_path, error.to_string()))?;
    let settings_path = folder.join(TOKENIZER_CONFIG);
    let template_path = folder.join(TEMPLATE);
    let settings = optional_text(&settings_path)?;
    let template_text = optional_text(&template_path)?;
    let place = if template_text.is_some() { &template_path } else { &settings_path };
    let template = ChatTemplate::from_files(settings.as_deref().unwrap_or("{}"), template_text.as_deref())
        .and_then(|template| template.tried(today()))
        .map_err(|error| TrainError::file(place, error.to_string()))?;
    let generation_path = folder.join(GENERATION_CONFIG);
    let generation = optional_text(&generation_path)?;
    let mut stop_tokens = config.eos_tokens.clone();
    if let Some(text) = &generation {
        stop_tokens.extend(end_tokens(&generation_path, text)?);
    }
    let mut files: Vec<PathBuf> = weights.paths().map(Path::to_path_buf).collect();
    files.extend([config_path, tokenizer_path]);
    let optional = [(settings_path, settings), (template_path, template_text), (generation_path, generation)];
    files.extend(optional.into_iter().filter_map(|(path, text)| text.map(|_| path)));
    Ok(Base {
        format: WeightFormat::Safetensors,
        config,
        tokenizer,
        template,
        stop_tokens,
        element_types: weights.element_types(),
        n_stored_bytes: 0,
        files,
    })
}

/// `eos_token_id` of a `generation_config.json`: a number or a list.
fn end_tokens(path: &Path, text: &str) -> Result<Vec<u32>> {
    let bad = |fault: String| TrainError::file(path, fault);
    let config: serde_json::Value = python_json::read(text).map_err(|error| bad(error.to_string()))?;
    let id = |value: &serde_json::Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let ids = match config.get("eos_token_id") {
        None | Some(serde_json::Value::Null) => Some(Vec::new()),
        Some(serde_json::Value::Array(ids)) => ids.iter().map(id).collect(),
        Some(one) => id(one).map(|id| vec![id]),
    };
    ids.ok_or_else(|| bad("eos_token_id is not a token id or a list of them".to_owned()))
}

/// The beginning of the day in UTC, in seconds since 1970: a template that writes the date writes the same all day.
fn today() -> i64 {
    const DAY: u64 = 24 * 60 * 60;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    i64::try_from(now / DAY * DAY).unwrap_or(0)
}

/// A hash over names, lengths and contents of files, and their size.
fn revision(files: &[PathBuf]) -> Result<(String, u64)> {
    const BUFFER: usize = 1 << 20;
    let mut hash = Sha256::new();
    let mut n_bytes = 0;
    let mut buffer = vec![0; BUFFER];
    for path in files {
        let mut of_file = Sha256::new();
        let mut file = File::open(path).map_err(|source| TrainError::io(path, source))?;
        loop {
            let n_read = file.read(&mut buffer).map_err(|source| TrainError::io(path, source))?;
            let Some(bytes) = buffer.get(..n_read).filter(|bytes| !bytes.is_empty()) else { break };
            of_file.update(bytes);
            n_bytes += n_read as u64;
        }
        hash.update(of_file.finalize());
    }
    let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((digits.chars().take(REVISION_DIGITS).collect(), n_bytes))
}
