//! The configuration file: `skillrl.toml`.
//!
//! [`Config::load`] reads a file and the overrides of the command line, checks every key against the table in
//! [`keys`], and gives the configuration with all defaults filled in. Whatever is wrong is reported at once,
//! with file, line and column. [`default_file`] writes the commented file to start from.
//!
//! The module builds nothing: it knows the settings of models, environments and training, and none of their work. It
//! never sees a secret: keys stand in environment variables that
//! the configuration only names. It opens two files: the configuration, and `config.json` of a run that exists already,
//! which keeps its split.
//!
//! A file in JSON is read as one of krill or of SkillRL in Rust, see [`mapping`].

mod amend;
pub mod bank;
pub mod collect;
mod default_file;
pub(crate) mod draft;
pub mod env;
pub mod error;
mod further;
pub mod key;
pub mod keys;
pub mod mapping;
pub mod models;
pub mod path;
pub mod recorded;
pub mod reference;
pub mod rl;
mod role;
mod secret;
pub mod sft;
mod show;
mod suggest;
pub mod tasks;
pub mod tinker;
pub mod types;
mod value;

#[cfg(test)]
mod tests;

pub use amend::{Amendments, OptimizerUse, world_text};
pub use bank::{BankConfig, EmbeddingConfig, EmbeddingKind, EvolutionConfig, RetrievalConfig};
pub use default_file::{default_file, short_file};
pub(crate) use env::EpisodeTurns;
pub use env::{
    AlfworldConfig, EnvConfig, EnvKind, EvalsConfig, ExecConfig, QaConfig, SearchAgentConfig,
    SpreadsheetConfig, TasksConfig, WebshopConfig,
};
pub use error::{ConfigError, Place, Problem, ProblemKind};
pub use mapping::Mapping;
pub use models::{
    AgentConfig, AgentOutput, ConfigPrices, LocalConfig, LocalSchema, ModelConfig, ResponseFormat,
    ScriptedConfig, SeedField, ServedConfig, SimulatedConfig,
};
pub use path::ConfigPath;
pub use rl::RlConfig;
pub use role::{ModelRole, simulated_models};
pub use sft::{SftConfig, SftReasoning};
pub use suggest::{Suggestion, nearest as nearest_name};
pub use tasks::{GoalSplit, TasksExtract, TasksJudge, TasksScorer};
pub use tinker::TinkerConfig;
pub use types::{
    Anchors, BudgetConfig, Config, EvalConfig, GateConfig, LimitsConfig, ModelsConfig, NatsConfig,
    PromptsConfig, RetryConfig, RunConfig, Runner, Schedule, SkillConfig, TaskConfig, TrainConfig, TrainMode,
};

use draft::Draft;
use key::{KeySpec, PathUse, ValueType};
use skill_envs::folder::package_around;
use skill_llm::{Secrets, text_file};
use skill_pipeline::OWN_TARGET;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The name under which the file is looked for and written.
pub const FILE_NAME: &str = "skillrl.toml";

/// A larger file is not read as a configuration.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueSource {
    /// Nobody asked for anything else.
    Default,
    /// The file.
    File {
        /// The line of the key, from 1.
        line: usize,
    },
    /// An override on the command line.
    Set,
    /// The preset that `env.preset` or `provider` names, or the list price of a known model.
    Preset,
    /// The run in `run.dir`, which was started when the default was another.
    Run,
}

/// A configuration with what is known about where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: Config,
    /// The text of the file, as it was read; of a file that was mapped or amended, the text of what came of it.
    pub source_text: String,
    /// The file; `None` for a text from elsewhere.
    pub path: Option<PathBuf>,
    /// How the file is called in messages.
    pub origin: String,
    /// Where each value came from, by dotted key; keys that are not set are not there.
    pub origins: BTreeMap<String, ValueSource>,
    /// How the keys of a file of another system were read; `None` for a file of our own.
    pub mapping: Option<Mapping>,
    /// The secrets of the run, shared by all that is built from this; empty until something is.
    pub secrets: Secrets,
}

impl Config {
    /// Reads a file, then overrides of the form `KEY=VALUE`. A file whose name ends in `.json` is one of krill or of
    /// SkillRL in Rust, whose keys are mapped, see [`LoadedConfig::mapping`]. Where `run.dir` holds a run that was split by an earlier
    /// default, keys of the split that nobody sets keep the values of that run.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is larger than 1 MiB, and everything that [`Config::parse`] refuses.
    pub fn load(path: &Path, overrides: &[String]) -> Result<LoadedConfig, ConfigError> {
        Self::load_amended(path, overrides, Amendments::default())
    }

    /// As [`Config::load`], with these amendments.
    ///
    /// # Errors
    ///
    /// As for [`Config::load`] and [`Config::parse_amended`].
    pub fn load_amended(
        path: &Path,
        overrides: &[String],
        amendments: Amendments,
    ) -> Result<LoadedConfig, ConfigError> {
        let text = text_file::read_up_to(path, MAX_FILE_BYTES).map_err(|source| {
            let path = path.to_owned();
            match text_file::fault_of(&source) {
                Some(fault) => ConfigError::NotText { path, fault },
                None if source.kind() == ErrorKind::FileTooLarge => {
                    ConfigError::TooLarge { path, limit: MAX_FILE_BYTES }
                }
                None => ConfigError::Read { path, source },
            }
        })?;
        let (text, mapping) = mapping::as_toml(path, text)?;
        let origin = path.display().to_string();
        let mut loaded =
            Self::parse_as(&text, (&origin, Some(path)), overrides, amendments, mapping.is_some())?;
        loaded.mapping = mapping;
        recorded::keep_split_of_run(&mut loaded)?;
        Ok(loaded)
    }

    /// Reads a text, then overrides of the form `KEY=VALUE`; `origin` names the text in messages.
    ///
    /// The value of an override is TOML if it parses as that, otherwise a text; a key that holds text takes it
    /// to the letter, so that a model can be called `4.1`.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with every unknown key, every value that its key does not take, every key that
    /// is missing or belongs to another kind, and whatever looks like a secret.
    pub fn parse(text: &str, origin: &str, overrides: &[String]) -> Result<LoadedConfig, ConfigError> {
        Self::parse_amended(text, origin, overrides, Amendments::default())
    }

    /// As [`Config::parse`], with these amendments between the text and the overrides. The text that is kept is the
    /// amended one, so that a run that is recorded with it is read back as it was.
    ///
    /// # Errors
    ///
    /// As for [`Config::parse`], and a configuration that the amendments cannot be made to.
    pub fn parse_amended(
        text: &str,
        origin: &str,
        overrides: &[String],
        amendments: Amendments,
    ) -> Result<LoadedConfig, ConfigError> {
        Self::parse_as(text, (origin, None), overrides, amendments, false)
    }

    /// As [`Config::parse`], of a text whose paths are relative to the directory of this file.
    pub(crate) fn parse_of_file(
        text: &str,
        origin: &str,
        path: &Path,
        overrides: &[String],
    ) -> Result<LoadedConfig, ConfigError> {
        Self::parse_as(text, (origin, Some(path)), overrides, Amendments::default(), false)
    }

    /// `is_mapped`: the text is made from a file of another system, so nobody wrote its keys of models as keys here.
    fn parse_as(
        text: &str,
        (origin, path): (&str, Option<&Path>),
        overrides: &[String],
        amendments: Amendments,
        is_mapped: bool,
    ) -> Result<LoadedConfig, ConfigError> {
        let mut draft = Draft::new(origin);
        // Of a text that is not TOML nothing is known: it would only seem to miss keys.
        draft.read_file(text)?;
        let source_text = draft.amend(amendments).unwrap_or_else(|| text.to_owned());
        draft.read_overrides(overrides);
        if is_mapped {
            draft.drop_replaced_models();
        }
        let targets = draft.take_targets();
        draft.check_amended(amendments);
        let dir = path.and_then(Path::parent).unwrap_or(Path::new(""));
        let (mut config, origins) = Self::built(draft, origin, dir)?;
        let mut problems = Vec::new();
        for (name, draft) in targets {
            match Self::built(draft, origin, dir) {
                Ok((with, _)) => drop(config.models.targets.insert(name, with.models.target)),
                Err(ConfigError::Invalid { problems: own }) => {
                    problems.extend(own.into_iter().map(|problem| draft::problem_of(&name, problem)));
                }
                Err(other) => return Err(other),
            }
        }
        let loaded = LoadedConfig {
            config,
            source_text,
            path: path.map(Path::to_owned),
            origin: origin.to_owned(),
            origins,
            mapping: None,
            secrets: Secrets::default(),
        };
        problems.extend(loaded.unknown_targets());
        if problems.is_empty() { Ok(loaded) } else { Err(ConfigError::Invalid { problems }) }
    }

    /// The configuration of a draft to which nothing is added any more, and where its values came from.
    fn built(
        mut draft: Draft,
        origin: &str,
        dir: &Path,
    ) -> Result<(Self, BTreeMap<String, ValueSource>), ConfigError> {
        draft.check_kinds();
        draft.check_missing();
        draft.fill_policy();
        draft.fill_preset();
        draft.fill_providers();
        draft.fill_defaults();
        draft.fill_prices();
        draft.check_conflicts();
        let entries = draft.finish()?;
        let mut config: Self = serde_json::from_value(draft::nest(&entries)).map_err(|error| {
            // The table of keys has checked every value; a test keeps it in step with the types.
            let kind = ProblemKind::Conflict { message: error.to_string() };
            ConfigError::Invalid {
                problems: vec![Problem { place: Place::File { origin: origin.to_owned() }, kind }],
            }
        })?;
        let origins: BTreeMap<_, _> = entries.into_iter().map(|(key, entry)| (key, entry.origin)).collect();
        config.for_each_path(&mut |key, path| {
            if origins.get(key) != Some(&ValueSource::Set) {
                path.set_dir(dir);
            }
        });
        Ok((config, origins))
    }

    /// Visits the paths that are set, each with its key.
    pub(crate) fn for_each_path(&mut self, visit: &mut dyn FnMut(&str, &mut ConfigPath)) {
        let Self {
            run,
            models,
            env,
            skill,
            task,
            train,
            gate,
            bank,
            retrieval,
            evolution,
            collect,
            sft,
            rl,
            tinker,
            eval,
            prompts,
            limits,
            retry,
            budget,
        } = self;
        // Paths of further targets were visited when these were read.
        let ModelsConfig { target, targets: _, optimizer, judge, teacher, embedding } = models;
        run.visit_paths("run", visit);
        target.visit_paths("models.target", visit);
        optimizer.visit_paths("models.optimizer", visit);
        if let Some(embedding) = embedding {
            embedding.visit_paths("models.embedding", visit);
        }
        for (role, model) in [("judge", judge), ("teacher", teacher)] {
            if let Some(model) = model {
                model.visit_paths(&format!("models.{role}"), visit);
            }
        }
        env.visit_paths("env", visit);
        skill.visit_paths("skill", visit);
        task.visit_paths("task", visit);
        train.visit_paths("train", visit);
        gate.visit_paths("gate", visit);
        if let Some(bank) = bank {
            bank.visit_paths("bank", visit);
        }
        if let Some(retrieval) = retrieval {
            retrieval.visit_paths("retrieval", visit);
        }
        if let Some(evolution) = evolution {
            evolution.visit_paths("evolution", visit);
        }
        if let Some(collect) = collect {
            collect.visit_paths("collect", visit);
        }
        if let Some(sft) = sft {
            sft.visit_paths("sft", visit);
        }
        if let Some(rl) = rl {
            rl.visit_paths("rl", visit);
        }
        if let Some(server) = tinker {
            server.visit_paths("tinker", visit);
        }
        eval.visit_paths("eval", visit);
        prompts.visit_paths("prompts", visit);
        limits.visit_paths("limits", visit);
        retry.visit_paths("retry", visit);
        budget.visit_paths("budget", visit);
    }
}

impl LoadedConfig {
    /// The directory that paths in the file are relative to; empty for the current one.
    pub(crate) fn base_dir(&self) -> PathBuf {
        self.path.as_deref().and_then(Path::parent).map(Path::to_owned).unwrap_or_default()
    }

    /// The targets of evaluations that are not configured.
    fn unknown_targets(&self) -> Option<Problem> {
        let Config { train, models, .. } = &self.config;
        let is_known = |name: &&String| *name == OWN_TARGET || models.targets.contains_key(*name);
        let unknown = train.targets().iter().find(|name| !is_known(name))?;
        let known: Vec<&str> = models.targets.keys().map(String::as_str).collect();
        let configured = match known.is_empty() {
            true => "no section [models.targets.NAME] is there".to_owned(),
            false => format!("configured are {}", known.join(", ")),
        };
        let message = format!("`train.targets` names \"{unknown}\", and {configured}");
        Some(Problem { place: self.place_of("train.targets"), kind: ProblemKind::Conflict { message } })
    }

    /// The directory that programs run in: that of the file.
    pub(crate) fn program_dir(&self) -> PathBuf {
        let dir = self.base_dir();
        if dir.as_os_str().is_empty() { ".".into() } else { dir }
    }

    /// The run directory.
    pub fn run_dir(&self) -> PathBuf {
        self.config.run.dir.to_path()
    }

    /// Looks whether the files and directories that the run reads are there.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with one problem for each that is missing, or that is a file where a directory
    /// is needed.
    pub fn check_paths(&self) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        self.config.clone().for_each_path(&mut |key, path| {
            let resolved = path.to_path();
            let is_address = path.as_str().contains("://");
            let missing = || match is_address {
                true => {
                    Some("is an address, and files are read from this machine alone: download it as .jsonl")
                }
                false => (!resolved.exists()).then_some("does not exist"),
            };
            let Some((_, KeySpec { value: ValueType::Path(path_use), .. })) = keys::find(key) else { return };
            let what = match path_use {
                PathUse::Made => None,
                PathUse::Directory if resolved.is_file() => Some("is not a directory"),
                PathUse::File if resolved.is_dir() => Some("is a directory, not a file"),
                PathUse::Skill if resolved.is_dir() => {
                    let has_main = ["SKILL.md", "skill.md"].iter().any(|name| resolved.join(name).is_file());
                    (!has_main).then_some("is a directory without a SKILL.md")
                }
                PathUse::Directory | PathUse::File | PathUse::FileOrDirectory | PathUse::Skill => missing(),
            };
            if let Some(what) = what {
                let path = resolved.display().to_string();
                let kind = ProblemKind::Path { key: key.to_owned(), path, what };
                problems.push(Problem { place: self.place_of(key), kind });
            }
        });
        let skill = self.config.skill.initial.as_ref().map(ConfigPath::to_path);
        if let (Some(skill), Some(around)) = (skill, package_around(&self.run_dir()))
            && std::path::absolute(skill).is_ok_and(|skill| skill == around)
        {
            let (key, path) = ("run.dir".to_owned(), self.run_dir().display().to_string());
            let what =
                "is in the folder of the skill, and would become a part of it: name a directory outside";
            problems
                .push(Problem { place: self.place_of(&key), kind: ProblemKind::Path { key, path, what } });
        }
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::Invalid { problems }) }
    }

    /// Where a key was set; its column is that of the line's start.
    pub fn place_of(&self, key: &str) -> Place {
        match self.origins.get(key) {
            Some(ValueSource::File { line }) => {
                Place::At { origin: self.origin.clone(), line: *line, column: 1 }
            }
            Some(ValueSource::Set) => Place::Set,
            Some(ValueSource::Default | ValueSource::Preset | ValueSource::Run) | None => {
                Place::File { origin: self.origin.clone() }
            }
        }
    }
}
