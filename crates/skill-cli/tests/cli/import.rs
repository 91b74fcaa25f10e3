//! `skillrl import`.

use crate::context::{TestContext, code};
use crate::said::assert_names;
use serde_json::Value;

const BASE: &str = "model: {optimizer: gpt-5.5, target: gpt-5.5, azure_openai_auth_mode: openai_compatible, azure_openai_api_key: hidden-123}\n\
                    optimizer: {use_slow_update: false, use_meta_skill: true}\n";
const CONFIG: &str = "_base_: base.yaml\nmodel: {azure_openai_endpoint: \"http://localhost:1/v1\"}\ntrain: {batch_size: 2}\n\
                      env: {name: searchqa, split_mode: split_dir, split_dir: data, unheard_of: 7}\n";

/// What the configuration becomes.
const WRITTEN: [&str; 5] = [
    "here/skillrl.toml",
    "here/data/test/items.json",
    "here/data/train/items.json",
    "here/data/val/items.json",
    "here/imported.md",
];

fn with_config() -> TestContext {
    let context = TestContext::new();
    context.write("there/base.yaml", BASE);
    context.write("there/config.yaml", CONFIG);
    for split in ["train", "val", "test"] {
        let items = format!(
            "[{{\"id\": \"{split}\", \"question\": \"Who?\", \"context\": \"x\", \"answers\": [\"me\"]}}]\n"
        );
        context.write(&format!("there/data/{split}/items.json"), &items);
    }
    context
}

#[test]
fn an_imported_configuration_is_estimated_at_once() {
    let context = with_config();
    let text = context.succeed(&["import", "there/config.yaml", "--to", "here"]);
    insta::assert_snapshot!("import_config", text);
    assert!(!context.read("here/skillrl.toml").contains("hidden-123"));
    context.succeed(&["estimate", "here/skillrl.toml"]);
    let again = ["import", "there/config.yaml", "--to", "here"];
    context.run(&again).fails(code::USAGE, &["here/skillrl.toml", "hint: --force"]);
    context.succeed(&[&again[..], &["--force"]].concat());
}

#[test]
fn everything_is_in_the_json() {
    let context = with_config();
    let text = context.succeed(&["import", "there/config.yaml", "--to", "here", "--json"]);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["kind"], &value["written"]), (&"skillopt_config".into(), &serde_json::json!(WRITTEN)));
    let unmapped = value["unmapped"].as_array().unwrap();
    assert!(unmapped.iter().any(|entry| entry["key"] == "env.unheard_of" && entry["value"] == "7"), "{text}");
    assert!(!text.contains("hidden-123"));
}

#[test]
fn a_candidate_becomes_a_skill_that_is_measured() {
    let context = TestContext::with_demo();
    context.write("candidate.json", "{\"instructions\": \"# Clerk\\n\\n- Be brief.\\n\"}");
    context.succeed(&["import", "candidate.json", "--to", "clerk.md"]);
    assert_eq!(context.read("clerk.md"), "# Clerk\n\n- Be brief.\n");
    context.succeed(&["eval", "demo/skillrl.toml", "--skill", "clerk.md", "--quiet"]);
    context.run(&["import", "demo", "--to", "x"]).fails(code::USAGE, &["demo is not a known configuration"]);
}

/// What was not recorded cannot be shown; what was can.
#[test]
fn a_run_from_elsewhere_is_looked_at_like_any_other() {
    let context = TestContext::new();
    let from = concat!(env!("CARGO_MANIFEST_DIR"), "/../skillrl/tests/data/import/skillrl-1.0");
    context.succeed(&["import", from, "--to", "run"]);
    context.succeed(&["report", "run"]);
    assert!(context.read("run/report.html").contains("<details id=\"step-3\">"));
    insta::assert_snapshot!("import_blame", context.succeed(&["blame", "run"]));
    let outcome = context.run(&["journal", "list", "run"]);
    insta::assert_snapshot!("import_journal", format!("{}{}", outcome.stdout, outcome.stderr));
}

/// How each key of a model in [`KRILL`] begins.
pub(crate) const KRILL_KEY: &str = "sk-hidden";

/// All keys that such a file has; the program it is of refuses one that lacks any.
pub(crate) const KRILL: &str = r#"{
  "sft": {"learning_rate": 0.0001, "batch_size": 16, "epochs": 3},
  "rl": {"learning_rate": 0.000001, "batch_size": 64, "group_size": 8, "kl_coeff": 0.01, "clip_epsilon": 0.2,
         "invalid_action_penalty": 0.1, "max_prompt_length": 6000, "max_response_length": 1024, "training_epochs": 150},
  "skill_retrieval": {"top_k": 7, "similarity_threshold": 0.3},
  "evolution": {"validation_interval": 4, "max_new_skills": 2, "evolution_threshold": 0.35,
                "max_analysis_deep": 9, "max_analysis_shallow": 6},
  "model": {"policy_api_base": "http://localhost:8000/v1", "policy_model_id": "policy-7b",
            "teacher_api_base": "https://api.openai.com/v1", "teacher_model_id": "teacher-large",
            "policy_api_key": "", "teacher_api_key": "sk-hidden-123", "embedding_api_base": "https://api.openai.com/v1",
            "embedding_model_id": "embedding-small", "embedding_api_key": "sk-hidden-456"}
}"#;

#[test]
fn a_configuration_of_krill_is_mapped_and_its_keys_are_not_copied() {
    let context = TestContext::new();
    context.write("krill.json", KRILL);
    let text = context.succeed(&["import", "krill.json", "--to", "here", "--json"]);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["kind"], "krill_config");
    let written =
        [context.read("here/skillrl.toml"), context.read("here/imported.md"), text.clone()].concat();
    assert!(!written.contains("hidden"), "{written}");
    // Each key of the file is on one of the lists.
    let listed = |list: &str| -> Vec<String> {
        let entries = value[list].as_array().unwrap();
        entries.iter().map(|entry| entry["key"].as_str().unwrap().to_owned()).collect()
    };
    let all = ["mapped", "unmapped", "idle"].map(listed).concat();
    let source: Value = serde_json::from_str(KRILL).unwrap();
    for (section, members) in source.as_object().unwrap() {
        for key in members.as_object().unwrap().keys() {
            let key = format!("{section}.{key}");
            assert!(all.contains(&key), "{key} is on no list");
        }
    }
    let config = context.read("here/skillrl.toml");
    assert_names(&config, &["model = \"policy-7b\"", "api_key_env = \"OPENAI_API_KEY\""]);
    assert!(
        listed("unmapped").contains(&"model.teacher_api_key".to_owned()),
        "people are told about their key"
    );
    assert!(listed("mapped").contains(&"sft.epochs".to_owned()));
    assert!(config.contains("\n[rl]\n") && config.contains("\niterations = 150\n"), "{config}");
    // What is known here is mapped; sections that this program does not have yet are listed.
    let schema = context.succeed_json(&["config", "schema"]);
    for (section, keys) in [
        ("retrieval", ["skill_retrieval.top_k", "skill_retrieval.similarity_threshold"]),
        ("evolution", ["evolution.max_new_skills", "evolution.evolution_threshold"]),
        ("rl", ["rl.clip_epsilon", "rl.training_epochs"]),
    ] {
        let list = if schema["properties"].get(section).is_some() { "mapped" } else { "unmapped" };
        assert!(keys.iter().all(|key| listed(list).contains(&(*key).to_owned())), "{section}: {text}");
    }
}
