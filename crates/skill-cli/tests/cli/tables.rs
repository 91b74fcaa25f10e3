//! Tables of runs: `compare` of three and more, and `status --csv`.

use crate::context::{TestContext, code};
use serde_json::{Value, json};

/// Copies of the finished demo in `runs`: two models by two seeds.
fn runs() -> TestContext {
    let context = TestContext::with_finished_demo();
    for (name, model, seed) in [("a1", 7, 1), ("a2", 7, 2), ("b1", 8, 1), ("b2", 8, 2)] {
        context.copy_dir("demo/run", &format!("runs/{name}"));
        change(&context, &format!("runs/{name}/config.json"), |config| {
            config["config"]["run"]["seed"] = json!(seed);
            config["config"]["train"]["batch_size"] = json!(model);
        });
    }
    context
}

fn change(context: &TestContext, file: &str, change: impl FnOnce(&mut Value)) {
    let mut value = context.json(file);
    change(&mut value);
    context.write(file, &value.to_string());
}

const KEY: &str = "train.batch_size";

#[test]
fn runs_are_a_table_with_means_over_seeds() {
    let context = runs();
    let args = ["compare", "runs/a1", "runs/a2", "runs/b1", "runs/b2", "--json", "--html", "runs.html"];
    let found = context.succeed_json(&args);
    assert_eq!(found["settings"], json!(["run.seed", KEY]));
    assert_eq!(found["group_by"], json!([KEY]));
    let groups = found["groups"].as_array().unwrap();
    let of = |key: &str| groups.iter().map(|group| group[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("runs"), [json!(["a1", "a2"]), json!(["b1", "b2"])]);
    assert_eq!(of("seeds"), [json!([1, 2]), json!([1, 2])]);
    let versus = &groups[1]["versus_first"];
    assert_eq!((&versus["paired_by"], &versus["n"]), (&json!("seeds"), &json!(2)), "{versus}");
    let summary = context.json("demo/run/summary.json");
    for run in found["runs"].as_array().unwrap() {
        assert_eq!((&run["test"], &run["n_test"]), (&summary["test_hard"], &json!(40)));
        assert!(run["calls"].as_u64() > Some(0) && run["seconds"].as_f64() > Some(0.0), "{run}");
    }
    let page = context.read("runs.html");
    assert!(page.contains("id=\"run-table\"") && page.matches("class=\"curve").count() == 2, "{page}");
    assert!(!page.contains("data-left-out"), "{page}");

    // A directory is replaced by the runs in it, and every output format has the same rows.
    let csv = context.succeed(&["compare", "runs", "--csv"]);
    assert_eq!(csv, context.succeed(&["status", "runs", "--csv"]));
    let titles: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    assert!(["run", KEY, "seed", "test", "test_low", "cost"].iter().all(|title| titles.contains(title)));
    assert_eq!(csv.lines().count(), 1 + 4);
    let markdown = context.succeed(&["compare", "runs", "--markdown"]);
    assert_eq!(markdown.lines().filter(|line| line.starts_with("| b")).count(), 2, "{markdown}");
    let shown = context.succeed(&["compare", "runs"]);
    assert_eq!(shown.lines().filter(|line| line.starts_with("a")).count(), 2, "{shown}");

    let by_seed = context.succeed_json(&["compare", "runs", "--json", "--group-by", "seed"]);
    assert_eq!(by_seed["groups"][0]["runs"], json!(["a1", "b1"]));
    context.run(&["compare", "runs", "--group-by", "nope"]).fails(code::USAGE, &["nope", KEY]);
    context.run(&["compare", "runs/a1"]).assert_code(code::USAGE);
}

#[test]
fn a_row_says_what_is_wrong_with_its_run_and_nothing_fails_as_a_whole() {
    let context = runs();
    context.append("runs/a2/runtime_state.json", "{");
    change(&context, "runs/b1/config.json", |config| config["identity"]["data.test"] = json!("another"));
    context.remove("runs/b2/summary.json");
    let args = ["compare", "runs/a1", "runs/a1", "runs/a2", "runs/b1", "runs/b2", "nowhere", "--json"];
    let found = context.succeed_json(&args);
    let runs = found["runs"].as_array().unwrap();
    let states: Vec<&str> = runs.iter().map(|run| run["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["finished", "finished", "damaged", "finished", "stopped", "damaged"]);
    let n_notes = |run: &Value| {
        let notes = run["notes"].as_array().unwrap();
        notes.iter().filter(|note| *note != "simulated").count()
    };
    assert_eq!(runs.iter().map(n_notes).collect::<Vec<_>>(), [0, 1, 1, 1, 1, 1]);
    assert_eq!((&runs[1]["is_repeated"], &found["n_tasks"]), (&json!(true), &json!(2)));
    assert!(runs[2]["problem"].as_str().unwrap().contains("runtime_state.json"), "{}", runs[2]);
    assert_eq!(runs[4]["test"], Value::Null, "it was not measured yet");
}

#[test]
fn a_bundle_is_checked_and_replayed_where_nothing_else_is() {
    let context = TestContext::with_finished_demo();
    let outcome = context.run(&["export", "demo/run", "--bundle", "run.tar.gz", "--json"]);
    outcome.assert_code(code::SUCCESS);
    context.run(&["export", "demo/run", "--bundle", "run.tar.gz"]).assert_code(code::USAGE);
    context.succeed(&["export", "demo/run", "--bundle", "bare.tar.gz", "--no-data"]);

    let elsewhere = TestContext::new();
    for name in ["run.tar.gz", "bare.tar.gz"] {
        std::fs::copy(context.path(name), elsewhere.path(name)).unwrap();
    }
    let checked = elsewhere.succeed_json(&["check", "run.tar.gz", "--json"]);
    assert_eq!(checked["path"], "run.tar.gz");
    assert!(!elsewhere.path("run").exists(), "a check leaves nothing");
    elsewhere.succeed(&["replay", "run.tar.gz", "--out", "again", "--quiet"]);
    assert!(elsewhere.path("run/run/report.html").is_file(), "the report is in it");
    assert_eq!(elsewhere.read("again/best_skill.md"), context.read("demo/run/best_skill.md"));
    // Without its data it is whole, and names what a replay lacks.
    elsewhere.succeed(&["check", "bare.tar.gz"]);
    elsewhere.run(&["replay", "bare.tar.gz", "--quiet"]).fails(code::USAGE, &["env.data"]);
    // Another archive of the same name is not what was unpacked.
    std::fs::copy(context.path("bare.tar.gz"), elsewhere.path("run.tar.gz")).unwrap();
    elsewhere.run(&["replay", "run.tar.gz"]).fails(code::DATA, &["run.tar.gz"]);
    elsewhere.write("run.tar.gz", "no bundle");
    elsewhere.run(&["check", "run.tar.gz"]).assert_code(code::RUN_DIR);
}
