//! Configurations of krill and of SkillRL in Rust, read as they are: any part of one, what each key does, and a target
//! that is put in the place of the served one.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use skillrl::config::{Amendments, Config, ConfigError, EnvKind, LoadedConfig};

/// A key there and its value, and the keys here with theirs.
type Key = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Every key with a value that is not the default, and what is another value here for it.
const KEYS: [Key; 27] = [
    ("sft.learning_rate", "0.002", &[("sft.learning_rate", "0.002")]),
    ("sft.batch_size", "5", &[("sft.batch_size", "5")]),
    ("sft.epochs", "2", &[("sft.epochs", "2")]),
    ("rl.learning_rate", "0.002", &[("rl.learning_rate", "0.002")]),
    ("rl.batch_size", "32", &[("rl.batch_size", "32")]),
    ("rl.group_size", "4", &[("rl.group_size", "4")]),
    ("rl.kl_coeff", "0.5", &[("rl.kl_coeff", "0.5")]),
    ("rl.clip_epsilon", "0.1", &[("rl.clip_epsilon", "0.1")]),
    ("rl.invalid_action_penalty", "0.3", &[("rl.invalid_action_penalty", "0.3")]),
    ("rl.max_prompt_length", "5000", &[("rl.max_prompt_tokens", "5000")]),
    ("rl.max_response_length", "77", &[("rl.max_reply_tokens", "77"), ("models.target.max_tokens", "77")]),
    ("rl.training_epochs", "9", &[("rl.iterations", "9")]),
    (
        "skill_retrieval.top_k",
        "9",
        &[("retrieval.total", "9"), ("retrieval.top_k", "9"), ("retrieval.task_top_k", "9")],
    ),
    ("skill_retrieval.similarity_threshold", "0.7", &[("retrieval.threshold", "0.7")]),
    ("evolution.validation_interval", "2", &[("evolution.validation_interval", "2")]),
    ("evolution.max_new_skills", "1", &[("evolution.max_new_skills", "1")]),
    ("evolution.evolution_threshold", "0.9", &[("evolution.threshold", "0.9")]),
    ("evolution.max_analysis_deep", "3", &[("evolution.max_analysis_deep", "3")]),
    ("evolution.max_analysis_shallow", "2", &[("evolution.max_analysis_shallow", "2")]),
    ("model.policy_api_base", "\"http://here:1/v1\"", &[("models.target.base_url", "\"http://here:1/v1\"")]),
    ("model.policy_model_id", "\"mine\"", &[("models.target.model", "\"mine\"")]),
    (
        "model.teacher_api_base",
        "\"http://there:1/v1\"",
        &[
            ("models.teacher.base_url", "\"http://there:1/v1\""),
            ("models.optimizer.base_url", "\"http://there:1/v1\""),
        ],
    ),
    ("model.teacher_model_id", "\"wise\"", &[("models.teacher.model", "\"wise\"")]),
    ("model.embedding_api_base", "\"http://e:1/v1\"", &[("models.embedding.base_url", "\"http://e:1/v1\"")]),
    (
        "model.embedding_model_id",
        "\"near\"",
        &[("models.embedding.model", "\"near\""), ("retrieval.mode", "\"embedding\"")],
    ),
    ("model.policy_api_key", "\"sk-1\"", &[("models.target.api_key_env", "\"OPENAI_API_KEY\"")]),
    ("model.teacher_api_key", "\"sk-2\"", &[("models.teacher.api_key_env", "\"OPENAI_API_KEY\"")]),
];

fn load(text: &str, overrides: &[&str]) -> Result<LoadedConfig, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.json");
    std::fs::write(&path, text).unwrap();
    let overrides: Vec<String> = overrides.iter().map(|set| (*set).to_owned()).collect();
    let amendments = Amendments { env: Some(EnvKind::Alfworld), ..Amendments::default() };
    Config::load_amended(&path, &overrides, amendments)
}

fn value_of(loaded: &LoadedConfig, key: &str) -> Value {
    let config = serde_json::to_value(&loaded.config).unwrap();
    config.pointer(&format!("/{}", key.replace('.', "/"))).cloned().unwrap_or_default()
}

#[test]
fn every_key_of_such_a_file_alone_changes_a_setting() {
    let nothing = load("{}", &[]).unwrap();
    for (key, value, expect) in KEYS {
        let (section, member) = key.split_once('.').unwrap();
        let value: Value = serde_json::from_str(value).unwrap();
        let text = json!({ section: { member: value } }).to_string();
        let loaded = load(&text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
        for (here, expect) in expect {
            let expect: Value = serde_json::from_str(expect).unwrap();
            assert_eq!(value_of(&loaded, here), expect, "{key}");
            assert_ne!(value_of(&nothing, here), expect, "{key}");
        }
        let mapping = loaded.mapping.unwrap();
        assert!(mapping.mapped.iter().any(|taken| taken.key == key), "{key}");
        assert!(!loaded.source_text.contains("sk-"), "{}", loaded.source_text);
    }
}

#[test]
fn what_such_a_file_does_not_name_is_the_models_of_the_program_and_the_defaults() {
    for text in [
        "{}",
        r#"{"sft": {}, "rl": {}, "skill_retrieval": {}, "evolution": {}, "model": {}}"#,
        r#"{"rl": {"group_size": 4}}"#,
        r#"{"model": {"policy_api_base": "http://localhost:8000/v1"}}"#,
    ] {
        let loaded = load(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(value_of(&loaded, "models.target.base_url"), "http://localhost:8000/v1", "{text}");
        assert_eq!(value_of(&loaded, "models.target.model"), "Qwen/Qwen2.5-7B-Instruct", "{text}");
        assert_eq!(value_of(&loaded, "models.teacher.model"), "o3", "{text}");
        assert_eq!(value_of(&loaded, "models.embedding"), Value::Null, "{text}");
        assert_eq!(value_of(&loaded, "retrieval.total"), Value::Null, "{text}");
    }
    // A key of another name is listed, and everything else is taken.
    let loaded =
        load(r#"{"rl": {"group_sise": 4}, "seed": 1, "model": {"policy_model_id": "m"}}"#, &[]).unwrap();
    let mapping = loaded.mapping.unwrap();
    let unmapped: Vec<&str> = mapping.without_counterpart().map(|lost| lost.key.as_str()).collect();
    assert_eq!(unmapped, ["rl.group_sise", "seed"]);
}

#[test]
fn json_of_something_else_is_none() {
    for text in [
        r#"{"general_skills": [], "task_specific_skills": {}, "common_mistakes": []}"#,
        r#"{"instructions": "Be brief."}"#,
        r#"{"model": "gpt", "rl": 3}"#,
        r#"{"model_type": "qwen2", "hidden_size": 8}"#,
        "[]",
        "null",
        "7",
        "{\"rl\": ",
    ] {
        assert!(matches!(load(text, &[]), Err(ConfigError::Json { .. })), "{text}");
    }
    let faults = [
        r#"{"rl": {"group_size": "many"}}"#,
        r#"{"skill_retrieval": {"top_k": [1]}}"#,
        r#"{"sft": {"epochs": -1}}"#,
        r#"{"rl": {"clip_epsilon": -0.2}}"#,
    ];
    for text in faults {
        assert!(load(text, &[]).is_err(), "{text}");
    }
}

#[test]
fn an_empty_key_is_no_key_for_a_server_that_needs_none() {
    let of = |base: &str, key: &str| {
        let text = json!({"model": {"policy_api_base": base, "policy_api_key": key}}).to_string();
        value_of(&load(&text, &[]).unwrap(), "models.target.api_key_env")
    };
    assert_eq!(of("http://localhost:8000/v1", ""), Value::Null);
    assert_eq!(of("http://gpu-3:8000/v1", "  "), Value::Null);
    assert_eq!(of("https://api.openai.com/v1", ""), "OPENAI_API_KEY");
    assert_eq!(of("https://models.example/v1", ""), "OPENAI_API_KEY");
    assert_eq!(of("http://localhost:8000/v1", "sk-9"), "OPENAI_API_KEY");
    for text in [
        r#"{"model": {"policy_api_key": "", "embedding_api_key": ""}}"#,
        r#"{"model": {"policy_api_key": null, "embedding_api_key": null}}"#,
    ] {
        let loaded = load(text, &[]).unwrap();
        assert_eq!(value_of(&loaded, "models.target.api_key_env"), Value::Null, "{text}");
        assert_eq!(value_of(&loaded, "models.embedding"), Value::Null, "{text}");
    }
}

#[test]
fn a_target_on_this_machine_takes_the_place_of_the_served_one() {
    let text = r#"{"sft": {"epochs": 2}, "rl": {"max_response_length": 64},
        "model": {"policy_api_base": "http://localhost:8000/v1", "policy_model_id": "m", "policy_api_key": "x"}}"#;
    let loaded = load(text, &["models.target.kind=local", "models.target.path=model"]).unwrap();
    assert_eq!(value_of(&loaded, "models.target.kind"), "local");
    assert_eq!(value_of(&loaded, "models.target.max_tokens"), 64);
    assert_eq!(value_of(&loaded, "sft.epochs"), 2);
    // Of two overrides that do not go together both were meant.
    let both =
        ["models.target.kind=local", "models.target.path=model", "models.target.base_url=http://b:1/v1"];
    assert!(matches!(load(text, &both), Err(ConfigError::Invalid { .. })));
    let simulated =
        load(text, &["models.teacher.kind=simulated", "models.optimizer.kind=simulated"]).unwrap();
    assert_eq!(value_of(&simulated, "models.teacher.kind"), "simulated");
}
