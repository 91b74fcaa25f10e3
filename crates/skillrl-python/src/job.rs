//! What `skillrl._bridge` describes: a run of an environment in Python, or of a configuration file.

use crate::adapter::PyAdapter;
use crate::callback::Shared;
use crate::client::{Extras, PyClient};
use crate::environment::PyEnv;
use crate::errors::{config_error, model_error, run_error};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use skillrl::config::{Config, LoadedConfig, ModelRole};
use skillrl::cost::has_prices;
use skillrl::engine::{Engine, RunModels};
use skillrl::envs::Env;
use skillrl::envs::judged::JudgedEnv;
use skillrl::envs::tasks::RubricConfig;
use skillrl::llm::{ApiKey, ChatModel};
use skillrl::pipeline::{EventSink, StopSignal, Trainer};
use skillrl::trainer;
use skillrl::{Error, program};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A run that is ready to be made.
pub(crate) struct Job {
    pub(crate) trainer: Trainer,
    pub(crate) dir: PathBuf,
    /// True if both models have prices, so that the run's money is known.
    pub(crate) is_priced: bool,
    /// True if the engine asks the target itself.
    pub(crate) is_target_native: bool,
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
        if let Some(path) = described.getattr("file")?.extract::<Option<PathBuf>>()? {
            let set: Vec<String> = described.getattr("set")?.extract()?;
            let made = of_file(&path, &set, events, stop);
            let (trainer, dir, is_priced) = made.map_err(|error| run_error(py, &error, None))?;
            let shared = Arc::new(Shared::new(described, 1, 1)?);
            return Ok(Self { trainer, dir: run_dir(py, dir)?, is_priced, is_target_native: true, shared });
        }
        let dir = run_dir(py, described.getattr("out")?.extract()?)?;
        let loaded = settings(py, &described.getattr("settings")?.extract::<String>()?)?;
        let shared = shared(described, &loaded)?;
        let mut engine = with_keys(described, Engine::new(&loaded))?;
        let (models, extras) = models(described, &mut engine, &shared)?;
        let is_target_native = matches!(extras, [None, _]);
        let timeout = seconds(described, "rollout_timeout")?;
        let env = described.getattr("env")?;
        let trainer = if env.getattr("is_adapter")?.extract()? {
            let adapter = Arc::new(PyAdapter::new(&env, timeout, extras, Arc::clone(&shared))?);
            let trainer = program::trainer(&engine, Arc::clone(&adapter) as _, models, events, stop)
                .map_err(|error| run_error(py, &error, None))?;
            let trainer = trainer.with_batches(Arc::clone(&adapter) as _);
            if adapter.reflects() { trainer.with_reflection(adapter) } else { trainer }
        } else {
            let [extras, _] = extras;
            let env = Arc::new(PyEnv::new(&env, timeout, extras, Arc::clone(&shared))?) as Arc<dyn Env>;
            let env = judged(described, env, models.judge.clone())?;
            program::trainer(&engine, env, models, events, stop)
                .map_err(|error| run_error(py, &error, None))?
        };
        let named: String = described.getattr("named_settings")?.extract()?;
        let named = serde_json::from_str(&named).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let trainer = trainer.skipping_empty_replies().with_named_settings(named);
        Ok(Self { trainer, dir, is_priced: is_priced(&loaded.config), is_target_native, shared })
    }
}

/// What all calls into Python share.
pub(crate) fn shared(described: &Bound<'_, PyAny>, loaded: &LoadedConfig) -> PyResult<Arc<Shared>> {
    let workers = usize::try_from(loaded.config.run.workers).unwrap_or(usize::MAX);
    // A rollout and the calls that it waits for have one thread; the rest is for clients of the optimizer.
    Ok(Arc::new(Shared::new(described, workers, workers.saturating_mul(2).saturating_add(16))?))
}

/// The models that are described, with the further arguments of clients in Python: of the target and of the optimizer.
pub(crate) fn models(
    described: &Bound<'_, PyAny>,
    engine: &mut Engine<'_>,
    shared: &Arc<Shared>,
) -> PyResult<(RunModels, [Option<Arc<Extras>>; 2])> {
    let py = described.py();
    let judge = has_judge(described)?.then_some(ModelRole::Judge);
    let client_timeout = seconds(described, "client_timeout")?;
    let mut extras = [None, None];
    let mut model = |role: ModelRole| -> PyResult<Arc<dyn ChatModel>> {
        let client = described.getattr(role.as_str())?;
        if client.getattr("is_native")?.extract()? {
            return engine.model(role).map_err(|error| run_error(py, &error, None));
        }
        let client = PyClient::new(&client, client_timeout, Arc::clone(shared))?;
        let [of_target, of_optimizer] = &mut extras;
        match role {
            ModelRole::Target => *of_target = Some(client.extras()),
            ModelRole::Optimizer => *of_optimizer = Some(client.extras()),
            // Judge and teacher are asked by the engine alone.
            _ => {}
        }
        Ok(engine.own(Arc::new(client)))
    };
    let models = RunModels {
        target: model(ModelRole::Target)?,
        optimizer: model(ModelRole::Optimizer)?,
        judge: judge.map(&mut model).transpose()?,
    };
    Ok((models, extras))
}

/// The engine with the keys of clients that the caller gave.
pub(crate) fn with_keys<'config>(
    described: &Bound<'_, PyAny>,
    mut engine: Engine<'config>,
) -> PyResult<Engine<'config>> {
    let judge = has_judge(described)?.then_some(ModelRole::Judge);
    for role in [ModelRole::Target, ModelRole::Optimizer].into_iter().chain(judge) {
        let key = described.getattr(role.as_str())?.getattr("api_key")?.extract::<Option<String>>()?;
        if let Some(key) = key {
            let key = ApiKey::new(&key).map_err(|error| model_error(described.py(), &error))?;
            engine = engine.with_key(role, key);
        }
    }
    Ok(engine)
}

/// Whether a judge scores rollouts.
fn has_judge(described: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(!described.getattr("rubric")?.is_none())
}

/// The environment, with a judge that scores its rollouts where there is one.
pub(crate) fn judged(
    described: &Bound<'_, PyAny>,
    env: Arc<dyn Env>,
    judge: Option<Arc<dyn ChatModel>>,
) -> PyResult<Arc<dyn Env>> {
    let Some(judge) = judge else { return Ok(env) };
    let rubric: String = described.getattr("rubric")?.extract()?;
    let config =
        RubricConfig { rubric, pass_score: described.getattr("pass_score")?.extract()?, prompt: None };
    let env = JudgedEnv::new(env, judge, config);
    Ok(Arc::new(env.map_err(|error| run_error(described.py(), &Error::Env(error), None))?))
}

/// A number of seconds, as an attribute.
pub(crate) fn seconds(described: &Bound<'_, PyAny>, name: &str) -> PyResult<Duration> {
    let seconds: f64 = described.getattr(name)?.extract()?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{name} is {seconds}; it is a number of seconds")))
}

/// Settings from JSON with the sections of a configuration.
pub(crate) fn settings(py: Python<'_>, json: &str) -> PyResult<LoadedConfig> {
    let table: toml::Table = serde_json::from_str(json).map_err(|error| {
        config_error(py, format!("the settings are not those of a configuration: {error}"))
    })?;
    program::settings(&table.to_string(), "the settings").map_err(|error| run_error(py, &error.into(), None))
}

/// A directory of a run by a name that its files and messages can hold.
pub(crate) fn run_dir(py: Python<'_>, dir: PathBuf) -> PyResult<PathBuf> {
    if dir.to_str().is_some() {
        return Ok(dir);
    }
    Err(config_error(py, format!("the directory of the run {} is not UTF-8", dir.display())))
}

fn of_file(
    path: &Path,
    set: &[String],
    events: Arc<dyn EventSink>,
    stop: StopSignal,
) -> Result<(Trainer, PathBuf, bool), Error> {
    let loaded = Config::load(path, set)?;
    loaded.check_paths()?;
    let (trainer, dir) = trainer::document(&loaded, events, stop)?;
    Ok((trainer, dir, is_priced(&loaded.config)))
}

fn is_priced(config: &Config) -> bool {
    let models = [ModelRole::Target, ModelRole::Optimizer].map(|role| role.config(config));
    models.iter().all(|model| model.is_some_and(has_prices))
}
