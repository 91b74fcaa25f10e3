//! The training of a bank as a person follows it: on a terminal, by `status`, and as events.

use crate::context::TestContext;
use serde_json::Value;

/// A small household whose bank has one round with one short trial.
fn household() -> TestContext {
    let context = crate::bank_training::household();
    let bank =
        "\n[train]\nmode = \"bank\"\n\n[evolution]\nrounds = 1\nmax_trials = 1\nmax_trial_rollouts = 32\n";
    context.write("household.toml", &(context.read("household.toml") + bank));
    context
}

#[cfg(unix)]
#[test]
fn a_terminal_shows_the_round_and_the_trial_under_way() {
    let context = household();
    let screen = crate::terminal::on_terminal(&context, &["train", "household.toml"], 80, "");
    assert_eq!(screen.code, Some(0), "{}", screen.text);
    let lines: Vec<&str> = screen.text.split(['\n', '\r']).collect();
    let shows = |parts: &[&str]| lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(shows(&["round 0/1 trial 1 ", "/32"]), "the bar of a trial: {}", screen.text);
    assert!(shows(&["admits at 20"]), "what is known of it: {}", screen.text);
    assert!(shows(&["skills active, ", " waiting"]), "the bank so far: {}", screen.text);
    assert!(shows(&["without a bank: validation", "6 items)"]), "{}", screen.text);
    assert!(shows(&["round 0: the teacher proposed"]), "{}", screen.text);
    assert!(shows(&["1 round, "]) && !shows(&["step "]), "a bank has no steps: {}", screen.text);
}

#[test]
fn events_and_status_agree_about_a_bank() {
    let context = household();
    let events = context.succeed(&["train", "household.toml", "--json"]);
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let named = |name: &str| events.iter().filter(|event| event["event"] == name).collect::<Vec<_>>();
    let status = context.succeed_json(&["status", "run", "--json"]);
    let bank = &status["bank"];
    assert_eq!((&status["n_steps"], &status["total_steps"]), (&1.into(), &1.into()));
    assert_eq!(bank["last_round"], 1);
    assert_eq!(status["baseline"], named("baseline_measured")[0]["score"]["hard"]);
    let last = named("bank_validated").pop().unwrap();
    assert_eq!((&status["best"], &bank["validation"]["n"]), (&last["score"]["hard"], &6.into()));
    assert_eq!(bank["skills"]["active"], last["n_active"]);
    let interval: Vec<f64> = serde_json::from_value(bank["validation"]["interval"].clone()).unwrap();
    assert!(interval[0] <= interval[1] && interval[1] <= 1.0);
    let verdict = |verdict: &str| {
        named("trial_finished")
            .iter()
            .filter(|event| event["record"]["decision"]["verdict"] == verdict)
            .count()
    };
    assert_eq!(bank["trials"]["admitted"], verdict("admit"));
    assert_eq!(bank["trials"]["rejected"], verdict("reject"));
    let text = context.succeed(&["status", "run"]);
    assert!(text.contains("finished, a bank, 1/1 rounds"), "{text}");
}
