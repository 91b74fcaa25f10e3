//! What `skillrl._bridge` describes: a run of an environment in Python, or of a configuration file.

use crate::callback::Shared;
use crate::client::PyClient;
use crate::environment::PyEnv;
use crate::errors::{model_error, run_error};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::Value;
use skillrl::assemble::{self, ModelRole, RunModels};
use skillrl::config::{Config, LoadedConfig};
use skillrl::engine::Engine;
use skillrl::llm::{ApiKey, ChatModel};
use skillrl::pipeline::{EventSink, StopSignal, Trainer};
use skillrl::{Error, program};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A run that is ready to be made.
pub(crate) struct Job {
    pub(crate) trainer: Trainer,
    pub(crate) dir: PathBuf,
    /// Threads that Python code may block at the same time.
    pub(crate) threads: usize,
    pub(crate) shared: Arc<Shared>,
}

impl Job {
    /// Reads a description; nothing is sent, and no Python code of the caller is called.
    pub(crate) fn new(
        described: &Bound<'_, PyAny>,
        events: Arc<dyn EventSink>,
        stop: StopSignal,
    ) -> PyResult<Self> {
        let py = described.py();
        let shared = Arc::new(Shared::new(
            described.getattr("describe")?.unbind(),
            described.getattr("submit")?.unbind(),
        ));
        if let Some(path) = described.getattr("file")?.extract::<Option<PathBuf>>()? {
            let set: Vec<String> = described.getattr("set")?.extract()?;
            let made = of_file(&path, &set, events, stop);
            let (trainer, dir) = made.map_err(|error| run_error(py, &error, None))?;
            return Ok(Self { trainer, dir, threads: 4, shared });
        }
        let loaded = settings(&described.getattr("settings")?.extract::<String>()?)
            .map_err(|error| run_error(py, &error, None))?;
        let mut engine = Engine::new(&loaded);
        for role in [ModelRole::Target, ModelRole::Optimizer] {
            if let Some(key) =
                described.getattr(role.as_str())?.getattr("api_key")?.extract::<Option<String>>()?
            {
                engine = engine.with_key(role, ApiKey::new(&key).map_err(|error| model_error(py, &error))?);
            }
        }
        let client_timeout = seconds(described, "client_timeout")?;
        let mut extras = None;
        let mut model = |role: ModelRole| -> PyResult<Arc<dyn ChatModel>> {
            let client = described.getattr(role.as_str())?;
            if client.getattr("is_native")?.extract()? {
                return engine.model(role).map_err(|error| run_error(py, &error, None));
            }
            let client = PyClient::new(&client, client_timeout, Arc::clone(&shared))?;
            if role == ModelRole::Target {
                extras = Some(client.extras());
            }
            Ok(engine.own(Arc::new(client)))
        };
        let models = RunModels {
            target: model(ModelRole::Target)?,
            optimizer: model(ModelRole::Optimizer)?,
            judge: None,
        };
        let timeout = seconds(described, "rollout_timeout")?;
        let env = PyEnv::new(&described.getattr("env")?, timeout, extras, Arc::clone(&shared))?;
        let trainer = program::trainer(&engine, Arc::new(env), models, events, stop)
            .map_err(|error| run_error(py, &error, None))?;
        let dir = described.getattr("out")?.extract()?;
        // A rollout and the call that it waits for have a thread each.
        let workers = usize::try_from(loaded.config.run.workers).unwrap_or(usize::MAX);
        Ok(Self { trainer, dir, threads: workers.saturating_mul(2).saturating_add(16), shared })
    }
}

/// A number of seconds, as an attribute.
fn seconds(described: &Bound<'_, PyAny>, name: &str) -> PyResult<Duration> {
    let seconds: f64 = described.getattr(name)?.extract()?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{name} is {seconds}; it is a number of seconds")))
}

/// Settings from JSON with the sections of a configuration.
pub(crate) fn settings(json: &str) -> Result<LoadedConfig, Error> {
    let as_toml = |value: Value| toml::to_string(&value).ok();
    let text = serde_json::from_str(json).ok().and_then(as_toml).unwrap_or_default();
    Ok(program::settings(&text, "the settings")?)
}

fn of_file(
    path: &Path,
    set: &[String],
    events: Arc<dyn EventSink>,
    stop: StopSignal,
) -> Result<(Trainer, PathBuf), Error> {
    let loaded = Config::load(path, set)?;
    loaded.check_paths()?;
    assemble::trainer(&loaded, events, stop)
}
