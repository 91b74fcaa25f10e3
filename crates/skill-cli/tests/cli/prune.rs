//! `skillrl prune`.

use crate::context::{TestContext, assert_same_files, code};

const MOON: &str = "- Greet the moon.";

/// The demo's best skill, with a rule that is of no use to anybody.
fn with_padded_skill() -> TestContext {
    let context = TestContext::with_finished_demo();
    let best = context.read("demo/run/best_skill.md");
    context.write("padded.md", &format!("{best}\n{MOON}\n"));
    context
}

#[test]
fn a_rule_that_nobody_needs_is_taken_out() {
    let context = with_padded_skill();
    let asked = ["prune", "demo/skillrl.toml", "--skill", "padded.md", "--quiet"];
    let before = context.untimed_files("demo/run");
    insta::assert_snapshot!("prune_dry_run", context.succeed(&[&asked[..], &["--dry-run"]].concat()));
    assert_same_files(&before, &context.untimed_files("demo/run"));

    let text = context.succeed(&asked);
    insta::assert_snapshot!("prune", text);
    let left = context.read("demo/run/pruned/skill.md");
    assert!(!left.contains(MOON), "{left}");
    let record = context.json("demo/run/pruned/prune.json");
    assert_eq!((&record["is_finished"], &record["margin"]), (&true.into(), &0.0.into()));
    assert!(record["score_after"].as_f64() >= record["score_before"].as_f64());
    let moon = record["rules"].as_array().unwrap().iter().find(|rule| rule["text"] == MOON).unwrap();
    // A rule that no step supports is tried first.
    assert_eq!((&moon["decision"], &moon["origin"]["kind"]), (&"removed".into(), &"by_hand".into()));
    // The command that is shown takes the settings that the pruning had.
    let next = text.lines().find_map(|line| line.strip_prefix("next: skillrl ")).unwrap();
    let words: Vec<&str> = next.split(' ').collect();
    assert_eq!(
        words,
        ["eval", "demo/skillrl.toml", "--skill", "demo/run/pruned/skill.md", "--split", "test"]
    );
    context.succeed(&words);
    // The same again costs nothing and gives the same; the run is as finished as it was.
    let files = context.untimed_files("demo/run");
    assert_eq!(context.succeed(&asked), text);
    assert_same_files(&files, &context.untimed_files("demo/run"));
    context.succeed(&["train", "demo/skillrl.toml", "--quiet"]);
    // Another pruning does not replace it.
    context
        .run(&[&asked[..], &["--margin", "0.05"]].concat())
        .fails(code::USAGE, &["--margin was 0.0 and is 0.05", "hint: "]);
    context.succeed(&[&asked[..], &["--margin", "0.05", "--out", "other", "--json"]].concat());
    assert!(context.path("other/prune.json").is_file() && context.path("other/skill.md").is_file());
}

#[test]
fn what_cannot_be_pruned_is_said() {
    let context = TestContext::with_demo();
    context.write("bare.md", "# Nothing but a title\n");
    for (args, expect) in [
        (
            ["--skill", "bare.md"],
            "bare.md has no rules outside of its protected parts\nhint: name another skill",
        ),
        (["--margin", "1.5"], "--margin is 1.5\nhint: give a difference of scores from 0 to 1"),
        (["--margin", "nan"], "--margin is NaN\nhint: "),
    ] {
        let outcome = context.run(&[&["prune", "demo/skillrl.toml"][..], &args].concat());
        outcome.assert_code(code::USAGE);
        assert!(outcome.stderr.contains(expect), "{}", outcome.stderr);
    }
}
