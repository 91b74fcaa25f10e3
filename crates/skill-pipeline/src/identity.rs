//! What makes a run the run it is: the settings that may not change while it is resumed.

use crate::error::{PipelineError, SettingChange};
use crate::kind::{self, MODE, RunKind};
use crate::prompts::PromptLibrary;
use crate::records::RunIdentity;
use crate::records::bank::ROUNDS_DIR;
use crate::settings::{MAX_FIELD_CHARS, MAX_TRAJECTORY_CHARS, MAX_TURN_CHARS, TrainSettings};
use serde_json::{Map, Value, json};
use skill_core::canonical::canonical_hash;
use skill_core::{ItemId, SkillDoc};
use skill_envs::{Env, Split};
use skill_llm::ChatModel;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

/// The identity key of an imported run. Runs of this program never have it, so an imported run cannot be resumed.
pub const IMPORTED_FROM: &str = "imported_from";
/// The end of the names under which the parameters of models stand.
pub(crate) const PARAMETERS: &str = ".parameters";
/// The name under which the judge stands; null where the environment has none.
const JUDGE: &str = "models.judge";

/// Collects everything that decides the results of a run: of each model its id and its [`ChatModel::parameters`], and
/// the same of the environment's judge.
///
/// `further` are settings that only the caller knows.
pub(crate) fn run_identity(
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
        let items = serde_json::to_value(env.items(split)).expect("items serialize");
        identity.insert(data_of(split.as_str()), json!(canonical_hash(&items)));
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
        "train.samples" => Some(json!(1)),
        "train.round" => Some(json!(4)),
        "train.protocol" => Some(json!("paper")),
        "sft.beta2" => Some(json!(0.999)),
        "sft.mistakes" => Some(json!(0.0)),
        "train.trajectory_chars" => Some(json!(MAX_TRAJECTORY_CHARS)),
        "train.turn_chars" => Some(json!(MAX_TURN_CHARS)),
        "train.field_chars" => Some(json!(MAX_FIELD_CHARS)),
        _ => None,
    }
}

/// True for a setting of earlier versions that is gone, with the value by which it did nothing.
fn is_gone(name: &str, value: &Value) -> bool {
    name == "train.candidates" && *value == json!(1)
}

/// Refuses to continue a run with other settings.
///
/// # Errors
///
/// [`PipelineError::Mismatch`] with each setting that differs, or with the kind of run alone where that differs.
pub fn check_identity(dir: &Path, stored: &RunIdentity, asked: &RunIdentity) -> Result<(), PipelineError> {
    let [was, is] = [stored, asked].map(kind::mode_of);
    if was != is {
        return Err(other_mode(dir, was, is));
    }
    let names: std::collections::BTreeSet<&String> = stored.keys().chain(asked.keys()).collect();
    let changed: Vec<(&str, &Value, &Value)> = names
        .into_iter()
        .filter(|name| *name != MODE)
        .filter(|name| {
            asked.contains_key(*name) || !stored.get(*name).is_some_and(|value| is_gone(name, value))
        })
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

/// Settings that say what a label is and how a score is made of an answer.
const SCORING: [&str; 8] = [
    "env.scorer",
    "env.extract",
    "env.answer_field",
    "env.choices_field",
    "env.rules_field",
    "env.merge_labels",
    "env.fold_labels",
    "env.invalid_action_penalty",
];

/// The same among what an environment says of itself, see [`Env::settings`].
const SCORING_MEMBERS: [&str; 11] = [
    "scoring_version",
    "scorer",
    "extract",
    "judge",
    "choice_seed",
    "compare",
    "recalculate",
    "world",
    "name",
    "version",
    "settings",
];

/// What a world says of itself that is only about how an agent is shown it.
const SHOWN: [&str; 5] =
    ["instructions", "observation", "previous_actions", "previous_observations", "show_attributes"];

/// What differs of the items of a split (`train`, `val` or `test`), of their labels and of how they are scored: without
/// any difference two measurements can be compared item by item, whatever their skills, models and prompts are.
pub fn scoring_changes(stored: &RunIdentity, asked: &RunIdentity, split: &str) -> Vec<SettingChange> {
    const ENVIRONMENT: &str = "env.settings";
    let of = |identity: &RunIdentity, name: &str| identity.get(name).cloned().unwrap_or_default();
    let changed = |name: &str, pick: &dyn Fn(Value) -> Value| {
        let [was, is] = [stored, asked].map(|identity| pick(of(identity, name)));
        (was != is).then(|| SettingChange::of(name, &was, &is))
    };
    let members = |settings: Value| -> Value {
        let kept = SCORING_MEMBERS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), settings.get(*name)?.clone())));
        let mut kept: Map<String, Value> = kept.collect();
        if let Some(world) = kept.get_mut("world").and_then(Value::as_object_mut) {
            world.retain(|name, _| !SHOWN.contains(&name.as_str()));
        }
        Value::Object(kept)
    };
    let mut changes: Vec<SettingChange> =
        changed(&data_of(split), &|hash| hash).into_iter().chain(changed("env.name", &|name| name)).collect();
    let n_of_items = changes.len();
    changes.extend(SCORING.iter().filter_map(|name| changed(name, &|value| value)));
    if changes.len() == n_of_items {
        changes.extend(changed(ENVIRONMENT, &members));
    }
    changes
}

/// The name under which the hash of a split's items stands.
pub fn data_of(split: &str) -> String {
    format!("data.{split}")
}

/// Refuses the directory of a run that trains a bank: by the names of its files, and where its log is gone by what it
/// says of itself.
pub(crate) fn check_is_document(dir: &Path, stored: Option<&RunIdentity>) -> Result<(), PipelineError> {
    if stored.is_some_and(|stored| kind::mode_of(stored) == RunKind::Bank.as_str())
        && dir.join(ROUNDS_DIR).exists()
        || kind::trains_bank(dir)
    {
        return Err(other_mode(dir, RunKind::Bank.as_str(), RunKind::Document.as_str()));
    }
    Ok(())
}

fn other_mode(dir: &Path, was: &str, is: &str) -> PipelineError {
    let change = SettingChange::of(MODE, &json!(was), &json!(is));
    PipelineError::Mismatch { path: dir.to_owned(), changes: vec![change] }
}

/// Checks that ids are unique over all splits and that the splits a run reads have items.
///
/// # Errors
///
/// [`PipelineError::EmptySplit`] or [`PipelineError::DuplicateItem`].
pub fn check_items(env: &dyn Env, needs_test: bool) -> Result<(), PipelineError> {
    let mut seen: BTreeMap<&ItemId, Split> = BTreeMap::new();
    for split in Split::ALL {
        if needs_test || split != Split::Test {
            check_not_empty(env, split)?;
        }
        for item in env.items(split) {
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

/// Checks that a split has items.
///
/// # Errors
///
/// [`PipelineError::EmptySplit`].
pub fn check_not_empty(env: &dyn Env, split: Split) -> Result<(), PipelineError> {
    if env.items(split).is_empty() {
        return Err(PipelineError::EmptySplit { env: env.name().to_owned(), split });
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
        let of_before = RunIdentity::from([("train.candidates".to_owned(), json!(1))]);
        assert!(check_identity(Path::new("run"), &of_before, &is).is_ok());
        is.insert("train.protocol".to_owned(), json!("auto"));
        assert!(check_identity(Path::new("run"), &was, &is).is_err());
    }
}
