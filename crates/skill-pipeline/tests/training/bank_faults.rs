//! Runs that train a bank and are stopped, killed or changed by a person between two processes.

use crate::banks::{Run, bank_settings, opens, record, teaches};
use crate::damages::assert_every_damage_is_named;
use crate::run_files::files;
use crate::world::{Counted, Job, changed, counted};
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_bank::retrieve::{Retrieval, RetrievalSettings};
use skill_bank::task_type::TypeTable;
use skill_bank::{
    Author, Bank, BankEvent, Basis, Content, Evidence, Reason, SkillProvenance, SkillRef, State, Tier,
};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{JournalOptions, JournalReader, Role};
use skill_pipeline::bank_dir::{BankDir, read_bank};
use skill_pipeline::kind::RunKind;
use skill_pipeline::run_dir::check::check;
use skill_pipeline::{Event, PipelineError, Stage, StopSignal, Trainer};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A journal that commits nothing before somebody waits for it.
fn lazy_journal() -> JournalOptions {
    JournalOptions {
        group_window: Duration::from_secs(3600),
        max_group: usize::MAX,
        ..JournalOptions::default()
    }
}

/// A kill at a moment when the log has an event leaves a journal with everything that led to it.
#[test]
fn an_event_of_the_bank_comes_after_the_replies_that_it_follows_from() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    let n_answered = Arc::new(AtomicUsize::new(0));
    let n_seen = Arc::clone(&n_answered);
    let target = ScriptedModel::answering("target", move |request| {
        n_seen.fetch_add(1, Ordering::Relaxed);
        opens(request)
    });
    let found: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
    let seen = Arc::clone(&found);
    let run = Run {
        target: counted(target, usize::MAX, Value::Null),
        base: Box::new(move |base| {
            let (path, seen, n_answered) = (path.clone(), Arc::clone(&seen), Arc::clone(&n_answered));
            let sink = move |event: &Event| {
                if matches!(event, Event::TrialStarted { .. }) {
                    let journal = JournalReader::open(&path.join("journal.sqlite")).unwrap();
                    let kept = journal.totals().unwrap().replies;
                    let n_target = n_answered.load(Ordering::Relaxed) as u64;
                    seen.lock().push((kept, n_target));
                }
            };
            base.with_journal_options(lazy_journal()).with_events(Arc::new(sink))
        }),
        ..Run::default()
    };
    run.run(dir.path()).unwrap();
    let found = found.lock();
    assert!(found.len() > 2);
    for (kept, n_target) in found.iter() {
        // The calls of the teacher are kept too.
        assert!(kept > n_target, "{kept} of more than {n_target}");
    }
}

/// A target that answers so many calls.
pub(crate) fn breaking_target(n_replies: usize) -> Arc<Counted> {
    counted(ScriptedModel::answering("target", opens), n_replies, Value::Null)
}

/// A run that an outage ended after its first replies, before any round was finished.
fn begun(dir: &Path) {
    let run = Run { target: breaking_target(3), ..Run::default() };
    run.run(dir).unwrap_err();
    assert!(dir.join("bank/log.jsonl").exists() && !dir.join("rounds").exists());
}

#[test]
fn other_settings_are_refused_before_the_first_round_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    begun(dir.path());
    let before = files(dir.path());
    let error = Run { seed: 43, ..Run::default() }.run(dir.path()).unwrap_err();
    assert!(matches!(error, PipelineError::Mismatch { .. }), "{error}");
    assert_eq!(files(dir.path()), before);
    Run::default().run(dir.path()).unwrap();
}

#[test]
fn a_bank_is_not_trained_where_a_document_is_nor_the_other_way_around() {
    let dir = tempfile::tempdir().unwrap();
    begun(dir.path());
    let before = files(dir.path());
    let PipelineError::Mismatch { changes, .. } = Job::default().run(dir.path()).unwrap_err() else {
        panic!()
    };
    assert_eq!(changes, [changed("train.mode", "bank", "document")]);
    // By the names of the files alone, where a run does not say what it trains.
    let config = dir.path().join("config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["identity"].as_object_mut().unwrap().remove("train.mode").unwrap();
    std::fs::write(&config, value.to_string()).unwrap();
    let error = Job::default().run(dir.path()).unwrap_err();
    assert!(matches!(error, PipelineError::Mismatch { .. }), "{error}");
    std::fs::write(&config, text).unwrap();
    assert_eq!(files(dir.path()), before);
    // By what it says alone, where its log is gone.
    Run::default().run(dir.path()).unwrap();
    std::fs::remove_file(dir.path().join("bank/log.jsonl")).unwrap();
    let error = Job::default().run(dir.path()).unwrap_err();
    assert!(matches!(error, PipelineError::Mismatch { .. }), "{error}");

    let dir = tempfile::tempdir().unwrap();
    Job { stop_after: 1, ..Job::default() }.run(dir.path()).unwrap_err();
    let before = files(dir.path());
    let PipelineError::Mismatch { changes, .. } = Run::default().run(dir.path()).unwrap_err() else {
        panic!()
    };
    assert_eq!(changes, [changed("train.mode", "document", "bank")]);
    assert_eq!(files(dir.path()), before);
}

#[test]
fn nothing_else_is_trained_where_weights_are() {
    for kind in [RunKind::Sft, RunKind::Rl, RunKind::Phases] {
        let dir = tempfile::tempdir().unwrap();
        begun(dir.path());
        std::fs::remove_dir_all(dir.path().join("bank")).unwrap();
        let config = dir.path().join("config.json");
        let mut value: Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
        value["identity"]["train.mode"] = json!(kind.as_str());
        value.as_object_mut().unwrap().remove("checksum");
        std::fs::write(&config, value.to_string()).unwrap();
        let before = files(dir.path());
        let bank = (Run::default().run(dir.path()).unwrap_err(), json!("bank"));
        for (error, is) in [bank, (Job::default().run(dir.path()).unwrap_err(), json!("document"))] {
            let PipelineError::Mismatch { changes, .. } = error else { panic!("{kind:?}: {error}") };
            assert_eq!(changes, [changed("train.mode", kind.as_str(), is)]);
        }
        assert_eq!(files(dir.path()), before);
    }
}

/// A run that an outage ended in the middle of its first trial; returns the candidate of it.
fn begun_trial(dir: &Path) -> SkillRef {
    // The baseline takes 6 calls and the first episodes 16.
    Run { target: breaking_target(30), ..Run::default() }.run(dir).unwrap_err();
    match &read_bank(&dir.join("bank")).unwrap().bank.log().last().unwrap().event {
        BankEvent::TrialOpened { skill, .. } => skill.clone(),
        other => panic!("{other:?}"),
    }
}

fn as_person(dir: &Path, event: BankEvent) {
    BankDir::open(&dir.join("bank")).unwrap().record(0, Author::Person, [event]).unwrap();
}

#[test]
fn a_trial_ends_with_a_problem_where_a_person_has_retired_its_candidate() {
    let dir = tempfile::tempdir().unwrap();
    let candidate = begun_trial(dir.path());
    as_person(dir.path(), BankEvent::Retired { skill: candidate.clone(), reason: Reason::Person });
    Run::default().run(dir.path()).unwrap();
    let trials = record(dir.path(), 0).trials;
    assert_eq!((&trials[0].skill, trials[0].rollouts), (&candidate, 0));
    assert!(trials[0].problem.is_some() && trials[0].decision.is_none(), "{:?}", trials[0]);
    let bank = read_bank(&dir.path().join("bank")).unwrap().bank;
    assert_eq!(bank.version(&candidate).unwrap().state, State::Retired);
    let again = Run::default();
    again.run(dir.path()).unwrap();
    assert_eq!(again.n_calls(), 0);
}

/// A bank with one active skill that was never measured.
fn unmeasured_bank() -> (Bank, SkillRef) {
    let mut bank = Bank::new();
    let tier = Tier::of_type("stuck");
    let skill = bank.next_skill(&tier);
    let content = Content::principle("Knock", "Knock twice and wait.", "At a door.");
    let proposed =
        BankEvent::proposed(skill.clone(), tier, content, SkillProvenance::Person, Evidence::default());
    bank.record(0, Author::Person, proposed).unwrap();
    let admitted = BankEvent::Admitted { skill: skill.clone(), basis: Basis::Unmeasured };
    bank.record(0, Author::Person, admitted).unwrap();
    (bank, skill)
}

/// A run whose teacher asks for the retirement of an active skill, which its trial then does.
fn retiring(n_replies: usize) -> (Run, SkillRef) {
    let (bank, skill) = unmeasured_bank();
    let reply = json!({"changes": [{"op": "retire", "id": skill.skill}]}).to_string();
    let teacher = ScriptedModel::answering("teacher", move |_| reply.clone());
    let mut settings = bank_settings();
    (settings.rounds, settings.hide_share) = (1, 0.0);
    let run = Run {
        target: breaking_target(n_replies),
        teacher: counted(teacher, usize::MAX, Value::Null),
        bank: settings,
        trainer: Box::new(move |trainer| trainer.with_initial_bank(bank.clone(), None)),
        ..Run::default()
    };
    (run, skill)
}

#[test]
fn the_retirement_of_a_skill_ends_with_a_problem_where_a_person_has_pinned_it() {
    let undisturbed = tempfile::tempdir().unwrap();
    let (run, skill) = retiring(usize::MAX);
    run.run(undisturbed.path()).unwrap();
    let state = |dir: &Path| read_bank(&dir.join("bank")).unwrap().bank.version(&skill).unwrap().state;
    assert_eq!(
        (state(undisturbed.path()), record(undisturbed.path(), 1).retired),
        (State::Retired, vec![skill.clone()])
    );

    let opens_trial = |dir: &Path| {
        let bank = read_bank(&dir.join("bank")).unwrap().bank;
        matches!(bank.log().last().unwrap().event, BankEvent::TrialOpened { .. })
    };
    // One process ends in the trial, and the other between its measurement and its verdict.
    let dir = tempfile::tempdir().unwrap();
    retiring(50).0.run(dir.path()).unwrap_err();
    assert!(opens_trial(dir.path()));
    as_person(dir.path(), BankEvent::Pinned { skill: skill.skill.clone() });
    retiring(usize::MAX).0.run(dir.path()).unwrap();
    let trial = record(dir.path(), 1).trials.remove(0);
    assert_eq!((state(dir.path()), trial.rollouts), (State::Active, 0));
    assert!(trial.problem.is_some() && trial.decision.is_none(), "{trial:?}");

    let dir = tempfile::tempdir().unwrap();
    retiring(usize::MAX).0.run(dir.path()).unwrap();
    cut_log(dir.path(), |event| matches!(event, BankEvent::Retired { .. }));
    as_person(dir.path(), BankEvent::Pinned { skill: skill.skill.clone() });
    let (again, _) = retiring(usize::MAX);
    again.run(dir.path()).unwrap();
    let trial = record(dir.path(), 1).trials.remove(0);
    assert_eq!((state(dir.path()), again.n_calls()), (State::Active, 6), "the bank differs at the end");
    assert!(trial.problem.is_some() && trial.decision.is_some(), "{trial:?}");
}

/// Leaves the log of a run as a kill before the first of such events does.
fn cut_log(dir: &Path, is_lost: impl Fn(&BankEvent) -> bool) {
    let path = dir.join("bank/log.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let bank = Bank::from_log(&text).unwrap();
    let n_kept = bank.log().iter().position(|record| is_lost(&record.event)).unwrap();
    let kept: String = text.split_inclusive('\n').take(1 + n_kept).collect();
    std::fs::write(path, kept).unwrap();
    // It is written after the events that it counts.
    std::fs::remove_file(dir.join("bank/measurements.json")).unwrap();
}

#[test]
fn what_a_person_does_between_two_events_of_one_step_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    begun_trial(dir.path());
    // The teacher's proposals are written together; a full disk may leave the first one alone.
    let n_seen = std::cell::Cell::new(0);
    cut_log(dir.path(), |event| {
        n_seen.set(n_seen.get() + usize::from(matches!(event, BankEvent::Proposed { .. })));
        n_seen.get() == 2
    });
    let left = read_bank(&dir.path().join("bank")).unwrap().bank;
    assert_eq!(left.skills().len(), 1);
    let first = left.skills().next().unwrap().id.clone();
    as_person(dir.path(), BankEvent::Pinned { skill: first.clone() });
    Run::default().run(dir.path()).unwrap();
    let bank = read_bank(&dir.path().join("bank")).unwrap().bank;
    assert!(bank.skill(&first).unwrap().is_pinned && bank.skills().len() > 3);
}

#[test]
fn a_reply_of_the_teacher_that_cannot_be_read_costs_one_round_of_changes() {
    let dir = tempfile::tempdir().unwrap();
    let teacher = ScriptedModel::answering("teacher", |request| match request.text_of(Role::User) {
        asked if asked.contains("Weak types") => "I would rather not.".to_owned(),
        _ => teaches(request),
    });
    let run = Run { teacher: counted(teacher, usize::MAX, Value::Null), ..Run::default() };
    run.run(dir.path()).unwrap();
    let record = record(dir.path(), 1);
    assert!(!record.weak.is_empty() && record.proposed.is_empty());
    assert_eq!(record.notes.len(), 1, "{:?}", record.notes);
    assert_eq!(record.tokens["evolve"].calls, 2, "the reply and its repair");
    assert!(record.trials.iter().all(|trial| trial.problem.is_none()) && record.validation.is_none());
}

#[test]
fn the_hint_about_a_teacher_names_another_directory_and_another_teacher() {
    let dir = tempfile::tempdir().unwrap();
    let teacher = ScriptedModel::answering("teacher", |_| "I would rather not.".to_owned());
    let run = Run { teacher: counted(teacher, usize::MAX, Value::Null), ..Run::default() };
    let error = run.run(dir.path()).unwrap_err();
    assert!(matches!(error, PipelineError::Teacher { .. }));
    assert!(error.hint().contains("another directory") && error.hint().contains("another teacher"));
}

#[test]
fn the_initial_bank_and_retrieval_with_its_table_of_types_are_of_the_identity() {
    let candidate = || {
        let mut bank = unmeasured_bank().0;
        let BankEvent::Proposed { tier, content, source, parents, evidence, .. } =
            bank.log()[0].event.clone()
        else {
            panic!()
        };
        let skill = bank.next_skill(&tier);
        bank.record(
            0,
            Author::Person,
            BankEvent::Proposed { skill, tier, content, source, parents, evidence },
        )
        .unwrap();
        bank
    };
    assert_eq!(
        unmeasured_bank().0.view().version(),
        candidate().view().version(),
        "what is shown is the same"
    );
    let with_bank = |bank: Bank| Run {
        trainer: Box::new(move |trainer| trainer.with_initial_bank(bank.clone(), None)),
        ..Run::default()
    };
    let types = TypeTable::from_json(r#"{"families": []}"#).unwrap();
    let retrieval = |change: fn(&mut RetrievalSettings)| {
        let mut settings = RetrievalSettings::default();
        change(&mut settings);
        Retrieval::new(settings).unwrap()
    };
    let other_top_k = Run { retrieval: retrieval(|settings| settings.top_k = 3), ..Run::default() };
    let other_types = Run { retrieval: retrieval(|_| {}).with_types(types), ..Run::default() };
    for (first, other, name) in [
        (with_bank(unmeasured_bank().0), with_bank(candidate()), "`bank.initial`"),
        (Run::default(), other_top_k, "(settings)"),
        (Run::default(), other_types, "(types)"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        Run { target: breaking_target(3), ..first }.run(dir.path()).unwrap_err();
        let PipelineError::Mismatch { changes, .. } = other.run(dir.path()).unwrap_err() else {
            panic!("{name}")
        };
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert!(changes[0].to_string().contains(name), "{}", changes[0]);
    }
}

#[test]
fn a_run_warns_while_a_provider_goes_on_failing() {
    let dir = tempfile::tempdir().unwrap();
    let warned: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&warned);
    let run = Run {
        base: Box::new(move |base| {
            let seen = Arc::clone(&seen);
            let sink = move |event: &Event| {
                if let Event::Warning { message, .. } = event {
                    seen.lock().push(message.clone());
                }
            };
            base.with_trouble(Arc::new(|| Some("HTTP 500".to_owned()))).with_events(Arc::new(sink))
        }),
        takes: Duration::from_millis(100),
        ..Run::default()
    };
    run.run(dir.path()).unwrap();
    assert!(warned.lock().contains(&"HTTP 500".to_owned()));
}

/// Whether an event is the one at which something happens.
type IsThen = fn(&Event) -> bool;

/// When a run is told to stop, how, and the round that its error names.
type StopCase = (&'static str, fn(&StopSignal), IsThen, u32);

/// A run that is told to stop when an event comes.
fn stopped_at(run: Run, how: fn(&StopSignal), is_then: IsThen) -> Run {
    let stop = StopSignal::default();
    let base = Box::new(move |base: Trainer| {
        let stop = stop.clone();
        let of_run = stop.clone();
        let sink = move |event: &Event| {
            if is_then(event) {
                how(&stop);
            }
        };
        base.with_stop(of_run).with_events(Arc::new(sink))
    });
    Run { base, ..run }
}

#[test]
fn a_stop_names_the_last_round_that_was_finished() {
    let after_step = |stop: &StopSignal| stop.after_step.cancel();
    let soon = |stop: &StopSignal| stop.soon.cancel();
    let undisturbed = tempfile::tempdir().unwrap();
    Run::default().run(undisturbed.path()).unwrap();
    let cases: [StopCase; 5] = [
        ("in the baseline", soon, |event| matches!(event, Event::StageProgress { .. }), 0),
        ("in the first trial", after_step, |event| matches!(event, Event::TrialStarted { .. }), 0),
        (
            "after round 0",
            after_step,
            |event| matches!(event, Event::RoundFinished { record } if record.round == 0),
            0,
        ),
        (
            "after round 1",
            after_step,
            |event| matches!(event, Event::RoundFinished { record } if record.round == 1),
            1,
        ),
        (
            "in round 2",
            soon,
            |event| matches!(event, Event::StageFinished { step: Some(step), .. } if step.0 == 2),
            1,
        ),
    ];
    for (when, how, is_then, expect) in cases {
        let dir = tempfile::tempdir().unwrap();
        let error = stopped_at(Run::default(), how, is_then).run(dir.path()).unwrap_err();
        let PipelineError::Stopped { last_step, total_steps } = error else { panic!("{when}: {error:?}") };
        assert_eq!((last_step, total_steps), (expect, 2), "{when}");
        Run::default().run(dir.path()).unwrap();
        assert_eq!(files(dir.path()), files(undisturbed.path()), "{when}");
    }
}

#[test]
fn no_retirement_is_tried_after_a_request_to_stop() {
    let dir = tempfile::tempdir().unwrap();
    let (run, _) = retiring(usize::MAX);
    let is_then = |event: &Event| matches!(event, Event::StageFinished { stage: Stage::Evolve, .. });
    let error = stopped_at(run, |stop| stop.after_step.cancel(), is_then).run(dir.path()).unwrap_err();
    assert!(matches!(error, PipelineError::Stopped { last_step: 0, total_steps: 1 }), "{error:?}");
    let bank = read_bank(&dir.path().join("bank")).unwrap().bank;
    assert!(!bank.log().iter().any(|record| matches!(record.event, BankEvent::TrialOpened { .. })));
}

#[test]
fn every_damage_to_a_run_of_a_bank_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (run, half) = (dir.path().join("run"), dir.path().join("half"));
    Run::default().run(&run).unwrap();
    let n_damaged = assert_every_damage_is_named(&run, &[]);
    assert!(n_damaged > 120, "{n_damaged}");
    // An outage in the second round, behind the first one.
    begun_trial(&half);
    assert_eq!(check(&half).unwrap().damage, []);
}

#[test]
fn a_run_is_whole_wherever_an_outage_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    for n_replies in (0..400).step_by(40) {
        let run = dir.path().join(n_replies.to_string());
        let ended = Run { target: breaking_target(n_replies), ..Run::default() }.run(&run);
        let found = check(&run).unwrap();
        assert_eq!(found.damage, [], "{n_replies}: {ended:?}");
        Run::default().run(&run).unwrap();
        let found = check(&run).unwrap();
        assert_eq!(found.damage, [], "{n_replies}");
    }
}
