use super::{MINIMAL, error};
use crate::config::Config;

const SECRET: &str = "sk-proj-Abc123DoNotShow";

/// The message names the key, and never shows the value.
#[track_caller]
fn check(setting: &str, expect: &str) {
    let overrides = [setting.to_owned()];
    let error = Config::parse(MINIMAL, "skillrl.toml", &overrides).unwrap_err();
    let message = format!("{error} / {} / {error:?}", error.hint());
    let value = setting.split_once('=').map_or("", |(_, value)| value);
    assert!(value.is_empty() || !message.contains(value), "{message}");
    assert!(!message.contains("DoNotShow"), "{message}");
    assert!(message.contains(expect), "{message}");
}

#[test]
fn a_key_in_place_of_a_variables_name() {
    const EXPECT: &str = "`models.target.api_key_env` takes the name of an environment variable, and";
    for value in [
        SECRET,
        "AIzaSyDoNotShow",
        "hf_DoNotShow",
        "gsk_DoNotShow",
        "DoNotShow-x",
        "DoNotShow.x",
        "1DoNotShow",
        "DoNotShow KEY",
        "$DoNotShow",
        "0123456789abcdef0123456789abcdef",
        "a123456789abcdef0123456789abcdef",
        "Bearer DoNotShow",
    ] {
        check(&format!("models.target.api_key_env={value}"), EXPECT);
    }
}

#[test]
fn keys_in_other_places() {
    check(&format!("models.target.api_key={SECRET}"), "did you mean `models.target.api_key_env`?");
    check(&format!("train.epochs={SECRET}"), "not this text");
    check(&format!("gate.metric={SECRET}"), "not this text");
    check(SECRET, "does not have the form KEY=VALUE");
    for header in
        ["Authorization", "authorization", "api-key", "x-api-key", "X-Auth-Token", "Cookie", "x-goog-api-key"]
    {
        check(&format!("models.target.extra_headers.{header}=DoNotShow"), "looks like a secret");
    }
    check(&format!("models.target.extra_headers.x-title={SECRET}"), "looks like a secret");
    check("models.target.extra_headers.x-title=bearer DoNotShow", "looks like a secret");
    for field in ["api_key", "apiKey", "secret", "provider.password", "a.b.access_token"] {
        check(&format!("models.target.extra_body.{field}=DoNotShow"), "looks like a secret");
    }
    check(&format!("models.target.extra_body.x={SECRET}"), "looks like a secret");
    check(&format!("models.target.extra_body.x=[[\"{SECRET}\"]]"), "looks like a secret");
}

/// The linter and the configuration know the same keys.
#[test]
fn keys_of_every_provider_in_the_table() {
    for shape in skill_core::secret::KEY_SHAPES {
        let key = format!("{}0123456789abcdefDoNotShow", shape.prefix);
        check(&format!("models.target.extra_body.x={key}"), "looks like a secret");
        check(&format!("models.target.extra_headers.x-title={key}"), "looks like a secret");
        check(&format!("models.target.extra_headers.x-title=Token {key}"), "looks like a secret");
        check(&format!("models.optimizer.base_url=https://host/{key}/v1"), "has credentials in the address");
        check(
            &format!("models.optimizer.base_url=https://host/v1?x={key}"),
            "has credentials in the address",
        );
    }
}

#[test]
fn credentials_in_an_address() {
    for url in [
        "https://me:DoNotShow@host/v1",
        "https://DoNotShow@host",
        "https://host/v1?key=DoNotShow",
        "https://host/v1?x=1&api_key=DoNotShow",
        "https://host/v1?token=DoNotShow#x",
        "https://host/sk-DoNotShow/v1",
        "me:DoNotShow@host/v1",
        "sk-DoNotShow",
    ] {
        check(&format!("models.optimizer.base_url={url}"), "has credentials in the address");
    }
    check("models.optimizer.base_url=ftp://DoNotShow", "takes an address that starts with http://");
}

#[test]
fn a_broken_line_with_a_key_is_not_shown() {
    let message = error(&format!("[models.target]\napi_key_env = {SECRET}\n"), &[]);
    assert!(!message.contains("DoNotShow"), "{message}");
    let message = error(&format!("[models.target]\napi_key_env = \"{SECRET}\n"), &[]);
    assert!(!message.contains("DoNotShow"), "{message}");
}
