//! What a run came to: decided once, and the same words wherever it is shown.

use crate::context::{TestContext, code};
use crate::said::assert_names;
use crate::server::{GOOD_RULE, Server, body, healthy, is_optimizer, reply};
use serde_json::Value;

const N_TEST: usize = 30;

/// A task whose target does best when nobody tells it anything, and half as well with the rule that training adds.
fn spoilt_by_skills(server: &Server) -> TestContext {
    server.answer_with(|_, request| {
        let body = body(request);
        if is_optimizer(&body) {
            return healthy(request);
        }
        let text = body["messages"].to_string();
        let word = text.rsplit("Repeat: ").next().and_then(|rest| rest.split('.').next()).unwrap_or_default();
        let number = word.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let is_easy = number.parse::<usize>().is_ok_and(|number| number <= N_TEST / 2);
        let is_right = if text.contains(GOOD_RULE) { is_easy } else { !text.contains("Be polite") };
        reply(if is_right { word } else { "Good day" }, "stop")
    });
    let context = server.task();
    context.write_items("test", N_TEST);
    context
}

#[test]
fn a_skill_that_beats_the_initial_one_and_not_none_looks_bad_everywhere() {
    let server = Server::start();
    let context = spoilt_by_skills(&server);
    let train =
        ["train", "task/skillrl.toml", "--quiet", "--set", "eval.no_skill=on", "--set", "run.dir=run"];
    let outcome = context.run(&train);
    outcome.assert_code(code::SUCCESS);
    let report = context.succeed_json(&["report", "run", "--json"]);
    let verdict = &report["verdict"];
    assert_eq!(verdict["outcome"], "worse than no skill");
    assert!(verdict["interval"][1].as_f64().unwrap() < 0.0 && verdict["difference"] == -0.5, "{verdict}");
    // One wording: in the terminal, in lists and on the page.
    let words = verdict["words"].as_str().unwrap();
    let page = context.read("run/report.html");
    for shown in [&outcome.stdout, &context.succeed(&["status", "run"]), &context.succeed(&["show", "run"])] {
        let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&format!("Worse than no skill: {words}")), "{words}: {shown}");
    }
    assert!(page.contains(words) && page.contains("lead verdict bad"), "{words}");
    assert_eq!(context.succeed_json(&["status", "run", "--json"])["verdict"]["outcome"], verdict["outcome"]);
    // People read percent, and files keep fractions.
    assert_names(words, &["50.0 %", "100.0 %", "30 test items"]);
    let summary = context.json("run/summary.json");
    assert_eq!(
        (&summary["baseline_test_hard"], &summary["test_hard"], &summary["test_no_skill"]["hard"]),
        (&0.0.into(), &0.5.into(), &1.0.into())
    );
    // All arms beside each other, with the trained skill against each of the others.
    let arms = report["headline"]["arms"].as_array().unwrap();
    let of = |key: &str| arms.iter().map(|arm| arm[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("name"), ["no_skill", "initial", "trained"]);
    assert_eq!(of("score"), [1.0, 0.0, 0.5].map(Value::from));
    let differences: Vec<&Value> = arms.iter().map(|arm| &arm["trained"]["difference"]).collect();
    assert_eq!(differences, [&Value::from(-0.5), &Value::from(0.5), &Value::Null]);
    assert!(page.contains("no skill at all"));
    // The same table is in the verdict of JSON, MCP and Python, and the arm that was left out has its command.
    let of_verdict: Vec<_> =
        verdict["arms"].as_array().unwrap().iter().map(|arm| arm["score"].clone()).collect();
    assert_eq!(of_verdict, of("score"));
    assert_eq!(verdict["arms"][0]["difference_interval"], verdict["interval"]);
    let [missing] = &verdict["missing_arms"].as_array().unwrap()[..] else { panic!("{verdict}") };
    assert_eq!(missing["name"], "one_shot");
    let command = missing["command"].as_str().unwrap();
    assert!(command.contains("eval.one_shot=on") && outcome.stdout.contains("one-shot skill"), "{command}");
    assert!(page.contains("data-missing=\"one_shot\""));
    // What the checks before the run found in its data is a caution; what the run has measured since is not said twice.
    let found = |check: &str, message: &str| serde_json::json!({"check": check, "message": message});
    let checks = [found("splits", "15 items are in two splits"), found("selection", "30 items are few")];
    context.write("run/checks.json", &serde_json::to_string(&checks).unwrap());
    let verdict = &context.succeed_json(&["report", "run", "--json"])["verdict"];
    let of_data = verdict["cautions"].as_array().unwrap().iter().filter(|caution| caution["kind"] == "data");
    let of_data: Vec<&str> = of_data.map(|caution| caution["words"].as_str().unwrap()).collect();
    assert!(
        matches!(of_data[..], [words] if words.contains("splits") && words.contains("15 items")),
        "{verdict}"
    );
    // It is foreseen, and it is paid for once.
    let estimate = context.succeed(&["estimate", "task/skillrl.toml", "--set", "eval.no_skill=on"]);
    assert!(estimate.contains("test_no_skill"), "{estimate}");
    server.answer_with(|_, request| healthy(request));
    context.run(&train).assert_code(code::SUCCESS);
    assert_eq!(server.n_calls(), 0);
}

#[test]
fn without_the_arm_the_same_skill_is_better() {
    let server = Server::start();
    let context = spoilt_by_skills(&server);
    context.succeed(&["train", "task/skillrl.toml", "--quiet", "--set", "run.dir=run"]);
    let report = context.succeed_json(&["report", "run", "--json"]);
    assert_eq!(
        (&report["verdict"]["outcome"], &report["headline"]["arms"][2]),
        (&"better".into(), &Value::Null)
    );
}

#[test]
fn a_page_shows_all_arms_where_none_is_missing() {
    let context = TestContext::new();
    let rows =
        (0..48).map(|n| format!("{n},request {n} about {},{}\n", n % 3, ["red", "green", "blue"][n % 3]));
    context.write("colours.csv", &format!("id,text,label\n{}", rows.collect::<String>()));
    let train =
        ["train", "colours.csv", "--answer", "label", "--mock", "--quiet", "--set", "eval.one_shot=on"];
    context.succeed(&[&train[..], &["--set", "run.dir=run"]].concat());
    let report = context.succeed_json(&["report", "run", "--json"]);
    let arms = report["headline"]["arms"].as_array().unwrap();
    let names: Vec<&Value> = arms.iter().map(|arm| &arm["name"]).collect();
    assert_eq!(names, ["initial", "one_shot", "trained"]);
    assert_eq!(report["verdict"]["missing_arms"], Value::Null);
    let page = context.read("run/report.html");
    assert!(page.contains("id=\"arms\"") && !page.contains("data-left-out"), "{page}");
}
