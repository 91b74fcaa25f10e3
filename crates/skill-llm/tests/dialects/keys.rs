//! Keys: the header they are in, and tokens that a command prints.

use crate::support::{Canned, ask, block_on, plain, response, shown_request};
use skill_llm::{
    ApiKey, CallCtx, ChatModel as _, ErrorClass, KeyHeader, KeySource, LlmError, OpenAiChat, OpenAiConfig,
    Transport,
};
use std::sync::Arc;

const REPLY: &str = r#"{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}"#;

fn azure(key: KeySource, header: KeyHeader) -> OpenAiConfig {
    let mut config = OpenAiConfig::new("https://me.openai.azure.com/openai/deployments/d", "d");
    config.server.api_version = Some("2024-10-21".to_owned());
    config.server.key = key;
    config.server.key_header = header;
    config
}

fn header(config: OpenAiConfig) -> (String, String) {
    let transport = Canned::new(Ok(response(200, REPLY)));
    let model = OpenAiChat::with_transport(config, Arc::clone(&transport) as Arc<dyn Transport>).unwrap();
    ask(&model, &plain()).unwrap();
    let request = shown_request(&transport.asked()[0]);
    assert_eq!(
        request["url"],
        "https://me.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21"
    );
    let headers = request["headers"].as_object().unwrap();
    let (name, value) = headers.iter().find(|(name, _)| *name != "content-type").unwrap();
    (name.clone(), value.as_str().unwrap().to_owned())
}

#[test]
fn a_key_stands_in_the_header_of_its_server() {
    let key = || KeySource::Key(ApiKey::new("the-key").unwrap());
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(header(azure(key(), KeyHeader::ApiKey)), pair("api-key", "the-key"));
    assert_eq!(header(azure(key(), KeyHeader::Bearer)), pair("authorization", "Bearer the-key"));
    assert_eq!(header(azure(key(), KeyHeader::XApiKey)), pair("x-api-key", "the-key"));
}

#[cfg(unix)]
mod commands {
    use super::*;
    use skill_llm::http::TokenCommand;
    use std::path::Path;

    /// A program that prints `token-1`, `token-2` and so on, and remembers how far it is.
    fn counting(dir: &Path, print: &str) -> KeySource {
        let script = format!(
            "n=$(cat '{dir}/n' 2>/dev/null || echo 0); n=$((n + 1)); echo $n > '{dir}/n'; {print}",
            dir = dir.display()
        );
        let command = ["sh", "-c", &script].map(str::to_owned).to_vec();
        KeySource::Command(Arc::new(TokenCommand::new(command).unwrap()))
    }

    fn model(key: KeySource, statuses: &[u16]) -> (OpenAiChat, Arc<Canned>) {
        let answers = statuses.iter().map(|status| match status {
            200 => Ok(response(200, REPLY)),
            status => Ok(response(*status, r#"{"error": {"message": "token-1 is not taken"}}"#)),
        });
        let transport = Canned::in_turn(answers);
        let model = azure(key, KeyHeader::Bearer);
        (OpenAiChat::with_transport(model, Arc::clone(&transport) as Arc<dyn Transport>).unwrap(), transport)
    }

    fn bearers(transport: &Canned) -> Vec<String> {
        let asked = transport.asked();
        let of = |request| shown_request(request)["headers"]["authorization"].as_str().unwrap().to_owned();
        asked.iter().map(of).collect()
    }

    #[test]
    fn a_token_is_fetched_once_and_held() {
        let dir = tempfile::tempdir().unwrap();
        let (model, transport) = model(counting(dir.path(), "echo token-$n"), &[200]);
        block_on(async {
            let (request, call) = (plain(), CallCtx::default());
            let calls = (0..8).map(|_| model.chat(&request, &call));
            for outcome in futures(calls).await {
                outcome.unwrap();
            }
        });
        assert_eq!(bearers(&transport), ["Bearer token-1"; 8]);
        assert!(!format!("{model:?}").contains("token-1"));
    }

    async fn futures<T>(all: impl Iterator<Item = T>) -> Vec<T::Output>
    where
        T: Future,
    {
        let mut outcomes = Vec::new();
        for one in all {
            outcomes.push(one.await);
        }
        outcomes
    }

    #[test]
    fn an_expired_token_is_fetched_again() {
        let dir = tempfile::tempdir().unwrap();
        let print = r#"echo "{\"accessToken\": \"token-$n\", \"expires_on\": 5}""#;
        let (model, transport) = model(counting(dir.path(), print), &[200]);
        ask(&model, &plain()).unwrap();
        ask(&model, &plain()).unwrap();
        assert_eq!(bearers(&transport), ["Bearer token-1", "Bearer token-2"]);
    }

    #[test]
    fn a_held_token_that_is_refused_is_replaced_for_the_next_attempt() {
        let dir = tempfile::tempdir().unwrap();
        let (model, transport) = model(counting(dir.path(), "echo token-$n"), &[200, 401, 200]);
        ask(&model, &plain()).unwrap();
        let stale = ask(&model, &plain()).unwrap_err();
        assert!(matches!(stale, LlmError::StaleToken { .. }) && stale.is_retryable(), "{stale:?}");
        assert!(!stale.to_string().contains("token-1"), "{stale}");
        ask(&model, &plain()).unwrap();
        assert_eq!(bearers(&transport), ["Bearer token-1", "Bearer token-1", "Bearer token-2"]);
    }

    #[test]
    fn a_fresh_token_that_is_refused_is_an_error_to_stop_at() {
        let dir = tempfile::tempdir().unwrap();
        let (model, _) = model(counting(dir.path(), "echo token-$n"), &[401]);
        let error = ask(&model, &plain()).unwrap_err();
        assert!(matches!(error, LlmError::Authentication { .. }) && !error.is_retryable(), "{error:?}");
    }

    #[test]
    fn a_command_that_fails_is_told_without_what_it_printed() {
        let dir = tempfile::tempdir().unwrap();
        let print = "echo printed-secret; echo 'set -x printed-secret' >&2; exit 3";
        let (model, transport) = model(counting(dir.path(), print), &[200]);
        let error = ask(&model, &plain()).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Authentication);
        assert!(!error.is_retryable());
        let message = error.to_string();
        assert!(message.ends_with("exit code 3"), "{message}");
        assert!(transport.asked().is_empty());
        let missing = TokenCommand::new(vec!["/no/such/program".to_owned()]).unwrap();
        let (model, _) = super::commands::model(KeySource::Command(Arc::new(missing)), &[200]);
        assert!(ask(&model, &plain()).unwrap_err().to_string().contains("cannot be started"));
        assert!(TokenCommand::new(vec![" ".to_owned()]).is_err());
    }
}
