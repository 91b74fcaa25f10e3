//! From `[tinker]` to a back end of training loops.

use crate::config::LoadedConfig;
use crate::error::Error;
use crate::sft::{Method, configuration, texts_of_base};
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_llm::transport::ScrubbedTransport;
use skill_llm::{ApiKey, LlmError, ReqwestTransport};
use skill_pipeline::weights::{PolicyFile, PolicyWriter};
use skill_tinker::{Connection, ConnectionSettings, SavedAdapter, TinkerBackend, TinkerSettings};
use skill_train::TrainError;
use skill_train::checkpoint::StateStore;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The file of a policy that says where a server keeps it.
const NOTE: &str = "tinker.json";

/// The server of the configuration; `None` if weights are trained on this machine.
///
/// # Errors
///
/// An address that cannot be used, and a key that is not set.
pub fn connection(loaded: &LoadedConfig) -> Result<Option<Connection>, Error> {
    let Some(asked) = &loaded.config.tinker else { return Ok(None) };
    let failed = |source: LlmError| Error::Model { role: "training server", source };
    let mut settings = ConnectionSettings::new(&asked.base_url);
    settings.max_wait = Duration::try_from_secs_f64(asked.max_wait_s).unwrap_or(Duration::MAX);
    if let Some(variable) = &asked.api_key_env {
        settings.key = Some(ApiKey::from_env(variable, &asked.base_url).map_err(failed)?);
    }
    let transport = ReqwestTransport::new().map_err(|error| {
        failed(LlmError::Configuration { message: format!("no HTTP client can be made: {error}") })
    })?;
    let transport = ScrubbedTransport::new(Arc::new(transport), crate::secrets::known(loaded));
    Connection::new(Arc::new(transport), &settings).map(Some).map_err(failed)
}

/// The base model of the configuration, as the server has it.
pub fn base_model(loaded: &LoadedConfig, target: &Path) -> String {
    let asked = loaded.config.tinker.as_ref().and_then(|asked| asked.base_model.clone());
    asked.unwrap_or_else(|| {
        let absolute = std::path::absolute(target).unwrap_or_else(|_| target.to_owned());
        absolute.file_name().unwrap_or_default().to_string_lossy().into_owned()
    })
}

/// What a run trains on a server.
pub(crate) struct Asked<'run> {
    /// The folder of the base model, with its tokenizer.
    pub(crate) target: &'run Path,
    /// The adapter that training begins with.
    pub(crate) adapter: Option<&'run Path>,
    pub(crate) method: Method,
    pub(crate) seed: u64,
    pub(crate) has_reference: bool,
    pub(crate) store: StateStore,
}

/// A back end on the server of the configuration, with what writes its policy and what decides its results.
pub(crate) struct Remote {
    pub(crate) backend: TinkerBackend,
    pub(crate) writer: ServerPolicy,
    pub(crate) identity: Vec<(String, Value)>,
}

/// The back end on the server of the configuration; `None` if weights are trained on this machine.
pub(crate) fn backend(loaded: &LoadedConfig, asked: Asked<'_>) -> Result<Option<Remote>, Error> {
    let Some(connection) = connection(loaded)? else { return Ok(None) };
    let Method::Lora { rank, .. } = asked.method else {
        return Err(configuration(
            "a training server trains adapters; set `lora_rank` to a rank above 0".to_owned(),
        ));
    };
    let named = loaded.config.tinker.as_ref().and_then(|asked| asked.start.clone());
    let start = match (named, asked.adapter) {
        (Some(start), _) => Some(start),
        (None, Some(adapter)) => Some(place_of(adapter).ok_or_else(|| {
            configuration(format!(
                "the adapter {} is not on the training server: name its saved weights there with `tinker.start`",
                adapter.display()
            ))
        })?),
        (None, None) => None,
    };
    let base_model = base_model(loaded, asked.target);
    let identity =
        vec![("tinker.base_model".to_owned(), json!(base_model)), ("tinker.start".to_owned(), json!(start))];
    let settings =
        TinkerSettings { base_model, rank, seed: asked.seed, start, has_reference: asked.has_reference };
    let backend = TinkerBackend::new(connection, settings, asked.store);
    let writer = ServerPolicy { backend: backend.clone(), base: asked.target.to_owned() };
    Ok(Some(Remote { backend, writer, identity }))
}

/// Where the server keeps the weights of a policy that it has trained.
fn place_of(policy: &Path) -> Option<String> {
    let note: Value = serde_json::from_slice(&std::fs::read(policy.join(NOTE)).ok()?).ok()?;
    note.get("training").and_then(Value::as_str).map(str::to_owned)
}

/// Writes the adapter that a server has trained, with the texts of its base and where the server keeps it.
pub(crate) struct ServerPolicy {
    backend: TinkerBackend,
    base: PathBuf,
}

#[async_trait]
impl PolicyWriter for ServerPolicy {
    async fn files(&self) -> Result<Vec<PolicyFile>, TrainError> {
        let SavedAdapter { sampler, training, files, .. } = self.backend.adapter().await?;
        if files.is_empty() {
            tracing::warn!("the training server hands out no weights; they stay there under {training}");
        }
        let note = json!({"sampler": sampler, "training": training});
        let note = serde_json::to_vec_pretty(&note).unwrap_or_default();
        Ok(files.into_iter().chain(texts_of_base(&self.base)).chain([(NOTE.to_owned(), note)]).collect())
    }
}
