use super::*;
use crate::call::CallPlace;
use crate::chat::Message;

fn asked(system: &str, user: &str) -> ChatRequest {
    ChatRequest::new(vec![Message::system(system), Message::user(user)])
}

fn model(script: &str) -> ScriptedModel {
    ScriptedModel::from_rules("test", Script::parse("script", script).unwrap())
}

async fn say(model: &ScriptedModel, system: &str, user: &str, place: &str) -> String {
    let call = CallCtx::new(CallPlace::new(place));
    let reply = model.chat(&asked(system, user), &call).await.unwrap();
    format!("{:?} {}", reply.finish, reply.text)
}

async fn refused(model: &ScriptedModel, user: &str) -> LlmError {
    model.chat(&asked("", user), &CallCtx::default()).await.unwrap_err()
}

const SCRIPT: &str = r#"{"version": 1, "rules": [
    {"when": {"system_contains": ["analyst", "JSON"], "place_contains": "reflect"}, "reply": "{}"},
    {"when": {"user_contains": ["France"]}, "replies": ["Lyon", "Paris"]},
    {"when": {"user_contains": ["Spain"]}, "replies": ["Madrid"], "after_last": "error"},
    {"when": {"user_contains": ["long"]}, "reply": "cut he", "finish": "length"},
    {"when": {"user_contains": ["busy"]}, "error": {"class": "rate_limited", "message": "slow down"}}
], "otherwise": {"reply": "no idea"}}"#;

#[tokio::test]
async fn the_first_rule_that_fits_answers() {
    let model = model(SCRIPT);
    assert_eq!(say(&model, "JSON analyst", "x", "step 1 / reflect").await, "Stop {}");
    assert_eq!(say(&model, "JSON analyst", "x", "step 1 / rollout").await, "Stop no idea");
    assert_eq!(say(&model, "analyst", "x", "step 1 / reflect").await, "Stop no idea");
    assert_eq!(say(&model, "", "long France", "").await, "Stop Lyon");
    assert_eq!(say(&model, "France", "long", "").await, "Length cut he");
    let busy = refused(&model, "busy").await;
    assert!(
        matches!(&busy, LlmError::RateLimited { status: 429, message, .. } if message == "slow down"),
        "{busy:?}"
    );
}

#[tokio::test]
async fn replies_come_in_order_and_then_repeat_or_fail() {
    let model = model(SCRIPT);
    for expect in ["Stop Lyon", "Stop Paris", "Stop Paris"] {
        assert_eq!(say(&model, "", "France?", "").await, expect);
    }
    assert_eq!(say(&model, "", "Spain?", "").await, "Stop Madrid");
    let used_up = refused(&model, "Spain?").await;
    assert!(
        matches!(&used_up, LlmError::NoRule { message } if message.contains("only 1 replies")),
        "{used_up:?}"
    );
}

#[tokio::test]
async fn no_rule_is_an_error_that_quotes_the_user_message() {
    let model = model(r#"{"version": 1, "rules": []}"#);
    let long = format!("Where \"is\" it?{}", "x".repeat(100));
    let quoted = format!("{:?}..", long.split_at(QUOTED_CHARS).0);
    let unmatched = refused(&model, &long).await;
    assert!(
        matches!(&unmatched, LlmError::NoRule { message } if message.contains(&quoted)),
        "{quoted} in {unmatched:?}"
    );
    assert_eq!(unmatched.class(), ErrorClass::Configuration);
}

#[tokio::test]
async fn tokens_are_a_quarter_of_the_characters() {
    let model = model(r#"{"version": 1, "otherwise": {"reply": "äöüß!"}}"#);
    let reply = model.chat(&asked("four", "five!"), &CallCtx::default()).await.unwrap();
    assert_eq!(reply.usage, Usage { input: 3, output: 2, ..Usage::default() });
}

#[tokio::test]
async fn a_function_answers_and_cancelling_is_honoured() {
    let model = ScriptedModel::from_fn("echo", |request, call| {
        let text = format!("{} {}", call.place, request.text_of(Role::User));
        Ok(ChatReply::text(text, Usage::default()))
    });
    assert_eq!(say(&model, "", "hello", "here").await, "Stop here hello");
    let call = CallCtx::default();
    call.cancel.cancel();
    let error = model.chat(&asked("", ""), &call).await.unwrap_err();
    assert!(matches!(error, LlmError::Cancelled));
}

#[tokio::test]
async fn every_class_of_error_can_be_scripted() {
    let classes = [
        ("rate_limited", ErrorClass::RateLimited),
        ("quota_exhausted", ErrorClass::QuotaExhausted),
        ("authentication", ErrorClass::Authentication),
        ("bad_request", ErrorClass::BadRequest),
        ("context_too_long", ErrorClass::ContextTooLong),
        ("refused", ErrorClass::Refused),
        ("server_error", ErrorClass::ServerError),
        ("timeout", ErrorClass::Timeout),
        ("connection", ErrorClass::Connection),
        ("invalid_reply", ErrorClass::InvalidReply),
        ("cancelled", ErrorClass::Cancelled),
        ("configuration", ErrorClass::Configuration),
    ];
    for (name, class) in classes {
        let script = format!(r#"{{"version": 1, "otherwise": {{"error": {{"class": "{name}"}}}}}}"#);
        let error = model(&script).chat(&asked("", ""), &CallCtx::default()).await.unwrap_err();
        assert_eq!(error.class(), class, "{name}");
    }
}

#[track_caller]
fn check_refused(text: &str, expect: &str) {
    let error = Script::parse("a/rules.json", text).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Configuration);
    let message = error.to_string();
    assert!(message.starts_with("a/rules.json: ") && message.contains(expect), "{message}");
}

#[test]
fn a_script_with_a_mistake_is_refused() {
    const ONE: &str = "needs exactly one of `reply`, `replies` and `error`";
    let rule = |rule: &str| format!(r#"{{"version": 1, "rules": [{{"reply": "x"}}, {rule}]}}"#);
    check_refused("", "line 1");
    check_refused("{\n\"version\": 1,\n\"rule\": []}", "unknown field `rule`");
    check_refused("{\n\"version\": 1,\n\"rule\": []}", "line 3");
    check_refused(r#"{"rules": []}"#, "missing field `version`");
    check_refused(r#"{"version": 2}"#, "version 2 is not known; this program reads version 1");
    check_refused(&rule("{}"), &format!("rule 2: {ONE}"));
    check_refused(&rule(r#"{"reply": "a", "replies": ["b"]}"#), &format!("rule 2: {ONE}"));
    check_refused(&rule(r#"{"reply": "a", "error": {"class": "timeout"}}"#), &format!("rule 2: {ONE}"));
    check_refused(&rule(r#"{"replies": []}"#), "rule 2: `replies` is empty");
    check_refused(&rule(r#"{"reply": "a", "after_last": "error"}"#), "rule 2: `after_last` needs `replies`");
    check_refused(&rule(r#"{"error": {"class": "timeout"}, "finish": "stop"}"#), "rule 2: `finish` and");
    check_refused(&rule(r#"{"reply": "a", "finish": "tired"}"#), "unknown variant `tired`");
    check_refused(&rule(r#"{"error": {"class": "bad"}}"#), "unknown variant `bad`");
    for class in ["budget", "journal", "not_recorded"] {
        check_refused(
            &rule(&format!(r#"{{"error": {{"class": "{class}"}}}}"#)),
            "rule 2: the `class` of `error`",
        );
    }
    check_refused(
        &rule(r#"{"reply": "a", "when": {"user_contain": ["b"]}}"#),
        "unknown field `user_contain`",
    );
    check_refused(&rule(r#"{"reply": "a", "when": {"user_contains": "b"}}"#), "expected a sequence");
    check_refused(r#"{"version": 1, "otherwise": {}}"#, &format!("`otherwise`: {ONE}"));
    check_refused(r#"{"version": 1, "otherwise": {"reply": "a", "when": {}}}"#, "unknown field `when`");
}

#[test]
fn a_file_gives_a_model_named_after_its_content() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("capitals.json");
    let id = |text: &str| {
        std::fs::write(&path, text).unwrap();
        ScriptedModel::from_file(&path).unwrap().id().clone()
    };
    let first = id(SCRIPT);
    assert_eq!(first.provider, "scripted");
    assert!(first.model.starts_with("capitals@") && first.model.len() == 25, "{first}");
    assert_eq!(id(SCRIPT), first);
    assert_ne!(id(r#"{"version": 1}"#), first);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("none.json");
    let error = ScriptedModel::from_file(&missing).unwrap_err().to_string();
    assert!(error.starts_with("cannot read ") && error.contains("none.json: "), "{error}");
    let binary = directory.path().join("binary.json");
    std::fs::write(&binary, [0xff, 0xff]).unwrap();
    let error = ScriptedModel::from_file(&binary).unwrap_err().to_string();
    assert!(error.contains("binary.json: ") && error.contains("UTF-8"), "{error}");
    let marked = directory.path().join("marked.json");
    std::fs::write(&marked, format!("\u{feff}{SCRIPT}")).unwrap();
    ScriptedModel::from_file(&marked).unwrap();
}
