//! `skillrl check`: every damaged file is named, a whole run is whole, and the advice brings back what is damaged.

use crate::context::{TestContext, assert_same_files, code};
use crate::server::{self, Server};
use parking_lot::Mutex;
use serde_json::Value;
use skillrl::pipeline::run_dir::check::{Fault, RunCheck, check};
use std::path::Path;
use std::sync::Arc;

/// Files that mean nothing when no process works on the run.
const NOT_CHECKED: [&str; 4] =
    ["run.lock", "journal.sqlite-wal", "journal.sqlite-shm", "journal.sqlite-sent"];
/// Files that a run may have or not.
const MAY_BE_MISSING: [&str; 2] = ["report.html", "checks.json"];

fn train(context: &TestContext, more: &[&str]) -> crate::context::Outcome {
    let args = ["train", "task/skillrl.toml", "--quiet", "--set", "run.dir=run"];
    context.run(&[args.as_slice(), more].concat())
}

/// A small run that has come to its end, in `run`.
fn with_run() -> TestContext {
    let context = TestContext::with_scripted_task();
    train(&context, &[]).assert_code(code::SUCCESS);
    context
}

#[track_caller]
fn checked(context: &TestContext, run: &str) -> RunCheck {
    check(&context.path(run)).unwrap()
}

#[track_caller]
fn assert_whole(context: &TestContext, run: &str) {
    let found = checked(context, run);
    assert_eq!((&found.damage[..], found.n_unrecorded_steps), (&[][..], 0), "{run}");
    assert!(found.is_journal_whole && found.n_whole > 5, "{run}: {found:?}");
    context.succeed(&["check", run]);
}

#[test]
fn every_file_that_is_missing_empty_or_changed_is_named() {
    let context = with_run();
    let files = context.files("run");
    assert_eq!(checked(&context, "run").not_checked, [""; 0]);
    let mut n_checked = 0;
    for (file, bytes) in &files {
        let name = file.to_str().unwrap();
        if NOT_CHECKED.contains(&name) {
            continue;
        }
        let path = context.path("run").join(file);
        let (mut changed, mut longer) = (bytes.clone(), bytes.clone());
        if let Some(byte) = changed.get_mut(bytes.len() / 2) {
            *byte ^= 1;
        }
        // Behind the last line of times a process may have been killed.
        if name != "timings.jsonl" && name != "events.jsonl" {
            longer.push(b'x');
        }
        let damages = [
            (Fault::Missing, None),
            (Fault::Empty, Some(Vec::new())),
            (Fault::Changed, Some(changed)),
            (Fault::Changed, Some(longer)),
        ];
        for (fault, damaged) in damages {
            if damaged.as_ref() == Some(bytes) || damaged.is_none() && MAY_BE_MISSING.contains(&name) {
                continue;
            }
            match damaged {
                Some(damaged) => std::fs::write(&path, damaged).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            let found = checked(&context, "run");
            let named = found.damage.iter().find(|damage| damage.file == name);
            assert_eq!(named.map(|named| named.fault), Some(fault), "{name}: {:?}", found.damage);
            // Without the lines of files.jsonl, or a state that names them, nothing is known of the others.
            assert_eq!(found.damage.len(), 1, "{name} {fault:?}: {:?}", found.damage);
            n_checked += 1;
        }
        std::fs::write(&path, bytes).unwrap();
    }
    assert!(n_checked > 150, "{n_checked}");
    assert_whole(&context, "run");
}

#[test]
fn runs_of_every_kind_are_whole() {
    let context = with_run();
    assert_whole(&context, "run");
    // Summed up again, and extended.
    train(&context, &[]).assert_code(code::SUCCESS);
    assert_whole(&context, "run");
    train(&context, &["--set", "train.epochs=3"]).assert_code(code::SUCCESS);
    assert_whole(&context, "run");
    // Stopped, and resumed.
    let stopped = with_run();
    std::fs::remove_dir_all(stopped.path("run")).unwrap();
    for (cap, expect) in
        [("budget.calls=1", code::BUDGET), ("budget.calls=14", code::BUDGET), ("budget.calls=99", 0)]
    {
        train(&stopped, &["--set", cap]).assert_code(expect);
        assert_whole(&stopped, "run");
    }
}

#[test]
fn warnings_that_a_kill_lost_are_found_again_by_resume() {
    let context = TestContext::with_scripted_task();
    train(&context, &["--set", "budget.calls=14"]).assert_code(code::BUDGET);
    let warnings = context.json("run/checks.json");
    assert!(!warnings["warnings"].as_array().unwrap().is_empty());
    // As a kill between the first answer and this file leaves the run.
    std::fs::remove_file(context.path("run/checks.json")).unwrap();
    train(&context, &["--set", "budget.calls=99"]).assert_code(code::SUCCESS);
    assert_eq!(context.json("run/checks.json"), warnings);
}

#[test]
fn a_run_is_checked_while_it_is_trained_and_as_a_killed_process_leaves_it() {
    let (server, context) = Server::start_with_task();
    let seen: Arc<Mutex<Vec<RunCheck>>> = Arc::default();
    let (run, killed) = (context.path("run"), context.path("killed"));
    let checks = Arc::clone(&seen);
    server.answer_with(move |call, request| {
        checks.lock().push(check(&run).unwrap());
        copy(&run, &killed.join(call.to_string()));
        server::healthy(request)
    });
    let args = ["train", "task/skillrl.toml", "--quiet", "--set", "run.workers=1", "--set"];
    context.succeed(&[args.as_slice(), &["run.dir=run"]].concat());
    let seen = seen.lock();
    assert!(seen.iter().all(|found| found.is_training && found.damage.is_empty()), "{seen:#?}");
    assert!(seen.iter().any(|found| found.finished_steps == 1));
    let n_calls = server.n_calls();
    server.answer_with(|_, request| server::healthy(request));
    let expect = context.untimed_files("run");
    for call in [1, n_calls / 2, n_calls] {
        let killed = format!("killed/{call}");
        let found = checked(&context, &killed);
        assert_eq!((found.is_training, &found.damage[..]), (false, &[][..]), "{killed}");
        context.succeed(&[args.as_slice(), &[&format!("run.dir={killed}")]].concat());
        assert_eq!(checked(&context, &killed).damage, [], "{killed}");
        assert_same_files(&context.untimed_files(&killed), &expect);
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else if path.file_name().is_some_and(|name| name != "live.json") {
            std::fs::copy(&path, &to).unwrap();
        }
    }
}

#[test]
fn damage_has_a_code_of_its_own_and_the_advice_brings_the_files_back() {
    let context = with_run();
    let expect = context.untimed_files("run");
    context.write("run/steps/step_0002/rollout_results.json", "[]");
    context.remove("run/test_eval_best/results.json");
    context.write("run/history.jsonl", "");
    context.write("run/best_skill.md", "mine\n");
    let outcome = context.run(&["check", "run"]);
    outcome.assert_code(code::DAMAGED);
    for said in [
        "  changed     steps/step_0002/rollout_results.json",
        "  missing     test_eval_best/results.json",
        "  empty       history.jsonl",
        "  changed     best_skill.md",
        "remove runtime_state.json, history.jsonl and history.json",
    ] {
        assert!(outcome.stdout.contains(said), "{said}: {}", outcome.stdout);
    }
    let outcome = context.run(&["check", "run", "--json"]);
    outcome.assert_code(code::DAMAGED);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(json["damage"].as_array().unwrap().len(), 4);
    assert_eq!(
        (&json["damage"][0]["fault"], &json["damage"][0]["remedy"]),
        (&"changed".into(), &"rebuild".into())
    );
    for file in ["runtime_state.json", "history.jsonl", "history.json"] {
        context.remove(&format!("run/{file}"));
    }
    train(&context, &[]).assert_code(code::SUCCESS);
    assert_whole(&context, "run");
    assert_eq!(context.read("run/best_skill.changed.md"), "mine\n");
    context.remove("run/best_skill.changed.md");
    assert_same_files(&context.untimed_files("run"), &expect);
    // Nothing but the journal is left.
    std::fs::create_dir(context.path("new")).unwrap();
    std::fs::copy(context.path("run/journal.sqlite"), context.path("new/journal.sqlite")).unwrap();
    context.succeed(&["train", "task/skillrl.toml", "--quiet", "--set", "run.dir=new"]);
    assert_same_files(&context.untimed_files("new"), &expect);
}

/// It has no journal, and not every file of its steps.
#[test]
fn an_imported_run_is_whole() {
    let context = TestContext::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../skillrl/tests/data/import/skillrl-1.0");
    context.succeed(&["import", from.to_str().unwrap(), "--to", "imported"]);
    let found = checked(&context, "imported");
    assert_eq!((&found.damage[..], found.n_unrecorded_steps), (&[][..], 3), "{found:?}");
    context.replace("imported/config.json", "skillrl 1.0", "skillrl 1.1");
    assert_eq!(checked(&context, "imported").damage.len(), 1);
}

#[test]
fn no_run_is_an_error_and_no_damage() {
    let context = TestContext::new();
    context.run(&["check", "nowhere"]).assert_code(code::RUN_DIR);
    let context = with_run();
    for (known, other) in [("\"2.0\"", "\"9.0\""), ("\"9.0\"", "\"1.0\"")] {
        context.replace("run/runtime_state.json", known, other);
        context.run(&["check", "run"]).fails(code::RUN_DIR, &[other.trim_matches('"')]);
    }
}

#[test]
fn a_run_whose_replies_were_read_otherwise_is_not_resumed() {
    let context = with_run();
    let mut config = context.json("run/config.json");
    config["identity"]["env.settings"].as_object_mut().unwrap().remove("scoring_version").unwrap();
    config.as_object_mut().unwrap().remove("checksum").unwrap();
    context.write("run/config.json", &config.to_string());
    train(&context, &[]).fails(code::OTHER_RUN, &["scoring_version"]);
    context.succeed(&["status", "run"]);
    context.succeed(&["report", "run"]);
}
