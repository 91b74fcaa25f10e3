//! Embeddings of the dialect: `POST {base_url}/embeddings`, as OpenAI has it and vLLM, llama.cpp, Ollama, TEI and others
//! copy it.
//!
//! One call is one request of at most [`OpenAiEmbeddingsConfig::max_texts`] texts; splitting and repeating are the
//! business of layers above.

use crate::call::CallCtx;
use crate::chat::ModelId;
use crate::embedding::{EmbeddingModel, EmbeddingReply, EmbeddingRequest};
use crate::error::{LengthSource, LlmError, wrong};
use crate::http::{self, Body, Connection, Fault, Field, Server, check_model, own_transport};
use crate::secret::ApiKey;
use crate::transport::Transport;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use skill_core::Usage;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most texts of one request, unless the configuration says otherwise.
const DEFAULT_MAX_TEXTS: usize = 64;
/// The parameters that have a setting of their own or are the request itself.
const OWN_KEYS: [&str; 3] = ["model", "input", "dimensions"];
/// About how many bytes a body has around its texts.
const BYTES_AROUND: usize = 256;

/// The settings of an embedding model whose server speaks the dialect.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenAiEmbeddingsConfig {
    /// Where `/embeddings` is found.
    pub server: Server,
    /// The model's name at the provider.
    pub model: String,
    /// The length of the vectors that is requested, for models that offer several; `None` leaves it to the model.
    pub dimensions: Option<usize>,
    /// The most texts of one request; 64 by default, at least 1.
    pub max_texts: usize,
    /// Further parameters of the body; `encoding_format` is `float` unless it is set here.
    pub extra_body: Map<String, Value>,
}

impl OpenAiEmbeddingsConfig {
    /// A model at an address, without a key, with the defaults of this crate.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            server: Server::new(base_url),
            model: model.into(),
            dimensions: None,
            max_texts: DEFAULT_MAX_TEXTS,
            extra_body: Map::new(),
        }
    }

    /// The same with a key that is sent as `Authorization: Bearer`.
    #[must_use]
    pub fn with_key(mut self, key: ApiKey) -> Self {
        self.server.key = http::KeySource::Key(key);
        self
    }

    /// The same with a requested length of the vectors.
    #[must_use]
    pub fn with_dimensions(self, dimensions: usize) -> Self {
        Self { dimensions: Some(dimensions), ..self }
    }

    /// The same with at most so many texts in one request.
    #[must_use]
    pub fn with_max_texts(self, max_texts: usize) -> Self {
        Self { max_texts, ..self }
    }

    /// The same with a further parameter of the body.
    #[must_use]
    pub fn with_extra(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extra_body.insert(name.into(), value.into());
        self
    }

    fn check(&self) -> Result<(), LlmError> {
        check_model(&self.model, &self.extra_body, &OWN_KEYS)?;
        if self.max_texts == 0 {
            return Err(wrong("`max_texts` is 0; a request needs at least one text"));
        }
        if self.dimensions == Some(0) {
            return Err(wrong("`dimensions` is 0; a vector needs at least one number"));
        }
        Ok(())
    }
}

/// An embedding model behind a server that speaks the dialect.
pub struct OpenAiEmbeddings {
    id: ModelId,
    config: OpenAiEmbeddingsConfig,
    connection: Connection,
    /// The length of the vectors of its first reply; 0 before it.
    length: AtomicUsize,
}

impl OpenAiEmbeddings {
    /// A model with connections of its own.
    ///
    /// # Errors
    ///
    /// [`LlmError::Configuration`] if the configuration cannot work, or no HTTP client can be made.
    pub fn new(config: OpenAiEmbeddingsConfig) -> Result<Self, LlmError> {
        Self::with_transport(config, own_transport()?)
    }

    /// A model on a transport that is shared, or that needs no network.
    ///
    /// # Errors
    ///
    /// [`LlmError::Configuration`] if the configuration cannot work.
    pub fn with_transport(
        config: OpenAiEmbeddingsConfig,
        transport: Arc<dyn Transport>,
    ) -> Result<Self, LlmError> {
        config.check()?;
        let connection = Connection::new(config.server.clone(), &["embeddings"], &[], transport)?;
        let id = connection.model_id(&config.model);
        Ok(Self { id, config, connection, length: AtomicUsize::new(0) })
    }

    /// Compares the length of a reply's vectors with the configured one and that of earlier replies.
    fn check_length(&self, found: usize) -> Result<(), LlmError> {
        let wrong_length = |expected, expected_by| LlmError::VectorLength {
            provider: self.id.provider.clone(),
            model: self.id.model.clone(),
            found,
            expected,
            expected_by,
        };
        if let Some(expected) = self.config.dimensions.filter(|expected| *expected != found) {
            return Err(wrong_length(expected, LengthSource::Configured));
        }
        match self.length.compare_exchange(0, found, Ordering::Relaxed, Ordering::Relaxed) {
            Err(expected) if expected != found => Err(wrong_length(expected, LengthSource::EarlierReply)),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn body(&self, request: &EmbeddingRequest) -> Result<Vec<u8>, LlmError> {
        let mut body = Body::new(&self.config.extra_body);
        body.push("model", Field::Text(&self.config.model));
        body.push("input", Field::Content(request.texts.as_slice()));
        body.json("dimensions", self.config.dimensions.map(Value::from));
        body.push("encoding_format", Field::Text("float"));
        let n_bytes: usize = request.texts.iter().map(|text| text.len() + text.len() / 16 + 3).sum();
        body.bytes_of_about(n_bytes + BYTES_AROUND)
    }
}

#[async_trait]
impl EmbeddingModel for OpenAiEmbeddings {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn parameters(&self) -> Value {
        let config = &self.config;
        // `kind` tells it from a chat model of this name.
        json!({"kind": "embedding", "dimensions": config.dimensions, "extra_body": config.extra_body})
    }

    fn max_texts(&self) -> usize {
        self.config.max_texts
    }

    async fn embed(&self, request: &EmbeddingRequest, call: &CallCtx) -> Result<EmbeddingReply, LlmError> {
        let n_texts = request.texts.len();
        if n_texts == 0 {
            return Ok(EmbeddingReply::default());
        }
        let unsent = |_: &LlmError| call.attempts.note_unsent();
        request.check().inspect_err(unsent)?;
        if n_texts > self.config.max_texts {
            let most = self.config.max_texts;
            let refused = wrong(format!("a request has {n_texts} texts, and `max_texts` allows {most}"));
            return Err(refused).inspect_err(unsent);
        }
        let body = self.body(request).inspect_err(unsent)?;
        let reply = self.connection.ask(body, call, |body| read(body, n_texts)).await?;
        self.check_length(reply.vectors.first().map_or(0, Vec::len))?;
        Ok(reply)
    }
}

impl fmt::Debug for OpenAiEmbeddings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiEmbeddings")
            .field("id", &self.id)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Reads the body of a reply to this many texts.
fn read(body: &Value, n_texts: usize) -> Result<EmbeddingReply, Fault> {
    let data = match body.get("data") {
        Some(Value::Array(data)) => data,
        Some(Value::Null) | None => return Err("it has no `data`".to_owned().into()),
        Some(_) => return Err("`data` is not a list".to_owned().into()),
    };
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; n_texts];
    for (place, item) in data.iter().enumerate() {
        let index = item.get("index").and_then(Value::as_u64);
        let index = index.ok_or_else(|| format!("`data[{place}]` has no `index`"))?;
        let slot = usize::try_from(index).ok().and_then(|index| vectors.get_mut(index));
        let slot = slot.ok_or_else(|| format!("`data[{place}]` has the index {index} of {n_texts} texts"))?;
        let vector =
            vector(item.get("embedding")).map_err(|what| format!("`data[{place}].embedding` {what}"))?;
        if slot.replace(vector).is_some() {
            return Err(format!("two vectors have the index {index}").into());
        }
    }
    let reply = EmbeddingReply::new(vectors.into_iter().flatten().collect(), usage(body.get("usage")));
    reply.check(n_texts)?;
    Ok(reply)
}

/// A vector as a list of numbers, or as the base 64 of little-endian floats; the error is a fragment.
fn vector(embedding: Option<&Value>) -> Result<Vec<f32>, String> {
    match embedding {
        Some(Value::Array(numbers)) => {
            let number = |(at, number): (usize, &Value)| {
                // The numbers of a vector are floats of 32 bits, however many digits they are written with.
                number.as_f64().map(|number| number as f32).ok_or_else(|| format!("has no number at {at}"))
            };
            numbers.iter().enumerate().map(number).collect()
        }
        Some(Value::String(text)) => {
            let bytes = STANDARD.decode(text).map_err(|_| "is not base 64".to_owned())?;
            let (numbers, rest) = bytes.as_chunks::<4>();
            if !rest.is_empty() {
                return Err(format!("has {} bytes, which is not a whole number of floats", bytes.len()));
            }
            Ok(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
        }
        Some(Value::Null) | None => Err("is missing".to_owned()),
        Some(_) => Err("is neither a list nor base 64".to_owned()),
    }
}

/// The tokens of the texts; some servers give the total alone.
fn usage(usage: Option<&Value>) -> Usage {
    let tokens = |name: &str| usage.and_then(|usage| usage.get(name)).and_then(Value::as_u64);
    let input = tokens("prompt_tokens").filter(|tokens| *tokens > 0).or_else(|| tokens("total_tokens"));
    Usage { input: input.unwrap_or(0), ..Usage::default() }
}
