//! `--log-format json`: standard error has one JSON object per event, and nothing else.

use crate::context::{TestContext, code};
use serde_json::Value;

#[track_caller]
fn events(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect()
}

#[test]
fn a_log_in_json_has_one_object_per_event() {
    let context = TestContext::with_demo();
    let outcome = context.run(&["train", "demo/skillrl.toml", "--log-format", "json"]);
    outcome.assert_code(code::SUCCESS);
    let found = events(&outcome.stderr);
    assert!(found.len() > 2, "{}", outcome.stderr);
    for event in &found {
        assert!(event["timestamp"].is_string() && event["level"].is_string(), "{event}");
        assert!(event["fields"]["message"].is_string(), "{event}");
    }
    // The global option may come first, and an error is an event.
    let failed = context.run(&["--log-format", "json", "train", "gone.toml"]);
    failed.assert_code(code::USAGE);
    let last = events(&failed.stderr).pop().unwrap();
    assert_eq!((&last["level"], &last["target"]), (&"ERROR".into(), &"skillrl_cli::said".into()));
}
