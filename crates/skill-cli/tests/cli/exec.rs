//! Programs as environments: the whole path from a configuration file, with the example in shell.

use crate::context::{TestContext, assert_same_files, code};

const CONFIG: &str = "shell/skillrl.toml";

/// The example of the repository in `shell`.
fn example() -> TestContext {
    let context = TestContext::new();
    let files = ["skillrl.toml", "safe.sh", "target.json", "optimizer.json"];
    context.copy_example("exec-shell", "shell", &files);
    context
}

#[test]
fn a_skill_is_trained_on_a_program() {
    let context = example();
    context.succeed(&["train", CONFIG, "--quiet"]);
    let summary = context.json("shell/run/summary.json");
    assert_eq!((&summary["baseline_test_hard"], &summary["test_hard"]), (&0.0.into(), &1.0.into()));
    assert_eq!(
        context.read("shell/run/best_skill.md"),
        "- Begin with green, then blue; the last one is red.\n"
    );
    let result = &context.json("shell/run/steps/step_0001/rollout_results.json")[0];
    let last =
        result["trajectory"]["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    assert!(last.contains("button 1 has to be green"), "{last}");
    // A program whose attempts are in the journal is played again only as far as it is not known what it says.
    let files = context.untimed_files("shell/run");
    let replayed = context.succeed(&["replay", "shell/run"]);
    assert!(replayed.contains("0 sent") && replayed.contains("identical"), "{replayed}");
    assert_same_files(&files, &context.untimed_files("shell/run"));
}

#[test]
fn a_program_that_dies_in_the_middle_stops_the_run_and_it_goes_on_later() {
    let context = example();
    context.succeed(&["train", CONFIG, "--quiet"]);
    let undisturbed = context.untimed_files("shell/run");

    let context = example();
    // After the baseline: the first batch meets a program that dies on one of its items.
    context.replace("shell/safe.sh", "  *'\"method\":\"reset\"'*)\n", "  *'\"method\":\"reset\"'*)\n    case $line in *train-3*) echo 'the disk is full' >&2; exit 3 ;; esac\n");
    context
        .run(&["train", CONFIG, "--quiet"])
        .fails(code::OUTAGE, &["train-3", "`sh safe.sh`", "exit code 3", "the disk is full"]);
    context.write("shell/safe.sh", &example().read("shell/safe.sh"));
    context.succeed(&["train", CONFIG, "--quiet"]);
    assert_same_files(&undisturbed, &context.untimed_files("shell/run"));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let context = example();
    let outcome = context
        .run(&["env", "play", CONFIG, "--set", "env.program=[\"sh\", \"gone.sh\"]"])
        .fails(code::DATA, &["cannot open gone.sh"]);
    assert!(!outcome.stderr.contains('\u{1b}'), "colours in a file: {}", outcome.stderr);
    context
        .run(&["env", "play", CONFIG, "--set", "env.program=[\"no-such-program\"]"])
        .fails(code::DATA, &["no-such-program"]);
}

/// Nothing of a game that was played by hand is kept, so nobody is told to go on with it.
#[test]
fn a_program_that_dies_while_it_is_played_by_hand_says_what_to_do() {
    let context = example();
    context.replace(
        "shell/safe.sh",
        "  *'\"method\":\"reset\"'*)\n",
        "  *'\"method\":\"reset\"'*)\n    exit 3\n",
    );
    let outcome = context.run(&["env", "play", CONFIG]);
    outcome.assert_code(code::OUTAGE);
    for said in [
        "error: the attempt has failed: item train-1: ",
        "exit code 3, instead of an answer, after line 1",
        "\nhint: retry it; if it fails in the same way, fix the cause\n",
    ] {
        assert!(outcome.stderr.contains(said), "{said}: {}", outcome.stderr);
    }
}

#[test]
fn every_kind_has_a_configuration_to_start_from() {
    for kind in ["qa", "tasks", "exec", "alfworld", "webshop"] {
        let context = TestContext::new();
        context.succeed(&["init", "--full", "--kind", kind]);
        context.succeed(&["init", "--kind", kind, "short.toml"]);
        let short = context.read("short.toml");
        assert!(short.contains(&format!("\nkind = \"{kind}\"\n")) && short.lines().count() < 25, "{short}");
        let text = context.read("skillrl.toml");
        assert!(text.contains(&format!("\nkind = \"{kind}\"\n")), "{text}");
        let others = ["#games = ", "#products = ", "program = ", "#scorer = ", "scorer = "];
        let theirs = match kind {
            "alfworld" => "#games = ",
            "webshop" => "#products = ",
            "exec" => "program = ",
            _ => "scorer = ",
        };
        assert!(text.contains(theirs), "{kind}: {text}");
        if !["qa", "tasks"].contains(&kind) {
            // Other sections have keys of these names too.
            let env = text.split_once("\n[env]\n").and_then(|(_, rest)| rest.split("\n[").next()).unwrap();
            for other in others.iter().filter(|other| !other.ends_with(theirs)) {
                assert!(!env.contains(&format!("\n{other}")), "{kind} has {other}");
            }
        }
    }
}
