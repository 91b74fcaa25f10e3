//! From what a driver sends to the environment and the models of a worker.

use super::files::bring;
use super::programs::Differences;
use super::setup::{FORMAT, SetupDescription};
use crate::config::key::Effect;
use crate::config::keys;
use crate::config::{Config, LoadedConfig, ModelRole};
use crate::engine::Engine;
use crate::world;
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use skill_llm::error::with_causes;
use skill_llm::{ChatModel, Secrets};
use skill_nats::{FetchContent, ModelFacts, WorkerAgent, Workshop};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is a worker's own.
#[derive(Debug, Clone, Default)]
pub struct WorkerOptions {
    /// Where the files of runs are kept.
    pub cache: PathBuf,
    /// What takes the place of the configuration's directory, for programs.
    pub base: PathBuf,
    /// `KEY=VALUE` for settings that decide no result: variables of keys, rates, deadlines.
    pub overrides: Vec<String>,
}

/// Sets up the environment and the models that a driver's configuration describes.
pub struct ConfigWorkshop {
    options: WorkerOptions,
    /// The versions of programs that differ, since the last run was set up.
    versions: Mutex<Vec<String>>,
}

impl ConfigWorkshop {
    /// With these options.
    pub fn new(options: WorkerOptions) -> Self {
        Self { options, versions: Mutex::default() }
    }

    /// Programs of the run that was set up last whose version differs from the driver's.
    pub fn versions(&self) -> Vec<String> {
        self.versions.lock().clone()
    }
}

#[async_trait]
impl Workshop for ConfigWorkshop {
    async fn open(&self, setup: &Bytes, contents: &dyn FetchContent) -> Result<WorkerAgent, Vec<String>> {
        let one = |problem: String| vec![problem];
        let description: SetupDescription = serde_json::from_slice(setup)
            .map_err(|error| one(format!("what the driver describes cannot be read: {error}")))?;
        if description.format != FORMAT {
            let format = description.format;
            return Err(one(format!(
                "the driver describes a run in format {format}, this worker reads {FORMAT}"
            )));
        }
        let mut found = Differences::default();
        for program in &description.programs {
            program.compare(&self.options.base, &mut found);
        }
        *self.versions.lock() = found.versions;
        if !found.problems.is_empty() {
            return Err(found.problems);
        }
        let mut paths = BTreeMap::new();
        for (key, tree) in &description.trees {
            paths.insert(key.clone(), bring(tree, &self.options.cache, contents).await.map_err(one)?);
        }
        let config = self.config(&description, &paths).map_err(one)?;
        let loaded = LoadedConfig {
            config,
            source_text: String::new(),
            // Programs run in its directory.
            path: Some(self.options.base.join(crate::config::FILE_NAME)),
            origin: "the driver".to_owned(),
            origins: BTreeMap::new(),
            mapping: None,
            secrets: Secrets::default(),
        };
        // Environments of programs start these, and wait for them.
        let built = tokio::task::spawn_blocking(move || agent(&loaded)).await;
        let agent = built.map_err(|error| one(format!("the setup panicked: {error}")))?.map_err(one)?;
        let mut problems = Vec::new();
        check_model("target", agent.target.as_ref(), &description.target, &mut problems);
        match (&agent.judge, &description.judge) {
            (Some(judge), Some(there)) => check_model("judge", judge.as_ref(), there, &mut problems),
            (None, None) => {}
            (Some(_), None) | (None, Some(_)) => problems.push("the judge is another one here".to_owned()),
        }
        if problems.is_empty() { Ok(agent) } else { Err(problems) }
    }
}

fn check_model(role: &str, here: &dyn ChatModel, there: &ModelFacts, problems: &mut Vec<String>) {
    if *here.id() != there.id {
        problems.push(format!("the {role} here is {}, the driver's is {}", here.id(), there.id));
    } else if here.parameters() != there.parameters {
        problems.push(format!("the {role} here has other parameters than the driver's"));
    }
}

fn agent(loaded: &LoadedConfig) -> Result<WorkerAgent, String> {
    let failed = |error: crate::Error| format!("{}; {}", with_causes(&error), error.hint());
    let mut engine = Engine::new(loaded);
    let target = engine.sender(ModelRole::Target).map_err(failed)?;
    let judge =
        ModelRole::of_judge(&loaded.config).map(|role| engine.sender(role)).transpose().map_err(failed)?;
    let env = world::environment(loaded, judge.clone()).map_err(failed)?;
    Ok(WorkerAgent { env, target, judge })
}

impl ConfigWorkshop {
    /// The driver's configuration with the paths and the overrides of this machine.
    fn config(
        &self,
        description: &SetupDescription,
        paths: &BTreeMap<String, PathBuf>,
    ) -> Result<Config, String> {
        let mut values = description.config.clone();
        for asked in &self.options.overrides {
            set(&mut values, asked)?;
        }
        let mut config: Config = serde_json::from_value(values)
            .map_err(|error| format!("the configuration of the driver cannot be read: {error}"))?;
        config.for_each_path(&mut |key, path| {
            match paths.get(key) {
                Some(here) => *path = here.display().to_string().into(),
                // Programs run here.
                None => path.set_dir(&self.options.base),
            }
        });
        Ok(config)
    }
}

/// Sets one key that decides no result.
fn set(values: &mut Value, asked: &str) -> Result<(), String> {
    let (path, text) =
        asked.split_once('=').ok_or_else(|| format!("`{asked}` is not of the form KEY=VALUE"))?;
    let (section, key) = keys::find(path).ok_or_else(|| format!("unknown setting `{path}`"))?;
    if key.effect == Effect::Result {
        return Err(format!("`{path}` decides the results of a run, and is the driver's"));
    }
    let value = if key.value.is_text() {
        Some(Value::from(text)).filter(|_| !text.is_empty())
    } else {
        keys::value_of(key, text)
    };
    let value = value.ok_or_else(|| format!("`{path}` takes {}", key.value.expectation()))?;
    let pointer = format!("/{}", section.path.replace('.', "/"));
    let Some(fields) = values.pointer_mut(&pointer).and_then(Value::as_object_mut) else {
        return Err(format!("the run has no section [{}]", section.path));
    };
    fields.insert(key.name.to_owned(), value);
    Ok(())
}
