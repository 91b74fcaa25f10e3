//! The table of providers: what a request becomes at each of them.

use crate::support::{Canned, ask, response, shown_request, with_schema};
use serde_json::{Value, json};
use skill_llm::{Dialect, Effort, OpenAiChat, OpenAiConfig, PROVIDERS, Provider, Transport};
use std::sync::Arc;

const REPLY: &str = r#"{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}"#;

fn config(provider: &Provider) -> OpenAiConfig {
    let mut config =
        OpenAiConfig::new(provider.base_url.unwrap_or("https://me.openai.azure.com/openai/v1"), "m");
    config.server.key_header = provider.key_header;
    config.max_tokens_field = provider.max_tokens_field;
    config.response_format = provider.response_format;
    config.effort_field = provider.effort_field;
    config.thinking_field = provider.thinking_field;
    config.takes_seed = provider.takes_seed;
    config.extra_body = provider.flags.iter().map(|flag| ((*flag).to_owned(), true.into())).collect();
    config
}

/// The body less messages and model, or why there is none.
fn sent(mut config: OpenAiConfig, change: impl FnOnce(&mut OpenAiConfig)) -> Value {
    change(&mut config);
    let transport = Canned::new(Ok(response(200, REPLY)));
    match OpenAiChat::with_transport(config, Arc::clone(&transport) as Arc<dyn Transport>) {
        Err(error) => json!(error.to_string()),
        Ok(model) => {
            ask(&model, &with_schema()).unwrap();
            let mut request = shown_request(&transport.asked()[0]);
            let body = request["body"].as_object_mut().unwrap();
            body.remove("messages");
            body.remove("model");
            json!({"url": request["url"], "body": request["body"]})
        }
    }
}

#[test]
fn what_each_provider_is_sent() {
    for provider in PROVIDERS.iter().filter(|provider| provider.dialect == Dialect::ChatCompletions) {
        let shown = json!({
            "limits and temperature": sent(config(provider), |config| {
                config.sampling.max_tokens = Some(100);
                config.sampling.temperature = Some(0.5);
            }),
            "seed": sent(config(provider), |config| config.sampling.seed = Some(7))["body"]["seed"],
            "effort": sent(config(provider), |config| config.reasoning.effort = Some(Effort::Low)),
            "thinking": sent(config(provider), |config| config.reasoning.thinking = Some(true)),
            "no thinking": sent(config(provider), |config| config.reasoning.thinking = Some(false)),
            "thinking tokens": sent(config(provider), |config| config.reasoning.tokens = Some(2_000)),
        });
        insta::assert_json_snapshot!(format!("provider_{}", provider.name), shown);
    }
}

#[test]
fn a_key_goes_to_its_provider_and_nowhere_else() {
    #[track_caller]
    fn check(provider: &str, base_url: &str, expect: bool) {
        assert_eq!(Provider::find(provider).unwrap().owns(base_url), expect, "{provider} {base_url}");
    }
    for provider in PROVIDERS {
        if let (Some(base_url), Some(_)) = (provider.base_url, provider.key_variable) {
            check(provider.name, base_url, true);
        }
        check(provider.name, "https://evil.invalid/v1", false);
        check(provider.name, "http://localhost:1/v1", false);
    }
    check("azure", "https://me.openai.azure.com/openai/v1", true);
    check("azure", "https://me.services.ai.azure.com/openai/v1", true);
    check("azure", "https://me.openai.azure.com.evil.invalid", false);
    check("openai", "http://api.openai.com/v1", false);
    assert!(Provider::find("nobody").is_none());
}
