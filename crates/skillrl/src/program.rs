//! Runs of programs that bring their own environment, and maybe their own models, with the settings of the
//! configuration.
//!
//! [`settings`] reads the sections of a configuration, of which all may be left out; [`trainer()`] makes the trainer. What
//! the sections do not decide is the program's: its environment is not described in them.
//!
//! ```
//! use skillrl::engine::Engine;
//! use skillrl::{env, program};
//! use skillrl::engine::RunModels;
//! use skillrl::prelude::*;
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), skillrl::Error> {
//! let loaded = program::settings("[train]\nepochs = 1\n[budget]\ncalls = 100\n", "settings")?;
//! let engine = Engine::new(&loaded);
//! let rows = |name: &str| vec![Item::new(name, serde_json::json!({"text": "2 + 2"}))];
//! let env = env::from_fn("sums", ["a", "b", "c"].map(rows), |item, agent| async move {
//!     Ok(env::Score::exact(&agent.answer(env::text(&item, "text")).await?, "4"))
//! });
//! let four: Arc<dyn ChatModel> = Arc::new(ScriptedModel::answering("four", |_| "4".to_owned()));
//! let models = RunModels { target: engine.own(four.clone()), optimizer: engine.own(four), judge: None };
//! let trainer = program::trainer(&engine, Arc::new(env), models, Arc::new(|_: &Event| {}), StopSignal::default())?;
//! # let dir = tempfile::tempdir().expect("a temporary directory");
//! # let run_dir = dir.path();
//! assert_eq!(trainer.train(run_dir).await?.baseline_test_hard, Some(1.0));
//! # Ok(())
//! # }
//! ```

use crate::config::{Config, ConfigError, LoadedConfig, ModelRole, Runner};
use crate::engine::{Engine, RunModels};
use crate::error::Error;
use crate::{prompts, skills, trainer};
use serde_json::{Value, json};
use skill_envs::Env;
use skill_llm::ChatModel;
use skill_pipeline::run_dir::live::LiveEvents;
use skill_pipeline::{EventSink, RunConfig, StopSignal, Trainer};
use std::sync::Arc;
use toml::{Table, Value as Toml};

/// The model of this name, such as `openai/gpt-5-mini`: [`skill_llm::model`] with the error of this crate.
///
/// It has every layer but the journal, which a trainer adds. Models of one run that share caps or the pace of a server
/// come from one [`Engine`].
///
/// ```no_run
/// # fn main() -> Result<(), skillrl::Error> {
/// let target = skillrl::model("openai/gpt-5-mini")?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Those of [`skill_llm::model`].
pub fn model(name: &str) -> Result<Arc<dyn ChatModel>, Error> {
    skill_llm::model(name).map_err(|source| Error::Model { role: ModelRole::Target.as_str(), source })
}

/// Reads settings: TOML with the sections of a configuration but `[env]`, each of which may be left out; `origin` names
/// the text in messages.
///
/// A model without a section is the program's own: [`Engine::model`] cannot make it.
///
/// # Errors
///
/// Those of [`Config::parse`].
pub fn settings(text: &str, origin: &str) -> Result<LoadedConfig, ConfigError> {
    let Ok(mut table) = text.parse::<Table>() else {
        return Config::parse(text, origin, &[]);
    };
    // The table of keys needs a kind of environment, and both models; nothing is read of what is here.
    let env = Table::from_iter([
        ("kind".to_owned(), Toml::from("qa")),
        ("data".to_owned(), Toml::from("the program's own")),
    ]);
    table.entry("env").or_insert(Toml::Table(env));
    let models = table.entry("models").or_insert(Toml::Table(Table::new()));
    if let Toml::Table(models) = models {
        for role in [ModelRole::Target, ModelRole::Optimizer] {
            let own = Table::from_iter([
                ("kind".to_owned(), Toml::from("scripted")),
                ("file".to_owned(), Toml::from("the program's own")),
            ]);
            models.entry(role.as_str()).or_insert(Toml::Table(own));
        }
    }
    Config::parse(&table.to_string(), origin, &[])
}

/// The trainer of this environment with these models, by the settings that the engine was made from.
///
/// # Errors
///
/// Settings that cannot work together or ask for workers, prompts and a skill that cannot be read.
pub fn trainer(
    engine: &Engine<'_>,
    env: Arc<dyn Env>,
    models: RunModels,
    events: Arc<dyn EventSink>,
    stop: StopSignal,
) -> Result<Trainer, Error> {
    let loaded = engine.loaded();
    let config = &loaded.config;
    if config.run.runner == Runner::Nats {
        return Err(Error::NoWorkers { what: "a program's own environment" });
    }
    let prompts = prompts::library(&loaded.config.prompts, env.as_ref())?;
    let resolved = resolved(config, env.as_ref(), &models);
    let events: Arc<dyn EventSink> = Arc::new(LiveEvents::new(events, engine.pulse()));
    // The trainer itself names environment, data, models and settings in the identity of the run.
    let run = RunConfig { resolved, ..RunConfig::default() };
    let mut trainer = Trainer::new(env, models.target, models.optimizer)
        .with_settings(trainer::settings(config)?)
        .with_prompts(prompts)
        .with_events(events)
        .with_stop(stop)
        .with_config(run)
        .with_budget(engine.budget(), engine.prices())
        .with_trouble(engine.lasting_trouble());
    if let Some(skill) = skills::configured_skill(&loaded.config.skill)? {
        trainer = trainer.with_initial_skill(skill);
    }
    Ok(trainer)
}

/// What `config.json` holds: the settings that decide results, with the program's own environment and models.
fn resolved(config: &Config, env: &dyn Env, models: &RunModels) -> Value {
    let mut resolved = config.decisive_json();
    let model = |model: &Arc<dyn ChatModel>| json!(model.id());
    if let Some(sections) = resolved.as_object_mut() {
        let own = json!({"kind": PROGRAM_KIND, "name": env.name(), "settings": env.settings()});
        sections.insert("env".to_owned(), own);
        let models = json!({"target": model(&models.target), "optimizer": model(&models.optimizer)});
        sections.insert("models".to_owned(), models);
    }
    resolved
}

/// What is in the place of the kind of environment.
const PROGRAM_KIND: &str = "program";
