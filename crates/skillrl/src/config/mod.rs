//! The configuration file: `skillrl.toml`.
//!
//! [`Config::load`] reads a file and the overrides of the command line, checks every key against the table in
//! [`keys`], and gives the configuration with all defaults filled in. Whatever is wrong is reported at once,
//! with file, line and column. [`default_file`] writes the commented file to start from.
//!
//! The module knows no provider and no environment, and never sees a secret: keys stand in environment variables that
//! the configuration only names. It opens two files: the configuration, and `config.json` of a run that exists already,
//! which keeps its split.

mod default_file;
mod draft;
pub mod error;
pub mod keys;
pub mod models;
pub mod path;
pub mod recorded;
pub mod reference;
mod secret;
mod show;
mod suggest;
pub mod tasks;
pub mod types;
mod value;
pub mod worlds;

#[cfg(test)]
mod tests;

pub use default_file::default_file;
pub use error::{ConfigError, Place, Problem, ProblemKind};
pub use models::{
    AgentConfig, AgentOutput, AgentProgram, AgentSandbox, AskedPrices, Effort, EffortField, KeyHeader,
    MaxTokensField, ModelConfig, PromptCache, ResponseFormat, ScriptedConfig, SeedField, ServedConfig,
    SimulatedConfig, SkillAs, ThinkingField,
};
pub use path::{AskedPath, PathBase};
pub use suggest::Suggestion;
pub(crate) use suggest::nearest as nearest_name;
pub use tasks::{
    TasksChoiceBy, TasksConfig, TasksExtract, TasksFileCalls, TasksJudge, TasksPercent, TasksPreset,
    TasksScorer, TasksUnits,
};
pub use types::{
    Anchors, AppendixSource, BudgetConfig, Config, EarlyStop, EnvConfig, EvalConfig, GateConfig, GateMode,
    LimitsConfig, Metric, ModelsConfig, PairPolicy, PromptsConfig, QaConfig, QaScorer, RetryConfig,
    RunConfig, Schedule, SkillConfig, SlowUpdate, TrainConfig, UpdateMode,
};
pub use worlds::{
    AgentKeys, AlfworldConfig, ExecConfig, ExecSkill, GoalSplit, MissingShopProducts, ShopGoals, ShopPages,
    UnplayableGames, WebshopConfig, WorldActionFormat,
};

pub(crate) use value::to_toml;

use draft::Draft;
use skill_llm::Secrets;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The name under which the file is looked for and written.
pub const FILE_NAME: &str = "skillrl.toml";

/// A larger file is no configuration.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Nobody asked for anything else.
    Default,
    /// The file.
    File {
        /// The line of the key, from 1.
        line: usize,
    },
    /// An override on the command line.
    Set,
    /// The preset that `env.preset` or `provider` names.
    Preset,
    /// The run in `run.dir`, which was started when the default was another.
    Run,
}

/// A configuration with what is known about where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: Config,
    /// The text of the file, as it was read.
    pub source_text: String,
    /// The file; `None` for a text from elsewhere.
    pub path: Option<PathBuf>,
    /// How the file is called in messages.
    pub origin: String,
    /// Where each value came from, by dotted key; keys that are not set are not there.
    pub origins: BTreeMap<String, Origin>,
    /// The secrets of the run, shared by all that is built from this; empty until something is.
    pub secrets: Secrets,
}

impl Config {
    /// Reads a file, then overrides of the form `KEY=VALUE`. Where `run.dir` holds a run that was split by an earlier
    /// default, keys of the split that nobody sets keep the values of that run.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is larger than 1 MiB, and everything that [`Config::parse`] refuses.
    pub fn load(path: &Path, overrides: &[String]) -> Result<LoadedConfig, ConfigError> {
        let read_error = |source| ConfigError::Read { path: path.to_owned(), source };
        let file = std::fs::File::open(path).map_err(read_error)?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(read_error)?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_FILE_BYTES) {
            return Err(ConfigError::TooLarge { path: path.to_owned(), limit: MAX_FILE_BYTES });
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
            let line = good.filter(|byte| **byte == b'\n').count() + 1;
            ConfigError::NotText { path: path.to_owned(), line }
        })?;
        let mut loaded = Self::parse(&text, &path.display().to_string(), overrides)?;
        loaded.path = Some(path.to_owned());
        recorded::keep_split_of_run(&mut loaded);
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
        let mut draft = Draft::new(origin);
        // Of a text that is not TOML nothing is known: it would only seem to miss keys.
        draft.read_file(text)?;
        draft.read_overrides(overrides);
        draft.check_kinds();
        draft.check_missing();
        draft.fill_preset();
        draft.fill_providers();
        draft.fill_defaults();
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
        config.for_each_path(|key, path| {
            let is_set = origins.get(key) == Some(&Origin::Set);
            path.set_base(if is_set { PathBase::CurrentDirectory } else { PathBase::ConfigFile });
        });
        Ok(LoadedConfig {
            config,
            source_text: text.to_owned(),
            path: None,
            origin: origin.to_owned(),
            origins,
            secrets: Secrets::default(),
        })
    }

    fn for_each_path(&mut self, mut visit: impl FnMut(&'static str, &mut AskedPath)) {
        visit("run.dir", &mut self.run.dir);
        let models = [
            ("models.target.file", &mut self.models.target),
            ("models.optimizer.file", &mut self.models.optimizer),
        ];
        let judge = self.models.judge.as_mut().map(|judge| ("models.judge.file", judge));
        for (key, model) in models.into_iter().chain(judge) {
            match model {
                ModelConfig::Scripted(scripted) => visit(key, &mut scripted.file),
                ModelConfig::OpenAi(_)
                | ModelConfig::Anthropic(_)
                | ModelConfig::Responses(_)
                | ModelConfig::Agent(_)
                | ModelConfig::Simulated(_) => {}
            }
        }
        match &mut self.env {
            EnvConfig::Qa(qa) => visit("env.data", &mut qa.data),
            EnvConfig::Tasks(tasks) => {
                visit("env.data", &mut tasks.data);
                let optional = [
                    ("env.split_ids", &mut tasks.split_ids),
                    ("env.prompt", &mut tasks.prompt),
                    ("env.tools", &mut tasks.tools),
                    ("env.image_dir", &mut tasks.image_dir),
                    ("env.files_dir", &mut tasks.files_dir),
                    ("env.rubric_file", &mut tasks.rubric_file),
                ];
                for (key, path) in optional {
                    if let Some(path) = path {
                        visit(key, path);
                    }
                }
            }
            EnvConfig::Alfworld(world) => {
                let paths = [
                    ("env.games", &mut world.games),
                    ("env.games_train", &mut world.games_train),
                    ("env.games_val", &mut world.games_val),
                    ("env.games_test", &mut world.games_test),
                    ("env.server_tasks", &mut world.server_tasks),
                ];
                for (key, path) in paths {
                    if let Some(path) = path {
                        visit(key, path);
                    }
                }
            }
            EnvConfig::Exec(world) => {
                let paths = [("env.program_dir", &mut world.program_dir), ("env.items", &mut world.items)];
                for (key, path) in paths {
                    if let Some(path) = path {
                        visit(key, path);
                    }
                }
            }
            EnvConfig::Webshop(world) => {
                let paths = [
                    ("env.products", &mut world.products),
                    ("env.attributes", &mut world.attributes),
                    ("env.instructions", &mut world.instructions),
                    ("env.goals", &mut world.goals),
                    ("env.prices", &mut world.prices),
                    ("env.nouns", &mut world.nouns),
                    ("env.server_tasks", &mut world.server_tasks),
                ];
                for (key, path) in paths {
                    if let Some(path) = path {
                        visit(key, path);
                    }
                }
            }
        }
        if let Some(initial) = &mut self.skill.initial {
            visit("skill.initial", initial);
        }
        if let Some(dir) = &mut self.prompts.dir {
            visit("prompts.dir", dir);
        }
    }
}

impl LoadedConfig {
    /// The directory that paths in the file are relative to; empty for the current one.
    pub fn base_dir(&self) -> PathBuf {
        self.path.as_deref().and_then(Path::parent).map(Path::to_owned).unwrap_or_default()
    }

    /// The path to open for a path of the configuration.
    pub fn resolve(&self, path: &AskedPath) -> PathBuf {
        path.resolve(&self.base_dir())
    }

    /// Looks whether the files and directories that the run reads are there.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with one problem for each that is missing, or that is a file where a directory
    /// is needed.
    pub fn check_paths(&self) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        self.config.clone().for_each_path(|key, path| {
            let resolved = self.resolve(path);
            let what = match key {
                // The run makes its directory itself.
                "run.dir" => None,
                "prompts.dir" | "env.split_ids" | "env.image_dir" | "env.files_dir" | "env.games"
                | "env.server_tasks"
                    if resolved.is_file() =>
                {
                    Some("is not a directory")
                }
                "skill.initial" if resolved.is_dir() => {
                    let has_main = ["SKILL.md", "skill.md"].iter().any(|name| resolved.join(name).is_file());
                    (!has_main).then_some("is a directory without a SKILL.md")
                }
                "models.target.file"
                | "models.optimizer.file"
                | "models.judge.file"
                | "env.prompt"
                | "env.tools"
                | "env.rubric_file"
                | "env.products"
                | "env.attributes"
                | "env.instructions"
                | "env.goals"
                | "env.prices"
                | "env.nouns"
                    if resolved.is_dir() =>
                {
                    Some("is a directory, not a file")
                }
                _ => (!resolved.exists()).then_some("does not exist"),
            };
            if let Some(what) = what {
                let path = resolved.display().to_string();
                let kind = ProblemKind::Path { key: key.to_owned(), path, what };
                problems.push(Problem { place: self.place_of(key), kind });
            }
        });
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::Invalid { problems }) }
    }

    /// Where a key was set; its column is that of the line's start.
    pub fn place_of(&self, key: &str) -> Place {
        match self.origins.get(key) {
            Some(Origin::File { line }) => Place::At { origin: self.origin.clone(), line: *line, column: 1 },
            Some(Origin::Set) => Place::Set,
            Some(Origin::Default | Origin::Preset | Origin::Run) | None => {
                Place::File { origin: self.origin.clone() }
            }
        }
    }
}
