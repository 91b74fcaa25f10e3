//! Whole runs that train a bank, on a world with two kinds of doors.

use crate::read;
use crate::run_files::files;
use crate::world::{Counted, counted};
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_bank::distill::TeacherPrompts;
use skill_bank::retrieve::{Retrieval, RetrievalSettings};
use skill_bank::{Author, BankEvent, State};
use skill_core::{RolloutResult, SkillPartId};
use skill_envs::{Env, EnvError, Item, RolloutCtx, SkillSource, Split};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, Message, Role, Usage};
use skill_pipeline::bank::{Admission, BankSettings, BankTrainer, Show, read_record};
use skill_pipeline::bank_dir::{BankDir, read_bank};
use skill_pipeline::records::bank::{BankSummary, RoundRecord};
use skill_pipeline::run_dir::read_config;
use skill_pipeline::{EventSink, NoEvents, PipelineError, TrainSettings, Trainer};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The kinds of doors, each with the words that open it.
const DOORS: [(&str, &str); 2] = [("locked", "turn the key"), ("stuck", "push hard")];

pub(crate) struct Doors {
    splits: [Vec<Item>; 3],
    takes: Duration,
}

impl Doors {
    fn new(n_train: usize, takes: Duration) -> Self {
        let split = |split: &str, n: usize| {
            let item = |number: usize| {
                let (kind, _) = DOORS[number % DOORS.len()];
                let mut item = Item::new(
                    format!("{split}-{number}"),
                    json!(format!("pass the {kind} gate of hall {split}{number}")),
                );
                kind.clone_into(&mut item.task_type);
                item
            };
            (0..n).map(item).collect()
        };
        Self { splits: [split("tr", n_train), split("va", 6), split("te", 6)], takes }
    }
}

#[async_trait]
impl Env for Doors {
    fn name(&self) -> &str {
        "doors"
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.splits[split as usize]
    }

    fn goal(&self, item: &Item) -> Option<String> {
        item.data.as_str().map(str::to_owned)
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let goal = item.data.as_str().unwrap();
        if !self.takes.is_zero() {
            tokio::time::sleep(self.takes).await;
        }
        let (skill, ctx) = ctx.show(source, item, goal).await?;
        let request = ChatRequest::new(vec![Message::system(skill.agent_view()), Message::user(goal)]);
        let did = target.chat(&request, &ctx.call).await?.text;
        let hard = f64::from(u8::from(did == "open"));
        let mut result = RolloutResult::new(item.id.clone(), hard, hard);
        result.task_type.clone_from(&item.task_type);
        result.task_description = goal.to_owned();
        result.predicted_answer = did;
        Ok(result)
    }
}

/// Opens a door if its skills say how.
pub(crate) fn opens(request: &ChatRequest) -> String {
    let (skill, goal) = (request.text_of(Role::System), request.text_of(Role::User));
    let knows = DOORS.iter().any(|(kind, words)| goal.contains(kind) && skill.contains(words));
    if knows { "open" } else { "shut" }.to_owned()
}

fn skill(title: &str, principle: &str) -> Value {
    json!({"title": title, "principle": principle, "when_to_apply": "At a door."})
}

/// A teacher that knows at once how locked doors open, and how stuck ones do only when it is asked to change skills.
pub(crate) fn teaches(request: &ChatRequest) -> String {
    let asked = request.text_of(Role::User);
    let said = if asked.contains("Type of the tasks: locked") {
        json!({"skills": [skill("Use the lock", "First turn the key, then go through."), skill("Admire the frame", "Look at the frame for a while.")]})
    } else if asked.contains("Type of the tasks: stuck") {
        json!({"skills": [skill("Knock", "Knock twice and wait.")]})
    } else if asked.contains("mistakes to avoid") {
        json!({"mistakes": [{"description": "Walking away", "why_it_happens": "Haste", "how_to_avoid": "Stay."}]})
    } else if asked.contains("general skills") {
        json!({"skills": [skill("Be calm", "Take a breath before you begin.")]})
    } else if asked.contains("Weak types") {
        json!({"changes": [{"op": "add", "task_type": "stuck", "title": "Use force",
            "principle": "Lean in and push hard.", "when_to_apply": "It does not move."}]})
    } else {
        panic!("the teacher is asked something else: {asked}")
    };
    said.to_string()
}

/// A run of a bank, and what is different about it.
pub(crate) struct Run {
    pub(crate) target: Arc<Counted>,
    pub(crate) teacher: Arc<Counted>,
    pub(crate) bank: BankSettings,
    pub(crate) seed: u64,
    pub(crate) base: Box<dyn Fn(Trainer) -> Trainer>,
    pub(crate) trainer: Box<dyn Fn(BankTrainer) -> BankTrainer>,
    pub(crate) retrieval: Retrieval,
    /// Training tasks, of both types in turn.
    pub(crate) n_train: usize,
    /// How long each rollout takes, on a clock that waits for nobody.
    pub(crate) takes: Duration,
}

pub(crate) fn bank_settings() -> BankSettings {
    let mut settings = BankSettings::default();
    settings.rounds = 2;
    settings.max_trial_rollouts = 64;
    settings.trial_samples = 4;
    settings
}

impl Default for Run {
    fn default() -> Self {
        Self {
            target: counted(ScriptedModel::answering("target", opens), usize::MAX, Value::Null),
            teacher: counted(ScriptedModel::answering("teacher", teaches), usize::MAX, Value::Null),
            bank: bank_settings(),
            seed: 42,
            base: Box::new(|base| base),
            trainer: Box::new(|trainer| trainer),
            retrieval: Retrieval::new(RetrievalSettings::default()).unwrap(),
            n_train: 16,
            takes: Duration::ZERO,
        }
    }
}

impl Run {
    pub(crate) fn run(&self, dir: &Path) -> Result<BankSummary, PipelineError> {
        self.follow(dir, Arc::new(NoEvents))
    }

    /// As [`Self::run`], with somebody who follows it.
    pub(crate) fn follow(
        &self,
        dir: &Path,
        events: Arc<dyn EventSink>,
    ) -> Result<BankSummary, PipelineError> {
        let settings = TrainSettings { seed: self.seed, workers: 4, ..TrainSettings::default() };
        let base = Trainer::new(
            Arc::new(Doors::new(self.n_train, self.takes)),
            Arc::clone(&self.target) as Arc<dyn ChatModel>,
            Arc::clone(&self.teacher) as Arc<dyn ChatModel>,
        )
        .with_settings(settings)
        .with_events(events);
        let (base, prompts) = ((self.base)(base), TeacherPrompts::embedded().unwrap());
        let trainer =
            BankTrainer::new(base, self.retrieval.clone(), prompts).with_settings(self.bank.clone());
        let trainer = (self.trainer)(trainer);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(!self.takes.is_zero()).build().unwrap();
        runtime.block_on(trainer.train(dir))
    }

    pub(crate) fn n_calls(&self) -> usize {
        self.target.n_replies.load(Ordering::Relaxed) + self.teacher.n_replies.load(Ordering::Relaxed)
    }
}

pub(crate) fn record(dir: &Path, round: u32) -> RoundRecord {
    read_record(&dir.join(format!("rounds/round_{round:04}/record.json"))).unwrap()
}

#[test]
fn what_helps_is_admitted_and_what_does_not_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let summary = Run::default().run(dir.path()).unwrap();
    let bank = read_bank(&dir.path().join("bank")).unwrap().bank;
    let active: Vec<&str> = bank
        .skills()
        .filter(|skill| skill.state() == State::Active)
        .map(|skill| skill.active().unwrap().content.title())
        .collect();
    assert_eq!(active, ["Use the lock", "Use force"]);
    assert!((summary.baseline.hard, summary.score.hard) == (0.0, 1.0), "{summary:?}");
    assert_eq!((summary.test_baseline.unwrap().hard, summary.test.unwrap().hard), (0.0, 1.0));
    assert_eq!((summary.active, summary.unmeasured), (2, 0));
    // Each of them was measured again, on rollouts of its own.
    for round in [record(dir.path(), 0), record(dir.path(), 1)] {
        let admitted: Vec<_> = round.trials.iter().filter(|trial| trial.fresh.is_some()).collect();
        assert_eq!(admitted.len(), round.admitted.len());
        assert!(admitted.iter().all(|trial| trial.fresh.as_ref().unwrap().difference > 0.9));
    }
    // What the teacher read is not what was tried, nor what decides.
    let trial_items: Vec<String> = (0..=2)
        .flat_map(|round| record(dir.path(), round).trials)
        .flat_map(|trial| trial.items)
        .map(|item| item.to_string())
        .collect();
    for skill in bank.skills() {
        for version in &skill.versions {
            assert!(!version.evidence.items.is_empty(), "{}", skill.id);
            assert!(version.evidence.items.iter().all(|item| !trial_items.contains(&item.to_string())));
        }
    }
}

#[test]
fn the_trial_of_a_type_runs_nothing_on_other_types() {
    let dir = tempfile::tempdir().unwrap();
    Run::default().run(dir.path()).unwrap();
    let kind_of = |id: &str| DOORS[id.rsplit('-').next().unwrap().parse::<usize>().unwrap() % 2].0;
    let mut n_of_types = 0;
    for trial in (0..=2).flat_map(|round| record(dir.path(), round).trials) {
        if DOORS.iter().any(|(kind, _)| *kind == trial.tier) {
            n_of_types += 1;
            assert!(trial.items.iter().all(|item| kind_of(item.as_str()) == trial.tier), "{trial:?}");
        }
    }
    assert!(n_of_types > 2);
}

#[test]
fn without_measurements_everything_enters_and_is_counted_as_unmeasured() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Run::default();
    run.bank.admission = Admission::Unmeasured;
    let summary = run.run(dir.path()).unwrap();
    assert_eq!(summary.trials, [0, 0]);
    assert!(summary.active > 3 && summary.unmeasured == summary.active, "{summary:?}");
}

#[test]
fn with_episodes_in_place_of_skills_no_teacher_is_asked_and_prompts_have_no_skill() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Run::default();
    run.bank.show = Show::Episodes;
    run.target = counted(
        ScriptedModel::answering("target", |request| {
            let shown = request.text_of(Role::System);
            assert!(!shown.contains("Skills") && !shown.contains("Principles"), "{shown}");
            if shown.contains("### Earlier Episodes") { "open" } else { "shut" }.to_owned()
        }),
        usize::MAX,
        Value::Null,
    );
    let summary = run.run(dir.path()).unwrap();
    assert_eq!(run.teacher.n_replies.load(Ordering::Relaxed), 0);
    assert_eq!((summary.rounds, summary.trials), (0, [0, 0]));
    // Eight training tasks are attempted twice; the others are for trials, as in a run with skills.
    assert_eq!((summary.active, summary.unmeasured), (16, 16));
    assert!((summary.baseline.hard, summary.score.hard) == (0.0, 1.0), "{summary:?}");
    let record = record(dir.path(), 0);
    assert_eq!(record.admitted.len(), 16);
    let shown = &record.validation.unwrap().shown;
    assert!(shown.values().all(|shown| shown.len() == 6), "{shown:?}");
    let bank = read_bank(&dir.path().join("bank")).unwrap().bank;
    assert_eq!(bank.contents(), (16, 0));
    let of_type = |skill: &skill_bank::Skill| skill.active().unwrap().content.title().contains("locked");
    assert!(bank.skills().all(|skill| of_type(skill) == (skill.tier.task_type() == Some("locked"))));
    // The same again finds everything recorded.
    let again = Run { bank: run.bank.clone(), ..Run::default() };
    let expect = files(dir.path());
    again.run(dir.path()).unwrap();
    assert_eq!((again.n_calls(), files(dir.path())), (0, expect));
}

#[test]
fn a_training_split_without_tasks_for_trials_is_refused_before_anything_is_paid() {
    let dir = tempfile::tempdir().unwrap();
    let two = || Run { n_train: 2, ..Run::default() };
    let refused = two();
    match refused.run(&dir.path().join("run")) {
        Err(PipelineError::NoTrialTasks { trial_share, tasks, .. }) => {
            assert!((trial_share - 0.5).abs() < 1e-12);
            assert_eq!(
                tasks.into_iter().collect::<Vec<_>>(),
                [("locked".to_owned(), 1), ("stuck".to_owned(), 1)]
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(refused.n_calls(), 0);
    assert!(!dir.path().join("run").exists(), "nothing is written");
    // A run without trials needs none.
    let mut unmeasured = two();
    unmeasured.bank.admission = Admission::Unmeasured;
    assert!(unmeasured.run(&dir.path().join("unmeasured")).unwrap().active > 0);
    let mut untried = two();
    untried.bank.max_trials = 0;
    assert_eq!(untried.run(&dir.path().join("untried")).unwrap().trials, [0, 0]);
}

#[test]
fn each_type_with_two_tasks_has_one_for_trials_whatever_the_share_is() {
    let least =
        |dir: &Path| read_config(dir).unwrap().unwrap().identity.get("bank.trial_share.least").cloned();
    let mut run = Run { n_train: 8, ..Run::default() };
    run.bank.trial_share = 0.1;
    let dir = tempfile::tempdir().unwrap();
    run.run(dir.path()).unwrap();
    let tried: BTreeSet<String> = (0..=2)
        .flat_map(|round| record(dir.path(), round).trials)
        .flat_map(|trial| trial.items)
        .map(|item| item.to_string())
        .collect();
    assert_eq!(tried.len(), 2, "{tried:?}");
    // Runs of earlier versions had none then, and are not continued with other sets.
    assert_eq!(least(dir.path()), Some(json!(1)));
    let whole = tempfile::tempdir().unwrap();
    Run::default().run(whole.path()).unwrap();
    assert_eq!(least(whole.path()), None);
}

#[test]
fn a_run_that_broke_anywhere_goes_on_to_the_same_files_and_pays_nothing_twice() {
    let undisturbed = tempfile::tempdir().unwrap();
    let whole = Run::default();
    whole.run(undisturbed.path()).unwrap();
    let expect = files(undisturbed.path());
    let n_target = whole.target.n_replies.load(Ordering::Relaxed);
    for at in [1, 20, 61, 140] {
        let dir = tempfile::tempdir().unwrap();
        let target = counted(ScriptedModel::answering("target", opens), at.min(n_target - 1), Value::Null);
        let broken = Run { target, ..Run::default() };
        broken.run(dir.path()).unwrap_err();
        let again = Run::default();
        again.run(dir.path()).unwrap();
        let found = files(dir.path());
        assert_eq!(found.keys().collect::<Vec<_>>(), expect.keys().collect::<Vec<_>>(), "at {at}");
        for (name, text) in &expect {
            assert_eq!(&found[name], text, "{name}, at {at}");
        }
        assert_eq!(broken.n_calls() + again.n_calls(), whole.n_calls(), "at {at}");
    }
}

#[test]
fn what_a_person_pins_stays_and_a_changed_log_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    Run::default().run(dir.path()).unwrap();
    let path = dir.path().join("bank");
    let mut bank = BankDir::open(&path).unwrap();
    let active = bank.bank().skills().find(|skill| skill.state() == State::Active).unwrap().id.clone();
    bank.record(0, Author::Person, [BankEvent::Pinned { skill: active.clone() }]).unwrap();
    drop(bank);
    let again = Run::default();
    again.run(dir.path()).unwrap();
    assert_eq!(again.n_calls(), 0);
    assert!(read_bank(&path).unwrap().bank.skill(&active).unwrap().is_pinned);
    let log = path.join("log.jsonl");
    let changed = std::fs::read_to_string(&log).unwrap().replacen("Take a breath", "Hold your breath", 1);
    std::fs::write(&log, changed).unwrap();
    assert!(matches!(Run::default().run(dir.path()).unwrap_err(), PipelineError::Corrupt { .. }));
}

#[test]
fn other_settings_are_another_run() {
    let dir = tempfile::tempdir().unwrap();
    Run::default().run(dir.path()).unwrap();
    let other = Run { seed: 43, ..Run::default() };
    assert!(matches!(other.run(dir.path()).unwrap_err(), PipelineError::Mismatch { .. }));
}

#[test]
fn a_teacher_that_cannot_be_read_leaves_no_trace_but_itself() {
    let dir = tempfile::tempdir().unwrap();
    let says_nothing = || {
        let silent = ScriptedModel::answering("teacher", |_| "I would rather not.".to_owned());
        counted(silent, usize::MAX, Value::Null)
    };
    let run = Run { teacher: says_nothing(), ..Run::default() };
    assert!(matches!(run.run(dir.path()).unwrap_err(), PipelineError::Teacher { .. }));
    assert_eq!(read_bank(&dir.path().join("bank")).unwrap().bank.skills().len(), 0);
    // The same command asks once more, and no episode is collected again.
    let n_calls = |run: &Run| run.teacher.n_replies.load(Ordering::Relaxed);
    let (first, again) = (n_calls(&run), Run { teacher: says_nothing(), ..Run::default() });
    assert!(matches!(again.run(dir.path()).unwrap_err(), PipelineError::Teacher { .. }));
    assert_eq!((n_calls(&again), again.n_calls()), (first, first));
    let whole = tempfile::tempdir().unwrap();
    Run::default().run(whole.path()).unwrap();
    Run::default().run(dir.path()).unwrap();
    let skills = |dir: &Path| read_bank(&dir.join("bank")).unwrap().bank.skills().len();
    assert_eq!(skills(dir.path()), skills(whole.path()));
}

#[test]
fn a_reply_of_the_teacher_that_cannot_be_read_costs_one_tier() {
    let dir = tempfile::tempdir().unwrap();
    let teacher = ScriptedModel::from_fn("teacher", |request: &ChatRequest, call: &CallCtx| {
        let is_broken = call.place.as_str().contains("distill / general");
        let reply = if is_broken { "I would rather not.".to_owned() } else { teaches(request) };
        Ok(ChatReply::text(reply, Usage::default()))
    });
    let run = Run { teacher: counted(teacher, usize::MAX, Value::Null), ..Run::default() };
    run.run(dir.path()).unwrap();
    let first = record(dir.path(), 0);
    assert!(!first.proposed.is_empty() && first.notes.iter().any(|note| note.contains("general")));
    let resumed = Run::default();
    resumed.run(dir.path()).unwrap();
    assert_eq!(resumed.n_calls(), 0);
}

#[test]
fn parts_are_on_record_for_every_item_of_a_validation() {
    let dir = tempfile::tempdir().unwrap();
    Run::default().run(dir.path()).unwrap();
    let validation = record(dir.path(), 2).validation.unwrap();
    assert_eq!(validation.shown.len(), 6);
    let bank = read_bank(&dir.path().join("bank")).unwrap().bank;
    for parts in validation.shown.values() {
        assert_eq!(parts.len(), 1, "the skill of the item's type, and no other");
        assert!(bank.skill(&SkillPartId::new(parts[0].as_str())).is_some());
    }
    assert_eq!(read(dir.path().join("bank_summary.json"))["active"], 2);
}
