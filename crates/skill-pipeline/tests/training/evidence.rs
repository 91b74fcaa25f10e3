//! What a run says about how sure its decisions are: records, modes of the gate, draws, fresh evaluations.

use super::{actions, files, read};
use crate::world::{Counted, Job, WORDS, lucky_target, settings, stubborn_optimizer, target};
use serde_json::{Value, json};
use skill_core::GateMode;
use skill_pipeline::{Evidence, PipelineError, SettingsError, Summary, TrainSettings};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn with(evidence: Evidence) -> TrainSettings {
    TrainSettings { evidence, ..settings() }
}

fn run(dir: &Path, evidence: Evidence, target: &Arc<Counted>) -> Summary {
    Job { settings: with(evidence), target: Arc::clone(target), ..Job::default() }.run(dir).unwrap()
}

fn history(dir: &Path) -> Vec<Value> {
    read(dir.join("history.json")).as_array().unwrap().clone()
}

fn n_calls(target: &Counted) -> usize {
    target.n_calls.load(Ordering::Relaxed)
}

#[test]
fn every_decision_stands_beside_its_evidence() {
    let (dir, stubborn) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    Job::default().run(dir.path()).unwrap();
    Job { skill: "- alpha\n- bravo\n", optimizer: stubborn_optimizer(), ..Job::default() }
        .run(stubborn.path())
        .unwrap();
    let (mut n_whole, mut n_partial) = (0, 0);
    for record in history(dir.path()).into_iter().chain(history(stubborn.path())) {
        let paired = &record["paired"];
        if record["selection_n_seen"].is_null() {
            assert!(paired.is_null(), "{record}");
            continue;
        }
        let count = |name: &str| paired[name].as_u64().unwrap();
        let n_seen = record["selection_n_seen"].as_u64().unwrap();
        assert_eq!(count("wins") + count("losses") + count("ties"), n_seen, "{record}");
        if record["selection_interval"].is_null() {
            n_whole += 1;
            let gain =
                record["candidate_gate_score"].as_f64().unwrap() - record["score_before"].as_f64().unwrap();
            assert!((paired["difference"].as_f64().unwrap() - gain).abs() < 1e-6, "{record}");
            let (low, high) =
                (paired["interval"][0].as_f64().unwrap(), paired["interval"][1].as_f64().unwrap());
            assert!(low <= gain && gain <= high && low < high, "{record}");
            let p = paired["mcnemar_p"].as_f64().unwrap();
            assert!(
                count("losses") > 0 || (p - 0.5_f64.powi(count("wins") as i32)).abs() < 1e-12,
                "{record}"
            );
        } else {
            n_partial += 1;
            // Items come in an order that is not a sample: nothing is said that would need one.
            for name in ["difference", "interval", "mcnemar_p"] {
                assert!(paired[name].is_null(), "{record}");
            }
            let before = record["score_before"].as_f64().unwrap();
            for end in [0, 1] {
                let bound = record["selection_interval"][end].as_f64().unwrap() - before;
                assert!((paired["bounds"][end].as_f64().unwrap() - bound).abs() < 1e-6, "{record}");
            }
        }
    }
    assert!(n_whole > 0 && n_partial > 0, "{n_whole} and {n_partial}");
}

#[test]
fn too_few_items_are_indecisive_and_the_skill_stays() {
    let dir = tempfile::tempdir().unwrap();
    let evidence = Evidence { mode: GateMode::Mcnemar { alpha: 0.05 }, ..Evidence::default() };
    let summary = run(dir.path(), evidence, &target(usize::MAX));
    // An edit brings at most two of the ten words, and five would have to be won.
    assert!(summary.total_indecisive > 0 && summary.total_accepts == 0, "{:?}", actions(dir.path()));
    assert_eq!(summary.best_step.0, 0);
    let record = history(dir.path()).into_iter().find(|record| record["action"] == "indecisive").unwrap();
    assert_eq!(record["gate_mode"], "mcnemar");
    assert_eq!(
        (&record["paired"]["alpha"], &record["paired"]["least_discordant"]),
        (&json!(0.05), &json!(5))
    );
    assert_eq!(record["current_score"], record["score_before"]);
    let fewer = Evidence { mode: GateMode::Mcnemar { alpha: 0.3 }, ..Evidence::default() };
    let again = tempfile::tempdir().unwrap();
    assert!(run(again.path(), fewer, &target(usize::MAX)).total_accepts > 0, "{:?}", actions(again.path()));
}

#[track_caller]
fn refused(outcome: Result<Summary, PipelineError>) -> SettingsError {
    match outcome.unwrap_err() {
        PipelineError::Settings(error) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_gate_that_could_accept_nothing_is_refused_before_anything_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let asked = target(usize::MAX);
    let evidence = Evidence { mode: GateMode::Mcnemar { alpha: 1e-6 }, ..Evidence::default() };
    let job = Job { settings: with(evidence), target: asked.clone(), ..Job::default() };
    let error = refused(job.run(dir.path()));
    assert_eq!(error, SettingsError::SmallSplit { mode: evidence.mode, least: 20, n_items: 10 });
    assert_eq!(n_calls(&asked), 0);
    let check = |evidence, is_expected: fn(&SettingsError) -> bool| {
        let error = refused(Job { settings: with(evidence), ..Job::default() }.run(dir.path()));
        assert!(is_expected(&error), "{error:?}");
    };
    let mode = |mode| Evidence { mode, ..Evidence::default() };
    let is_alpha = |error: &SettingsError| matches!(error, SettingsError::Alpha { .. });
    check(mode(GateMode::Mcnemar { alpha: 0.0 }), is_alpha);
    check(mode(GateMode::EProcess { alpha: f64::NAN }), is_alpha);
    check(mode(GateMode::Paired { standard_errors: -1.0 }), |error| {
        matches!(error, SettingsError::StandardErrors { found: -1.0 })
    });
    check(Evidence { selection_repeats: 0, ..Evidence::default() }, |error| {
        matches!(error, SettingsError::TooSmall { setting: "evidence.selection_repeats", found: 0, least: 1 })
    });
}

#[test]
fn early_rejection_changes_no_decision_under_any_mode() {
    for mode in [
        GateMode::Paired { standard_errors: 1.0 },
        GateMode::Mcnemar { alpha: 0.3 },
        GateMode::EProcess { alpha: 0.6 },
        GateMode::NoRegression { max_losses: 0 },
    ] {
        for selection_repeats in [1, 2] {
            let evidence = Evidence { mode, selection_repeats, ..Evidence::default() };
            let found =
                [skill_pipeline::EarlyStop::Exact, skill_pipeline::EarlyStop::Off].map(|early_stop| {
                    let dir = tempfile::tempdir().unwrap();
                    let settings = TrainSettings { early_stop, ..with(evidence) };
                    let summary = Job { settings, ..Job::default() }.run(dir.path()).unwrap();
                    (actions(dir.path()), summary.best_skill_hash, summary.test_hard)
                });
            assert_eq!(found[0], found[1], "{mode:?}");
        }
    }
}

#[test]
fn draws_of_an_item_are_calls_of_their_own_and_count_together() {
    let evidence = Evidence { selection_repeats: 3, ..Evidence::default() };
    let (dir, asked) = (tempfile::tempdir().unwrap(), target(usize::MAX));
    run(dir.path(), evidence, &asked);
    let baseline = read(dir.path().join("baseline_selection_eval/results.json"));
    let rows = baseline.as_array().unwrap();
    assert_eq!(rows.len(), 3 * WORDS.len());
    let draws: Vec<(&Value, &Value)> =
        rows.iter().take(4).map(|row| (&row["id"], &row["trajectory"]["sample"])).collect();
    let (first, second) = (json!("va0"), json!("va1"));
    assert_eq!(
        draws,
        [(&first, &Value::Null), (&first, &json!(1)), (&first, &json!(2)), (&second, &Value::Null)]
    );
    assert_eq!(read(dir.path().join("baseline_selection_eval/summary.json"))["tokens"]["calls"], 30);
    for record in history(dir.path()).iter().filter(|record| !record["paired"].is_null()) {
        assert_eq!((&record["paired"]["n_items"], &record["paired"]["repeats"]), (&json!(10), &json!(3)));
        assert_eq!(record["selection_n"], 30);
    }
    let undisturbed = files(dir.path());
    for (fails_from, workers) in [(17, 1), (44, 1000), (75, 3)] {
        let dir = tempfile::tempdir().unwrap();
        let settings = TrainSettings { workers, ..with(evidence) };
        let first = target(fails_from);
        Job { settings: settings.clone(), target: first.clone(), ..Job::default() }
            .run(dir.path())
            .unwrap_err();
        let rest = target(usize::MAX);
        Job { settings, target: rest.clone(), ..Job::default() }.run(dir.path()).unwrap();
        assert_eq!(files(dir.path()), undisturbed, "failed from call {fails_from} on with {workers} workers");
        if workers == 1 {
            let n_replies = |target: &Counted| target.n_replies.load(Ordering::Relaxed);
            assert_eq!(n_replies(&first) + n_replies(&rest), n_calls(&asked), "no reply was asked for twice");
        }
    }
}

#[test]
fn a_fresh_score_is_of_calls_that_decided_nothing() {
    let evidence = Evidence { fresh: true, ..Evidence::default() };
    let (dir, asked) = (tempfile::tempdir().unwrap(), lucky_target());
    let summary = run(dir.path(), evidence, &asked);
    let fresh = summary.fresh_selection.clone().unwrap();
    // The target is lucky in the draw that decides, and fails the first five words in every other one.
    assert_eq!(summary.baseline_selection_score, 0.0);
    assert!(fresh.best_score < summary.best_selection_score, "{summary:?}");
    assert_eq!(
        fresh.best_score,
        read(dir.path().join("fresh_eval_best/summary.json"))["hard"].as_f64().unwrap()
    );
    assert!(fresh.best_interval[0] < fresh.best_score && fresh.best_score < fresh.best_interval[1]);
    let paired = fresh.paired.unwrap();
    assert_eq!(paired.wins + paired.losses + paired.ties, 10);
    assert_eq!(
        summary.best_of,
        1 + history(dir.path()).iter().filter(|row| !row["paired"].is_null()).count()
    );
    let test = summary.test_paired.clone().unwrap();
    assert!((test.difference.unwrap() - summary.test_delta_hard.unwrap()).abs() < 1e-6);
    assert!(test.interval.is_some() && test.mcnemar_p.is_some());
    let n_asked = n_calls(&asked);
    // Said again, and resumed, it costs nothing.
    assert_eq!(run(dir.path(), evidence, &asked), summary);
    assert_eq!(n_calls(&asked), n_asked);
    let again = tempfile::tempdir().unwrap();
    let stopped = Job { settings: with(evidence), target: lucky_target(), stop_after: 4, ..Job::default() };
    stopped.run(again.path()).unwrap_err();
    run(again.path(), evidence, &lucky_target());
    assert_eq!(files(again.path()), files(dir.path()));
    // Without it, two passes less.
    let plain = tempfile::tempdir().unwrap();
    let without = lucky_target();
    assert_eq!(run(plain.path(), Evidence::default(), &without).fresh_selection, None);
    assert_eq!(n_calls(&without) + 20, n_asked);
}

#[test]
fn a_best_skill_that_is_the_initial_one_is_measured_anew_once() {
    let evidence = Evidence { fresh: true, ..Evidence::default() };
    let (dir, asked) = (tempfile::tempdir().unwrap(), target(usize::MAX));
    let optimizer = stubborn_optimizer();
    let job = Job { settings: with(evidence), target: asked.clone(), optimizer, ..Job::default() };
    let summary = job.run(dir.path()).unwrap();
    let fresh = summary.fresh_selection.unwrap();
    assert_eq!((fresh.baseline_score, fresh.best_score, fresh.paired), (0.0, 0.0, None));
    assert_eq!(summary.test_paired, None);
    assert_eq!(summary.token_summary["fresh_baseline"].calls, 10);
    assert!(!summary.token_summary.contains_key("fresh_best"));
}

#[test]
fn alpha_can_be_spent_over_the_decisions_of_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let evidence =
        Evidence { mode: GateMode::Mcnemar { alpha: 0.4 }, spends_alpha: true, ..Evidence::default() };
    run(dir.path(), evidence, &target(usize::MAX));
    let alphas: Vec<f64> =
        history(dir.path()).iter().filter_map(|record| record["paired"]["alpha"].as_f64()).collect();
    let expect = (1..=alphas.len() as u32).map(|test| skill_core::stats::spent_alpha(0.4, test));
    assert!(alphas.len() > 1 && alphas.into_iter().eq(expect));
}

/// Every sample is a trajectory for the analysts, with replies of its own.
#[test]
fn a_step_takes_several_samples_of_each_item() {
    let rollouts = |samples: usize| {
        let (dir, asked) = (tempfile::tempdir().unwrap(), target(usize::MAX));
        let settings = TrainSettings { samples, epochs: 1, eval_test: false, ..settings() };
        Job { settings, target: asked.clone(), ..Job::default() }.run(dir.path()).unwrap();
        let rows = read(dir.path().join("steps/step_0001/rollout_results.json")).as_array().unwrap().clone();
        let of_row = |row: &Value| (row["id"].clone(), row["trajectory"]["sample"].as_u64().unwrap_or(0));
        (rows.iter().map(of_row).collect::<Vec<_>>(), n_calls(&asked), dir)
    };
    let (one, n_one, _) = rollouts(1);
    let (three, n_three, dir) = rollouts(3);
    let expect: Vec<(Value, u64)> =
        one.iter().flat_map(|(id, _)| (0..3).map(|sample| (id.clone(), sample))).collect();
    assert_eq!(three, expect, "the samples of an item are side by side");
    assert!(n_three >= n_one + 2 * one.len(), "{n_three} calls and {n_one}: samples share no reply");
    let digest = read(dir.path().join("steps/step_0001/trajectory_digest.json"));
    assert_eq!(digest["n_total"].as_u64(), Some(three.len() as u64), "{digest}");
    // Another number of samples is another run.
    let again = Job { settings: settings(), ..Job::default() }.run(dir.path()).unwrap_err();
    assert!(again.to_string().contains("train.samples"), "{again}");
}
