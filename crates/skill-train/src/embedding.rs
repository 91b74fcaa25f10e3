//! Local embeddings: an encoder of the BERT family whose token states are averaged and normalised, such as
//! all-MiniLM-L6-v2.
//!
//! [`LocalEmbedding`] reads a folder as sentence-transformers publishes it. Each text is computed by itself, so that its
//! vector does not depend on the others of a request; vectors have length 1.

mod encoder;

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use skill_core::{Usage, python_json};
use skill_llm::{CallCtx, EmbeddingModel, EmbeddingReply, EmbeddingRequest, LlmError, ModelId};
use tokenizers::{Tokenizer, TruncationParams};

use crate::chat_model::LOCAL_PROVIDER;
use crate::error::TrainError;
use crate::model_file::{self, read_text as read};
use crate::weights::WeightFiles;
use encoder::{Encoder, EncoderConfig};

type Result<T> = std::result::Result<T, TrainError>;

/// Tokens of a text at most where the folder does not say; longer texts are cut, as sentence-transformers does.
const DEFAULT_MAX_TOKENS: usize = 256;
const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
const SENTENCES: &str = "sentence_bert_config.json";
const POOLING: &str = "1_Pooling/config.json";
const REVISION_DIGITS: usize = 16;

/// An embedding model on this machine.
///
/// Opening reads headers and hashes the files; the weights are loaded with the first text.
#[derive(Clone)]
pub struct LocalEmbedding {
    id: ModelId,
    inner: Arc<Inner>,
}

struct Inner {
    folder: PathBuf,
    config: EncoderConfig,
    max_tokens: usize,
    tokenizer: Tokenizer,
    encoder: OnceLock<Encoder>,
}

impl std::fmt::Debug for LocalEmbedding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalEmbedding").field("id", &self.id).field("config", &self.inner.config).finish()
    }
}

impl LocalEmbedding {
    /// Opens a folder with `config.json`, safetensors and `tokenizer.json`; `sentence_bert_config.json` and
    /// `1_Pooling/config.json` are read where they exist.
    ///
    /// # Errors
    /// [`TrainError`] with the file and what is wrong with it: another family, another way of pooling, cut off.
    pub fn open(folder: &Path) -> Result<Self> {
        let config = EncoderConfig::from_json(&read(&folder.join(CONFIG))?)?;
        let max_tokens = max_tokens(folder, &config)?;
        refuse_other_pooling(folder)?;
        let path = folder.join(TOKENIZER);
        let unreadable = |message: String| TrainError::file(&path, message);
        let mut tokenizer =
            Tokenizer::from_str(&read(&path)?).map_err(|error| unreadable(error.to_string()))?;
        tokenizer.with_padding(None);
        let truncation = TruncationParams { max_length: max_tokens, ..TruncationParams::default() };
        tokenizer.with_truncation(Some(truncation)).map_err(|error| unreadable(error.to_string()))?;
        let weights = WeightFiles::open(folder)?;
        let mut hash = Sha256::new();
        for file in weights.paths().map(Path::to_path_buf).chain([folder.join(CONFIG), path.clone()]) {
            let bytes = std::fs::read(&file).map_err(|source| TrainError::io(&file, source))?;
            hash.update(Sha256::digest(bytes));
        }
        let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let revision: String = digits.chars().take(REVISION_DIGITS).collect();
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
        let name = absolute.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let id = ModelId::new(LOCAL_PROVIDER, name).with_revision(revision);
        let folder = folder.to_path_buf();
        let inner = Inner { folder, config, max_tokens, tokenizer, encoder: OnceLock::new() };
        Ok(Self { id, inner: Arc::new(inner) })
    }

    /// The length of its vectors.
    pub fn dimensions(&self) -> usize {
        self.inner.config.hidden_size
    }

    /// The vector of a text, of length 1, and the number of its tokens; longer texts are cut.
    ///
    /// # Errors
    /// [`TrainError`] for weights that cannot be read, and for a text that the tokenizer refuses.
    pub fn embed_text(&self, text: &str) -> Result<(Vec<f32>, usize)> {
        self.inner.embed(text)
    }
}

impl Inner {
    fn embed(&self, text: &str) -> Result<(Vec<f32>, usize)> {
        let encoded = self.tokenizer.encode(text, true);
        let encoded = encoded.map_err(|error| TrainError::request("texts", error.to_string()))?;
        let tokens = encoded.get_ids();
        let vector = self.encoder()?.embed(tokens)?;
        Ok((vector, tokens.len()))
    }

    fn encoder(&self) -> Result<&Encoder> {
        if let Some(encoder) = self.encoder.get() {
            return Ok(encoder);
        }
        let loaded = Encoder::load(self.config.clone(), &WeightFiles::open(&self.folder)?)?;
        Ok(self.encoder.get_or_init(|| loaded))
    }
}

/// A JSON file that need not exist.
fn optional(path: &Path) -> Result<Option<Value>> {
    let text = model_file::optional_text(path)?;
    let value = text.map(|text| python_json::read(&text));
    value.transpose().map_err(|error| TrainError::file(path, error.to_string()))
}

fn max_tokens(folder: &Path, config: &EncoderConfig) -> Result<usize> {
    let path = folder.join(SENTENCES);
    let asked = optional(&path)?.and_then(|value| value.get("max_seq_length")?.as_u64());
    let asked = asked.map_or(DEFAULT_MAX_TOKENS, |tokens| usize::try_from(tokens).unwrap_or(usize::MAX));
    // Two tokens are around every text.
    match asked.min(config.max_positions) {
        0..=2 => Err(TrainError::file(&path, "max_seq_length leaves no room for a text")),
        tokens => Ok(tokens),
    }
}

fn refuse_other_pooling(folder: &Path) -> Result<()> {
    let path = folder.join(POOLING);
    let Some(pooling) = optional(&path)? else { return Ok(()) };
    let is_on = |key: &str| pooling.get(key).and_then(Value::as_bool) == Some(true);
    let others = ["cls_token", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"];
    let other = others.iter().find(|mode| is_on(&format!("pooling_mode_{mode}")));
    match other {
        Some(mode) => {
            Err(TrainError::file(&path, format!("pooling_mode_{mode} is not implemented, mean is")))
        }
        None => Ok(()),
    }
}

#[async_trait]
impl EmbeddingModel for LocalEmbedding {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn parameters(&self) -> Value {
        json!({ "max_tokens": self.inner.max_tokens })
    }

    async fn embed(
        &self,
        request: &EmbeddingRequest,
        call: &CallCtx,
    ) -> std::result::Result<EmbeddingReply, LlmError> {
        if let Some(index) = request.texts.iter().position(|text| text.trim().is_empty()) {
            return Err(LlmError::EmptyText { index });
        }
        let mut vectors = Vec::with_capacity(request.texts.len());
        let mut usage = Usage::default();
        for text in &request.texts {
            if call.cancel.is_cancelled() {
                return Err(LlmError::Cancelled);
            }
            let (inner, text) = (Arc::clone(&self.inner), Arc::clone(text));
            let embedded = tokio::task::spawn_blocking(move || inner.embed(&text)).await;
            let failed =
                |message: String| LlmError::Configuration { message: format!("{}: {message}", self.id) };
            let (vector, n_tokens) = embedded
                .map_err(|error| failed(error.to_string()))?
                .map_err(|error| failed(skill_llm::error::with_causes(&error)))?;
            usage.input += n_tokens as u64;
            vectors.push(vector);
        }
        Ok(EmbeddingReply::new(vectors, usage))
    }
}
