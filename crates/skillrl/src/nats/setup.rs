//! What a worker sets up: the configuration, the files that its environment reads, and what its models have to be.

use super::files::{Pieces, Tree};
use super::programs::{self, ProgramFacts};
use crate::config::{Config, LoadedConfig, ModelConfig, ModelRole};
use crate::engine::Engine;
use crate::error::Error;
use serde::{Deserialize, Serialize};
use skill_core::canonical::canonical_json;
use skill_nats::ModelFacts;
use std::collections::BTreeMap;

/// The version of the description.
pub(super) const FORMAT: u32 = 1;

/// What a worker sets up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SetupDescription {
    /// See [`FORMAT`].
    pub(super) format: u32,
    /// The configuration, with all its defaults; it holds no secret.
    pub(super) config: serde_json::Value,
    /// The files and directories that rollouts read, by the setting that names them.
    pub(super) trees: BTreeMap<String, Tree>,
    /// Programs that have to be installed.
    pub(super) programs: Vec<ProgramFacts>,
    /// The model that acts.
    pub(super) target: ModelFacts,
    /// The model that grades answers.
    pub(super) judge: Option<ModelFacts>,
    /// The name of the environment, and its settings as canonical JSON.
    pub(super) env: String,
}

/// What a worker sets up, with the content of its files.
#[derive(Debug)]
pub(super) struct Setup {
    description: SetupDescription,
    pieces: Pieces,
}

/// The models that rollouts ask, by the names of their sections.
pub(super) fn models_of(config: &Config) -> Vec<(&'static str, &ModelConfig)> {
    let roles = [Some(ModelRole::Target), ModelRole::of_judge(config)].into_iter().flatten();
    let mut models: Vec<(&'static str, &ModelConfig)> =
        roles.filter_map(|role| Some((role.as_str(), role.config(config)?))).collect();
    models.dedup_by_key(|(name, _)| *name);
    models
}

impl Setup {
    /// The setup of a configuration: its files are read once.
    ///
    /// # Errors
    ///
    /// Files that cannot be read, models that cannot be built.
    pub(super) fn of(loaded: &LoadedConfig) -> Result<Self, Error> {
        let mut pieces = Pieces::default();
        let mut trees = BTreeMap::new();
        let mut failed = None;
        let sent = sent_keys(&loaded.config);
        loaded.config.clone().for_each_path(&mut |key, path| {
            if failed.is_some()
                || !sent.iter().any(|sent| key.starts_with(sent.as_str()))
                || key == "env.program_dir"
            {
                return;
            }
            let resolved = path.to_path();
            match pieces.add(&resolved) {
                Ok(tree) => {
                    trees.insert(key.to_owned(), tree);
                }
                Err(source) => failed = Some(Error::NotSent { key: key.to_owned(), path: resolved, source }),
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let mut engine = Engine::without_keys(loaded);
        let facts = |model: &dyn skill_llm::ChatModel| ModelFacts {
            id: model.id().clone(),
            parameters: model.parameters(),
        };
        let target = facts(engine.model(ModelRole::Target)?.as_ref());
        let judge = engine.judge()?.map(|judge| facts(judge.as_ref()));
        let config = loaded.config.to_json();
        let env = canonical_json(
            &serde_json::to_value(&loaded.config.env).expect("the keys of a configuration are texts"),
        );
        let programs = programs::of(loaded)?;
        let description = SetupDescription { format: FORMAT, config, trees, programs, target, judge, env };
        Ok(Self { description, pieces })
    }

    /// The hash of the description, and the content of it and of the files.
    pub(super) fn packed(mut self) -> (String, Pieces) {
        let description = serde_json::to_vec(&self.description).expect("a description serializes");
        let hash = self.pieces.hold(description);
        (hash, self.pieces)
    }
}

/// What the keys of the paths begin with that rollouts read.
fn sent_keys(config: &Config) -> Vec<String> {
    let mut keys = vec!["env.".to_owned(), "prompts.".to_owned()];
    for (role, model) in models_of(config) {
        if matches!(model, ModelConfig::Scripted(_)) {
            keys.push(format!("models.{role}."));
        }
    }
    keys
}
