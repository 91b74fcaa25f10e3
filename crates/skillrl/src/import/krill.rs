//! A configuration of krill, or of SkillRL in Rust, whose keys are the same, as one of ours.
//!
//! Fine-tuning has no counterpart, since such a file names no model of this machine. Keys of models are never copied.

use super::Outcome;
use super::config_file::Entry;
use super::error::ImportError;
use super::skillopt::{Draft, finish, same_value, written};
use crate::config::keys;
use serde_json::{Map, Value};
use std::path::Path;

/// The sections of such a file, each with members of which every file has all.
const SECTIONS: [(&str, &[&str]); 2] =
    [("model", &["policy_model_id", "teacher_model_id"]), ("evolution", &["evolution_threshold"])];

/// Keys that are the same here under another name.
const SAME: [(&str, &str); 21] = [
    ("model.policy_api_base", "models.target.base_url"),
    ("model.policy_model_id", "models.target.model"),
    ("model.teacher_api_base", "models.teacher.base_url"),
    ("model.teacher_model_id", "models.teacher.model"),
    ("model.embedding_api_base", "models.embedding.base_url"),
    ("model.embedding_model_id", "models.embedding.model"),
    ("rl.learning_rate", "rl.learning_rate"),
    ("rl.batch_size", "rl.batch_size"),
    ("rl.group_size", "rl.group_size"),
    ("rl.kl_coeff", "rl.kl_coeff"),
    ("rl.clip_epsilon", "rl.clip_epsilon"),
    ("rl.invalid_action_penalty", "rl.invalid_action_penalty"),
    ("rl.max_prompt_length", "rl.max_prompt_tokens"),
    ("rl.training_epochs", "rl.iterations"),
    ("skill_retrieval.top_k", "retrieval.top_k"),
    ("skill_retrieval.similarity_threshold", "retrieval.threshold"),
    ("evolution.validation_interval", "evolution.validation_interval"),
    ("evolution.max_new_skills", "evolution.max_new_skills"),
    ("evolution.evolution_threshold", "evolution.threshold"),
    ("evolution.max_analysis_deep", "evolution.max_analysis_deep"),
    ("evolution.max_analysis_shallow", "evolution.max_analysis_shallow"),
];

/// Keys of models there, with the setting here that names an environment variable.
const KEYS: [(&str, &str); 3] = [
    ("model.policy_api_key", "models.target.api_key_env"),
    ("model.teacher_api_key", "models.teacher.api_key_env"),
    ("model.embedding_api_key", "models.embedding.api_key_env"),
];

/// The variable that krill reads where its configuration has no key.
const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// The two limits here that the length of replies is there: of the target in all commands, and of `skillrl rl`.
const REPLY_LENGTH: [&str; 2] = ["models.target.max_tokens", "rl.max_reply_tokens"];

/// Why settings of fine-tuning have no counterpart.
const FINE_TUNING: &str = "fine-tuning needs a target of kind \"local\": set it in [sft]";

/// Whether a JSON object is such a configuration.
pub(super) fn is_one(members: &Map<String, Value>) -> bool {
    SECTIONS.iter().all(|(section, keys)| {
        members.get(*section).is_some_and(|section| keys.iter().all(|key| section.get(key).is_some()))
    })
}

/// `path` is where the file is, and `name` what ours will be called.
pub(super) fn import(path: &Path, members: &Map<String, Value>, name: &str) -> Result<Outcome, ImportError> {
    let mut draft = mapped(members);
    draft.outcome.lose("--env", "", "is an option of that program: write [env], such as kind = \"alfworld\"");
    finish(path, name, draft)
}

/// The text of our configuration, which names no environment, and what became of each key.
pub(super) fn configuration(
    path: &Path,
    members: &Map<String, Value>,
) -> Result<(String, Outcome), ImportError> {
    written(path, mapped(members))
}

fn mapped(members: &Map<String, Value>) -> Draft {
    let mut draft = Draft::new(entries(members));
    draft.set("train.mode", "bank");
    for (flat, key) in KEYS {
        let Some(entry) = draft.take_even_blank(flat) else { continue };
        draft.set(key, KEY_VARIABLE);
        if keys::find(key).is_some() {
            draft.outcome.map(entry.key.as_str(), key);
        }
        if entry.value.as_str().is_some_and(|text| !text.trim().is_empty()) {
            let reason =
                format!("a key is never copied: put it into the environment variable {KEY_VARIABLE}");
            draft.lose(&entry, reason);
        }
    }
    let has_embedding = draft.value("model.embedding_model_id").is_some();
    for (flat, key) in SAME {
        if let Some(entry) = draft.take(flat) {
            same_value(&mut draft, &entry, key);
        }
    }
    if has_embedding {
        draft.set("retrieval.mode", "embedding");
    }
    if let Some(entry) = draft.take("rl.max_response_length") {
        for key in REPLY_LENGTH {
            same_value(&mut draft, &entry, key);
        }
    }
    for flat in draft.names() {
        if flat.starts_with("sft.")
            && let Some(entry) = draft.take(&flat)
        {
            draft.lose(&entry, FINE_TUNING);
        }
    }
    // Every configuration names an optimizer, which the training of a bank does not ask.
    draft.copy_section("models.teacher", "models.optimizer");
    draft
}

/// The members of the sections, each under `section.member`.
fn entries(members: &Map<String, Value>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (section, value) in members {
        match value {
            Value::Object(below) => {
                for (member, value) in below {
                    let key = format!("{section}.{member}");
                    entries.push(Entry { flat: key.clone(), key, value: value.clone() });
                }
            }
            value => {
                entries.push(Entry { key: section.clone(), flat: section.clone(), value: value.clone() });
            }
        }
    }
    entries
}
