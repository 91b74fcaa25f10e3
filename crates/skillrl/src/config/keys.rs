//! The table of all keys of the configuration file: the one source of truth for checking, for the search of
//! the nearest key, for the commented default file and for documentation.
//!
//! Nothing here reads a file. The keys are declared with the structs that hold them, in [`super::types`],
//! [`super::models`] and [`super::env`].
//!
//! # Invariants
//!
//! - The table of keys and the types hold the same keys, and a key that is declared as a path has the type of one.
//!   Held by `every_key_without_a_kind_or_of_the_default_kind_is_part_of_the_types`.

use super::key::{KeyDefault, KeySpec};
use crate::config::bank::{BankConfig, EmbeddingConfig, EvolutionConfig, RetrievalConfig};
use crate::config::collect::CollectConfig;
use crate::config::env::{self, ENV};
use crate::config::models::{self, MODEL};
use crate::config::rl::RlConfig;
use crate::config::sft::SftConfig;
use crate::config::tinker::TinkerConfig;
use crate::config::types::{
    BudgetConfig, EvalConfig, GateConfig, LimitsConfig, NatsConfig, PromptsConfig, RetryConfig, RunConfig,
    SkillConfig, TaskConfig, TrainConfig, TrainMode,
};
use serde::de::DeserializeOwned;
use serde_json::Map;

/// The modes of training with a bank.
const WITH_BANK: &[&str] = &[TrainMode::Bank.as_str(), TrainMode::Weights.as_str()];
/// The mode of training weights.
const WEIGHTS: &[&str] = &[TrainMode::Weights.as_str()];

const SECTIONS: &[SectionSpec] = &[
    SectionSpec::new("run", "The run as a whole. All of this section may be left out.", &[RunConfig::KEYS]),
    SectionSpec::new(
        "run.nats",
        "The broker between a run and its workers, where run.runner is \"nats\".",
        &[NatsConfig::KEYS],
    )
    .optional(),
    SectionSpec::new(
        "models.target",
        "The model that does the tasks, with the skill in its prompt. It is what gets better.",
        &[models::KIND, MODEL],
    ),
    SectionSpec::new(
        "models.optimizer",
        "The model that reads what went wrong and proposes edits to the skill.",
        &[models::KIND, MODEL],
    ),
    SectionSpec::new(
        "models.judge",
        "The model that grades answers, where env.scorer is \"rubric\". It has all keys of [models.target].",
        &[models::KIND, MODEL],
    )
    .optional(),
    SectionSpec::new(
        "models.teacher",
        "The model that reads trajectories and writes skills of a bank. Without it [models.optimizer] does that.",
        &[models::KIND, MODEL],
    )
    .optional(),
    SectionSpec::new(
        "models.embedding",
        "The model that gives vectors to goals and skills, where retrieval.mode is \"embedding\".",
        &[EmbeddingConfig::KEYS],
    )
    .optional(),
    SectionSpec::new("env", "The tasks.", &[env::KIND, ENV]),
    SectionSpec::new("skill", "The skill that training starts from.", &[SkillConfig::KEYS]),
    SectionSpec::new("task", "What the optimizer is told of the task. All of this section may be left out.", &[TaskConfig::KEYS]),
    SectionSpec::new("train", "The training loop. The defaults are the paper's.", &[TrainConfig::KEYS]),
    SectionSpec::new(
        "gate",
        "What a changed skill must do to be kept: score strictly higher on the validation split, and what mode asks for.",
        &[GateConfig::KEYS],
    ),
    SectionSpec::new("bank", "The bank, where train.mode is \"bank\" or \"weights\".", &[BankConfig::KEYS])
        .of_modes(WITH_BANK),
    SectionSpec::new("retrieval", "Which skills of a bank a task is shown.", &[RetrievalConfig::KEYS])
        .of_modes(WITH_BANK),
    SectionSpec::new("evolution", "How a bank is changed, round by round.", &[EvolutionConfig::KEYS])
        .of_modes(WITH_BANK),
    SectionSpec::new(
        "collect",
        "The episodes that runs begin with whose train.mode is \"weights\".",
        &[CollectConfig::KEYS],
    )
    .of_modes(WEIGHTS),
    SectionSpec::new("sft", "Fine-tuning by `skillrl sft`, where the target is of kind \"local\".", &[SftConfig::KEYS])
        .of_weights(),
    SectionSpec::new(
        "rl",
        "Reinforcement learning by `skillrl rl`, of a target of kind \"local\" or of the policy that --policy names.",
        &[RlConfig::KEYS],
    )
    .of_weights(),
    SectionSpec::new(
        "tinker",
        "The server that computes samples and gradients of `skillrl sft` and `skillrl rl`, if it is not this machine.",
        &[TinkerConfig::KEYS],
    )
    .of_weights(),
    SectionSpec::new("eval", "What is measured after training.", &[EvalConfig::KEYS]),
    SectionSpec::new("prompts", "The prompts of the optimizer.", &[PromptsConfig::KEYS]),
    SectionSpec::new("limits", "Bounds on single calls.", &[LimitsConfig::KEYS]),
    SectionSpec::new(
        "retry",
        "How often and how long a call is tried again that a server failed or refused for now (HTTP 429, 5xx).",
        &[RetryConfig::KEYS],
    ),
    SectionSpec::new(
        "budget",
        "What the run may use, over all its processes. At a cap it stops; it can be resumed with a higher one.",
        &[BudgetConfig::KEYS],
    ),
];

/// One section of the configuration file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SectionSpec {
    /// The dotted name.
    pub path: &'static str,
    /// What it is for, in sentences.
    pub doc: &'static str,
    groups: &'static [&'static [KeySpec]],
    /// Whether the section is there only if a key of it is given, or what is trained needs it.
    pub is_optional: bool,
    /// True if only commands that train weights use the section; it is not part of the identity of a skill or bank run.
    pub is_of_weights: bool,
    /// The values of `train.mode` that need the section.
    pub modes: &'static [&'static str],
}

impl SectionSpec {
    const fn new(path: &'static str, doc: &'static str, groups: &'static [&'static [KeySpec]]) -> Self {
        Self { path, doc, groups, is_optional: false, is_of_weights: false, modes: &[] }
    }

    const fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    const fn of_weights(mut self) -> Self {
        self.is_of_weights = true;
        self.optional()
    }

    /// The same, but that it is always there where this is trained.
    const fn of_modes(mut self, modes: &'static [&'static str]) -> Self {
        self.is_optional = true;
        self.modes = modes;
        self
    }

    /// The keys, in the order of the file.
    pub fn keys(&self) -> impl Iterator<Item = &'static KeySpec> + use<> {
        let path = self.path;
        self.groups
            .iter()
            .copied()
            .flatten()
            .filter(move |key| key.sections.is_empty() || key.sections.contains(&path))
    }

    /// The key of that name.
    pub fn key(&self, name: &str) -> Option<&'static KeySpec> {
        self.keys().find(|key| key.name == name)
    }

    /// The dotted path of one of its keys.
    pub fn path_of(&self, key: &KeySpec) -> String {
        format!("{}.{}", self.path, key.name)
    }
}

/// The value that a text of TOML is for a key; `None` for one that it does not take.
pub(crate) fn value_of(key: &KeySpec, toml: &str) -> Option<serde_json::Value> {
    let value = toml::de::DeValue::parse(toml).ok()?;
    super::value::check(key.name, key.value, value.get_ref()).ok()
}

/// The default of a key; `None` where nothing is set by default.
pub(super) fn default_of(key: &KeySpec) -> Option<serde_json::Value> {
    let KeyDefault::Value(default) = key.default else { return None };
    value_of(key, default)
}

/// A section of which nothing is set.
pub(super) fn of_defaults<T: DeserializeOwned>(keys: &[KeySpec]) -> T {
    let fields = keys.iter().filter_map(|key| Some((key.name.to_owned(), default_of(key)?)));
    serde_json::from_value(fields.collect::<Map<_, _>>().into()).expect("the defaults are those of the keys")
}

/// [`Default`] for sections, each as a section of which nothing is set.
macro_rules! with_defaults {
    ($($name:ident),+) => {$(
        impl Default for $name {
            fn default() -> Self {
                $crate::config::keys::of_defaults(Self::KEYS)
            }
        }
    )+};
}

pub(in crate::config) use with_defaults;

/// All sections, in the order of the file.
pub fn sections() -> &'static [SectionSpec] {
    SECTIONS
}

/// All keys with their sections, in the order of the file.
pub fn keys() -> impl Iterator<Item = (&'static SectionSpec, &'static KeySpec)> {
    SECTIONS.iter().flat_map(|section| section.keys().map(move |key| (section, key)))
}

/// The section with that dotted name.
pub fn section(path: &str) -> Option<&'static SectionSpec> {
    SECTIONS.iter().find(|section| section.path == path)
}

/// The key with that dotted path, and its section.
pub fn find(path: &str) -> Option<(&'static SectionSpec, &'static KeySpec)> {
    let (section_path, name) = path.rsplit_once('.')?;
    let section = section(section_path)?;
    section.key(name).map(|key| (section, key))
}
