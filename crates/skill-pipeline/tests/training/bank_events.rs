//! What can be followed of a run that trains a bank while it goes on.

use crate::banks::{Run, record};
use parking_lot::Mutex;
use skill_bank::trial::TrialNumbers;
use skill_bank::{Author, BankEvent, Reason, TrialVerdict};
use skill_core::stats::stratified::TrialRule;
use skill_pipeline::bank::{Admission, TrialKind};
use skill_pipeline::bank_dir::BankDir;
use skill_pipeline::event::Activation;
use skill_pipeline::records::bank::{BankSummary, RoundRecord};
use skill_pipeline::run_dir::bank_progress::BankProgress;
use skill_pipeline::run_dir::live::{LiveEvents, LiveState, Pulse};
use skill_pipeline::{Event, EventSink, RunReader, Stage};
use std::path::Path;
use std::sync::Arc;

/// Keeps all events.
#[derive(Default)]
struct Kept(Mutex<Vec<Event>>);

impl EventSink for Kept {
    fn emit(&self, event: &Event) {
        self.0.lock().push(event.clone());
    }
}

fn followed(dir: &Path, run: &Run) -> (BankSummary, Vec<Event>) {
    let kept = Arc::new(Kept::default());
    let summary = run.follow(dir, Arc::clone(&kept) as Arc<dyn EventSink>).unwrap();
    (summary, std::mem::take(&mut *kept.0.lock()))
}

fn records(dir: &Path) -> Vec<RoundRecord> {
    (0..=2).map(|round| record(dir, round)).collect()
}

#[test]
fn rounds_and_proposals_are_told_when_they_come() {
    let dir = tempfile::tempdir().unwrap();
    let (_, events) = followed(dir.path(), &Run::default());
    let told: Vec<String> = events
        .iter()
        .filter_map(|event| match event {
            Event::RoundStarted { round, rounds, .. } => Some(format!("round {round} of {rounds}")),
            Event::StageStarted { stage: stage @ (Stage::Distill | Stage::Evolve), total, .. } => {
                assert!(*total > 0);
                Some(stage.as_str().to_owned())
            }
            Event::SkillsProposed { round, stage, skills, weak, .. } => {
                let of_round = record(dir.path(), *round);
                let proposed: Vec<_> = skills.iter().map(|named| named.skill.clone()).collect();
                assert_eq!((&proposed, weak), (&of_round.proposed, &of_round.weak));
                assert!(skills.iter().all(|named| !named.title.is_empty() && !named.tier.is_empty()));
                Some(format!("proposed by {}", stage.as_str()))
            }
            Event::BankValidated { round, score, n_items, n_active, .. } => {
                let of_round = record(dir.path(), *round);
                let validation = of_round.validation.unwrap();
                assert_eq!((*score, *n_items), (validation.score, validation.n));
                assert_eq!(*n_active, of_round.n_active);
                Some("validated".to_owned())
            }
            Event::RoundFinished { record } => Some(format!("end of {}", record.round)),
            _ => None,
        })
        .collect();
    let expect = [
        "round 0 of 2",
        "distill",
        "proposed by distill",
        "validated",
        "end of 0",
        "round 1 of 2",
        "evolve",
        "proposed by evolve",
        "end of 1",
        "round 2 of 2",
        "validated",
        "end of 2",
    ];
    assert_eq!(told, expect);
}

#[test]
fn a_trial_is_told_with_its_plan_each_of_its_passes_and_what_it_came_to() {
    for kind in [TrialKind::AnyTime, TrialKind::FixedEnd] {
        let dir = tempfile::tempdir().unwrap();
        let mut run = Run::default();
        run.bank.trial = kind;
        let (summary, events) = followed(dir.path(), &run);
        let mut n_decided = 0;
        for trial in records(dir.path()).iter().flat_map(|round| &round.trials) {
            let number = trial.trial;
            let started = events.iter().find_map(|event| match event {
                Event::TrialStarted { trial, max_rollouts, rule, preflight, n_items, .. }
                    if *trial == number =>
                {
                    Some((*max_rollouts, *rule, preflight, *n_items))
                }
                _ => None,
            });
            let Some((max_rollouts, rule, preflight, n_items)) = started else {
                assert!(trial.problem.is_some(), "only what cannot be tried is not: {trial:?}");
                continue;
            };
            assert_eq!(matches!(rule, TrialRule::AnyTime { .. }), kind == TrialKind::AnyTime);
            assert_eq!((Some(preflight), n_items), (trial.preflight.as_ref(), trial.items.len()));
            let passes: Vec<(u64, bool, TrialNumbers)> = events
                .iter()
                .filter_map(|event| match event {
                    Event::TrialMeasured { trial, rollouts, is_look, numbers, .. } if *trial == number => {
                        Some((*rollouts, *is_look, **numbers))
                    }
                    _ => None,
                })
                .collect();
            assert!(passes.is_sorted_by(|one, next| one.0 < next.0), "{passes:?}");
            let (rollouts, is_look, numbers) = *passes.last().unwrap();
            assert!(rollouts <= max_rollouts);
            if let Some(decision) = &trial.decision {
                assert_eq!(numbers, decision.numbers);
                if decision.verdict == TrialVerdict::Admit {
                    assert!(is_look && trial.fresh.is_some());
                }
                n_decided += 1;
            }
            let fresh = events.iter().find_map(|event| match event {
                Event::FreshStarted { trial, n_rollouts, .. } if *trial == number => Some(*n_rollouts),
                _ => None,
            });
            assert_eq!(fresh.is_some(), trial.fresh.is_some());
            assert_eq!(rollouts + fresh.unwrap_or_default(), trial.rollouts);
        }
        assert!(n_decided > 2 && summary.trials[1] > 0, "{n_decided} of {:?}", summary.trials);
    }
}

#[test]
fn each_skill_that_becomes_active_or_is_retired_is_told_once() {
    for admission in [Admission::Measured, Admission::Unmeasured] {
        let dir = tempfile::tempdir().unwrap();
        let mut run = Run::default();
        run.bank.admission = admission;
        let (summary, events) = followed(dir.path(), &run);
        let (mut admitted, mut retired, mut last) = (Vec::new(), Vec::new(), 0);
        for event in &events {
            match event {
                Event::SkillAdmitted { skill, how, n_active, .. } => {
                    assert_eq!(*how, Activation::Admitted);
                    admitted.push(skill.skill.clone());
                    last = *n_active;
                }
                Event::SkillRetired { skill, n_active, .. } => {
                    retired.push(skill.skill.clone());
                    last = *n_active;
                }
                _ => {}
            }
        }
        let of = |which: fn(&RoundRecord) -> &Vec<_>| {
            records(dir.path()).iter().flat_map(|round| which(round).clone()).collect::<Vec<_>>()
        };
        assert_eq!(admitted, of(|round| &round.admitted));
        assert_eq!(retired, of(|round| &round.retired));
        assert!(!admitted.is_empty());
        assert_eq!(last, summary.active);
        // A process that comes to the same again tells it again, in the same order.
        let (_, again) = followed(dir.path(), &run);
        let changes = |events: &[Event]| {
            let is_change =
                |event: &&Event| matches!(event, Event::SkillAdmitted { .. } | Event::SkillRetired { .. });
            events.iter().filter(is_change).cloned().collect::<Vec<_>>()
        };
        assert_eq!(changes(&again), changes(&events));
    }
}

#[test]
fn what_a_person_retires_is_told_by_the_process_that_finds_it() {
    let dir = tempfile::tempdir().unwrap();
    let run = Run::default();
    run.run(dir.path()).unwrap();
    let mut bank = BankDir::open(&dir.path().join("bank")).unwrap();
    let active = bank.bank().view().skills()[0].id.clone();
    let retired = BankEvent::Retired { skill: active.clone(), reason: Reason::Person };
    bank.record(2, Author::Person, [retired]).unwrap();
    drop(bank);
    let (_, events) = followed(dir.path(), &run);
    let told: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::SkillRetired { skill, reason, by: Author::Person, n_active, .. } => {
                Some((skill.skill.clone(), *reason, *n_active))
            }
            _ => None,
        })
        .collect();
    assert_eq!(told, [(active, Reason::Person, 1)]);
}

/// Looks at the run from outside at every event.
struct Onlooker {
    inner: LiveEvents,
    seen: Mutex<BankProgress>,
    most_active: Mutex<usize>,
}

impl EventSink for Onlooker {
    fn emit(&self, event: &Event) {
        self.inner.emit(event);
        let mut seen = self.seen.lock();
        seen.apply(event);
        if let Event::TrialMeasured { trial, rollouts, numbers, .. } = event {
            let now = seen.trial.as_ref().unwrap();
            assert_eq!((now.trial, now.rollouts, now.n_measured), (*trial, *rollouts, *rollouts));
            assert_eq!(now.numbers.as_ref(), Some(&**numbers));
        }
        if let Event::StageProgress { stage: Stage::Trial, done, .. } = event {
            let now = seen.trial.as_ref().unwrap();
            assert!(now.rollouts >= *done as u64 && now.rollouts <= now.max_rollouts, "{now:?}");
        }
        let mut most_active = self.most_active.lock();
        *most_active = (*most_active).max(seen.n_active);
    }
}

#[test]
fn progress_adds_up_to_the_summary() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    let lives: Arc<Mutex<Vec<LiveState>>> = Arc::default();
    let of_sink = Arc::clone(&lives);
    // What comes after the live state has been told of an event.
    let after = move |event: &Event| {
        if matches!(event, Event::StageStarted { .. } | Event::RunStarted { .. } | Event::BankFinished { .. })
        {
            of_sink.lock().extend(RunReader::open(&path).unwrap().live());
        }
    };
    let inner = LiveEvents::new(Arc::new(after), Arc::new(Pulse::default));
    let onlooker = Arc::new(Onlooker { inner, seen: Mutex::default(), most_active: Mutex::default() });
    let summary = Run::default().follow(dir.path(), Arc::clone(&onlooker) as Arc<dyn EventSink>).unwrap();
    let seen = onlooker.seen.lock().clone();
    assert_eq!([seen.n_trials, seen.n_admitted], summary.trials);
    assert_eq!((seen.n_active, seen.n_waiting), (summary.active, summary.candidates));
    assert_eq!(*onlooker.most_active.lock(), summary.active);
    assert_eq!(seen.baseline, Some(summary.baseline));
    let validation = seen.validation.unwrap();
    assert_eq!((validation.round, validation.score, validation.n_items), (2, summary.score, 6));
    assert_eq!((seen.round, &seen.trial, seen.rounds), (None, &None, 2));
    // Anyone who reads the log comes to the same.
    let mut read = BankProgress::default();
    for line in std::fs::read_to_string(dir.path().join("events.jsonl")).unwrap().lines() {
        read.apply_logged(&serde_json::from_str(line).unwrap());
    }
    assert_eq!(read, seen);
    // The file says that it is a bank's run, and goes with the process.
    let lives = lives.lock();
    assert!(!lives.is_empty() && lives.iter().all(|live| live.bank.is_some() && live.total_steps == 2));
    assert_eq!(RunReader::open(dir.path()).unwrap().live(), None);
}
