//! What makes a run the run it is: the settings that may not change while it is resumed.

use crate::error::PipelineError;
use crate::prompts::PromptLibrary;
use crate::settings::TrainSettings;
use serde_json::{Value, json};
use skill_core::canonical::canonical_hash;
use skill_core::{ItemId, SkillDoc};
use skill_envs::{Env, Split};
use skill_llm::ModelId;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

/// Settings by name. Speed, cost and the number of epochs are not among them: they may change.
pub type RunIdentity = BTreeMap<String, Value>;

/// Collects everything that decides the results of a run.
///
/// `further` are settings that only the caller knows, such as sampling parameters of the models.
pub fn run_identity(
    further: &[(String, Value)],
    settings: &TrainSettings,
    env: &dyn Env,
    models: [(&str, &ModelId); 2],
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
    for (role, id) in models {
        identity.insert(format!("models.{role}"), json!(id.to_string()));
    }
    for (name, hash) in prompts.hashes() {
        identity.insert(format!("prompts.{name}"), json!(hash));
    }
    identity.insert("skill.initial".to_owned(), json!(initial_skill.hash()));
    identity
}

/// Refuses to go on with a run of other settings.
///
/// # Errors
///
/// [`PipelineError::Mismatch`] with a phrase for each setting that differs.
pub fn check_identity(dir: &Path, stored: &RunIdentity, asked: &RunIdentity) -> Result<(), PipelineError> {
    let names: std::collections::BTreeSet<&String> = stored.keys().chain(asked.keys()).collect();
    let changes: Vec<String> = names
        .into_iter()
        .filter_map(|name| {
            let (was, is) =
                (stored.get(name).unwrap_or(&Value::Null), asked.get(name).unwrap_or(&Value::Null));
            (was != is).then(|| describe_change(name, was, is))
        })
        .collect();
    if changes.is_empty() {
        return Ok(());
    }
    Err(PipelineError::Mismatch { path: dir.to_owned(), changes })
}

fn describe_change(name: &str, was: &Value, is: &Value) -> String {
    if let Some(split) = name.strip_prefix("data.") {
        return format!("the data of the {split} split has changed");
    }
    if let Some(prompt) = name.strip_prefix("prompts.") {
        return format!("the prompt `{prompt}` has changed");
    }
    match name {
        "skill.initial" => "the initial skill has changed".to_owned(),
        "env.settings" => format!("the environment's settings have changed ({})", describe_members(was, is)),
        _ => format!("`{name}` was {}, is {}", shown(was), shown(is)),
    }
}

/// Names the members of two objects that differ; values of any length would bury the message.
fn describe_members(was: &Value, is: &Value) -> String {
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
    names.join(", ")
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
