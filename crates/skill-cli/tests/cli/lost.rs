//! A run that has lost its journal or its state: nothing is paid again unasked, and no cap begins again in silence.

use crate::context::{TestContext, assert_same_files, code};
use crate::said::assert_names;
use crate::server::{self, Server};

/// A task on a server, with a run that a cap has ended after its first step.
fn capped(server: &Server) -> TestContext {
    let context = server.task();
    server.answer_with(|_, request| server::healthy(request));
    train(&context, "calls=8", &[]).assert_code(code::BUDGET);
    assert_eq!(context.json("run/runtime_state.json")["last_completed_step"], 1);
    context
}

fn train(context: &TestContext, cap: &str, more: &[&str]) -> crate::context::Outcome {
    let cap = format!("budget.{cap}");
    let args = ["train", "task/skillrl.toml", "--set", "run.dir=run", "--set", &cap];
    context.run(&[args.as_slice(), more].concat())
}

#[test]
fn a_lost_journal_is_not_begun_anew_unasked() {
    let server = Server::start();
    let context = capped(&server);
    context.copy_dir("run", "half");
    train(&context, "calls=1000", &[]).assert_code(code::SUCCESS);
    let (expect, n_whole) = (context.untimed_files("run"), server.n_calls());
    std::fs::remove_dir_all(context.path("run")).unwrap();
    context.copy_dir("half", "run");
    for suffix in ["", "-wal", "-shm"] {
        drop(std::fs::remove_file(context.path(&format!("run/journal.sqlite{suffix}"))));
    }
    // Gone, as the refused attempt leaves it, and cut to nothing.
    for is_cut in [false, false, true] {
        if is_cut {
            std::fs::write(context.path("run/journal.sqlite"), "").unwrap();
        }
        let refused = train(&context, "calls=8", &[]);
        refused.assert_code(code::RUN_DIR);
        insta::assert_snapshot!("a_lost_journal", refused.stderr);
        assert_eq!(server.n_calls(), n_whole);
    }
    // What is tried by hand belongs to no run that cannot be gone on with.
    let tried = context.run(&["try", "val-1", "task/skillrl.toml", "--set", "run.dir=run"]);
    tried.assert_code(code::SUCCESS);
    assert_names(&tried.stderr, &["note: the run in run lacks its journal"]);
    let begun = train(&context, "calls=1000", &["--new-journal"]);
    begun.assert_code(code::SUCCESS);
    assert_names(&begun.stderr, &["warning: the journal ", " 0 requests"]);
    assert_same_files(&context.untimed_files("run"), &expect);
    let n_after = server.n_calls();
    assert!(n_after < 2 * n_whole - 4, "the finished step is not made again: {n_after}, {n_whole}");
    // What the new journal holds is as good as any.
    train(&context, "calls=1000", &[]).assert_code(code::SUCCESS);
    assert_eq!(server.n_calls(), n_after);
}

/// What a cap had stopped is known from then on, also in the middle of a step.
#[test]
fn an_older_copy_of_a_journal_is_not_gone_on_with_unasked() {
    let server = Server::start();
    let context = capped(&server);
    context.copy_dir("run", "yesterday");
    train(&context, "calls=10", &[]).assert_code(code::BUDGET);
    assert_eq!((server.n_calls(), &context.json("run/timings.json")["requests"]), (10, &10.into()));
    std::fs::copy(context.path("yesterday/journal.sqlite"), context.path("run/journal.sqlite")).unwrap();
    let refused = train(&context, "calls=10", &[]);
    refused.assert_code(code::RUN_DIR);
    insta::assert_snapshot!("an_older_journal", refused.stderr);
    assert_eq!(server.n_calls(), 10);
    train(&context, "calls=9", &["--new-journal"])
        .fails(code::BUDGET, &["warning: the journal ", " 8 requests"]);
    assert_eq!(server.n_calls(), 11, "the cap is on what the journal knows");
    train(&context, "calls=1000", &[]).assert_code(code::SUCCESS);
}

/// Nothing is sent for a finished run, so nothing is entered into its new journal but that there is one.
#[test]
fn a_finished_run_without_its_journal_is_gone_on_with_once_that_was_asked() {
    let context = TestContext::with_demo();
    let train =
        |more: &[&str]| context.run(&[["train", "demo/skillrl.toml", "--quiet"].as_slice(), more].concat());
    train(&[]).assert_code(code::SUCCESS);
    std::fs::remove_file(context.path("demo/run/journal.sqlite")).unwrap();
    let before = context.files("demo/run");
    train(&[]).assert_code(code::RUN_DIR);
    assert!(context.files("demo/run") == before, "who is refused changes nothing");
    train(&["--new-journal"]).assert_code(code::SUCCESS);
    train(&[]).assert_code(code::SUCCESS);
    context.succeed(&["doctor", "--measure", "demo/skillrl.toml", "--quiet"]);
}

#[test]
fn a_pruned_journal_keeps_what_its_run_has_spent() {
    let server = Server::start();
    let context = capped(&server);
    context.run(&["journal", "prune", "run", "--all"]).assert_code(code::SUCCESS);
    let stats = context.succeed(&["journal", "stats", "run"]);
    assert_names(&stats, &["pruned 8 requests more, 80 tokens in, 40 out"]);
    let status = context.succeed(&["status", "run"]);
    assert!(status.contains("spent  8 calls, 120 tokens"), "{status}");
    train(&context, "calls=8", &[]).fails(code::BUDGET, &["cap on calls", "(8 of 8)"]);
    assert_eq!(server.n_calls(), 8);
    train(&context, "calls=1000", &[]).assert_code(code::SUCCESS);
}

/// No step needs it, so the run goes on; anyone who reads the run would find a hole.
#[test]
fn a_damaged_file_of_a_finished_step_is_told_of_and_made_again_from_the_journal() {
    let server = Server::start();
    let context = capped(&server);
    context.copy_dir("run", "half");
    train(&context, "calls=1000", &[]).assert_code(code::SUCCESS);
    let (expect, n_whole) = (context.untimed_files("run"), server.n_calls());
    std::fs::remove_dir_all(context.path("run")).unwrap();
    context.copy_dir("half", "run");
    context.remove("run/steps/step_0001/rollout_results.json");
    context.write("run/steps/step_0001/step_record.json", "{\"step\": 1, ");
    let outcome = train(&context, "calls=8", &[]);
    let warning = "warning: steps/step_0001/step_record.json and 1 more: missing or damaged";
    assert!(outcome.stderr.contains(warning), "{}", outcome.stderr);
    context.remove("run/runtime_state.json");
    context.remove("run/history.jsonl");
    let again = train(&context, "calls=1000", &[]);
    again.assert_code(code::SUCCESS);
    assert!(!again.stderr.contains("missing or damaged"), "{}", again.stderr);
    assert_same_files(&context.untimed_files("run"), &expect);
    assert_eq!(server.n_calls() - n_whole, n_whole - 8, "only what was not asked yet");
}

#[test]
fn a_lost_state_is_not_begun_anew_unasked() {
    let server = Server::start();
    let context = capped(&server);
    let n_before = server.n_calls();
    context.remove("run/runtime_state.json");
    let refused = train(&context, "calls=1000", &[]);
    refused.assert_code(code::RUN_DIR);
    insta::assert_snapshot!("a_lost_state", refused.stderr);
    context.remove("run/history.jsonl");
    train(&context, "calls=8", &[]).assert_code(code::BUDGET);
    assert_eq!(server.n_calls(), n_before, "the journal has every call");
}
