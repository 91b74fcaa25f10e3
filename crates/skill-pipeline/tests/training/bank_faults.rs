//! Runs that train a bank and are stopped, killed or changed by a person between two processes.

use crate::banks::{Run, bank_settings, opens, record, teaches};
use crate::run_files::files;
use crate::world::{Counted, Job, changed, counted};
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_bank::retrieve::{Retrieval, RetrievalMode, RetrievalSettings};
use skill_bank::task_type::TypeTable;
use skill_bank::{
    Author, Bank, BankEvent, Basis, Content, Evidence, Reason, SkillRef, Source, State, Tier, Verdict,
};
use skill_core::ItemId;
use skill_core::random::Dice;
use skill_llm::scripted::ScriptedModel;
use skill_llm::{
    CallCtx, ChatReply, ChatRequest, EmbeddingModel, EmbeddingReply, EmbeddingRequest, JournalOptions,
    JournalReader, LlmError, ModelId, Role, Usage,
};
use skill_pipeline::bank_dir::{BankDir, read_bank};
use skill_pipeline::run_dir::timings::Timings;
use skill_pipeline::{Event, PipelineError, Stage, StopSignal, Trainer};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
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
                    seen.lock().unwrap().push((kept, n_target));
                }
            };
            base.with_journal_options(lazy_journal()).with_events(Arc::new(sink))
        }),
        ..Run::default()
    };
    run.run(dir.path()).unwrap();
    let found = found.lock().unwrap();
    assert!(found.len() > 2);
    for (kept, n_target) in found.iter() {
        // The calls of the teacher are kept too.
        assert!(kept > n_target, "{kept} of more than {n_target}");
    }
}

/// A target that answers so many calls.
fn breaking_target(n_replies: usize) -> Arc<Counted> {
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

    let dir = tempfile::tempdir().unwrap();
    Job { stop_after: 1, ..Job::default() }.run(dir.path()).unwrap_err();
    let before = files(dir.path());
    let PipelineError::Mismatch { changes, .. } = Run::default().run(dir.path()).unwrap_err() else {
        panic!()
    };
    assert_eq!(changes, [changed("train.mode", "document", "bank")]);
    assert_eq!(files(dir.path()), before);
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
    let content = Content::Principle {
        title: "Knock".into(),
        principle: "Knock twice and wait.".into(),
        when_to_apply: "At a door.".into(),
    };
    let proposed = BankEvent::Proposed {
        skill: skill.clone(),
        tier,
        content,
        source: Source::Person,
        parents: Vec::new(),
        evidence: Evidence::default(),
    };
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
                    seen.lock().unwrap().push(message.clone());
                }
            };
            base.with_trouble(Arc::new(|| Some("HTTP 500".to_owned()))).with_events(Arc::new(sink))
        }),
        takes: Duration::from_millis(100),
        ..Run::default()
    };
    run.run(dir.path()).unwrap();
    assert!(warned.lock().unwrap().contains(&"HTTP 500".to_owned()));
}

/// Whether an event is the one at which something happens.
type IsThen = fn(&Event) -> bool;

/// When a run is told to stop, how, and the round that its error names.
type StopCase = (&'static str, fn(&StopSignal), IsThen, u32);

/// Seconds of the parts of stages, by step and stage.
type Parts = BTreeMap<(u32, String), Vec<f64>>;

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

/// A bank with one candidate for stuck doors, made from these tasks.
fn bank_with_candidate(evidence: &[String]) -> Bank {
    let mut bank = Bank::new();
    let tier = Tier::of_type("stuck");
    let content = Content::Principle {
        title: "Use force".into(),
        principle: "Lean in and push hard.".into(),
        when_to_apply: "It does not move.".into(),
    };
    let mut of_tasks = Evidence::default();
    of_tasks.items = evidence.iter().map(ItemId::new).collect();
    let proposed = BankEvent::Proposed {
        skill: bank.next_skill(&tier),
        tier,
        content,
        source: Source::Distilled,
        parents: Vec::new(),
        evidence: of_tasks,
    };
    bank.record(0, Author::Process, proposed).unwrap();
    bank
}

fn no_changes() -> Arc<Counted> {
    let teacher = ScriptedModel::answering("teacher", |_| "{\"changes\": []}".to_owned());
    counted(teacher, usize::MAX, Value::Null)
}

#[test]
fn a_candidate_that_no_task_can_try_is_no_trial() {
    let dir = tempfile::tempdir().unwrap();
    let all: Vec<String> = (0..16).map(|number| format!("tr-{number}")).collect();
    let run = Run {
        teacher: no_changes(),
        trainer: Box::new(move |trainer| trainer.with_initial_bank(bank_with_candidate(&all), None)),
        ..Run::default()
    };
    let summary = run.run(dir.path()).unwrap();
    assert_eq!(summary.trials, [0, 0]);
    let trials = record(dir.path(), 0).trials;
    assert_eq!((trials.len(), trials[0].trial), (1, 0));
    assert!(trials[0].problem.is_some());
}

/// A skill that helps a little: one trial of it seldom decides, and several together do.
#[test]
fn a_further_trial_of_a_candidate_goes_on_from_the_e_value_of_those_before() {
    let mut n_admitted_together = 0;
    let mut n_further = 0;
    for seed in 0..6 {
        let dir = tempfile::tempdir().unwrap();
        let target = ScriptedModel::from_fn("target", move |request: &ChatRequest, call: &CallCtx| {
            let chance = if request.text_of(Role::System).contains("push hard") { 0.65 } else { 0.3 };
            let is_open = Dice::new(seed, &["door"]).unit(call.place.as_str()) < chance;
            Ok(ChatReply::text(if is_open { "open" } else { "shut" }, Usage::default()))
        });
        let mut bank = bank_settings();
        (bank.rounds, bank.weak_below, bank.trial_samples, bank.max_trial_rollouts) = (4, 1.0, 4, 64);
        let run = Run {
            target: counted(target, usize::MAX, Value::Null),
            teacher: no_changes(),
            trainer: Box::new(|trainer| trainer.with_initial_bank(bank_with_candidate(&[]), None)),
            bank,
            seed,
            ..Run::default()
        };
        run.run(dir.path()).unwrap();
        let mut e_before = None;
        for trial in (0..=4).flat_map(|round| record(dir.path(), round).trials) {
            assert_eq!(trial.e_before, e_before, "{trial:?}");
            n_further += usize::from(e_before.is_some());
            let Some(decision) = trial.decision else { continue };
            let together = e_before.unwrap_or(1.0) * decision.numbers.e_better;
            match decision.verdict {
                Verdict::Admit => {
                    assert!(together >= 19.999, "{trial:?}");
                    n_admitted_together += usize::from(decision.numbers.e_better < 19.0);
                    break;
                }
                Verdict::Reject => break,
                Verdict::Undecided => e_before = Some(together),
            }
        }
    }
    assert!(
        n_further > 0 && n_admitted_together > 0,
        "{n_further} further trials, {n_admitted_together} admitted"
    );
}

#[test]
fn the_times_of_all_passes_rounds_and_processes_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let seconds: Arc<Mutex<Parts>> = Arc::default();
    let timed = |run: Run| {
        let seen = Arc::clone(&seconds);
        let base = Box::new(move |base: Trainer| {
            let seen = Arc::clone(&seen);
            let sink = move |event: &Event| {
                if let Event::StageFinished { step, stage, seconds } = event {
                    let key = (step.unwrap_or_default().0, format!("{}_s", stage.as_str()));
                    seen.lock().unwrap().entry(key).or_default().push(*seconds);
                }
            };
            base.with_events(Arc::new(sink))
        });
        Run { base, ..run }
    };
    timed(Run { target: breaking_target(120), ..Run::default() }).run(dir.path()).unwrap_err();
    timed(Run::default()).run(dir.path()).unwrap();
    let timings = Timings::read_or_new(dir.path()).unwrap();
    let seconds = seconds.lock().unwrap();
    assert!(seconds[&(0, "trial_s".to_owned())].len() > 4);
    for round in [1, 2] {
        assert!(!timings.steps[&round].contains_key("baseline_s"));
    }
    assert!(timings.steps[&2].contains_key("evaluate_s"), "{:?}", timings.steps);
    for ((step, stage), parts) in seconds.iter() {
        let (found, expect) = (timings.steps[step][stage], parts.iter().sum::<f64>());
        // Each part is rounded to a millisecond.
        let tolerance = 0.0006 * parts.len() as f64;
        assert!((found - expect).abs() <= tolerance, "{step} {stage}: {found}, not {expect}");
    }
}

/// Vectors of letters; a text has as many tokens as characters.
struct Letters(ModelId, Arc<AtomicU64>);

#[async_trait]
impl EmbeddingModel for Letters {
    fn id(&self) -> &ModelId {
        &self.0
    }

    fn parameters(&self) -> Value {
        Value::Null
    }

    fn max_texts(&self) -> usize {
        4
    }

    async fn embed(&self, request: &EmbeddingRequest, _: &CallCtx) -> Result<EmbeddingReply, LlmError> {
        let mut reply = EmbeddingReply::default();
        for text in &request.texts {
            let letters = |letter: char| text.chars().filter(|found| *found == letter).count() as f32;
            reply.vectors.push(('a'..='z').map(letters).collect());
            reply.usage.input += text.len() as u64;
        }
        self.1.fetch_add(reply.usage.input, Ordering::Relaxed);
        Ok(reply)
    }
}

#[test]
fn calls_of_the_embedding_model_count_for_their_stages_and_the_same_after_an_outage() {
    let run = |n_replies: usize| {
        let n_tokens = Arc::<AtomicU64>::default();
        let model = Arc::new(Letters(ModelId::new("test", "letters"), Arc::clone(&n_tokens)));
        let settings = RetrievalSettings { mode: RetrievalMode::Embedding, ..RetrievalSettings::default() };
        let free = |name: &str, answer: fn(&ChatRequest) -> String| {
            ScriptedModel::from_fn(name, move |request: &ChatRequest, _: &CallCtx| {
                Ok(ChatReply::text(answer(request), Usage::default()))
            })
        };
        let run = Run {
            target: counted(free("target", opens), n_replies, Value::Null),
            teacher: counted(free("teacher", teaches), usize::MAX, Value::Null),
            retrieval: Retrieval::new(settings).unwrap(),
            trainer: Box::new(move |trainer| {
                trainer.with_embedding(Arc::clone(&model) as Arc<dyn EmbeddingModel>)
            }),
            ..Run::default()
        };
        (run, n_tokens)
    };
    let undisturbed = tempfile::tempdir().unwrap();
    let (whole, n_tokens) = run(usize::MAX);
    let summary = whole.run(undisturbed.path()).unwrap();
    let counted: u64 = summary.tokens.values().map(|used| used.prompt_tokens).sum();
    let asked = n_tokens.load(Ordering::Relaxed);
    assert!(asked > 0 && counted >= asked, "{counted} counted, {asked} asked");
    for stage in ["trial", "evaluate", "distill"] {
        assert!(summary.tokens[stage].prompt_tokens > 0, "{stage}");
    }
    let dir = tempfile::tempdir().unwrap();
    run(120).0.run(dir.path()).unwrap_err();
    run(usize::MAX).0.run(dir.path()).unwrap();
    assert_eq!(files(dir.path()), files(undisturbed.path()));
}
