//! The commands that look at a run.

use crate::context::{TestContext, code};

#[test]
fn blame_says_where_each_line_comes_from() {
    let context = TestContext::with_finished_demo();
    let files = context.untimed_files("demo/run");
    insta::assert_snapshot!(context.succeed(&["blame", "demo/run"]));
    // A file of the run is the same, and so is the step that made it.
    let blame = context.succeed_json(&["blame", "demo/run", "--json"]);
    let made_by = context.json("demo/run/summary.json")["best_step"].to_string();
    for args in [
        &["blame", "demo/run/best_skill.md", "--json"][..],
        &["blame", "demo/run", "--json", "--step", &made_by],
    ] {
        assert_eq!(context.succeed_json(args), blame);
    }
    // Every line of the skill is there, and all that changed has an edit with trajectories behind it.
    let skill = context.read("demo/run/best_skill.md");
    let lines = blame["lines"].as_array().unwrap();
    assert!(skill.lines().eq(lines.iter().map(|line| line["text"].as_str().unwrap())));
    for line in lines.iter().filter(|line| line["origin"]["kind"] != "initial") {
        assert_eq!(line["origin"]["kind"], "edit", "{line}");
        let step =
            blame["steps"].as_array().unwrap().iter().find(|s| s["step"] == line["origin"]["step"]).unwrap();
        let edit = &step["edits"].as_array().unwrap()[line["origin"]["index"].as_u64().unwrap() as usize - 1];
        assert!(!edit["sources"][0]["item_ids"].as_array().unwrap().is_empty(), "{edit}");
        assert!(!step["won"].as_array().unwrap().is_empty(), "{step}");
    }
    // An item is won or lost as the gate counts it.
    let history = context.json("demo/run/history.json");
    let blamed = blame["steps"].as_array().unwrap();
    assert!(!blamed.is_empty());
    for step in blamed {
        let record =
            history.as_array().unwrap().iter().find(|record| record["step"] == step["step"]).unwrap();
        for (list, count) in [("won", "wins"), ("lost", "losses")] {
            assert_eq!(record["paired"][count], step[list].as_array().unwrap().len(), "{list} of {step}");
        }
    }
    assert_eq!(files, context.untimed_files("demo/run"), "looking changes nothing");
}

#[test]
fn blame_follows_a_skill_that_left_its_run() {
    let context = TestContext::with_finished_demo();
    let text = context.read("demo/run/best_skill.md");
    context.write("deployed/SKILL.md", &format!("{text}- Greet the captain.\n"));
    context.run(&["blame", "deployed/SKILL.md"]).fails(code::USAGE, &["deployed/SKILL.md", "--run DIR"]);
    let shown = context.succeed(&["blame", "deployed/SKILL.md", "--run", "demo/run"]);
    let line = shown.lines().find(|line| line.contains("Greet the captain")).unwrap();
    assert!(line.contains("by hand"), "{line}");
    assert!(shown.lines().any(|line| line.contains("step 1, edit ")), "{shown}");
    assert!(
        context.succeed(&["blame", "demo/run", "--step", "0"]).lines().all(|line| !line.contains("edit"))
    );
    context.run(&["blame", "demo/run", "--step", "99"]).fails(code::USAGE, &["step 99", "12"]);
    context.run(&["blame", "demo"]).assert_code(code::RUN_DIR);
}

#[cfg(unix)]
#[test]
fn a_run_is_found_by_its_configuration_and_where_nothing_is_named() {
    let context = TestContext::with_finished_demo();
    let named = context.run(&["diff", "demo/skillrl.toml"]);
    named.assert_code(code::SUCCESS);
    assert!(named.stderr.contains("run: ") && named.stdout.contains("best skill"), "{}", named.stderr);
    context.run(&["eval", "--quiet"]).assert_code(code::USAGE);
    std::fs::create_dir_all(context.path("runs")).unwrap();
    std::os::unix::fs::symlink(context.path("demo/run"), context.path("runs/one")).unwrap();
    // Its replay is newer, and is not what is meant.
    context.succeed(&["replay", "runs/one", "--out", "runs/two", "--quiet"]);
    for command in [&["eval", "--quiet"][..], &["diff"], &["check"], &["show"]] {
        let outcome = context.run(command);
        outcome.assert_code(code::SUCCESS);
        assert!(outcome.stderr.contains("run: runs/one"), "{command:?}: {}", outcome.stderr);
    }
    context.run(&["report", "runs"]).fails(code::USAGE, &["runs/one"]);
}
