//! What a provider sets, what counts before it, and what does not go together.

use super::{Said, error, lookup, parse};
use crate::config::{LoadedConfig, ModelConfig, ValueSource};

const TEXT: &str =
    "[models.optimizer]\nkind = \"simulated\"\n[env]\ndata = \"d\"\n[models.target]\nmodel = \"m\"\n";

fn loaded(overrides: &[&str]) -> LoadedConfig {
    let overrides = of_target(overrides);
    parse(TEXT, &overrides.iter().map(String::as_str).collect::<Vec<_>>())
}

fn of_target(overrides: &[&str]) -> Vec<String> {
    overrides.iter().map(|setting| format!("models.target.{setting}")).collect()
}

/// Adds the message about these settings of the target, which names all of these.
#[track_caller]
fn refused(said: &mut Said, overrides: &[&str], names: &[&str]) {
    let overrides = of_target(overrides);
    said.add(TEXT, &overrides.iter().map(String::as_str).collect::<Vec<_>>(), names);
}

#[test]
fn what_each_provider_sets() {
    let names = skill_llm::PROVIDERS.iter().map(|provider| provider.name);
    let shown: Vec<String> = names
        .map(|name| {
            let provider = format!("provider={name}");
            let mut overrides = vec![provider.as_str()];
            if name == "azure" {
                overrides.push("base_url=https://me.openai.azure.com/openai/v1");
            }
            let loaded = loaded(&overrides);
            let shown = loaded.display_with_origins();
            let section = shown.split("[models.optimizer]").next().unwrap();
            section.split("[models.target]").nth(1).unwrap().trim().to_owned()
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n\n"));
}

#[test]
fn every_provider_of_the_table_can_be_named() {
    let (_, key) = crate::config::keys::find("models.target.provider").unwrap();
    let crate::config::key::ValueType::Choice(words) = key.value else { panic!("{key:?}") };
    let known: Vec<&str> = skill_llm::PROVIDERS.iter().map(|provider| provider.name).collect();
    assert_eq!(words, known);
}

#[test]
fn each_field_of_a_provider_can_be_set() {
    let of = |setting: &str, name: &str| {
        let loaded = loaded(&["provider=qwen", setting]);
        assert_eq!(loaded.origins.get(&format!("models.target.{name}")), Some(&ValueSource::Set), "{name}");
        lookup(&loaded.config, &format!("models.target.{name}")).to_string()
    };
    assert_eq!(of("base_url=http://localhost:1/v1", "base_url"), "\"http://localhost:1/v1\"");
    assert_eq!(of("api_key_env=MINE", "api_key_env"), "\"MINE\"");
    assert_eq!(of("key_header=api-key", "key_header"), "\"api-key\"");
    assert_eq!(of("max_tokens_field=max_completion_tokens", "max_tokens_field"), "\"max_completion_tokens\"");
    assert_eq!(of("response_format=json_schema", "response_format"), "\"json_schema\"");
    assert_eq!(of("reasoning_effort_field=off", "reasoning_effort_field"), "\"off\"");
    assert_eq!(of("thinking_field=chat_template_kwargs", "thinking_field"), "\"chat_template_kwargs\"");
    assert_eq!(of("seed_field=off", "seed_field"), "\"off\"");
    let flags = loaded(&["provider=minimax", "extra_body.top_k=3"]);
    assert_eq!(lookup(&flags.config, "models.target.extra_body").to_string(), r#"{"top_k":3}"#);
}

#[test]
fn the_kind_follows_from_the_provider_and_the_provider_from_the_kind() {
    let kind = |overrides: &[&str]| loaded(overrides).config.models.target.kind();
    assert_eq!(kind(&[]), "openai");
    assert_eq!(kind(&["provider=anthropic"]), "anthropic");
    assert_eq!(kind(&["provider=anthropic", "kind=openai"]), "openai");
    assert_eq!(kind(&["provider=openai", "kind=responses"]), "responses");
    let anthropic = loaded(&["kind=anthropic"]).config;
    assert_eq!(lookup(&anthropic, "models.target.base_url"), "https://api.anthropic.com/v1");
    assert_eq!(lookup(&anthropic, "models.target.api_key_env"), "ANTHROPIC_API_KEY");
    assert_eq!(lookup(&anthropic, "models.target.prompt_cache"), "5m");
    // A row of one interface says nothing of the fields of another.
    let other =
        loaded(&["provider=deepseek", "kind=anthropic", "base_url=https://api.deepseek.com/anthropic/v1"]);
    assert_eq!(lookup(&other.config, "models.target.api_key_env"), "DEEPSEEK_API_KEY");
    assert_eq!(lookup(&other.config, "models.target.response_format"), "json_schema");
}

#[test]
fn a_key_goes_to_no_other_address_without_being_asked() {
    let variable = |overrides: &[&str]| lookup(&loaded(overrides).config, "models.target.api_key_env");
    assert_eq!(variable(&["provider=deepseek"]), "DEEPSEEK_API_KEY");
    assert!(variable(&["provider=deepseek", "base_url=https://proxy.invalid/v1"]).is_null());
    assert!(variable(&["provider=deepseek", "base_url=http://api.deepseek.com"]).is_null());
    assert!(variable(&["kind=anthropic", "base_url=https://proxy.invalid/v1"]).is_null());
    assert_eq!(
        variable(&["provider=deepseek", "base_url=https://proxy.invalid/v1", "api_key_env=MINE"]),
        "MINE"
    );
    assert!(variable(&["provider=deepseek", "api_key_env="]).is_null());
    assert!(variable(&["provider=deepseek", "api_key_command=[\"token\"]"]).is_null());
    assert!(variable(&["provider=vllm"]).is_null());
}

#[test]
fn azure_has_a_key_or_a_token() {
    let mut said = Said::default();
    const URL: &str = "base_url=https://me.openai.azure.com/openai/deployments/d";
    let header = |overrides: &[&str]| lookup(&loaded(overrides).config, "models.target.key_header");
    assert_eq!(header(&["provider=azure", URL, "api_version=2024-10-21"]), "api-key");
    assert_eq!(header(&["provider=azure", URL, "api_key_command=[\"az\", \"account\"]"]), "authorization");
    refused(
        &mut said,
        &["provider=azure"],
        &["--set", "`models.target.provider`", "`models.target.base_url`"],
    );
    insta::assert_snapshot!("azure_without_an_address", said.text());
}

#[test]
fn what_does_not_go_together() {
    let mut said = Said::default();
    refused(
        &mut said,
        &["api_key_env=MINE", "api_key_command=[\"token\"]"],
        &["--set", "`models.target.api_key_env`", "`models.target.api_key_command`"],
    );
    refused(
        &mut said,
        &["kind=anthropic", "response_format=json_object"],
        &["--set", "`models.target.response_format`"],
    );
    refused(&mut said, &["response_format=tool"], &["--set", "`models.target.response_format`"]);
    refused(
        &mut said,
        &["kind=responses", "response_format=tool"],
        &["--set", "`models.target.response_format`"],
    );
    refused(
        &mut said,
        &["kind=anthropic", "seed=1"],
        &["--set", "`models.target.seed`", "`models.target.kind`"],
    );
    refused(
        &mut said,
        &["kind=agent", "agent=command"],
        &["--set", "`models.target.agent`", "`models.target.command`"],
    );
    refused(&mut said, &["kind=agent"], &["skillrl.toml:5:9", "`models.target.agent`"]);
    refused(
        &mut said,
        &["kind=agent", "agent=claude", "temperature=0"],
        &["--set", "`models.target.temperature`", "`models.target.kind`"],
    );
    insta::assert_snapshot!("providers_that_do_not_go_together", said.text());
}

#[test]
fn a_program_as_a_model() {
    let config = loaded(&[
        "kind=agent",
        "agent=command",
        "command=[\"my-agent\", \"{model}\"]",
        "pass_env=[\"MY_KEY\"]",
        "skill_as=package",
        "price_input=2",
    ]);
    let ModelConfig::Agent(agent) = &config.config.models.target else { panic!("{config:?}") };
    assert_eq!(agent.command.as_deref().unwrap(), ["my-agent", "{model}"]);
    assert!(agent.traces && agent.timeout_s == 120);
    assert_eq!(config.config.models.target.prices().unwrap().input, Some(2.0));
}

#[test]
fn a_secret_in_a_command_is_refused() {
    for setting in ["api_key_command=[\"echo\", \"sk-0123456789abcdef\"]", "extra_headers.x-api-key=hunter2"]
    {
        let message = error(TEXT, &[&format!("models.target.{setting}")]);
        assert!(message.contains("looks like a secret") && !message.contains("hunter2"), "{message}");
        assert!(!message.contains("sk-0123456789abcdef"), "{message}");
    }
}
