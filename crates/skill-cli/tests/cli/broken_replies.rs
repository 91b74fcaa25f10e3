//! Replies that a server spoils behind a successful status: what `doctor` says of them, and what a run makes of them.

use crate::context::{TestContext, code};
use crate::server::{self, Server, body, reply};
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

/// A reply with this usage, text and finish reason.
fn said(usage: &Value, text: &str, finish: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": usage
    }))
}

/// What `doctor` says of the target's answer: how many warnings, and their words.
fn warnings(template: impl Fn() -> ResponseTemplate + Send + 'static) -> Vec<String> {
    let (server, context) = Server::start_with_task();
    server.answer_with(move |_, _| template());
    let outcome = context.run(&["doctor", "task/skillrl.toml", "--json"]);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let is_answer = |finding: &&Value| {
        finding["role"] == "target" && finding["check"] == "answer" && finding["status"] == "warning"
    };
    let found = report["findings"].as_array().unwrap().iter().filter(is_answer);
    found.map(|finding| finding["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn doctor_reports_a_part_of_usage_that_the_server_leaves_out() {
    for (usage, names) in [
        (json!({"prompt_tokens": 20, "total_tokens": 30}), "completion tokens"),
        (json!({"prompt_tokens": 20, "completion_tokens": -35}), "completion tokens"),
        (json!({"prompt_tokens": 20, "completion_tokens": null}), "completion tokens"),
        (json!({"completion_tokens": 9, "total_tokens": 30}), "prompt tokens"),
        (json!({"output_tokens": 9}), "prompt tokens"),
        (json!({"total_tokens": "30"}), "only the total"),
    ] {
        let shown = usage.to_string();
        let found = warnings(move || said(&usage, "ready", "stop"));
        assert!(
            matches!(found.as_slice(), [only] if only.contains("usage") && only.contains(names)),
            "{shown}: {found:?}"
        );
    }
    for usage in [
        json!({"prompt_tokens": 20, "completion_tokens": 9}),
        json!({"input_tokens": 20.0, "output_tokens": "9"}),
        // Tokens of a thought are in the total alone.
        json!({"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 50}),
    ] {
        let shown = usage.to_string();
        let found = warnings(move || said(&usage, "ready", "stop"));
        assert!(found.is_empty(), "{shown}: {found:?}");
    }
}

#[test]
fn doctor_reports_marks_unknown_finish_reasons_and_prompts_that_were_cut() {
    let whole = || json!({"prompt_tokens": 20, "completion_tokens": 9});
    for (text, finish, names) in [
        ("ready<|im_end|>", "stop", "<|im_end|>"),
        ("ready</s>", "stop", "marks"),
        ("ready", "xyz", "`xyz`"),
        ("ready", "eject", "`eject`"),
    ] {
        let found = warnings(move || said(&whole(), text, finish));
        assert!(matches!(found.as_slice(), [only] if only.contains(names)), "{text} {finish}: {found:?}");
    }
    let (server, context) = Server::start_with_task();
    server.answer_with(|_, _| reply("ready", "stop"));
    context.write(
        "long.md",
        &format!("# Skill\n{}", "- Look at each word of the task with care.\n".repeat(900)),
    );
    let doctor = ["doctor", "task/skillrl.toml", "--json", "--set", "skill.initial=long.md"];
    let report: Value = serde_json::from_str(&context.run(&doctor).stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let is_cut = |finding: &&Value| {
        finding["status"] == "warning" && finding["message"].as_str().unwrap().contains("cut the prompt")
    };
    assert_eq!(findings.iter().filter(is_cut).count(), 1, "{report}");
}

/// The body of a reply with this text.
fn body_of(text: &str) -> String {
    json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
        .to_string()
}

/// A task of which the replies to one item cannot be read.
fn spoilt(item: &'static str, broken: fn() -> ResponseTemplate) -> (Server, TestContext) {
    let (server, context) = Server::start_with_task();
    server.answer_with(move |_, request| {
        let body = body(request);
        let is_spoilt = !server::is_optimizer(&body) && body["messages"].to_string().contains(item);
        if is_spoilt { broken() } else { server::healthy(request) }
    });
    (server, context)
}

#[test]
fn the_other_items_go_on_where_replies_to_one_cannot_be_read() {
    let without_message = || {
        ResponseTemplate::new(200).set_body_json(json!({"choices": [{"index": 0, "finish_reason": "stop"}]}))
    };
    let without_choices = || ResponseTemplate::new(200).set_body_json(json!({"choices": []}));
    let torn = || ResponseTemplate::new(200).set_body_string("{\"choices\": [");
    let page = || ResponseTemplate::new(200).set_body_string("<html>Sign in</html>");
    let half = || {
        let body = body_of("Paris XX");
        let at = body.find("XX").unwrap();
        let bytes = [&body.as_bytes()[..at], b"\xf0\x9f", &body.as_bytes()[at + 2..]].concat();
        ResponseTemplate::new(200).set_body_raw(bytes, "application/json")
    };
    let half_escaped = || {
        ResponseTemplate::new(200)
            .set_body_raw(body_of("Paris XX").replace("XX", "\\ud83d"), "application/json")
    };
    for broken in [without_message, without_choices, torn, page, half, half_escaped] {
        let (server, context) = spoilt("valword1.", broken);
        let settings =
            ["--set", "retry.max_attempts=2", "--set", "retry.first_delay_s=0.01", "--set", "run.workers=1"];
        let train = || context.run(&[&["train", "task/skillrl.toml"][..], &settings].concat());
        let outcome = train();
        let said = outcome.stderr.clone();
        outcome.fails(code::OUTAGE, &["val-1"]);
        let n_val = context.read("task/data/val.jsonl").lines().count();
        // Each other item once, and the broken one twice.
        assert_eq!(server.n_calls(), n_val + 1, "{said}");
        assert!(
            !context.path("task/run/summary.json").exists()
                && !context.path("task/run/baseline_selection_eval").exists()
        );
        // What was answered is not requested again.
        server.answer_with(|_, request| server::healthy(request));
        train().assert_code(code::SUCCESS);
    }
}

#[test]
fn a_server_whose_replies_cannot_be_read_is_left_soon() {
    let (server, context) =
        spoilt("word", || ResponseTemplate::new(200).set_body_json(json!({"choices": []})));
    context.write_items("val", 40);
    let settings = ["--set", "retry.max_attempts=1", "--set", "run.workers=1"];
    context.run(&[&["train", "task/skillrl.toml"][..], &settings].concat()).assert_code(code::OUTAGE);
    assert!(server.n_calls() < 10, "{}", server.n_calls());
}

#[test]
fn try_shows_a_reply_that_breaks_off_within_a_character_without_a_score() {
    let (server, context) = Server::start_with_task();
    server.answer_with(|_, _| {
        let body = body_of("Paris XX").replace("XX", "\\ud83d");
        ResponseTemplate::new(200).set_body_raw(body, "application/json")
    });
    let settings = ["--set", "retry.max_attempts=2", "--set", "retry.first_delay_s=0.01"];
    let outcome = context.run(&[&["try", "val-1", "task/skillrl.toml", "--json"][..], &settings].concat());
    outcome.assert_code(code::SUCCESS);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert!(report.get("result").is_none(), "{report}");
    assert!(report["calls"][0]["error"].as_str().unwrap().contains("Paris"), "{report}");
    assert!(outcome.stderr.contains("warning:"), "{}", outcome.stderr);
}
