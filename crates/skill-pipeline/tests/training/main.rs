//! Whole runs on a toy world: what is written, what resumes, what is refused.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod accumulation;
#[path = "../../../skill-core/tests/support/all_files.rs"]
mod all_files;
mod arms;
mod auto;
mod bad_inputs;
mod bank_events;
mod bank_faults;
mod bank_numbers;
mod bank_scores;
mod banks;
mod budget;
#[path = "../support/damages.rs"]
mod damages;
mod epochs;
mod evidence;
mod identity;
mod memory;
mod notes;
mod own;
mod packages;
mod pruning;
#[path = "../support/run_files.rs"]
mod run_files;
mod runners;
mod saving;
mod skill_aware;
mod sources;
mod stop;
mod targets;
mod update_modes;
mod world;

use run_files::files;
use serde_json::Value;
use skill_envs::Split;
use skill_pipeline::error::SettingChange;
use skill_pipeline::{EarlyStop, PipelineError, SettingsError, StepAction, Summary, TrainSettings};
use std::path::Path;
use std::sync::atomic::Ordering;
use world::{Job, WORDS, changed, changed_settings, settings, target};

fn read(path: impl AsRef<Path>) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn actions(dir: &Path) -> Vec<String> {
    read(dir.join("history.json"))
        .as_array()
        .unwrap()
        .iter()
        .map(|record| record["action"].as_str().unwrap().to_owned())
        .collect()
}

fn trained(dir: &Path) -> Summary {
    Job::default().run(dir).unwrap()
}

#[test]
fn a_run_finds_a_better_skill_and_leaves_the_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let summary = trained(dir.path());
    assert_eq!(summary.total_steps, 6);
    assert!(summary.total_accepts > 0, "{summary:?}");
    assert!(summary.test_hard > summary.baseline_test_hard, "{summary:?}");
    let names: Vec<String> = files(dir.path()).into_keys().collect();
    insta::assert_snapshot!(names.join("\n"));
    let best = std::fs::read_to_string(dir.path().join("best_skill.md")).unwrap();
    let n_rules = WORDS.iter().filter(|word| best.contains(&format!("- rule {word}"))).count();
    assert_eq!(summary.test_hard, Some(n_rules as f64 / 10.0));
}

#[test]
fn a_step_record_says_everything_about_its_step() {
    let dir = tempfile::tempdir().unwrap();
    trained(dir.path());
    insta::assert_json_snapshot!(read(dir.path().join("steps/step_0001/step_record.json")));
    insta::assert_json_snapshot!("summary", read(dir.path().join("summary.json")), {".version" => "[version]"});
}

#[test]
fn one_worker_and_a_thousand_write_the_same_files() {
    let [one, many] = [1, 1000].map(|workers| {
        let dir = tempfile::tempdir().unwrap();
        Job { settings: TrainSettings { workers, ..settings() }, ..Job::default() }.run(dir.path()).unwrap();
        files(dir.path())
    });
    assert_eq!(one, many);
}

#[test]
fn a_run_stopped_after_any_step_resumes_to_the_files_of_an_undisturbed_one() {
    let undisturbed = tempfile::tempdir().unwrap();
    trained(undisturbed.path());
    for stop_after in 1..=5 {
        let dir = tempfile::tempdir().unwrap();
        let stopped = Job { stop_after, ..Job::default() }.run(dir.path());
        assert!(matches!(stopped, Err(PipelineError::Stopped { last_step, .. }) if last_step == stop_after));
        let rest = target(usize::MAX);
        Job { target: rest.clone(), ..Job::default() }.run(dir.path()).unwrap();
        assert_eq!(files(dir.path()), files(undisturbed.path()), "stopped after step {stop_after}");
    }
}

#[test]
fn a_fault_at_any_call_stops_the_run_without_a_score_and_the_run_goes_on_later() {
    let undisturbed = tempfile::tempdir().unwrap();
    let whole = target(usize::MAX);
    Job { target: whole.clone(), ..Job::default() }.run(undisturbed.path()).unwrap();
    let n_calls = whole.n_calls.load(Ordering::Relaxed);
    for fails_from in (0..n_calls).step_by(7) {
        let dir = tempfile::tempdir().unwrap();
        let (first, rest) = (target(fails_from), target(usize::MAX));
        let error = Job { target: first.clone(), ..Job::default() }.run(dir.path()).unwrap_err();
        assert!(matches!(error, PipelineError::Rollout { .. }), "{error:?}");
        Job { target: rest.clone(), ..Job::default() }.run(dir.path()).unwrap();
        assert_eq!(files(dir.path()), files(undisturbed.path()), "failed from call {fails_from} on");
        let n_replies = |target: &world::Counted| target.n_replies.load(Ordering::Relaxed);
        assert_eq!(n_replies(&first) + n_replies(&rest), n_calls, "no reply was asked for twice");
    }
}

#[test]
fn an_episode_goes_on_at_the_turn_where_it_stopped() {
    let job = |target| Job { env: world::Words::with_small_talk(5), target, ..Job::default() };
    let (undisturbed, whole) = (tempfile::tempdir().unwrap(), target(usize::MAX));
    job(whole.clone()).run(undisturbed.path()).unwrap();
    let n_replies = |target: &world::Counted| target.n_replies.load(Ordering::Relaxed);
    let n_calls = n_replies(&whole);
    // The baseline has 10 episodes of 6 calls.
    for fails_from in [1, 5, 6, 8, 17, 33, 59, 61, n_calls - 1] {
        let dir = tempfile::tempdir().unwrap();
        let (first, rest) = (target(fails_from), target(usize::MAX));
        job(first.clone()).run(dir.path()).unwrap_err();
        job(rest.clone()).run(dir.path()).unwrap();
        assert_eq!(files(dir.path()), files(undisturbed.path()), "failed from call {fails_from} on");
        assert_eq!(n_replies(&first) + n_replies(&rest), n_calls, "failed from call {fails_from} on");
    }
}

#[test]
fn a_world_that_breaks_is_begun_again_without_paying_twice_and_never_becomes_a_score() {
    let undisturbed = tempfile::tempdir().unwrap();
    let whole = target(usize::MAX);
    Job { target: whole.clone(), ..Job::default() }.run(undisturbed.path()).unwrap();

    let (dir, asked) = (tempfile::tempdir().unwrap(), target(usize::MAX));
    Job { env: world::Words::breaking(2), target: asked.clone(), ..Job::default() }.run(dir.path()).unwrap();
    assert_eq!(files(dir.path()), files(undisturbed.path()));
    let n_calls = |target: &world::Counted| target.n_calls.load(Ordering::Relaxed);
    assert_eq!(n_calls(&asked), n_calls(&whole));

    let dir = tempfile::tempdir().unwrap();
    let error = Job { env: world::Words::breaking(3), ..Job::default() }.run(dir.path()).unwrap_err();
    assert!(matches!(error, PipelineError::Rollout { .. }), "{error:?}");
    assert!(!dir.path().join("runtime_state.json").exists());
}

#[test]
fn a_finished_run_is_summed_up_again_without_a_call() {
    let dir = tempfile::tempdir().unwrap();
    let first = trained(dir.path());
    let before = files(dir.path());
    let silent = target(0);
    let again = Job { target: silent.clone(), ..Job::default() }.run(dir.path()).unwrap();
    assert_eq!((again, files(dir.path())), (first, before));
    assert_eq!(silent.n_calls.load(Ordering::Relaxed), 0);
}

#[test]
fn more_epochs_extend_a_finished_run_and_measure_the_skill_they_found() {
    let dir = tempfile::tempdir().unwrap();
    let short = Job { settings: TrainSettings { epochs: 1, ..settings() }, ..Job::default() }
        .run(dir.path())
        .unwrap();
    let long = Job { settings: TrainSettings { epochs: 3, ..settings() }, ..Job::default() }
        .run(dir.path())
        .unwrap();
    assert_eq!((short.total_steps, long.total_steps), (3, 9));
    assert!(long.best_skill_hash != short.best_skill_hash);
    assert!(long.test_hard > short.test_hard, "the final evaluation belongs to the skill it measured");
    assert_eq!(long.baseline_test_hard, short.baseline_test_hard);
}

#[test]
fn a_candidate_that_is_the_current_skill_is_a_no_op_and_costs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    trained(dir.path());
    let history = read(dir.path().join("history.json"));
    let no_ops: Vec<&Value> =
        history.as_array().unwrap().iter().filter(|record| record["action"] == "skip_no_op").collect();
    assert!(!no_ops.is_empty(), "{:?}", actions(dir.path()));
    for record in no_ops {
        assert_eq!(record["selection_hard"], Value::Null);
        assert_eq!(record["tokens"]["evaluate"], Value::Null);
        let step_dir = dir.path().join(format!("steps/step_{:04}", record["step"].as_u64().unwrap()));
        assert!(!step_dir.join("selection_eval").exists());
    }
    assert!(StepAction::SkipNoOp.is_skip() && !StepAction::SkipNoOp.is_accept());
}

#[test]
fn a_run_of_other_settings_is_refused_by_name() {
    #[track_caller]
    fn check(job: Job, expect: SettingChange) {
        let dir = tempfile::tempdir().unwrap();
        Job { stop_after: 1, ..Job::default() }.run(dir.path()).unwrap_err();
        let before = files(dir.path());
        let changes = changed_settings(job.run(dir.path()));
        assert!(changes.contains(&expect), "{changes:?}");
        assert_eq!(files(dir.path()), before, "a refused run loses nothing");
    }
    let with = |settings| Job { settings, ..Job::default() };
    check(with(TrainSettings { seed: 43, ..settings() }), changed("run.seed", 42, 43));
    check(with(TrainSettings { batch_size: 5, ..settings() }), changed("train.batch_size", 4, 5));
    let gate = skill_core::Gate { metric: skill_core::GateMetric::Soft, ..settings().gate };
    check(with(TrainSettings { gate, ..settings() }), changed("gate.metric", "hard", "soft"));
    check(Job { skill: "# Other\n", ..Job::default() }, SettingChange::InitialSkill);
    let mut fewer = settings();
    fewer.eval_test = false;
    check(
        Job { env: world::Words::without(Split::Test), settings: fewer, ..Job::default() },
        SettingChange::Data { split: "test".to_owned() },
    );
}

#[test]
fn workers_and_epochs_may_change() {
    let dir = tempfile::tempdir().unwrap();
    Job { stop_after: 2, ..Job::default() }.run(dir.path()).unwrap_err();
    let changed = TrainSettings { workers: 3, epochs: 4, ..settings() };
    assert_eq!(Job { settings: changed, ..Job::default() }.run(dir.path()).unwrap().total_steps, 12);
}

#[test]
fn a_split_without_items_is_refused_before_anything_is_written() {
    for split in Split::ALL {
        let dir = tempfile::tempdir().unwrap();
        let run_dir = dir.path().join("run");
        let error = Job { env: world::Words::without(split), ..Job::default() }.run(&run_dir).unwrap_err();
        assert!(
            matches!(error, PipelineError::EmptySplit { split: empty, .. } if empty == split),
            "{error:?}"
        );
        assert!(!run_dir.exists());
    }
}

#[test]
fn a_run_directory_that_cannot_be_used_is_refused() {
    #[track_caller]
    fn check(spoil: impl Fn(&Path), expect: &str) {
        let dir = tempfile::tempdir().unwrap();
        let run_dir = dir.path().join("run");
        Job { stop_after: 2, ..Job::default() }.run(&run_dir).unwrap_err();
        spoil(&run_dir);
        let error = Job::default().run(&run_dir).unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
    }
    let edit = |name: &'static str, from: &'static str, to: &'static str| {
        move |dir: &Path| {
            let text = std::fs::read_to_string(dir.join(name)).unwrap();
            assert!(text.contains(from), "{text}");
            std::fs::write(dir.join(name), text.replace(from, to)).unwrap();
        }
    };
    let newer = "3.0";
    check(edit("runtime_state.json", "\"2.0\"", "\"3.0\""), newer);
    check(edit("config.json", "\"format_version\": \"2.0\"", "\"format_version\": \"3.0\""), newer);
    check(edit("timings.json", "\"2.0\"", "\"3.0\""), newer);
    check(edit("timings.jsonl", "\"2.0\"", "\"3.0\""), newer);
    check(edit("runtime_state.json", "format_version", "version"), "has no `format_version`");
    check(edit("runtime_state.json", "{", "["), "is not JSON");
    let changed = "was changed";
    check(edit("runtime_state.json", "\"last_completed_step\": 2", "\"last_completed_step\": 1"), changed);
    check(edit("config.json", "\"run.seed\": 42", "\"run.seed\": 43"), changed);
    check(edit("steps/step_0002/selection_eval/results.json", "\"hard\": 0", "\"hard\": 1"), changed);
    check(edit("steps/step_0001/trajectory_digest.json", "\"n_fail\": ", "\"n_fail\": 1"), changed);
    check(edit("files.jsonl", "step_0001", "step_0007"), "line 2 is damaged");
    check(|dir: &Path| std::fs::remove_file(dir.join("files.jsonl")).unwrap(), "has 0 of the 3 lines");
    check(edit("skills/skill_v0002.md", "base", "bass"), "skill_v0002.md: has the hash ");
    check(|dir: &Path| std::fs::remove_file(dir.join("skills/skill_v0002.md")).unwrap(), "cannot read");
    check(|dir: &Path| std::fs::remove_file(dir.join("config.json")).unwrap(), "but no config.json");
}

#[test]
fn a_torn_history_is_made_whole_from_the_records_of_its_steps() {
    let whole = tempfile::tempdir().unwrap();
    Job::default().run(whole.path()).unwrap();
    let expect = files(whole.path());
    let spoils: [fn(&str) -> Option<String>; 5] = [
        |lines| lines.strip_suffix("}\n").map(str::to_owned),
        |lines| Some(format!("{lines}{{\"step\": 4, \"epo")),
        |lines| Some(lines.replacen("\"rollout_n\":", "\"rollout_n\":1", 1)),
        |_| Some(String::new()),
        |_| None,
    ];
    for spoil in spoils {
        let dir = tempfile::tempdir().unwrap();
        Job { stop_after: 3, ..Job::default() }.run(dir.path()).unwrap_err();
        let log = dir.path().join("history.jsonl");
        let lines = std::fs::read_to_string(&log).unwrap();
        assert_eq!(lines.lines().count(), 3);
        match spoil(&lines) {
            Some(spoilt) => std::fs::write(&log, spoilt).unwrap(),
            None => std::fs::remove_file(&log).unwrap(),
        }
        Job::default().run(dir.path()).unwrap();
        assert!(files(dir.path()) == expect, "{lines}");
    }
    // Neither the line nor the record is as the run left it.
    let dir = tempfile::tempdir().unwrap();
    Job { stop_after: 3, ..Job::default() }.run(dir.path()).unwrap_err();
    std::fs::write(dir.path().join("history.jsonl"), "").unwrap();
    let record = dir.path().join("steps/step_0002/step_record.json");
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text.replace("\"step\": 2", "\"step\":  2")).unwrap();
    let error = Job::default().run(dir.path()).unwrap_err();
    assert!(matches!(&error, PipelineError::ChangedFile { path } if *path == record), "{error:?}");
}

#[test]
fn a_run_directory_below_a_file_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    let error = Job::default().run(&dir.path().join("file/run")).unwrap_err();
    assert!(matches!(error, PipelineError::RunDir { action: "create", .. }), "{error:?}");
}

#[test]
fn a_second_process_on_the_same_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let held = skill_pipeline::run_dir::RunDir::open(dir.path()).unwrap();
    let error = Job::default().run(dir.path()).unwrap_err();
    assert!(matches!(error, PipelineError::Locked { .. }), "{error:?}");
    drop(held);
    trained(dir.path());
}

#[test]
fn training_can_be_spawned() {
    fn is_send(_: impl Send) {}
    let trainer =
        skill_pipeline::Trainer::new(std::sync::Arc::new(world::Words::new()), target(0), world::optimizer());
    is_send(async move { trainer.train(Path::new("never")).await });
}

#[test]
fn the_test_split_is_not_read_before_the_last_step_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let asked = target(usize::MAX);
    let stopped = Job { target: asked.clone(), stop_after: 6, ..Job::default() }.run(dir.path());
    assert!(matches!(stopped, Err(PipelineError::Stopped { last_step: 6, .. })), "{stopped:?}");
    assert!(!dir.path().join("test_eval_baseline").exists());
    let lines = std::fs::read_to_string(dir.path().join("history.jsonl")).unwrap();
    assert!(!dir.path().join("history.json").exists(), "it is written at the end");
    let history: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let calls_of = |record: &Value, stage: &str| record["tokens"][stage]["calls"].as_u64().unwrap_or(0);
    let n_training_calls: u64 =
        history.iter().map(|record| calls_of(record, "rollout") + calls_of(record, "evaluate")).sum();
    assert_eq!(asked.n_calls.load(Ordering::Relaxed) as u64, 10 + n_training_calls);
}

#[test]
fn a_baseline_of_exactly_zero_is_measured_and_not_measured_again() {
    let dir = tempfile::tempdir().unwrap();
    // The baseline takes 10 calls; the first call of the first step fails.
    Job { target: target(10), ..Job::default() }.run(dir.path()).unwrap_err();
    assert_eq!(read(dir.path().join("runtime_state.json"))["current_score"], 0.0);
    let (whole, rest) = (target(usize::MAX), target(usize::MAX));
    Job { target: whole.clone(), ..Job::default() }.run(tempfile::tempdir().unwrap().path()).unwrap();
    Job { target: rest.clone(), ..Job::default() }.run(dir.path()).unwrap();
    let n_calls = |target: &world::Counted| target.n_calls.load(Ordering::Relaxed);
    assert_eq!(n_calls(&rest), n_calls(&whole) - 10);
}

#[test]
fn a_candidate_that_returns_is_not_measured_again() {
    let stubborn = || Job { optimizer: world::stubborn_optimizer(), ..Job::default() };
    let whole = tempfile::tempdir().unwrap();
    let asked = target(usize::MAX);
    Job { target: asked.clone(), ..stubborn() }.run(whole.path()).unwrap();
    let history = read(whole.path().join("history.json"));
    assert_eq!(history[0]["selection_from_step"], Value::Null);
    for record in history.as_array().unwrap().iter().skip(1) {
        assert_eq!((&record["action"], &record["selection_from_step"]), (&"reject".into(), &1.into()));
    }
    // The baseline, two epochs of 10 training items, one evaluation, and the initial skill on the test split.
    assert_eq!(asked.n_calls.load(Ordering::Relaxed), 10 + 20 + 10 + 10);

    let resumed = tempfile::tempdir().unwrap();
    Job { stop_after: 2, ..stubborn() }.run(resumed.path()).unwrap_err();
    stubborn().run(resumed.path()).unwrap();
    assert_eq!(files(resumed.path()), files(whole.path()));
}

#[test]
fn a_candidate_that_cannot_win_is_rejected_before_every_item_is_measured() {
    // Nine of ten words are known: only one item is left to win.
    let skill = "# Skill alpha bravo charlie delta echo foxtrot golf hotel india\n";
    let stubborn = |early_stop| Job {
        skill,
        optimizer: world::stubborn_optimizer(),
        settings: TrainSettings { early_stop, ..settings() },
        ..Job::default()
    };
    let (early, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let asked = target(usize::MAX);
    Job { target: asked.clone(), ..stubborn(EarlyStop::Exact) }.run(early.path()).unwrap();
    stubborn(EarlyStop::Off).run(whole.path()).unwrap();
    assert_eq!(actions(early.path()), actions(whole.path()));

    let record = read(early.path().join("steps/step_0001/step_record.json"));
    assert_eq!((&record["selection_n_seen"], &record["selection_n"]), (&1.into(), &10.into()));
    assert_eq!(record["selection_interval"], serde_json::json!([0.0, 0.9]));
    assert_eq!((&record["selection_hard"], &record["candidate_gate_score"]), (&Value::Null, &Value::Null));
    assert_eq!(record["tokens"]["evaluate"]["calls"], 1, "what is beyond the prefix enters no file");
    let summary = read(early.path().join("steps/step_0001/selection_eval/summary.json"));
    assert_eq!((&summary["hard"], &summary["n_seen"]), (&Value::Null, &1.into()));
    // The same candidate comes back in each step, and its one result is known.
    let history = read(early.path().join("history.json"));
    for record in history.as_array().unwrap().iter().skip(1) {
        assert_eq!((&record["selection_from_step"], &record["selection_n_seen"]), (&1.into(), &1.into()));
    }
    let in_flight = 8;
    assert!(asked.n_calls.load(Ordering::Relaxed) < 10 + 20 + 1 + in_flight + 10);
}

#[test]
fn early_rejection_changes_no_decision() {
    let [early, whole] = [EarlyStop::Exact, EarlyStop::Off].map(|early_stop| {
        let dir = tempfile::tempdir().unwrap();
        let summary =
            Job { settings: TrainSettings { early_stop, epochs: 4, ..settings() }, ..Job::default() }
                .run(dir.path())
                .unwrap();
        (actions(dir.path()), summary.best_skill_hash, summary.current_selection_score)
    });
    assert_eq!(early, whole);
}

#[test]
fn files_that_a_killed_process_left_half_written_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    Job { stop_after: 1, ..Job::default() }.run(dir.path()).unwrap_err();
    let other_run = dir.path().join("other");
    std::fs::create_dir(&other_run).unwrap();
    for place in [
        ".writing-a1B2c3",
        "skills/.writing-b2C3d4",
        "baseline_selection_eval/.writing-c3D4e5",
        "skills/.writing-notes.md",
        "other/run.lock",
        "other/.writing-d4E5f6",
    ] {
        std::fs::write(dir.path().join(place), "half").unwrap();
    }
    trained(dir.path());
    let left: Vec<String> = files(dir.path()).into_keys().filter(|name| name.contains(".writing-")).collect();
    assert_eq!(left, ["other/.writing-d4E5f6", "skills/.writing-notes.md"], "what is not of this run stays");
}

#[test]
fn nothing_is_removed_below_a_directory_that_is_no_run() {
    let dir = tempfile::tempdir().unwrap();
    let mine = dir.path().join("skills/.writing-a1B2c3");
    std::fs::create_dir(dir.path().join("skills")).unwrap();
    std::fs::write(&mine, "mine").unwrap();
    let error = Job::default().run(dir.path()).unwrap_err();
    assert!(matches!(error, PipelineError::NotARun { found: "skills", .. }), "{error:?}");
    assert_eq!(std::fs::read_to_string(mine).unwrap(), "mine");
}

#[test]
fn a_directory_of_other_files_is_not_taken_for_a_run() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("best_skill.md"), "mine").unwrap();
    let error = Job::default().run(dir.path()).unwrap_err();
    assert!(matches!(error, PipelineError::NotARun { found: "best_skill.md", .. }), "{error:?}");
    assert_eq!(std::fs::read_to_string(dir.path().join("best_skill.md")).unwrap(), "mine");
}

#[test]
fn settings_may_be_mended_until_something_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    Job { target: target(0), ..Job::default() }.run(dir.path()).unwrap_err();
    Job { settings: TrainSettings { batch_size: 5, ..settings() }, ..Job::default() }
        .run(dir.path())
        .unwrap();
}

#[test]
fn a_run_is_not_made_shorter_than_it_is() {
    let dir = tempfile::tempdir().unwrap();
    trained(dir.path());
    let before = files(dir.path());
    let shorter = TrainSettings { epochs: 1, ..settings() };
    let error = Job { settings: shorter, ..Job::default() }.run(dir.path()).unwrap_err();
    let fewer = SettingsError::FewerSteps { epochs: 1, total_steps: 3, finished_steps: 6 };
    assert!(matches!(error, PipelineError::Settings(error) if error == fewer));
    assert_eq!(files(dir.path()), before);
}

#[test]
fn a_lost_best_skill_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    trained(dir.path());
    let before = files(dir.path());
    std::fs::remove_file(dir.path().join("best_skill.md")).unwrap();
    trained(dir.path());
    assert_eq!(files(dir.path()), before);
}
