//! `skillrl replay`: strictly, up to where it diverges, and beyond.

use crate::context::{KEY_VARIABLE, TestContext, assert_same_files, code, set};
use crate::said::{Said, assert_names};
use crate::server::{self, Server};

const REPLAY: &str = "demo/run-replay";

#[test]
fn a_strict_replay_gives_the_same_files() {
    let context = TestContext::with_finished_demo();
    let text = context.succeed(&["replay", "demo/run", "--quiet"]);
    let (_, said) = text.split_once("replayed:   ").unwrap();
    let n_files = context.untimed_files("demo/run").len() - 1;
    assert_eq!(
        said,
        format!(
            "599 calls from demo/run, 0 sent\n\
             identical:  all {n_files} files of the run, its journal, events and timings aside\n"
        )
    );
    assert_same_files(&context.untimed_files("demo/run"), &context.untimed_files(REPLAY));
    // Again, it is there already.
    assert_eq!(context.succeed(&["replay", "demo/run", "--quiet"]), text);

    // A replay is a run like any other, with a journal of its own: it can be replayed too.
    let text =
        context.succeed(&["replay", REPLAY, "--into", "again", "--config", "demo/skillrl.toml", "--quiet"]);
    assert!(text.contains("\nidentical:  "), "{text}");
}

#[test]
fn a_replay_that_comes_to_other_files_names_the_first() {
    let context = TestContext::with_finished_demo();
    context.append("demo/run/steps/step_0004/candidate_skill.md", "changed\n");
    context.append("demo/run/summary.json", "\n");
    let mut said = Said::default();
    let outcome = context
        .run(&["replay", "demo/run", "--quiet"])
        .fails(code::DIVERGED, &["demo/run-replay", "steps/step_0004/candidate_skill.md is the first file"]);
    said.add("other files", &outcome);
    context.remove("demo/run/skills/skill_v0003.md");
    context
        .run(&["replay", "demo/run", "--quiet"])
        .fails(code::DIVERGED, &["skills/skill_v0003.md is the first file"]);
    insta::assert_snapshot!("replay_differs", said.text());
}

#[test]
fn a_changed_gate_diverges_where_the_optimizer_hears_of_it_and_live_goes_on() {
    // The prompts of step 2 tell the scores of step 1.
    let context = TestContext::with_finished_demo();
    let args = ["replay", "demo/run", "--set", "gate.metric=soft", "--into", "soft", "--quiet"];
    for _ in 0..2 {
        let outcome = context.run(&args);
        outcome.assert_code(code::DIVERGED);
        let names =
            ["step 2 / reflect / failure 1", "demo/run", "106 calls", "1 finished step", "soft", "--live"];
        assert_names(&outcome.stderr, &names);
    }
    let text = context.succeed(&[args.as_slice(), &["--live"]].concat());
    let (_, said) = text.split_once("replayed:   ").unwrap();
    insta::assert_snapshot!("replay_live", crate::context::without_sent(said));

    // It is the run that the changed setting gives without a recording.
    let alone = set(&["gate.metric=soft", "run.dir=alone"]);
    context.succeed(&[&["train", "demo/skillrl.toml", "--quiet"][..], &alone].concat());
    assert_same_files(&context.untimed_files("soft"), &context.untimed_files("alone"));
    // It does not go on as a run of other settings.
    let other = context.run(&["replay", "demo/run", "--into", "soft", "--quiet"]);
    other.assert_code(code::OTHER_RUN);
}

#[test]
fn a_replay_needs_no_key_and_no_server() {
    let server = Server::start();
    let context = server.task_with(&format!(", api_key_env = \"{KEY_VARIABLE}\""));
    let mut train = context.command(&["train", "task/skillrl.toml", "--quiet", "--set", "train.epochs=2"]);
    assert!(train.env(KEY_VARIABLE, "k-123").output().unwrap().status.success());
    let n_calls = server.n_calls();
    // What was set on the command line is a part of the recording.
    let text = context.succeed(&["replay", "task/run", "--quiet"]);
    assert_names(&text, &[&format!("{n_calls} calls from task/run, 0 sent"), "identical: "]);
    assert_eq!(server.n_calls(), n_calls, "nothing is sent");
    assert_eq!(context.json("task/run-replay/summary.json")["config"]["train"]["epochs"], 2);

    context
        .run(&["replay", "task/run", "--into", "live", "--live"])
        .fails(code::PROVIDER_REFUSED, &[KEY_VARIABLE]);
}

#[test]
fn an_unfinished_run_is_replayed_as_far_as_it_came() {
    let (server, context) = Server::start_with_task();
    server.answer_with(server::outage_after(6));
    context
        .run(&["train", "task/skillrl.toml", "--set", "run.workers=1", "--quiet"])
        .assert_code(code::OUTAGE);
    server.answer_with(|_, request| server::healthy(request));
    context.run(&["replay", "task/run", "--quiet"]).fails(code::DIVERGED, &["6 calls", "0 finished steps"]);
    assert_eq!(server.n_calls(), 0);
    let text = context.succeed(&["replay", "task/run", "--quiet", "--live"]);
    let n_sent = server.n_calls();
    assert!(n_sent > 0);
    assert_names(&text, &[&format!("6 calls from task/run, {n_sent} sent")]);
    context.succeed(&["train", "task/skillrl.toml", "--quiet"]);
    assert_same_files(&context.untimed_files("task/run"), &context.untimed_files("task/run-replay"));

    // An outage after the divergence says how far it came, and the same command resumes.
    server.answer_with(server::outage_after(0));
    let args = ["replay", "task/run", "--set", "train.batch_size=1", "--into", "other", "--live", "--quiet"];
    context.run(&args).fails(code::OUTAGE, &["3 calls replayed, 1 sent"]);
    server.answer_with(|_, request| server::healthy(request));
    context.succeed(&args);
}

#[test]
fn what_cannot_be_replayed_is_said_with_a_hint() {
    let context = TestContext::with_finished_demo();
    let mut said = Said::default();
    let mut check = |args: &[&str], expect_code: i32, names: &[&str]| {
        let outcome = context.run(&[&["replay"], args].concat()).fails(expect_code, names);
        said.add(&args.join(" "), &outcome);
    };
    check(&["demo"], code::RUN_DIR, &["error: demo "]);
    check(&["nowhere"], code::RUN_DIR, &["error: nowhere "]);
    check(&["demo/run", "--into", "demo/../demo/run"], code::USAGE, &["demo/../demo/run", "--into"]);
    check(&["demo/run", "--set", "run.dir=x"], code::USAGE, &["`run.dir`", "--into"]);
    check(&["demo/run", "--set", "gate.metrik=x"], code::USAGE, &["`gate.metrik`", "`gate.metric`"]);
    check(&["demo/run", "--config", "nowhere.toml"], code::USAGE, &["nowhere.toml"]);

    std::fs::rename(context.path("demo/run"), context.path("moved")).unwrap();
    check(&["moved"], code::USAGE, &["moved", "`data`", "`env.data`", "--config FILE"]);
    let text = context.succeed(&["replay", "moved", "--config", "demo/skillrl.toml", "--quiet"]);
    assert!(text.contains("\nidentical:  "), "{text}");
    context.remove("moved/journal.sqlite");
    check(&["moved", "--config", "demo/skillrl.toml"], code::RUN_DIR, &["moved/journal.sqlite"]);
    context.remove("moved/config.toml");
    check(&["moved"], code::USAGE, &["moved", "config.toml", "--config FILE"]);
    insta::assert_snapshot!("replay_refusals", said.text());
}

#[test]
fn a_live_replay_keeps_the_caps_of_the_configuration() {
    let context = TestContext::with_finished_demo();
    // It sends about 432 calls, by far the most of them to the target: the cap is on both models together. What was sent
    // for candidates that were given up is among them, and depends on how busy the machine is.
    let args =
        ["replay", "demo/run", "--set", "gate.metric=soft", "--into", "soft", "--quiet", "--live", "--set"];
    for cap in ["budget.calls=200", "budget.calls=420"] {
        context.run(&[args.as_slice(), &[cap]].concat()).fails(code::BUDGET, &["cap on calls"]);
    }
    context.succeed(&[args.as_slice(), &["budget.calls=600"]].concat());
}

/// `run.dir` on the command line is relative to where the command is given, and says nothing of the configuration.
#[test]
fn a_run_that_was_started_elsewhere_is_replayed_from_where_its_configuration_lies() {
    let context = TestContext::with_demo();
    let dir = ["--set", "run.dir=elsewhere/deep/run"];
    context.succeed(&[["train", "demo/skillrl.toml", "--quiet"].as_slice(), &dir].concat());
    assert!(context.read("elsewhere/deep/run/events.jsonl").contains("\"config_dir\":\"../../../demo\""));
    let text = context.succeed(&["replay", "elsewhere/deep/run", "--into", "again", "--quiet"]);
    assert!(text.contains("\nidentical:  "), "{text}");
    assert!(context.run(&["lint", "elsewhere/deep/run"]).stderr.is_empty());
}

/// The edit budget falls over the whole run: what was made when the run was shorter had another schedule.
#[test]
fn a_run_that_was_extended_is_replayed_as_it_was_made() {
    let context = TestContext::with_demo();
    let train = |epochs: &str| context.succeed(&["train", "demo/skillrl.toml", "--quiet", "--set", epochs]);
    train("train.epochs=1");
    train("train.epochs=2");
    let text = context.succeed(&["replay", "demo/run", "--quiet"]);
    assert!(text.contains("\nidentical:  "), "{text}");
    assert_same_files(&context.untimed_files("demo/run"), &context.untimed_files(REPLAY));
}

#[test]
fn what_is_not_the_trainer_s_is_no_difference() {
    let context = TestContext::with_finished_demo();
    for file in ["pruned/prune.json", "best_skill.changed.md", ".gitignore", "stop_after_step"] {
        context.write(&format!("demo/run/{file}"), "mine\n");
    }
    let text = context.succeed(&["replay", "demo/run", "--quiet"]);
    assert!(text.contains("\nidentical:  "), "{text}");
}
