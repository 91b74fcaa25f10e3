//! A skill of a run that somebody changed: nobody takes it for the run's, and nobody loses it.

use crate::context::{TestContext, assert_same_files, code};
use crate::said::assert_names;

fn with_run() -> TestContext {
    let context = TestContext::with_demo();
    context.succeed(&["train", "demo/skillrl.toml", "--quiet"]);
    context
}

#[test]
fn a_changed_best_skill_is_neither_exported_nor_measured_nor_blamed_as_the_run_s() {
    let context = with_run();
    let whole = context.read("demo/run/best_skill.md");
    let (cut, _) = whole.split_once("\n\n").unwrap();
    for changed in ["", cut, &format!("{whole}\n- By hand.\n")] {
        context.write("demo/run/best_skill.md", changed);
        for args in [
            ["export", "demo/run", "--to", "packages/a"].as_slice(),
            &["eval", "demo/skillrl.toml"],
            &["blame", "demo/run"],
        ] {
            context.run(args).fails(code::RUN_DIR, &["best_skill.md", "hash"]);
        }
    }
    assert!(!context.path("packages").exists());
    assert!(
        context.succeed(&["status", "demo/run"]).contains("best_skill.md was changed after the run wrote it")
    );
    // The report shows the run's own, and says so; a file that is named is the person's own affair.
    context.succeed(&["report", "demo/run"]);
    let page = context.read("demo/run/report.html");
    assert!(page.contains("best_skill.md was changed") && !page.contains("- By hand."));
    let blamed = context.succeed(&["blame", "demo/run/best_skill.md"]);
    assert!(blamed.contains("by hand") && blamed.contains("- By hand."), "{blamed}");
    context.succeed(&["eval", "demo/skillrl.toml", "--skill", "demo/run/best_skill.md", "--quiet"]);
}

#[test]
fn what_a_person_made_of_a_skill_is_kept_when_the_run_writes_it_again() {
    let context = with_run();
    let before = context.untimed_files("demo/run");
    for (text, kept) in [("mine\n", "best_skill.changed.md"), ("mine too\n", "best_skill.changed-2.md")] {
        context.write("demo/run/best_skill.md", text);
        for _ in 0..2 {
            let outcome = context.run(&["train", "demo/skillrl.toml", "--quiet"]);
            outcome.assert_code(code::SUCCESS);
        }
        assert_eq!(context.read(&format!("demo/run/{kept}")), text);
    }
    context.write("demo/run/best_skill.md", "mine\n");
    let outcome = context.run(&["train", "demo/skillrl.toml", "--quiet"]);
    assert_names(&outcome.stderr, &["warning: best_skill.md ", "best_skill.changed.md"]);
    for kept in ["best_skill.changed.md", "best_skill.changed-2.md"] {
        context.remove(&format!("demo/run/{kept}"));
    }
    assert_same_files(&context.untimed_files("demo/run"), &before);
}

#[test]
fn a_changed_skill_of_a_step_is_not_shown_as_the_run_s() {
    let context = with_run();
    let n_steps = context.json("demo/run/summary.json")["total_steps"].as_u64().unwrap();
    for step in [0, 1, n_steps / 2, n_steps] {
        let file = format!("demo/run/skills/skill_v{step:04}.md");
        let whole = context.read(&file);
        context.write(&file, "cut");
        context
            .run(&["blame", "demo/run", "--step", &step.to_string()])
            .fails(code::RUN_DIR, &[&format!("skill_v{step:04}.md was changed")]);
        context.write(&file, &whole);
    }
    context.succeed(&["blame", "demo/run"]);
}

/// An empty appendix is put into the first skill after it was measured, and notes come after a step's candidate was.
#[test]
fn a_run_that_takes_notes_is_as_it_was_left_whether_there_were_any_or_not() {
    for world in ["notes", "alfworld"] {
        let context = TestContext::new();
        context.succeed(&["init", "--demo", "demo", "--world", world]);
        let settings = ["--set", "train.skill_aware=true", "--set", "train.epochs=1"];
        context.succeed(&[["train", "demo/skillrl.toml", "--quiet"].as_slice(), &settings].concat());
        let n_steps = context.json("demo/run/summary.json")["total_steps"].as_u64().unwrap();
        for step in 0..=n_steps {
            context.succeed(&["blame", "demo/run", "--step", &step.to_string()]);
        }
        for args in [["blame", "demo/run"], ["report", "demo/run"]] {
            context.succeed(&args);
        }
        context.succeed(&["diff", "demo/run", "0", "best"]);
        context.write("demo/run/skills/skill_v0001.md", "cut");
        context.run(&["blame", "demo/run", "--step", "1"]).assert_code(code::RUN_DIR);
    }
}
