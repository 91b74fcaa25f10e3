//! A configuration of krill, or of SkillRL in Rust, whose keys are the same, as one of ours.
//!
//! Every section and every key may be missing: a model that is not named is that of the program, and other settings
//! have their defaults here. Keys of models are never copied.
//!
//! # Invariants
//!
//! - No key of a provider in a configuration of another system is written or printed. Held by
//!   `a_configuration_of_krill_is_read_where_ours_is`.

use super::Mapping;
use super::draft::{Draft, Entry};
use crate::config::ConfigError;
use serde_json::{Map, Value};
use skill_core::python_json;
use std::path::Path;

/// The sections of such a file.
const SECTIONS: [&str; 5] = ["sft", "rl", "skill_retrieval", "evolution", "model"];

/// What the program takes for a model that a file does not name.
const UNNAMED: [(&str, &str); 4] = [
    ("models.target.base_url", "http://localhost:8000/v1"),
    ("models.target.model", "Qwen/Qwen2.5-7B-Instruct"),
    ("models.teacher.base_url", OPENAI),
    ("models.teacher.model", "o3"),
];

/// The address of OpenAI, whose key is in [`KEY_VARIABLE`] by default.
const OPENAI: &str = "https://api.openai.com/v1";

/// Keys that are the same here under another name.
const SAME: [(&str, &str); 23] = [
    ("model.policy_api_base", "models.target.base_url"),
    ("model.policy_model_id", "models.target.model"),
    ("model.teacher_api_base", "models.teacher.base_url"),
    ("model.teacher_model_id", "models.teacher.model"),
    ("model.embedding_api_base", "models.embedding.base_url"),
    ("model.embedding_model_id", "models.embedding.model"),
    ("sft.learning_rate", "sft.learning_rate"),
    ("sft.batch_size", "sft.batch_size"),
    ("sft.epochs", "sft.epochs"),
    ("rl.learning_rate", "rl.learning_rate"),
    ("rl.batch_size", "rl.batch_size"),
    ("rl.group_size", "rl.group_size"),
    ("rl.kl_coeff", "rl.kl_coeff"),
    ("rl.clip_epsilon", "rl.clip_epsilon"),
    ("rl.invalid_action_penalty", "rl.invalid_action_penalty"),
    ("rl.max_prompt_length", "rl.max_prompt_tokens"),
    ("rl.training_epochs", "rl.iterations"),
    ("skill_retrieval.similarity_threshold", "retrieval.threshold"),
    ("evolution.validation_interval", "evolution.validation_interval"),
    ("evolution.max_new_skills", "evolution.max_new_skills"),
    ("evolution.evolution_threshold", "evolution.threshold"),
    ("evolution.max_analysis_deep", "evolution.max_analysis_deep"),
    ("evolution.max_analysis_shallow", "evolution.max_analysis_shallow"),
];

/// Keys of models there, each with the address there, and the section here that names an environment variable.
const KEYS: [[&str; 3]; 3] = [
    ["model.policy_api_key", "model.policy_api_base", "models.target"],
    ["model.teacher_api_key", "model.teacher_api_base", "models.teacher"],
    ["model.embedding_api_key", "model.embedding_api_base", EMBEDDING],
];

/// The section of the model that embeds, which is asked for where the file names one of these.
const EMBEDDING: &str = "models.embedding";
const OF_EMBEDDING: [&str; 3] =
    ["model.embedding_model_id", "model.embedding_api_base", "model.embedding_api_key"];

/// The variable that krill reads where its configuration has no key.
const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// The two limits here that the length of replies is there: of the target in all commands, and of `skillrl rl`.
const REPLY_LENGTH: [&str; 2] = ["models.target.max_tokens", "rl.max_reply_tokens"];

/// The settings here that K is there: the most skills of all tasks and of the type together, which no limit of one of
/// the two may undercut.
const TOP_K: [&str; 3] = ["retrieval.total", "retrieval.top_k", "retrieval.task_top_k"];

/// Whether a JSON object is such a configuration: it has nothing but sections of one, or a key of one.
pub(crate) fn is_one(members: &Map<String, Value>) -> bool {
    let is_section = |name: &str, value: &Value| SECTIONS.contains(&name) && value.is_object();
    let is_key = |section: &str, member: &str| {
        let flat = format!("{section}.{member}");
        let others = ["rl.max_response_length", "skill_retrieval.top_k"].into_iter();
        let all = SAME.iter().map(|(key, _)| *key).chain(KEYS.iter().map(|[key, ..]| *key)).chain(others);
        all.into_iter().any(|key| key == flat)
    };
    members.iter().all(|(name, value)| is_section(name, value))
        || members.iter().any(|(section, value)| {
            value.as_object().is_some_and(|of| of.keys().any(|member| is_key(section, member)))
        })
}

/// The text of our configuration, which names no environment, and what became of each key.
///
/// # Errors
///
/// A text that is not JSON, or not such a configuration, and values of another kind than their keys have.
pub(super) fn configuration(path: &Path, text: &str) -> Result<(String, Mapping), ConfigError> {
    const ADVICE: &str = "name a skillrl.toml, or a JSON configuration of krill or of SkillRL in Rust, whose sections are `model`, `skill_retrieval`, `evolution`, `sft` and `rl`";
    let refused = |message: String| ConfigError::Json { path: path.to_owned(), message, advice: ADVICE };
    let members = match python_json::read(text) {
        Ok(Value::Object(members)) if is_one(&members) => members,
        Ok(_) => {
            let message = "is JSON, and not a configuration of krill or of SkillRL in Rust";
            return Err(refused(message.to_owned()));
        }
        Err(error) => return Err(refused(format!("is not JSON: {error}"))),
    };
    mapped_into(Draft::new(entries(&members)).strict()).written(path).map_err(refused)
}

/// The address of a model for which the file has none.
fn unnamed_address(section: &str) -> &'static str {
    let of_section = |(key, _): &&(&str, &str)| key.strip_prefix(section) == Some(".base_url");
    UNNAMED.iter().find(of_section).map_or(OPENAI, |(_, address)| *address)
}

/// The keys that are set here by those of such a configuration.
pub(crate) fn mapped(members: &Map<String, Value>) -> Draft {
    mapped_into(Draft::new(entries(members)))
}

fn mapped_into(mut draft: Draft) -> Draft {
    draft.set("train.mode", "bank");
    let is_named = |draft: &Draft, flat: &str| draft.value(flat).is_some();
    let has_embedding = OF_EMBEDDING.iter().any(|flat| is_named(&draft, flat));
    for [flat, address, section] in KEYS {
        let address = draft.text(address).unwrap_or_else(|| unnamed_address(section).to_owned());
        let Some(entry) = draft.take_even_blank(flat) else { continue };
        let is_blank = entry.value.as_str().is_none_or(|text| text.trim().is_empty());
        // A server without TLS for which the file has no key is one that asks for none.
        let is_open = !address.starts_with("https://") || section == EMBEDDING && !has_embedding;
        if is_blank && is_open {
            draft.idle(&entry, "an empty key is no key: none is sent");
            continue;
        }
        let key = format!("{section}.api_key_env");
        draft.set(&key, KEY_VARIABLE);
        draft.mapping.map(entry.key.as_str(), key);
        if !is_blank {
            let reason =
                format!("a key is never copied: put it into the environment variable {KEY_VARIABLE}");
            draft.lose(&entry, reason);
        }
    }
    for (flat, key) in SAME {
        if let Some(entry) = draft.take(flat) {
            draft.same(&entry, key);
        }
    }
    if has_embedding {
        draft.set("retrieval.mode", "embedding");
        draft.set("models.embedding.model", "text-embedding-3-small");
    }
    if let Some(entry) = draft.take("rl.max_response_length") {
        for key in REPLY_LENGTH {
            draft.same(&entry, key);
        }
    }
    if let Some(entry) = draft.take("skill_retrieval.top_k") {
        for key in TOP_K {
            draft.same(&entry, key);
        }
    }
    for (key, value) in UNNAMED {
        draft.set(key, value);
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
