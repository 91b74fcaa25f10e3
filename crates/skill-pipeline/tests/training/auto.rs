//! A planned search: `Protocol::Auto`.

use crate::run_files::files;
use crate::world::{
    Counted, Job, WORDS, counted, fickle_target, inventive_optimizer, settings, stubborn_optimizer, target,
};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use skill_core::GateMode;
use skill_core::rewrite::UpdateMode;
use skill_core::search_plan::SearchBudget;
use skill_llm::scripted::ScriptedModel;
use skill_llm::{CallCtx, ChatRequest};
use skill_pipeline::records::document::StepAction;
use skill_pipeline::records::proposal::PlayPurpose;
use skill_pipeline::records::summary::SearchEnd;
use skill_pipeline::{
    Acceptance, Evidence, PipelineError, Protocol, RunReader, SearchLimits, SettingsError, Summary,
    TrainSettings,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn planned(calls: f64) -> TrainSettings {
    let budget = SearchBudget { calls: Some(calls), ..SearchBudget::default() };
    let evidence = Evidence { fresh: true, ..settings().evidence };
    let search = SearchLimits { budget, ..SearchLimits::default() };
    TrainSettings { protocol: Protocol::Auto, search, evidence, ..settings() }
}

fn train(calls: f64, dir: &Path) -> Summary {
    Job { settings: planned(calls), ..Job::default() }.run(dir).unwrap()
}

fn n_calls(summary: &Summary) -> u64 {
    summary.token_summary.values().map(|used| used.calls).sum()
}

#[track_caller]
fn check_same(dir: &Path, undisturbed: &Path, what: &str) {
    let (own, other) = (files(dir), files(undisturbed));
    let names: BTreeSet<&String> = own.keys().chain(other.keys()).collect();
    let differing: Vec<&String> =
        names.into_iter().filter(|name| own.get(*name) != other.get(*name)).collect();
    assert!(
        differing.is_empty(),
        "{what}: {differing:?}\n{:?}\n{:?}",
        own.get(differing[0]),
        other.get(differing[0])
    );
}

#[test]
fn a_planned_run_keeps_its_budget_and_says_why_it_ended() {
    for calls in [110.0, 160.0, 240.0, 400.0] {
        let dir = tempfile::tempdir().unwrap();
        let counted = target(usize::MAX);
        let job = Job { settings: planned(calls), target: counted.clone(), ..Job::default() };
        let summary = job.run(dir.path()).unwrap();
        assert!(n_calls(&summary) as f64 <= calls, "{calls}: {}", n_calls(&summary));
        assert!(counted.n_calls.load(Ordering::Relaxed) > 0);
        let search = summary.search.unwrap();
        assert_eq!(search.ended == SearchEnd::Perfect, summary.best_selection_score >= 1.0, "{calls}");
    }
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(train(50.0, dir.path()).total_steps, 0, "there is no room for a step beside the end");
}

#[test]
fn a_planned_run_that_is_stopped_after_any_step_resumes_to_the_files_of_an_undisturbed_one() {
    let undisturbed = tempfile::tempdir().unwrap();
    let n_steps = train(300.0, undisturbed.path()).total_steps;
    assert!(n_steps >= 3, "{n_steps}");
    for stop_after in 1..u32::try_from(n_steps).unwrap() {
        let dir = tempfile::tempdir().unwrap();
        let stopped = Job { settings: planned(300.0), stop_after, ..Job::default() }.run(dir.path());
        assert!(matches!(stopped, Err(PipelineError::Stopped { .. })), "{stopped:?}");
        train(300.0, dir.path());
        check_same(dir.path(), undisturbed.path(), &format!("stopped after step {stop_after}"));
    }
}

#[test]
fn a_planned_run_goes_on_after_a_fault_at_any_call_to_the_same_files() {
    let undisturbed = tempfile::tempdir().unwrap();
    let whole = target(usize::MAX);
    Job { settings: planned(200.0), target: whole.clone(), ..Job::default() }
        .run(undisturbed.path())
        .unwrap();
    for fails_from in (0..whole.n_calls.load(Ordering::Relaxed)).step_by(7) {
        let dir = tempfile::tempdir().unwrap();
        let job = |target| Job { settings: planned(200.0), target, ..Job::default() };
        job(target(fails_from)).run(dir.path()).unwrap_err();
        job(target(usize::MAX)).run(dir.path()).unwrap();
        check_same(dir.path(), undisturbed.path(), &format!("failed from call {fails_from} on"));
    }
}

#[test]
fn the_number_of_workers_changes_no_plan() {
    let [one, many] = [1, 1000].map(|workers| {
        let dir = tempfile::tempdir().unwrap();
        let settings = TrainSettings { workers, ..planned(300.0) };
        Job { settings, ..Job::default() }.run(dir.path()).unwrap();
        files(dir.path())
    });
    assert_eq!(one, many);
}

#[test]
fn a_finished_planned_run_makes_no_call_and_goes_on_with_a_larger_budget() {
    let dir = tempfile::tempdir().unwrap();
    let stubborn = |calls: f64, dir: &Path| {
        let counted = target(usize::MAX);
        let job = Job {
            settings: planned(calls),
            target: counted.clone(),
            optimizer: stubborn_optimizer(),
            ..Job::default()
        };
        let summary = job.run(dir).unwrap();
        (summary.total_steps, counted.n_calls.load(Ordering::Relaxed))
    };
    let (n_steps, _) = stubborn(200.0, dir.path());
    assert_eq!(stubborn(200.0, dir.path()), (n_steps, 0));
    let (more_steps, n_calls) = stubborn(500.0, dir.path());
    assert!(more_steps > n_steps && n_calls > 0, "{n_steps} {more_steps}");
    // A smaller budget takes nothing back.
    assert_eq!(stubborn(200.0, dir.path()), (more_steps, 0));
}

#[test]
fn a_search_ends_on_a_plateau_and_goes_on_with_more_patience() {
    let dir = tempfile::tempdir().unwrap();
    let with_patience = |patience| {
        let base = planned(5_000.0);
        let settings = TrainSettings { search: SearchLimits { patience, ..base.search }, ..base };
        Job { settings, optimizer: stubborn_optimizer(), ..Job::default() }.run(dir.path()).unwrap()
    };
    let first = with_patience(8);
    assert_eq!(first.search.unwrap().ended, SearchEnd::Plateau);
    let second = with_patience(16);
    assert!(second.total_steps > first.total_steps, "{} {}", second.total_steps, first.total_steps);
}

#[test]
fn an_optimizer_without_ideas_ends_the_search() {
    // The edit is at a place that no skill has, so that every step has proposals and no candidate; or there is none.
    let nowhere = json!([{"op": "delete", "target": "- not there", "content": ""}]);
    for edits in [nowhere, json!([])] {
        let reply = json!({"reasoning": "r", "edits": edits}).to_string();
        let optimizer = Arc::new(ScriptedModel::answering("idle", move |_| reply.clone()));
        let with_patience = |patience, calls| {
            let base = planned(calls);
            let settings = TrainSettings { search: SearchLimits { patience, ..base.search }, ..base };
            let dir = tempfile::tempdir().unwrap();
            Job { settings, optimizer: Arc::clone(&optimizer) as _, ..Job::default() }
                .run(dir.path())
                .unwrap()
        };
        let ended = with_patience(4, 5_000.0);
        assert_eq!(ended.search.unwrap().ended, SearchEnd::Plateau);
        assert!((4..12).contains(&ended.total_skips), "{}", ended.total_skips);
        let without = with_patience(0, 5_000.0);
        assert_eq!(without.search.unwrap().ended, SearchEnd::NothingNew);
        assert!((8..12).contains(&without.total_skips), "{}", without.total_skips);
    }
}

#[test]
fn an_optimizer_that_repeats_itself_has_its_edit_compared_and_ends_the_search() {
    let optimizer = Arc::new(ScriptedModel::answering("repeating", |_| {
        let edit = |word: &&str| json!({"op": "append", "content": format!("- rule {word}")});
        let edits: Vec<Value> = WORDS[..4].iter().map(edit).collect();
        json!({"reasoning": "r", "edits": edits}).to_string()
    }));
    let dir = tempfile::tempdir().unwrap();
    let job = || Job { settings: planned(5_000.0), optimizer: Arc::clone(&optimizer) as _, ..Job::default() };
    let summary = job().run(dir.path()).unwrap();
    assert_eq!(summary.search.as_ref().unwrap().ended, SearchEnd::NothingNew);
    assert!(summary.best_selection_score > 0.3, "{}", summary.best_selection_score);
    assert!(summary.total_steps < 30 && n_calls(&summary) < 500, "{} calls", n_calls(&summary));
    // Nothing is made again.
    assert_eq!(job().run(dir.path()).unwrap().total_steps, summary.total_steps);
}

#[test]
fn every_play_is_in_the_records_and_says_what_it_was_for() {
    let dir = tempfile::tempdir().unwrap();
    let summary = train(300.0, dir.path());
    let history = RunReader::open(dir.path()).unwrap().history().unwrap();
    let proposals: Vec<_> =
        history.iter().filter_map(|record| Some((record, record.proposal.as_ref()?))).collect();
    assert!(proposals.len() >= 4, "{}", proposals.len());
    for (record, proposal) in &proposals {
        let plays: Vec<Value> = serde_json::from_slice(
            &std::fs::read(dir.path().join(format!("steps/step_{:04}/plays.json", record.step.0))).unwrap(),
        )
        .unwrap();
        let of_results: Vec<&str> = plays.iter().filter_map(|play| play["id"].as_str()).collect();
        let of_records: Vec<&str> = proposal.plays.iter().map(|play| play.item.as_str()).collect();
        assert_eq!(of_results, of_records, "step {}", record.step);
        let is_taken = record.action == StepAction::Taken;
        let screened = proposal.plays_for(PlayPurpose::Screening).last();
        assert!(!is_taken || screened.is_some_and(|play| play.odds >= Some(1.5)), "{proposal:?}");
        assert!(proposal.group.len() <= 4, "{proposal:?}");
    }
    // What was taken is compared, and only a comparison changes what is delivered.
    let taken = proposals.iter().filter(|(record, _)| record.action == StepAction::Taken).count();
    let compared: usize =
        history.iter().filter_map(|record| Some(record.comparison.as_ref()?.proposals.len())).sum();
    assert_eq!(taken, compared);
    let accepted = history.iter().filter(|record| record.action.is_accept());
    assert!(accepted.clone().all(|record| record.comparison.is_some()));
    assert_eq!(accepted.count(), summary.total_accepts);
    assert!(summary.best_selection_score > summary.baseline_selection_score, "{summary:?}");
}

#[test]
fn a_round_of_any_size_is_one_working_skill_and_disjoint_failures() {
    for round in [1, 2, 4, 8] {
        let dir = tempfile::tempdir().unwrap();
        let settings = TrainSettings { round, ..planned(300.0) };
        Job { settings, ..Job::default() }.run(dir.path()).unwrap();
        let history = RunReader::open(dir.path()).unwrap().history().unwrap();
        let proposals: Vec<_> = history.iter().filter_map(|record| record.proposal.as_ref()).collect();
        for members in proposals.chunk_by(|one, next| one.round == next.round) {
            assert!(members.len() <= round);
            let mut read: Vec<_> = members.iter().flat_map(|proposal| &proposal.group).collect();
            let n_read = read.len();
            read.sort();
            read.dedup();
            assert_eq!(read.len(), n_read, "no task is read by two analysts");
        }
    }
    let settings = TrainSettings { round: 3, ..planned(300.0) };
    let dir = tempfile::tempdir().unwrap();
    let refused = Job { settings, ..Job::default() }.run(dir.path());
    assert!(matches!(refused, Err(PipelineError::Settings(_))), "{refused:?}");
}

#[test]
fn what_a_planned_search_has_no_use_for_is_refused_by_name() {
    let base = planned(300.0);
    let mode = GateMode::Paired { standard_errors: 1.0 };
    let cases = [
        ("update_mode", TrainSettings { update_mode: UpdateMode::RewriteFromSuggestions, ..base.clone() }),
        ("samples", TrainSettings { samples: 2, ..base.clone() }),
        ("evidence.mode", TrainSettings { evidence: Evidence { mode, ..base.evidence }, ..base.clone() }),
        ("acceptance", TrainSettings { acceptance: Acceptance::Always, ..base.clone() }),
    ];
    for (name, settings) in cases {
        let dir = tempfile::tempdir().unwrap();
        match (Job { settings, ..Job::default() }).run(dir.path()) {
            Err(PipelineError::Settings(SettingsError::NotPlanned { setting, .. })) => {
                assert_eq!(setting, name);
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// A run under a cap on calls of which so many are lost, with its summary and the calls of both models.
fn capped(calls: u64, lost: u64, workers: usize, dir: &Path) -> (Summary, u64) {
    let (summary, sent) = run_capped(calls, lost, workers, dir);
    (summary.unwrap(), sent)
}

fn run_capped(calls: u64, lost: u64, workers: usize, dir: &Path) -> (Result<Summary, PipelineError>, u64) {
    let (target, optimizer) = (fickle_target(), counted_optimizer());
    let job = Job {
        settings: TrainSettings { workers, ..planned(calls as f64) },
        target: Arc::clone(&target),
        optimizer: optimizer.clone(),
        calls: Some((calls, lost)),
        ..Job::default()
    };
    let summary = job.run(dir);
    let sent = |model: &Counted| model.n_calls.load(Ordering::Relaxed) as u64;
    (summary, sent(&target) + sent(&optimizer))
}

fn counted_optimizer() -> Arc<Counted> {
    let optimizer = inventive_optimizer();
    let inner = ScriptedModel::from_fn("optimizer", move |request: &ChatRequest, call: &CallCtx| {
        optimizer.chat(request, call).now_or_never().unwrap()
    });
    counted(inner, usize::MAX, Value::Null)
}

/// Candidates that are decided early cancel calls that are in no record: the more workers, the more of them.
#[test]
fn a_planned_run_ends_inside_its_cap_with_everything_measured_however_many_workers_it_has() {
    for calls in (150..400).step_by(25) {
        let runs = [1, 4, 16, 64].map(|workers| {
            let dir = tempfile::tempdir().unwrap();
            let (summary, sent) = capped(calls, 0, workers, dir.path());
            assert!(sent <= calls, "{workers} workers: {sent} of {calls}");
            assert!(summary.total_steps >= 2 && summary.test_hard.is_some(), "{workers}: {summary:?}");
            files(dir.path())
        });
        assert!(runs.iter().all(|files| *files == runs[0]), "{calls} calls");
    }
}

/// Requests of processes that were killed, and those that failed, are in no plan.
#[test]
fn a_step_that_the_cap_has_no_room_for_is_left_out_and_the_end_is_measured() {
    let undisturbed = tempfile::tempdir().unwrap();
    let (whole, _) = capped(300, 0, 8, undisturbed.path());
    for lost in [20, 60, 100, 150] {
        let dir = tempfile::tempdir().unwrap();
        let (summary, sent) = capped(300, lost, 8, dir.path());
        assert!(sent + lost <= 300 && summary.test_hard.is_some(), "{sent} + {lost}");
        assert_eq!(summary.search.as_ref().unwrap().ended, SearchEnd::Budget);
        assert!(lost < 60 || summary.total_steps < whole.total_steps, "{lost}");
        // The steps that there was room for are those of an undisturbed run, and of the others nothing is left.
        let (own, other) = (files(dir.path()), files(undisturbed.path()));
        let of_steps = own.iter().filter(|(name, _)| name.starts_with("steps/"));
        of_steps.for_each(|(name, bytes)| assert_eq!(other.get(name), Some(bytes), "{name}"));
        let check = skill_pipeline::run_dir::check::check(dir.path()).unwrap();
        assert_eq!(check.damage, []);
        // The same command has nothing left to do, and a larger cap goes on.
        let before = files(dir.path());
        let (_, again) = capped(300, lost, 8, dir.path());
        assert_eq!((again, files(dir.path())), (0, before));
        if lost == 100 {
            let (more, _) = capped(600, lost, 8, dir.path());
            assert!(more.total_steps > summary.total_steps);
        }
    }
}

/// The reserve for the final measurements grows with the failure rate of requests.
#[test]
fn a_planned_run_on_a_failing_server_ends_with_its_verdict() {
    for percent in [5, 15, 30] {
        for seed in 0..8 {
            let dir = tempfile::tempdir().unwrap();
            let (target, optimizer) = (fickle_target(), counted_optimizer());
            let job = Job {
                settings: TrainSettings { workers: [1, 16][seed as usize % 2], ..planned(300.0) },
                target,
                optimizer,
                calls: Some((300, 0)),
                failing: Some((percent, seed)),
                ..Job::default()
            };
            let summary = job.run(dir.path()).unwrap();
            assert!(summary.test_hard.is_some() && summary.total_steps > 0, "{percent} %, seed {seed}");
        }
    }
}

/// It is measured last and unasked: a run whose other measurements had room has its result.
#[test]
fn no_skill_at_all_is_left_out_where_lost_requests_have_used_up_its_room() {
    let (mut n_measured, mut n_left_out) = (0, 0);
    for lost in (150..300).step_by(2) {
        let dir = tempfile::tempdir().unwrap();
        match run_capped(300, lost, 8, dir.path()) {
            (Ok(summary), sent) => {
                assert!(sent + lost <= 300 && summary.test_hard.is_some(), "{sent} + {lost}");
                assert!(summary.test_no_skill.is_none() || n_left_out == 0, "{lost}");
                n_measured += usize::from(summary.test_no_skill.is_some());
                n_left_out += usize::from(summary.test_no_skill.is_none());
                let before = files(dir.path());
                let (_, again) = capped(300, lost, 8, dir.path());
                assert_eq!((again, files(dir.path())), (0, before), "{lost}");
            }
            (Err(error), _) => {
                assert!(matches!(error, PipelineError::Capped { what: "calls", .. }), "{error}");
                break;
            }
        }
    }
    assert!(n_measured > 0 && n_left_out > 0, "{n_measured}, {n_left_out}");
}
