//! What makes a run the run it is: the settings that may not change while it is resumed.

use crate::bank::record::ROUNDS_DIR;
use crate::error::PipelineError;
use crate::prompts::PromptLibrary;
use crate::prompts::trajectory::{MAX_FIELD_CHARS, MAX_TRAJECTORY_CHARS, MAX_TURN_CHARS};
use crate::run_dir::is_bank_run;
use crate::settings::TrainSettings;
use serde_json::{Value, json};
use skill_core::canonical::canonical_hash;
use skill_core::{ItemId, SkillDoc};
use skill_envs::{Env, Split};
use skill_llm::ChatModel;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::Path;

/// Settings by name. Speed, cost and the number of epochs are not among them: they may change.
pub type RunIdentity = BTreeMap<String, Value>;

/// The end of the names under which the parameters of models stand.
pub(crate) const PARAMETERS: &str = ".parameters";
/// The name under which the judge stands; null where the environment has none.
const JUDGE: &str = "models.judge";

/// The name of what is trained: a document, or a bank.
pub(crate) const MODE: &str = "train.mode";
/// The mode of a run that trains a bank.
pub(crate) const MODE_BANK: &str = "bank";
/// The mode of a run that fine-tunes a model.
#[cfg(feature = "weights")]
pub(crate) const MODE_SFT: &str = "sft";
/// The mode of a run that trains a policy by GRPO.
#[cfg(feature = "weights")]
pub(crate) const MODE_RL: &str = "rl";
/// The mode of a run that trains one document, and of every run that does not name its mode.
const MODE_DOCUMENT: &str = "document";

/// Collects everything that decides the results of a run: of each model its id and its [`ChatModel::parameters`], and
/// the same of the environment's judge.
///
/// `further` are settings that only the caller knows.
pub fn run_identity(
    further: &[(String, Value)],
    settings: &TrainSettings,
    env: &dyn Env,
    models: [(&str, &dyn ChatModel); 2],
    prompts: &PromptLibrary,
    initial_skill: &SkillDoc,
) -> RunIdentity {
    let mut identity: RunIdentity = further.iter().cloned().collect();
    identity.extend(settings.identity().map(|(key, value)| (key.to_owned(), value)));
    identity.insert("env.name".to_owned(), json!(env.name()));
    identity.insert("env.settings".to_owned(), env.settings());
    for split in Split::ALL {
        let items = serde_json::to_value(env.items(split)).unwrap_or_default();
        identity.insert(format!("data.{split}"), json!(canonical_hash(&items)));
    }
    for (role, model) in models {
        let name = format!("models.{role}");
        identity.insert(format!("{name}{PARAMETERS}"), model.parameters());
        identity.insert(name, json!(model.id().to_string()));
    }
    let judge = env.judge();
    identity.insert(JUDGE.to_owned(), json!(judge.map(|judge| judge.id().to_string())));
    identity
        .insert(format!("{JUDGE}{PARAMETERS}"), judge.map(|judge| judge.parameters()).unwrap_or_default());
    for (name, hash) in prompts.hashes() {
        identity.insert(format!("prompts.{name}"), json!(hash));
    }
    identity.insert("skill.initial".to_owned(), json!(initial_skill.hash()));
    identity
}

/// What a run did that lacks a setting of a later version; `None` for settings that every run has.
fn value_before(name: &str) -> Option<Value> {
    match name {
        "train.samples" | "train.candidates" => Some(json!(1)),
        "train.protocol" => Some(json!("paper")),
        "sft.beta2" => Some(json!(0.999)),
        "sft.mistakes" => Some(json!(0.0)),
        "train.trajectory_chars" => Some(json!(MAX_TRAJECTORY_CHARS)),
        "train.turn_chars" => Some(json!(MAX_TURN_CHARS)),
        "train.field_chars" => Some(json!(MAX_FIELD_CHARS)),
        _ => None,
    }
}

/// Refuses to continue a run with other settings.
///
/// # Errors
///
/// [`PipelineError::Mismatch`] with each setting that differs; where a bank was trained and a document is asked for, or the
/// other way around, with that alone.
pub fn check_identity(dir: &Path, stored: &RunIdentity, asked: &RunIdentity) -> Result<(), PipelineError> {
    let [was, is] = [stored, asked].map(mode);
    if was != is {
        return Err(other_mode(dir, was, is));
    }
    let names: std::collections::BTreeSet<&String> = stored.keys().chain(asked.keys()).collect();
    let changed: Vec<(&str, &Value, &Value)> = names
        .into_iter()
        .filter(|name| *name != MODE)
        .filter(|name| stored.contains_key(*name) || asked.get(*name) != value_before(name).as_ref())
        .map(|name| {
            let (was, is) = (stored.get(name), asked.get(name));
            (name.as_str(), was.unwrap_or(&Value::Null), is.unwrap_or(&Value::Null))
        })
        .filter(|(_, was, is)| was != is)
        .collect();
    // A setting of the configuration says it better than the parameters that are made from it.
    let is_said = |name: &str| {
        let Some(role) = name.strip_suffix(PARAMETERS) else { return false };
        let is_of_role = |other: &str| other.strip_prefix(role).is_some_and(|key| key.starts_with('.'));
        changed.iter().any(|(other, ..)| *other != name && is_of_role(other))
    };
    let said = changed.iter().filter(|(name, ..)| !is_said(name));
    let changes: Vec<SettingChange> = said.map(|(name, was, is)| SettingChange::of(name, was, is)).collect();
    if changes.is_empty() {
        return Ok(());
    }
    Err(PipelineError::Mismatch { path: dir.to_owned(), changes })
}

/// What a run trains.
fn mode(identity: &RunIdentity) -> &str {
    identity.get(MODE).and_then(Value::as_str).unwrap_or(MODE_DOCUMENT)
}

/// Refuses the directory of a run that trains a bank: by the names of its files, and where its log is gone by what it
/// says of itself.
pub(crate) fn check_is_document(dir: &Path, stored: Option<&RunIdentity>) -> Result<(), PipelineError> {
    let is_bank = stored.is_some_and(|stored| mode(stored) == MODE_BANK) && dir.join(ROUNDS_DIR).exists();
    if is_bank || is_bank_run(dir) {
        return Err(other_mode(dir, MODE_BANK, MODE_DOCUMENT));
    }
    Ok(())
}

fn other_mode(dir: &Path, was: &str, is: &str) -> PipelineError {
    let change = SettingChange::of(MODE, &json!(was), &json!(is));
    PipelineError::Mismatch { path: dir.to_owned(), changes: vec![change] }
}

/// A setting that differs from that of a run; its text is one phrase.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SettingChange {
    /// The items of a split.
    Data {
        /// The name of the split.
        split: String,
    },
    /// A prompt.
    Prompt {
        /// Its name.
        name: String,
    },
    /// The parameters of a model.
    Parameters {
        /// The name of the model's setting, such as `models.target`.
        model: String,
        /// Those that differ; values of any length would bury the message.
        members: Vec<String>,
    },
    /// The initial skill.
    InitialSkill,
    /// The settings of the environment.
    Environment {
        /// Those that differ.
        members: Vec<String>,
    },
    /// Another setting.
    Value {
        /// Its name.
        name: String,
        /// Its value in the run; null if it was not set.
        was: Value,
        /// Its value now; null if it is not set.
        is: Value,
    },
}

impl SettingChange {
    fn of(name: &str, was: &Value, is: &Value) -> Self {
        if let Some(split) = name.strip_prefix("data.") {
            return Self::Data { split: split.to_owned() };
        }
        if let Some(prompt) = name.strip_prefix("prompts.") {
            return Self::Prompt { name: prompt.to_owned() };
        }
        if let Some(model) = name.strip_suffix(PARAMETERS) {
            return Self::Parameters { model: model.to_owned(), members: changed_members(was, is) };
        }
        match name {
            "skill.initial" => Self::InitialSkill,
            "env.settings" => Self::Environment { members: changed_members(was, is) },
            _ => Self::Value { name: name.to_owned(), was: was.clone(), is: is.clone() },
        }
    }
}

impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data { split } => write!(f, "the data of the {split} split has changed"),
            Self::Prompt { name } => write!(f, "the prompt `{name}` has changed"),
            Self::Parameters { model, members } => {
                write!(f, "the parameters of `{model}` have changed ({})", members.join(", "))
            }
            Self::InitialSkill => f.write_str("the initial skill has changed"),
            Self::Environment { members } => {
                write!(f, "the environment's settings have changed ({})", members.join(", "))
            }
            Self::Value { name, was, is } => write!(f, "`{name}` was {}, is {}", shown(was), shown(is)),
        }
    }
}

/// The phrases of all changes, as a part of a sentence.
pub fn describe_changes(changes: &[SettingChange]) -> String {
    changes.iter().map(SettingChange::to_string).collect::<Vec<_>>().join("; ")
}

/// The members of two objects that differ.
fn changed_members(was: &Value, is: &Value) -> Vec<String> {
    let empty = serde_json::Map::new();
    let (was, is) = (was.as_object().unwrap_or(&empty), is.as_object().unwrap_or(&empty));
    let mut names: Vec<&str> = was
        .iter()
        .chain(is.iter())
        .map(|(name, _)| name.as_str())
        .filter(|name| was.get(*name) != is.get(*name))
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(str::to_owned).collect()
}

fn shown(value: &Value) -> String {
    const MAX_CHARS: usize = 80;
    let text = match value {
        Value::Null => "not set".to_owned(),
        other => other.to_string(),
    };
    if text.chars().count() <= MAX_CHARS {
        return text;
    }
    text.chars().take(MAX_CHARS).chain(['…']).collect()
}

/// Checks that ids are unique over all splits and that the splits a run reads have items.
///
/// # Errors
///
/// [`PipelineError::EmptySplit`] or [`PipelineError::DuplicateItem`].
pub fn check_items(env: &dyn Env, needs_test: bool) -> Result<(), PipelineError> {
    let mut seen: BTreeMap<&ItemId, Split> = BTreeMap::new();
    for split in Split::ALL {
        let items = env.items(split);
        if items.is_empty() && (needs_test || split != Split::Test) {
            return Err(PipelineError::EmptySplit { env: env.name().to_owned(), split });
        }
        for item in items {
            match seen.entry(&item.id) {
                Entry::Vacant(entry) => {
                    entry.insert(split);
                }
                Entry::Occupied(entry) => {
                    return Err(PipelineError::DuplicateItem {
                        id: item.id.clone(),
                        first: *entry.get(),
                        second: split,
                    });
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_earlier_runs_did_without_saying_so_is_no_change() {
        let (was, mut is) =
            (RunIdentity::new(), RunIdentity::from([("train.protocol".to_owned(), json!("paper"))]));
        assert!(check_identity(Path::new("run"), &was, &is).is_ok());
        is.insert("train.protocol".to_owned(), json!("auto"));
        assert!(check_identity(Path::new("run"), &was, &is).is_err());
    }
}
