//! Data of one's own: looked at, trained on, and what is said when something is wrong.

use crate::context::{TestContext, assert_same_files, code, set};
use crate::said::{Said, assert_names};

const CONFIG: &str = "own/skillrl.toml";

/// The example with a judge in place of exact answers.
const RUBRIC: [&str; 5] = [
    "env.scorer=rubric",
    "env.rubric=Names the queue.",
    "env.ignore_case=false",
    "models.judge.model=m",
    "models.judge.base_url=http://127.0.0.1:1/v1",
];

/// The example of the repository in `own`.
fn example() -> TestContext {
    let context = TestContext::new();
    let files = ["skillrl.toml", "tickets.csv", "skill.md", "target.json", "optimizer.json"];
    context.copy_example("own-data", "own", &files);
    context
}

#[test]
fn env_check_shows_what_will_be_measured() {
    let context = example();
    insta::assert_snapshot!(context.succeed(&["env", "check", CONFIG]));
    // Nothing is left behind.
    assert!(!context.path("own/run").exists());
    let shown =
        context.succeed(&["env", "check", CONFIG, "--item", "v02", "--answer", "I say <answer>Bug</answer>"]);
    assert!(
        shown.contains("item   v02 (val, low)") && shown.contains("answer Bug\nscore  100.0 %\n"),
        "{shown}"
    );
    let report = context.succeed_json(&["env", "check", CONFIG, "--json", "--answer", "support"]);
    assert_eq!(report["splits"], serde_json::json!({"train": 8, "val": 4, "test": 4}));
    assert_eq!(report["tries"][0]["hard"], 0.0);
    assert_eq!(report["tries"][0]["answer"], "support");
}

#[test]
fn env_check_asks_no_judge() {
    let context = example();
    let rubric = set(&RUBRIC);
    let args = [&["env", "check", CONFIG, "--answer", "<answer>bug</answer>"][..], &rubric].concat();
    let shown = context.succeed(&args);
    assert_names(&shown, &["score not known", "`judge`", "| Names the queue."]);
}

#[test]
fn env_check_looks_at_questions_too_and_sees_items_in_two_splits() {
    let context = TestContext::with_task("{ kind = \"simulated\" }", "{ kind = \"simulated\" }");
    let shown = context.succeed(&["env", "check", "task/skillrl.toml"]);
    assert!(
        shown.contains("env    qa\nitems  4 train, 2 val, 2 test\n") && shown.contains("score  100.0 %"),
        "{shown}"
    );
    context.append(
        "task/data/test.jsonl",
        "{\"id\": \"again\", \"question\": \"Repeat: trainword1.\", \"answers\": [\"x\"]}\n",
    );
    let shown = context.succeed(&["env", "check", "task/skillrl.toml"]);
    assert_names(&shown, &["warning: 1 item ", "train-1 (train)", "again (test)"]);
}

#[test]
fn a_run_on_a_table_learns_and_is_the_same_for_any_number_of_workers() {
    let context = example();
    let told = context.succeed(&["train", CONFIG, "--quiet", "--set", "run.workers=1"]);
    assert!(told.contains("Better: 100.0 % instead of 0.0 % on"), "{told}");
    context.succeed(&["train", CONFIG, "--quiet", "--set", "run.workers=64", "--set", "run.dir=other"]);
    assert_same_files(&context.untimed_files("own/run"), &context.untimed_files("other"));
    // And again from its journal, without a model.
    context.succeed(&["replay", "own/run", "--quiet"]);
    assert!(context.succeed(&["estimate", CONFIG]).contains("rollout"));
    assert!(context.succeed(&["config", "show", CONFIG]).contains("scorer = \"exact\""));
}

#[test]
fn what_is_wrong_is_named_with_a_hint() {
    let context = example();
    let mut said = Said::default();
    let mut check = |sets: &[&str], expect_code: i32, names: &[&str]| {
        let args = [&["env", "check", CONFIG][..], &set(sets)].concat();
        let outcome = context.run(&args).fails(expect_code, names);
        assert!(outcome.stderr.contains("\nhint: "), "{}", outcome.stderr);
        said.add(&format!("[{}]", sets.join(" ")), &outcome);
    };
    check(&["env.scorer=exat"], code::USAGE, &["\"exact\"?"]);
    let template = ["`env.user_prompt`", "line 1", "`txt`", "`id`, `text`"];
    check(&["env.user_prompt={{ txt }}"], code::USAGE, &template);
    let answer = ["own/tickets.csv, line 2", "`gold`", "`id`, `text`"];
    check(&["env.answer_field=gold"], code::DATA, &answer);
    check(&["env.split_field=part"], code::DATA, &["own/tickets.csv, line 2", "`part`"]);
    check(&["env.extract=regex", "env.extract_pattern=a("], code::USAGE, &["`extract_pattern`", "`a(`"]);
    check(&["env.tools=own/tickets.csv"], code::USAGE, &["own/tickets.csv", "parameters"]);
    context.append("own/tickets.csv", "t01,again,bug,low,train\n");
    check(&[], code::DATA, &["own/tickets.csv, line 18", "`t01`", "own/tickets.csv, line 2"]);
    let context = example();
    let outcome =
        context.run(&["env", "check", CONFIG, "--item", "t99"]).fails(code::USAGE, &["`t99`", "`t01`"]);
    said.add("--item t99", &outcome);
    insta::assert_snapshot!("env_check_refusals", said.text());
}

#[test]
fn init_writes_a_file_for_tasks() {
    let context = TestContext::new();
    context.succeed(&["init", "--full", "--kind", "tasks"]);
    let file = context.read("skillrl.toml");
    assert!(file.contains("\nkind = \"tasks\"\n") && file.contains("\n#rules = [{ contains = "), "{file}");
    context.succeed(&["config", "show"]);
}

/// A judge's calls are among those that are estimated: between what a run with a judge takes at least and at most.
#[test]
fn a_judge_is_estimated() {
    let context = example();
    let calls = |sets: &[&str]| {
        let args = [&["estimate", CONFIG, "--json"][..], sets].concat();
        let estimate = context.succeed_json(&args);
        estimate["stages"].as_array().unwrap().iter().find(|stage| stage["stage"] == "rollout").unwrap()["calls"].clone()
    };
    assert_eq!(calls(&[]), serde_json::json!({"low": 8, "high": 8}));
    assert_eq!(calls(&set(&RUBRIC)), serde_json::json!({"low": 8, "high": 16}));
}

/// A judge that nobody has asked yet gives no cause for warnings.
#[test]
fn a_cost_is_told_without_warnings_of_a_judge() {
    let context = example();
    let args = ["doctor", "--measure", CONFIG, "--dry-run"];
    let outcome = context.run(&[&args[..], &set(&RUBRIC)].concat());
    outcome.assert_code(code::SUCCESS);
    assert_eq!(outcome.stderr, "");
}
