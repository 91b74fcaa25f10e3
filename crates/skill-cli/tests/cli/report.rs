//! The report of a run: written at its end, on request, and while it goes on.

use crate::context::{TestContext, assert_same_files, code, set};
use crate::said::assert_names;
use crate::server::Server;
use serde_json::Value;
use skillrl::pipeline::run_dir::RunDir;
use skillrl_bench::runs::{RunSize, make_run};
use std::collections::BTreeSet;

#[test]
fn the_report_of_the_demo_says_what_the_run_came_to() {
    let context = TestContext::with_finished_demo();
    // Training has written it.
    let page = context.read("demo/run/report.html");
    assert!(page.len() < 1_000_000, "{}", page.len());
    let summary = context.json("demo/run/summary.json");
    let percent = |name: &str| format!("{:.1} %", summary[name].as_f64().unwrap() * 100.0);
    let said = format!("{} → {}", percent("baseline_test_hard"), percent("test_hard"));
    assert!(page.contains(&said), "{said}");
    // The page fetches nothing.
    for outside in ["http://", "https://", "src=", "@import", "url(", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    // Every step, every line of the skill and every item of the selection split is there.
    let report = context.succeed_json(&["report", "demo/run", "--json"]);
    let count = |name: &str| report.pointer(name).unwrap().as_array().unwrap().len();
    assert_eq!((count("/steps"), count("/items/rows")), (12, 40));
    assert_eq!(count("/skill"), context.read("demo/run/best_skill.md").lines().count());
    for step in 1..=12 {
        assert!(page.contains(&format!("<details id=\"step-{step}\">")), "{step}");
    }
    assert_eq!(report["headline"]["test"]["counts"]["wins"], 34);
    // Each decision with its evidence, and the scores that decided nothing.
    for (step, record) in report["steps"].as_array().unwrap().iter().zip(summed_up(&context)) {
        assert_eq!(step["paired"], record["paired"], "{record}");
        let evidence = step["evidence"].as_str().unwrap_or_default();
        assert_eq!(evidence.contains("McNemar p"), !record["paired"]["mcnemar_p"].is_null(), "{evidence}");
        assert!(page.contains(&evidence.replace('<', "&lt;")), "{evidence}");
    }
    assert_eq!(report["headline"]["fresh"], summary["fresh_selection"]);
    assert_eq!(report["headline"]["best_of"], summary["best_of"]);
    assert!(page.contains("Validation split, re-measured"));
    let shown = count("/trajectories/shown") as u64;
    let left_out = report["trajectories"]["n_left_out"].as_u64().unwrap();
    assert_eq!(shown + left_out + report["trajectories"]["n_kept"].as_u64().unwrap(), 40);
    // Looking changes no other file, and the same run gives the same page.
    let files = context.untimed_files("demo/run");
    assert_eq!(context.succeed(&["report", "demo/run", "--output", "other.html"]), "other.html\n");
    assert_eq!(context.read("other.html"), page);
    assert_same_files(&files, &context.untimed_files("demo/run"));
}

/// The records of the demo's run.
fn summed_up(context: &TestContext) -> Vec<Value> {
    context.json("demo/run/history.json").as_array().unwrap().clone()
}

#[test]
fn a_report_counts_items_where_each_is_tried_more_than_once() {
    let context = TestContext::with_demo();
    let settings = ["gate.selection_repeats=2", "gate.mode=mcnemar", "train.epochs=1"];
    context.succeed(&[&["train", "demo/skillrl.toml", "--quiet"][..], &set(&settings)].concat());
    let report = context.succeed_json(&["report", "demo/run", "--json"]);
    assert_eq!(report["items"]["rows"].as_array().unwrap().len(), 40);
    let selection = &report["headline"]["selection"];
    let count = |name: &str| selection["counts"][name].as_u64().unwrap();
    assert_eq!((&selection["n"], count("wins") + count("losses") + count("ties")), (&Value::from(40), 40));
    let steps = report["steps"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["outcome"] == "indecisive"), "{steps:?}");
    // What an item won is won by its draws together.
    let blame = context.succeed_json(&["blame", "demo/run", "--json"]);
    let blamed = blame["steps"].as_array().unwrap();
    assert!(!blamed.is_empty(), "{steps:?}");
    for step in blamed {
        let won = step["won"].as_array().unwrap();
        let ids: BTreeSet<&str> = won.iter().map(|id| id.as_str().unwrap()).collect();
        assert!(!won.is_empty() && ids.len() == won.len(), "{step}");
    }
    for step in steps.iter().filter(|step| !step["paired"].is_null()) {
        assert!(step["evidence"].as_str().unwrap().contains("2 draws of each item"), "{step}");
    }
    // Beside a run that tries each once: what cannot be paired is said.
    let args = ["train", "demo/skillrl.toml", "--quiet", "--set", "train.epochs=1", "--set", "run.dir=once"];
    context.succeed(&args);
    let args = ["compare", "demo/run", "once", "--json", "--html", "both.html"];
    let both = context.succeed_json(&args);
    let said = "40 items of the validation split were not tried equally often (2 and 1 draws of each): their scores are \
                not compared.";
    assert_eq!((&both["not_compared"], &both["selection"]), (&Value::from(vec![said]), &Value::Null));
    assert_eq!((&both["items_split"], &both["test"]["n"]), (&"test".into(), &40.into()));
    assert!(context.read("both.html").contains("Test split, each item"));
    // An item whose draws differ, as those of the simulated model do not.
    let path = "demo/run/baseline_selection_eval/results.json";
    let mut results = context.json(path);
    assert_eq!(results[0]["id"], results[1]["id"]);
    results[0]["hard"] = (1.0 - results[1]["hard"].as_f64().unwrap()).into();
    context.write(path, &results.to_string());
    let text = context.succeed(&["show", "demo/run", "--item", results[0]["id"].as_str().unwrap()]);
    assert!(text.contains("  some draws    the first one"), "{text}");
}

/// An id does not make an item the same: of other data, what has the same text and label is compared, and with another
/// scorer nothing.
#[test]
fn runs_are_compared_on_items_that_are_the_same_in_both() {
    let (_server, context) = Server::start_with_task();
    let train = |dir: &str, more: &[&str]| {
        let dir = format!("run.dir={dir}");
        context.succeed(&[&["train", "task/skillrl.toml", "--quiet", "--set", &dir], more].concat());
    };
    train("first", &[]);
    train("scored", &["--set", "env.scorer=contains"]);
    context.replace("task/data/val.jsonl", "valword1", "another");
    context.replace("task/data/test.jsonl", "[\"testword2\"]", "[\"another\"]");
    train("changed", &[]);
    let compared = |second: &str| {
        let both = context.succeed_json(&["compare", "first", second, "--json"]);
        assert!(both["runs"].as_array().unwrap().iter().all(|run| run["test"].is_number()), "{both}");
        let n = |split: &str| both[split]["n"].as_u64();
        (n("selection"), n("test"), both["not_compared"].as_array().unwrap().len())
    };
    assert_eq!(compared("first"), (Some(2), Some(2), 0));
    assert_eq!(compared("changed"), (Some(1), Some(1), 2));
    assert_eq!(compared("scored"), (None, None, 2));
}

/// A report shows some of so many.
#[test]
fn every_item_of_a_large_run_can_be_shown() {
    let context = TestContext::new();
    let size = RunSize { n_steps: 2, batch: 1, n_selection: 4, n_test: 400, ..RunSize::RUN_OF_10_000_STEPS };
    make_run(&context.path("large"), &size).unwrap();
    let report = context.succeed_json(&["report", "large", "--json"]);
    assert!(report["trajectories"]["n_left_out"].as_u64().unwrap() > 100, "{}", report["trajectories"]);
    let results = context.json("large/test_eval_best/results.json");
    let mut failed = results.as_array().unwrap().iter().filter(|result| result["hard"] == 0.0);
    let id = failed.next_back().unwrap()["id"].as_str().unwrap();
    let text = context.succeed(&["show", "large", "--item", id]);
    assert_names(&text, &["the test split", "the best skill: 0.0 %", "[assistant]"]);
}

#[test]
fn what_models_and_data_say_is_text_in_a_report() {
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&lt;b&gt;";
    let reply =
        serde_json::json!({"patch": {"reasoning": "", "edits": [{"op": "append", "content": hostile}]}});
    let script =
        |otherwise: &str| serde_json::json!({"version": 1, "otherwise": {"reply": otherwise}}).to_string();
    let context = TestContext::with_task(
        "{ kind = \"scripted\", file = \"target.json\" }",
        "{ kind = \"scripted\", file = \"optimizer.json\" }",
    );
    let steering = format!("{hostile}\u{1b}[2J\u{7}\u{9b}1m\u{202e}");
    context.write("task/target.json", &script(&steering));
    context.write("task/optimizer.json", &script(&reply.to_string()));
    context.succeed(&["train", "task/skillrl.toml", "--quiet"]);
    let run = ["task/run", "run"].into_iter().find(|run| context.path(run).is_dir()).unwrap();
    let page = context.read(&format!("{run}/report.html"));
    assert!(
        !page.contains("<script>alert") && !page.contains("<img"),
        "markup of a model stands in the page"
    );
    assert!(page.contains("&lt;script&gt;alert(1)&lt;&#x2f;script&gt;"), "what it said is there as text");
    assert_eq!(page.matches("<script>").count(), 1);
    let steers = |page: &str| page.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']);
    assert!(!steers(&page) && page.contains("\\u{1b}[2J") && page.contains("\\u{202e}"), "{page}");
    // Nor in the page of a comparison.
    context.succeed(&["compare", run, run, "--html", "both.html"]);
    let page = context.read("both.html");
    assert!(!page.contains("<script>alert") && !page.contains("<img") && !steers(&page));
    assert_eq!(page.matches("<script>").count(), 1);
}

#[test]
fn two_runs_are_compared_on_one_page() {
    let context = TestContext::with_finished_demo();
    let args = ["train", "demo/skillrl.toml", "--quiet", "--set", "train.epochs=1", "--set", "run.dir=short"];
    context.succeed(&args);
    let said = context.succeed(&["compare", "demo/run", "short", "--html", "both.html"]);
    assert_eq!(said, context.succeed(&["compare", "demo/run", "short"]), "the terminal says it too");
    let page = context.read("both.html");
    assert!(page.len() < 200_000, "{}", page.len());
    for outside in ["http://", "https://", "src=", "@import", "url(", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let json = context.succeed_json(&["compare", "demo/run", "short", "--json"]);
    let items = json["items"].as_array().unwrap();
    assert_eq!(items.len(), 40);
    let n_of = |outcome: &str| items.iter().filter(|item| item["outcome"] == outcome).count() as u64;
    let counts = &json["test"]["counts"];
    assert_eq!(
        (&counts["wins"], &counts["losses"]),
        (&n_of("only_second").into(), &n_of("only_first").into())
    );
    for item in items {
        assert!(page.contains(item["id"].as_str().unwrap()), "{item}");
    }
    for said in ["<h1>A demo · B short</h1>", "A is better", "train.epochs", "- only in A", "<svg viewBox"] {
        assert!(page.contains(said) || page.contains(&said.replace('-', "−")), "{said}");
    }
    // The curves of both over each other, and each by itself.
    assert_eq!(page.matches("<svg viewBox").count(), 3);
    // A page that is the same twice: nothing in it knows the time.
    context.succeed(&["compare", "demo/run", "short", "--html", "again.html"]);
    assert_eq!(context.read("again.html"), page);
}

#[test]
fn a_run_in_progress_has_a_report_and_a_damaged_one_names_its_file() {
    let context = TestContext::with_finished_demo();
    context.remove("demo/run/summary.json");
    let process = RunDir::open(&context.path("demo/run")).unwrap();
    let report = context.succeed_json(&["report", "demo/run", "--json"]);
    assert_eq!((&report["is_finished"], &report["headline"]["test"]), (&false.into(), &Value::Null));
    let verdict = &report["verdict"];
    let kinds: Vec<&Value> =
        verdict["cautions"].as_array().unwrap().iter().map(|caution| &caution["kind"]).collect();
    assert_eq!(verdict["outcome"], "not finished");
    assert!(kinds.contains(&&"unfinished".into()) && kinds.contains(&&"untested".into()), "{kinds:?}");
    context.succeed(&["report", "demo/run"]);
    assert!(context.read("demo/run/report.html").contains("steps, in progress"));
    drop(process);
    // A page that stood there before stays when a file of the run is damaged.
    context.write("demo/run/history.jsonl", "{\"step\": 1\n");
    context.run(&["report", "demo/run"]).fails(code::RUN_DIR, &["history.jsonl: is not JSON"]);
    assert!(context.read("demo/run/report.html").contains("steps, in progress"));
    context.run(&["report", "demo"]).assert_code(code::RUN_DIR);
    context.write("demo/run/config.json", "{\"format_version\": \"99.0\"}");
    context.run(&["report", "demo/run"]).fails(code::RUN_DIR, &["99.0"]);
}
