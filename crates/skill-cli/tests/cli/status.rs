//! The commands that look at runs: `status`, `show`, `diff`, `compare`, `inspect`.

use crate::context::{TestContext, code, without_sent};
use crate::said::assert_names;
use crate::server::{self, Server};

#[test]
fn a_finished_run_says_where_it_stands() {
    let context = TestContext::with_finished_demo();
    insta::assert_snapshot!("status", without_sent(&context.succeed(&["status", "demo/run"])));
    let status = context.succeed_json(&["status", "demo", "--json"]);
    assert_eq!(status["phase"], "finished");
    assert_eq!(status["n_steps"], 12);
    assert_eq!(status["live"], serde_json::Value::Null);

    let outcome = context.run(&["status", "nowhere"]);
    outcome.assert_code(code::RUN_DIR);
    assert!(outcome.stderr.starts_with("error: no run in nowhere\nhint: "), "{}", outcome.stderr);
}

#[test]
fn runs_of_a_directory_are_listed_and_a_damaged_one_says_what_is_wrong() {
    let context = TestContext::with_finished_demo();
    context.copy_dir("demo/run", "runs/a");
    context.copy_dir("demo/run", "runs/b");
    context.append("runs/b/runtime_state.json", "{");
    let text = context.succeed(&["status", "runs"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[1].starts_with("runs/a  finished"), "{text}");
    assert!(lines[2].starts_with("runs/b  damaged") && lines[2].contains("runtime_state.json"), "{text}");
}

/// The task with these models, trained until what they do ends it; what `status` says then.
fn stopped(target: &str, args: &[&str], expect: i32) -> (TestContext, String) {
    let context =
        TestContext::with_task("{ kind = \"scripted\", file = \"target.json\" }", "{ kind = \"simulated\" }");
    context.write("task/target.json", target);
    let command = ["train", "task/skillrl.toml", "--quiet", "--set", "run.workers=1"];
    context.run(&[&command, args].concat()).assert_code(expect);
    let status = context.succeed(&["status", "task/run"]);
    (context, status)
}

const ANSWERS_ALL: &str = r#"{"version": 1, "rules": [], "otherwise": {"reply": "no"}}"#;

#[test]
fn a_stopped_run_says_what_to_change_and_what_its_journal_holds() {
    let (context, capped) = stopped(ANSWERS_ALL, &["--set", "budget.calls=3"], code::BUDGET);
    assert!(capped.contains("\n  spent  3 calls, "), "{capped}");
    assert_names(&capped, &["next raise the cap in `[budget]`"]);
    // No price is known, and nothing that is finished costs anything.
    let compared = context.succeed(&["compare", "task/run", "task/run"]);
    assert!(!compared.contains("-0"), "{compared}");

    let only_the_baseline = r#"{"version": 1, "rules": [
        {"when": {"place_contains": "baseline"}, "reply": "no"}]}"#;
    let (_, unscripted) = stopped(only_the_baseline, &[], code::USAGE);
    assert!(unscripted.contains("  why    stopped at step 1 / rollout / "), "{unscripted}");
    assert_names(&unscripted, &["next add a reply", "`run.dir`"]);

    let refuses = r#"{"version": 1, "rules": [], "otherwise":
        {"error": {"class": "authentication", "message": "who are you"}}}"#;
    let (context, refused) = stopped(refuses, &[], code::PROVIDER_REFUSED);
    assert_names(&refused, &["next check the key", "`api_key_env`"]);
    let json = context.succeed_json(&["status", "task/run", "--json"]);
    assert!(json["hint"].as_str().unwrap().starts_with("check the key"), "{json}");
    // Nothing is finished of a run whose baseline is not measured: and no model has a price.
    let compared = context.succeed(&["compare", "task/run", "task/run"]);
    let cost = compared.lines().find(|line| line.starts_with("cost"));
    assert!(cost.is_some_and(|cost| cost.contains("no prices")), "{compared}");
    for path in ["task/run", "task/run/best_skill.md"] {
        context
            .run(&["blame", path])
            .fails(code::RUN_DIR, &["error: nothing is measured yet", "task/run", "hint: "]);
    }
}

#[test]
fn a_step_is_shown_with_its_edits_and_the_difference() {
    let context = TestContext::with_finished_demo();
    insta::assert_snapshot!("show_step", context.succeed(&["show", "demo/run", "--step", "2"]));
    context.run(&["show", "demo/run", "--step", "13"]).fails(code::USAGE, &["1 to 12"]);
    insta::assert_snapshot!("show_run", without_sent(&context.succeed(&["show", "demo/run"])));
}

#[test]
fn an_item_is_shown_under_every_skill() {
    let context = TestContext::with_finished_demo();
    let text = context.succeed(&["show", "demo/run", "--item", "val-01"]);
    assert!(text.contains("the first one") && text.contains("solved        step"), "{text}");
    context.run(&["show", "demo/run", "--item", "nobody"]).assert_code(code::USAGE);
}

/// The end of an epoch makes another skill current, and not another one the best.
#[test]
fn the_best_skill_that_differs_is_the_one_of_the_run() {
    let (server, context) = Server::start_with_task();
    server.answer_with(|_, request| server::healthy(request));
    context.succeed(&["train", "task/skillrl.toml", "--set", "train.batch_size=4", "--quiet"]);
    assert!(context.read("task/run/current_skill.md").contains("SLOW_UPDATE"));
    let best = context.read("task/run/best_skill.md");
    let diff = context.succeed(&["diff", "task/run"]);
    let shown = diff.lines().skip(3).filter(|line| !line.starts_with('-'));
    let shown: String = shown.map(|line| format!("{}\n", line.get(1..).unwrap_or_default())).collect();
    assert_eq!(shown, best);
}

#[test]
fn two_skills_of_a_run_differ_as_said() {
    let context = TestContext::with_finished_demo();
    let whole = context.succeed(&["diff", "demo/run"]);
    assert!(whole.starts_with("--- initial skill\n+++ best skill (of step 10)\n"), "{whole}");
    let step = context.succeed(&["diff", "demo/run", "3", "4"]);
    assert!(step.lines().any(|line| line.starts_with('+')) && step.len() < whole.len(), "{step}");
    assert_eq!(context.succeed(&["diff", "demo/run", "2", "2"]).lines().count(), 1);
    for (from, hint) in [("99", " to 12"), ("candidate-9", "skillrl show demo/run --step 9")] {
        context.run(&["diff", "demo/run", from]).fails(code::USAGE, &[hint]);
    }
}

#[test]
fn two_runs_stand_side_by_side_on_the_items_of_both() {
    let context = TestContext::with_finished_demo();
    let args = ["train", "demo/skillrl.toml", "--quiet", "--set", "train.epochs=1", "--set", "run.dir=short"];
    context.succeed(&args);
    insta::assert_snapshot!("compare", context.succeed(&["compare", "demo/run", "short"]));
}

#[test]
fn a_file_says_what_it_is() {
    let context = TestContext::with_finished_demo();
    insta::assert_snapshot!("inspect_skill", context.succeed(&["inspect", "demo/run/best_skill.md"]));
    assert!(context.succeed(&["inspect", "demo/run"]).starts_with("demo/run: finished"));
    let journal = context.succeed(&["inspect", "demo/run/journal.sqlite"]);
    assert_eq!(journal, context.succeed(&["journal", "stats", "demo/run"]));
}

#[test]
fn shells_and_manuals_know_every_command() {
    let context = TestContext::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = context.succeed(&["completions", shell]);
        assert!(script.contains("skillrl") && script.contains("estimate"), "{shell}");
    }
    let first = context.succeed(&["man", "man"]);
    assert_eq!(first, "man/skillrl.1\n");
    for page in ["skillrl.1", "skillrl-train.1", "skillrl-status.1"] {
        assert!(context.path("man").join(page).is_file(), "{page}");
    }
}

/// A page without the rows of its tables that are made from the program.
fn emptied(page: &str) -> String {
    let mut parts = page.split("<!-- table: ");
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('\n').unwrap();
        let (_, after) = rest.split_once("<!-- end of table -->").unwrap();
        text.push_str(&format!("<!-- table: {name}\n<!-- end of table -->{after}"));
    }
    text
}

#[test]
fn pages_that_are_made_from_the_program_are_current() {
    let context = TestContext::new();
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let with_tables: Vec<(String, String)> = std::fs::read_dir(&docs)
        .unwrap()
        .map(|page| page.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(path).unwrap())
        })
        .filter(|(_, text)| text.contains("<!-- table: "))
        .collect();
    assert!(with_tables.len() > 5, "{}", with_tables.len());
    for (name, text) in &with_tables {
        // A table that is not made from the program is as wrong as one that is not current.
        let is_table = |line: &&str| line.starts_with('|');
        let within =
            text.split("<!-- table: ").skip(1).filter_map(|rest| rest.split_once("<!-- end of table -->"));
        assert!(within.clone().all(|(table, _)| table.lines().filter(is_table).count() > 2), "docs/{name}");
        context.write(&format!("pages/{name}"), &emptied(text));
    }
    context.succeed(&["reference", "pages"]);
    let configuration = |root: &std::path::Path| {
        let pages = std::fs::read_dir(root.join("reference/configuration")).unwrap();
        let names = pages.map(|page| page.unwrap().file_name().into_string().unwrap());
        names.map(|name| format!("reference/configuration/{name}")).collect::<std::collections::BTreeSet<_>>()
    };
    for (name, text) in with_tables {
        let is_current = context.read(&format!("pages/{name}")) == text;
        assert!(is_current, "docs/{name} is stale");
    }
    let pages = configuration(&context.path("pages"));
    assert_eq!(configuration(&docs), pages, "remove the pages of sections that no longer exist");
    let others = ["reference/cli.md", "reference/configuration.md", "reference/environment-variables.md"];
    let others = others.into_iter().chain(["skillrl.schema.json", "images/demo.svg"]).map(str::to_owned);
    for page in pages.into_iter().chain(others) {
        let committed = std::fs::read_to_string(docs.join(&page)).unwrap_or_default();
        let is_current = committed == context.read(&format!("pages/{page}"));
        assert!(is_current, "docs/{page} is not current: run `cargo xtask gen`");
    }
    assert_eq!(context.succeed(&["config", "schema"]), context.read("pages/skillrl.schema.json"));
}
