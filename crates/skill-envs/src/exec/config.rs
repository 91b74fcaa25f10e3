//! What an `exec` environment is made from.

pub use crate::choices::{OnError, SkillDelivery};

use super::protocol::Mode;
use crate::error::EnvError;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skill_core::{RatioSplit, SplitRatio, SplitRule};
use skill_llm::{Secrets, process};
use std::path::PathBuf;
use std::time::Duration;

/// Which program is the environment, what it is given, and how long it may take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecConfig {
    /// The program and its arguments, such as `["python3", "env.py"]`; no shell reads it.
    pub command: Vec<String>,
    /// Where the program runs; `None` is where this process runs.
    pub directory: Option<PathBuf>,
    /// Environment variables with their values; no place for secrets.
    #[serde(default)]
    pub set_env: IndexMap<String, String>,
    /// Names of environment variables that the program gets besides [`super::BASE_VARIABLES`].
    ///
    /// It sees no others: the keys of the models are not among them unless they are named.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// Handed to the program as it is.
    #[serde(default)]
    pub settings: Map<String, Value>,
    /// Data files as for other environments; `None` if the program lists its items.
    pub data: Option<PathBuf>,
    /// The shares of train, val and test where `data` is one file.
    #[serde(default)]
    pub split_ratio: SplitRatio,
    /// How explicit shares become numbers of items.
    #[serde(default)]
    pub split_rule: SplitRule,
    /// The seed of the shuffle before one file is split.
    #[serde(default = "default_seed")]
    pub split_seed: u64,
    /// Whether the data may do without a test split, as for a run that does not read it.
    #[serde(default)]
    pub test_is_optional: bool,
    /// The seed of what the program draws at random, together with the item's id.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// How many processes run side by side at most; they are started when they are needed.
    #[serde(default = "default_processes")]
    pub processes: u32,
    /// Whether every rollout or episode has a process of its own.
    #[serde(default)]
    pub process_per_rollout: bool,
    /// How the program gets the skill, where it runs its own agent.
    #[serde(default)]
    pub skill: SkillDelivery,
    /// The text that the agent's prompt holds, for [`SkillDelivery::Replace`]; `None` is the initial skill of the program.
    #[serde(default)]
    pub initial_skill: Option<String>,
    /// Whether the engine serves the program's agent a model of its own, see [`crate::endpoint`].
    ///
    /// Where it is found is in each `rollout`, and with [`Self::process_per_rollout`] also in the environment
    /// variables that clients read, see [`super::ENDPOINT_VARIABLES`].
    #[serde(default)]
    pub endpoint: bool,
    /// Whether a judge scores what the program gives no score.
    #[serde(default)]
    pub has_judge: bool,
    /// What an attempt is that breaks.
    #[serde(default)]
    pub on_error: OnError,
    /// The share of a stage's rollouts that may break with [`OnError::Fail`].
    #[serde(default = "default_max_errors")]
    pub max_errors: f64,
    /// How long the program may take.
    #[serde(default)]
    pub deadlines: ExecDeadlines,
    /// What else is limited.
    #[serde(default)]
    pub limits: ExecLimits,
    /// The secrets of the run, which are taken out of everything that the program prints or sends to the endpoint.
    #[serde(skip)]
    pub secrets: Secrets,
}

impl ExecConfig {
    /// The defaults for this program.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            directory: None,
            set_env: IndexMap::new(),
            pass_env: Vec::new(),
            settings: Map::new(),
            data: None,
            split_ratio: SplitRatio::default(),
            split_rule: SplitRule::default(),
            split_seed: default_seed(),
            test_is_optional: false,
            seed: default_seed(),
            processes: default_processes(),
            process_per_rollout: false,
            skill: SkillDelivery::default(),
            initial_skill: None,
            endpoint: false,
            has_judge: false,
            on_error: OnError::default(),
            max_errors: default_max_errors(),
            deadlines: ExecDeadlines::default(),
            limits: ExecLimits::default(),
            secrets: Secrets::default(),
        }
    }

    /// How one data file is split.
    pub(super) fn split(&self) -> RatioSplit {
        RatioSplit { ratio: self.split_ratio, rule: self.split_rule, seed: self.split_seed }
    }

    /// What is wrong with the configuration by itself.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        let wrong = |message: String| Err(EnvError::Configuration { message });
        if self.command.first().is_none_or(|program| program.trim().is_empty()) {
            return wrong(
                "`command` names no program; expected a list such as [\"python3\", \"env.py\"]".to_owned(),
            );
        }
        if self.processes == 0 {
            return wrong("`processes` is 0; expected at least 1".to_owned());
        }
        if self.limits.line_bytes == 0 {
            return wrong("`limits.line_bytes` is 0; expected at least 1".to_owned());
        }
        if matches!(self.skill, SkillDelivery::SystemPrompt | SkillDelivery::Replace) && !self.endpoint {
            let delivery = self.skill.as_str();
            return wrong(format!(
                "`skill_delivery` is `{delivery}`, which only the endpoint can do; set `endpoint` to true"
            ));
        }
        if !(0.0..=1.0).contains(&self.max_errors) {
            return wrong(format!("`max_errors` is {}; expected a share from 0 to 1", self.max_errors));
        }
        if let Some(name) = self.set_env.keys().find(|name| !process::is_variable_name(name)) {
            return wrong(format!("`set_env`: {name:?} cannot be the name of an environment variable"));
        }
        if let Err(message) = process::check_passed(&self.pass_env) {
            return wrong(message);
        }
        let ExecDeadlines { start_seconds, reset_seconds, step_seconds, rollout_seconds } = self.deadlines;
        for (name, seconds) in [
            ("deadlines.start_seconds", start_seconds),
            ("deadlines.reset_seconds", reset_seconds),
            ("deadlines.step_seconds", step_seconds),
            ("deadlines.rollout_seconds", rollout_seconds),
            ("limits.backoff_seconds", self.limits.backoff_seconds),
        ] {
            if Duration::try_from_secs_f64(seconds).is_err() || seconds == 0.0 {
                return wrong(format!("`{name}` is {seconds}; expected a number of seconds above 0"));
            }
        }
        Ok(())
    }
}

/// How long a program may take before its process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExecDeadlines {
    /// From its start to its answer to `hello`.
    pub start_seconds: f64,
    /// For a `reset`.
    pub reset_seconds: f64,
    /// For a `step`.
    pub step_seconds: f64,
    /// For a whole `rollout`.
    pub rollout_seconds: f64,
}

impl Default for ExecDeadlines {
    fn default() -> Self {
        Self { start_seconds: 60.0, reset_seconds: 120.0, step_seconds: 60.0, rollout_seconds: 1_800.0 }
    }
}

/// What is limited besides time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExecLimits {
    /// The longest line that the program may print, in bytes.
    pub line_bytes: usize,
    /// How much of its standard error is kept for messages, in bytes.
    pub stderr_bytes: usize,
    /// How many times in a row a process may die without having finished anything, before nobody starts it again.
    pub restarts: u32,
    /// The wait before the first of these further starts; each next one waits twice as long, up to 10 s.
    pub backoff_seconds: f64,
}

impl Default for ExecLimits {
    fn default() -> Self {
        Self { line_bytes: 64 << 20, stderr_bytes: 16 << 10, restarts: 5, backoff_seconds: 0.1 }
    }
}

/// A number of seconds that was checked.
pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// What decides results, for [`crate::Env::settings`].
pub(super) fn identity(config: &ExecConfig, mode: Mode) -> Map<String, Value> {
    let mut identity = Map::new();
    identity.insert("command".to_owned(), config.command.clone().into());
    identity.insert("settings".to_owned(), Value::Object(config.settings.clone()));
    identity.insert("seed".to_owned(), config.seed.into());
    // Only their digest: a run's files show no value of an environment variable.
    let set_env: Map<String, Value> =
        config.set_env.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    identity
        .insert("set_env".to_owned(), skill_core::canonical::canonical_hash(&Value::Object(set_env)).into());
    identity.insert("mode".to_owned(), mode.as_str().into());
    if mode == Mode::Rollout {
        identity.insert("skill".to_owned(), config.skill.as_str().into());
        identity.insert("endpoint".to_owned(), config.endpoint.into());
        // Runs of before the key had no other value.
        if config.on_error != OnError::Stop {
            identity.insert("on_error".to_owned(), config.on_error.as_str().into());
        }
    }
    identity
}

fn default_seed() -> u64 {
    42
}

/// The share of rollouts that may break by default.
pub const DEFAULT_MAX_ERRORS: f64 = 0.5;

fn default_max_errors() -> f64 {
    DEFAULT_MAX_ERRORS
}

fn default_processes() -> u32 {
    4
}
