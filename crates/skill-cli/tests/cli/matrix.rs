//! `skillrl eval` of several models and skills: one matrix, one journal.

use crate::context::{TestContext, code};
use crate::said::assert_names;
use crate::server::{GOOD_RULE, Server};
use serde_json::Value;

/// A task with two skills beside it: one that the server's target obeys, and one that it does not.
fn task(server: &Server, more: &str) -> TestContext {
    let context = server.task_with(more);
    context.write("good.md", &format!("# Skill\n\n{GOOD_RULE}\n"));
    context.write("bad.md", "# Skill\n\n- Be kind.\n");
    context
}

const PRICED: &str = ", price_input = 1.0, price_output = 2.0";

fn matrix(context: &TestContext, args: &[&str]) -> Value {
    context.succeed_json(&[&["eval", "task/skillrl.toml", "--split", "test", "--json"], args].concat())
}

#[test]
fn skills_and_models_are_measured_as_a_matrix_and_paid_for_once() {
    let server = Server::start();
    let context = task(&server, PRICED);
    let n_before = server.n_calls();
    let args = ["--model", "target,other", "--skill", "bad.md,good.md", "--out", "out"];
    let first = matrix(&context, &args);
    let n_calls = server.n_calls() - n_before;
    let cells = first["cells"].as_array().unwrap();
    let names: Vec<(&str, &str)> =
        cells.iter().map(|cell| (cell["model"].as_str().unwrap(), cell["skill"].as_str().unwrap())).collect();
    assert_eq!(
        names,
        [("target", "bad.md"), ("target", "good.md"), ("other", "bad.md"), ("other", "good.md")]
    );
    let scores: Vec<f64> = cells.iter().map(|cell| cell["score"].as_f64().unwrap()).collect();
    assert_eq!(scores, [0.0, 1.0, 0.0, 1.0]);
    assert_eq!(cells[0]["versus_first"], Value::Null);
    assert_eq!(cells[3]["versus_first"]["difference"], 1.0);
    assert!(cells.iter().all(|cell| cell["seconds"].is_f64() && cell["interval"].is_array()), "{first}");
    // The prices are those of the target, and nobody knows them of the other model.
    assert!(cells[0]["cost"].is_f64() && cells[2]["cost"].is_null(), "{first}");
    let n = cells[0]["n"].as_u64().unwrap();
    assert_eq!(n_calls as u64, 4 * n);
    // Every item has a reply of each cell.
    let items = first["items"].as_array().unwrap();
    assert_eq!(items.len() as u64, n);
    assert!(
        items.iter().all(|item| item["differs"] == true && item["replies"].as_array().unwrap().len() == 4)
    );
    assert_names(items[0]["replies"][0]["reply"].as_str().unwrap(), &["Good day"]);
    // The same command pays for nothing, and says the same.
    assert_eq!(matrix(&context, &args), first);
    assert_eq!(server.n_calls() - n_before, n_calls);
    // A cell is a measurement like another, with which a later one is compared.
    context.succeed(&["check", "out/target/good.md"]);
    let against =
        matrix(&context, &["--skill", "bad.md,good.md", "--out", "two", "--against", "out/target/good.md"]);
    assert_eq!(against["cells"][0]["against"]["difference"], -1.0);
    assert_eq!(against["cells"][1]["against"]["difference"], 0.0);
}

#[test]
fn a_matrix_is_a_table_a_page_and_lines_of_items() {
    let server = Server::start();
    let context = task(&server, "");
    let args = ["eval", "task/skillrl.toml", "--skill", "bad.md,good.md", "--out", "out", "--quiet"];
    let with = |more: &[&str]| context.succeed(&[&args[..], more].concat());
    let text = with(&["--html", "page.html"]);
    assert_names(&text, &["bad.md", "good.md", "100.0 %", "versus first", "+100.0 points"]);
    let page = context.read("page.html");
    assert_names(&page, &["matrix-table", "data-item", "Good day to you"]);
    assert!(!page.contains("data-left-out"));
    let csv = with(&["--csv"]);
    assert_names(&csv, &["target / bad.md: reply", "target / good.md: hard", "Good day to you"]);
    let markdown = with(&["--markdown"]);
    assert_names(&markdown, &["| target | bad.md |"]);
}

#[test]
fn each_cell_keeps_the_limits() {
    let server = Server::start();
    let context = task(&server, "");
    let args = ["eval", "task/skillrl.toml", "--skill", "bad.md,good.md", "--quiet", "--min-score", "50"];
    context.run(&args).fails(code::REGRESSED, &["target / bad.md"]);
}

#[test]
fn a_matrix_that_cannot_be_measured_is_refused_before_anything_is_sent() {
    let server = Server::start();
    let context = task(&server, PRICED);
    let n_before = server.n_calls();
    let check = |args: &[&str], expect: i32, names: &[&str]| {
        let outcome = context.run(&[&["eval", "task/skillrl.toml"], args].concat());
        outcome.assert_code(expect);
        assert_names(&outcome.stderr, names);
    };
    check(&["--model", "a,a"], code::USAGE, &["`a`", "twice"]);
    check(&["--skill", "bad.md,bad.md"], code::USAGE, &["bad.md", "twice"]);
    check(&["--skill", "bad.md,./bad.md"], code::USAGE, &["./bad.md", "twice"]);
    check(&["--model", " ,"], code::USAGE, &["--model"]);
    check(&["--model", "a,b", "--policy", "p"], code::USAGE, &["--model"]);
    check(&["--skill", "bad.md,gone.md"], code::USAGE, &["gone.md"]);
    check(&["--skill", "bad.md,good.md", "--html", "gone/page.html"], code::USAGE, &["gone", "--html"]);
    check(&["--skill", "bad.md,good.md", "--html", "task"], code::USAGE, &["task", "--html"]);
    check(&["--targets=large", "--skill", "bad.md"], code::USAGE, &["[models.targets.NAME]"]);
    // A cap on money needs the price of each model.
    check(&["--model", "target,other", "--set", "budget.money=1"], code::USAGE, &["[models.targets.other]"]);
    context.write_items("val", 0);
    check(&["--skill", "bad.md,good.md", "--split", "val"], code::DATA, &["val"]);
    context.write_items("val", 2);
    assert_eq!(server.n_calls(), n_before);
    // What is there of something else stays.
    context.succeed(&["eval", "task/skillrl.toml", "--skill", "bad.md", "--out", "one", "--quiet"]);
    check(&["--skill", "bad.md,good.md", "--out", "one"], code::USAGE, &["one", "--out"]);
}

#[test]
fn a_matrix_that_a_cap_ended_is_continued_and_a_damaged_cell_is_refused() {
    let server = Server::start();
    let context = task(&server, "");
    let n_before = server.n_calls();
    let args = [
        "eval",
        "task/skillrl.toml",
        "--split",
        "test",
        "--skill",
        "bad.md,good.md",
        "--out",
        "out",
        "--quiet",
    ];
    let with = |more: &[&'static str]| [&args[..], more].concat();
    context.run(&with(&["--set", "budget.calls=1"])).assert_code(code::BUDGET);
    assert_eq!(server.n_calls() - n_before, 1);
    context.succeed(&with(&[]));
    let n_items = context.json("out/matrix.json")["items"].as_array().unwrap().len();
    assert_eq!(server.n_calls() - n_before, 2 * n_items);
    context.append("out/target/good.md/results.json", " ");
    context.run(&with(&[])).fails(code::RUN_DIR, &["out/target/good.md"]);
    context.succeed(&with(&["--force"]));
    assert_eq!(server.n_calls() - n_before, 2 * n_items, "the calls are kept");
    context.succeed(&["check", "out/target/good.md"]);
}
