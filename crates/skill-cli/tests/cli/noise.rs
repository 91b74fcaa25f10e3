//! `skillrl doctor --measure`: what the selection split can show.

use crate::context::{TestContext, code};
use crate::said::assert_names;
use crate::server::Server;
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

const CONFIG: &str = "demo/skillrl.toml";

#[test]
fn a_deterministic_target_has_no_noise_and_a_run_pays_for_no_pass_again() {
    let context = TestContext::with_demo();
    let cost = context.succeed_json(&["doctor", "--measure", CONFIG, "--dry-run", "--json"]);
    assert_eq!(cost["calls"]["high"], 80);
    assert!(!context.path("demo/run/journal.sqlite").exists(), "an estimate leaves nothing");

    let outcome = context.run(&["doctor", "--measure", CONFIG, "--quiet"]);
    outcome.assert_code(code::SUCCESS);
    insta::assert_snapshot!("noise", outcome.stdout);
    assert_names(&outcome.stderr, &["two passes", "80 calls, "]);

    let report = context.succeed_json(&["doctor", "--measure", CONFIG, "--json"]);
    assert_eq!((&report["n_items"], &report["flip_rate"]), (&Value::from(40), &Value::from(0.0)));
    assert_eq!(report["reply_change_rate"], 0.0);
    assert_eq!(report["scores"][0], report["scores"][1]);

    // The baseline of a run is the first pass, and its fresh baseline the second one.
    context.succeed(&["train", CONFIG, "--quiet"]);
    let summary = context.json("demo/run/summary.json");
    for stage in ["baseline", "fresh_baseline"] {
        assert_eq!(summary["token_summary"][stage]["calls"], 40);
        let list = ["journal", "list", "demo/run", "--json", "--last", "1000", "--place", stage];
        let ids: Vec<u64> = context
            .succeed(&list)
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64().unwrap())
            .collect();
        assert!(ids.len() == 40 && ids.iter().all(|id| *id <= 80), "{stage}: {ids:?}");
    }
}

#[test]
fn an_effect_that_cannot_be_is_refused() {
    let context = TestContext::with_demo();
    context.run(&["doctor", "--measure", CONFIG, "--effect", "0"]).fails(code::USAGE, &["--effect is 0"]);
}

#[test]
fn replies_that_change_without_a_score_are_not_called_deterministic() {
    let server = Server::start();
    server.answer_with(|number, _| {
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 5});
        let message = json!({"role": "assistant", "content": format!("It is word {number}.")});
        let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
        ResponseTemplate::new(200).set_body_json(json!({"choices": [choice], "usage": usage}))
    });
    let context = server.task();
    let noise = ["doctor", "--measure", "task/skillrl.toml", "--quiet"];
    let text = context.succeed(&noise);
    assert!(text.contains("is not deterministic") && !text.contains("is deterministic"), "{text}");
    let report = context.succeed_json(&[&noise[..], &["--json"]].concat());
    let rates = (&report["flip_rate"], &report["reply_change_rate"]);
    assert_eq!(rates, (&Value::from(0.0), &Value::from(1.0)), "{report}");
}
