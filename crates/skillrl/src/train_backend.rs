//! From a configuration to a back end of training loops: on this machine, or on the server of `[tinker]`.

use crate::config::LoadedConfig;
use crate::error::Error;
use crate::policy::{LocalPolicy, LocalTarget, Method, target_error, texts_of_base};
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_llm::regular_file;
use skill_llm::transport::ScrubbedTransport;
use skill_llm::{ApiKey, LlmError, ReqwestTransport};
use skill_tinker::{Connection, ConnectionSettings, SavedAdapter, TinkerBackend, TinkerSettings};
use skill_train::TrainError;
use skill_train::checkpoint::StateStore;
use skill_train::local::LocalBackend;
use skill_train::model::{Decoder, Keep};
use skill_train::seam::TrainBackend;
use skill_weights::policy::{PolicyFile, PolicyWriter};
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
pub(crate) fn connection(loaded: &LoadedConfig) -> Result<Option<Connection>, Error> {
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
pub(crate) fn base_model(loaded: &LoadedConfig, target: &Path) -> String {
    let asked = loaded.config.tinker.as_ref().and_then(|asked| asked.base_model.clone());
    asked.unwrap_or_else(|| {
        let absolute = std::path::absolute(target).unwrap_or_else(|_| target.to_owned());
        absolute.file_name().unwrap_or_default().to_string_lossy().into_owned()
    })
}

/// What a run trains.
pub(crate) struct Trained<'run> {
    /// The section of the run, for its identity.
    pub(crate) section: &'static str,
    pub(crate) target: &'run LocalTarget<'run>,
    pub(crate) method: Method,
    pub(crate) seed: u64,
    pub(crate) has_reference: bool,
    pub(crate) store: StateStore,
}

/// A back end, with what writes its policy and what decides its results.
pub(crate) struct Opened {
    pub(crate) backend: Arc<dyn TrainBackend>,
    pub(crate) writer: Arc<dyn PolicyWriter>,
    pub(crate) identity: Vec<(String, Value)>,
}

/// The back end on the server of the configuration, or on this machine, where `model` reads the weights.
pub(crate) fn open(
    loaded: &LoadedConfig,
    trained: Trained<'_>,
    model: impl FnOnce() -> Result<Decoder, Error>,
) -> Result<Opened, Error> {
    let Trained { section, target, method, seed, has_reference, store } = trained;
    let mut identity = vec![
        ("models.policy".to_owned(), json!(target.files.revision())),
        (format!("{section}.method"), method.value()),
    ];
    let Some(connection) = connection(loaded)? else {
        let model = model()?;
        // The two share their weights until the first step.
        let reference = has_reference.then(|| model.clone());
        let backend = LocalBackend::new(model, reference, Keep::Activations, store);
        let writer = Arc::new(LocalPolicy::new(backend.clone(), &target.path));
        return Ok(Opened { backend: Arc::new(backend), writer, identity });
    };
    let (rank, start) = start_on_server(loaded, target, method)?;
    let base_model = base_model(loaded, &target.path);
    identity.push(("tinker.base_model".to_owned(), json!(base_model)));
    identity.push(("tinker.start".to_owned(), json!(start)));
    let settings = TinkerSettings { base_model, rank, seed, start, has_reference };
    let backend = TinkerBackend::new(connection, settings, store);
    let writer = Arc::new(ServerPolicy { backend: backend.clone(), base: target.path.clone() });
    Ok(Opened { backend: Arc::new(backend), writer, identity })
}

/// Refuses a method by which the target cannot be trained, and a server that cannot be used or has not got its adapter.
pub(crate) fn check(loaded: &LoadedConfig, target: &LocalTarget<'_>, method: Method) -> Result<(), Error> {
    match connection(loaded)? {
        Some(_) => start_on_server(loaded, target, method).map(drop),
        None => target.check_method(method),
    }
}

/// The rank of an adapter that a server trains, and the weights that it starts from there.
fn start_on_server(
    loaded: &LoadedConfig,
    target: &LocalTarget<'_>,
    method: Method,
) -> Result<(usize, Option<String>), Error> {
    let Method::Lora { rank, .. } = method else {
        return Err(target_error(
            "a training server trains adapters; set `lora_rank` to a rank above 0".to_owned(),
        ));
    };
    let named = loaded.config.tinker.as_ref().and_then(|asked| asked.start.clone());
    let start = match (named, &target.adapter) {
        (Some(start), _) => Some(start),
        (None, Some(adapter)) => Some(place_of(adapter)?.ok_or_else(|| {
            target_error(format!(
                "the adapter {} is not on the training server: name its saved weights there with `tinker.start`",
                adapter.display()
            ))
        })?),
        (None, None) => None,
    };
    Ok((rank, start))
}

/// Where the server keeps the weights of a policy that it has trained; `None` for a policy that it has not trained.
fn place_of(policy: &Path) -> Result<Option<String>, Error> {
    #[derive(serde::Deserialize)]
    struct Note {
        training: String,
    }
    let path = policy.join(NOTE);
    let note = regular_file::read_if_there(&path).map_err(|source| Error::Read {
        what: "note of the training server",
        path: path.clone(),
        source,
    })?;
    let Some(note) = note else { return Ok(None) };
    let note: Note = serde_json::from_slice(&note).map_err(|error| {
        target_error(format!("{} is not the note of a training server: {error}", path.display()))
    })?;
    Ok(Some(note.training))
}

/// Writes the adapter that a server has trained, with the texts of its base and where the server keeps it.
struct ServerPolicy {
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
        let note = serde_json::to_vec_pretty(&note).expect("the keys of a note are texts");
        let texts = texts_of_base(&self.base)?;
        Ok(files.into_iter().chain(texts).chain([(NOTE.to_owned(), note)]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_note_is_not_a_policy_of_another_place() {
        for (note, expect) in [
            (None, Some(None)),
            (Some(r#"{"sampler": "s", "training": "tinker://1"}"#), Some(Some("tinker://1"))),
            (Some(r#"{"sampler": "s"}"#), None),
            (Some(r#"{"training": 7}"#), None),
            (Some("{"), None),
        ] {
            let policy = tempfile::tempdir().unwrap();
            if let Some(note) = note {
                std::fs::write(policy.path().join(NOTE), note).unwrap();
            }
            let found = place_of(policy.path());
            assert_eq!(found.as_ref().ok().map(Option::as_deref), expect, "{note:?}");
        }
    }
}
