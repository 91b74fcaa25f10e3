//! A bank that evolves while its policy is trained: candidates are tried in the groups, and a teacher proposes more.

use crate::bigram::Bigram;
use crate::runs::lines;
use crate::setup::{bigram, check_same_files, files, text};
use async_trait::async_trait;
use serde_json::json;
use skill_bank::distill::TeacherPrompts;
use skill_bank::retrieve::{Retrieval, RetrievalSettings};
use skill_bank::{
    Author, Bank, BankEvent, Basis, Content, Evidence, Occasion, Reason, SkillProvenance, SkillRef, State,
    Tier,
};
use skill_core::{RolloutResult, SkillDoc, Usage};
use skill_envs::source::document;
use skill_envs::{Env, EnvError, Item, RolloutCtx, SkillSource, Split};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, Message};
use skill_pipeline::PipelineError;
use skill_pipeline::bank::BankSettings;
use skill_pipeline::records::rl::{RlIteration, RlMeasured, RlSummary};
use skill_pipeline::records::sft::CHECKPOINTS_DIR;
use skill_pipeline::settings::RlSettings;
use skill_train::TrainError;
use skill_train::checkpoint::StateStore;
use skill_weights::policy::EnvGames;
use skill_weights::rl::{RlBank, RlTrainer};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An agent with the good skill in its prompt wins, one with the bad skill loses. Without either it wins a training task by
/// a reply that begins with a letter.
struct Advised {
    train: Vec<Item>,
    val: Vec<Item>,
}

impl Advised {
    fn new() -> Self {
        let items = |name: &str, n: usize| -> Vec<Item> {
            let item = |place: usize| {
                let mut item = Item::new(format!("{name}-{place}"), format!("{name} {place}").into());
                "doors".clone_into(&mut item.task_type);
                item
            };
            (0..n).map(item).collect()
        };
        Self { train: items("task", 24), val: items("check", 3) }
    }
}

#[async_trait]
impl Env for Advised {
    fn name(&self) -> &str {
        "advised"
    }

    fn items(&self, split: Split) -> &[Item] {
        match split {
            Split::Train => &self.train,
            Split::Val => &self.val,
            Split::Test => &[],
        }
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let (skill, ctx) = ctx.show(source, item, "").await?;
        let shown = skill.agent_view().as_str().to_owned();
        let messages = vec![Message::system(shown.as_str()), Message::user(item.id.as_str())];
        let reply = target.chat(&ChatRequest::new(messages), &ctx.call).await?;
        let is_trained = item.id.as_str().starts_with("task");
        let is_letter = is_trained && reply.text.starts_with(|first: char| first.is_ascii_alphabetic());
        let is_won = !shown.contains("Shout") && (is_letter || shown.contains("Knock"));
        let score = f64::from(u8::from(is_won));
        let mut result = RolloutResult::new(item.id.clone(), score, score);
        "doors".clone_into(&mut result.task_type);
        Ok(result)
    }
}

fn candidate(bank: &mut Bank, title: &str) -> SkillRef {
    let tier = Tier::of_type("doors");
    let skill = bank.next_skill(&tier);
    let content = Content::principle(title, format!("{title} at every door."), "At a door.");
    let proposed =
        BankEvent::proposed(skill.clone(), tier, content, SkillProvenance::Imported, Evidence::default());
    bank.record(0, Author::Process, proposed).unwrap();
    skill
}

/// A bank with an active skill that nobody has measured.
fn unmeasured(title: &str) -> (Bank, SkillRef) {
    let mut bank = Bank::new();
    let skill = candidate(&mut bank, title);
    let admitted = BankEvent::Admitted { skill: skill.clone(), basis: Basis::Unmeasured };
    bank.record(0, Author::Process, admitted).unwrap();
    (bank, skill)
}

pub(crate) fn settings() -> RlSettings {
    RlSettings {
        iterations: 24,
        tasks: 8,
        group_size: 4,
        batch_size: 16,
        // The policy hardly changes, so what changes the wins is the bank.
        learning_rate: 1e-6,
        kl_coeff: 0.0,
        max_reply_tokens: 2,
        micro_batch_tokens: 2_000,
        validation_interval: 3,
        ..RlSettings::default()
    }
}

/// The teacher proposes the good skill, and counts how often it is asked; it fails first, if it is away.
fn teacher(n_asked: &Arc<AtomicUsize>, is_away: bool) -> Arc<dyn ChatModel> {
    let n_asked = Arc::clone(n_asked);
    Arc::new(ScriptedModel::from_fn("teacher", move |_: &ChatRequest, _: &CallCtx| {
        if is_away {
            return Err(LlmError::QuotaExhausted {
                status: 402,
                provider: "school".to_owned(),
                message: "closed".to_owned(),
            });
        }
        n_asked.fetch_add(1, Ordering::Relaxed);
        let skill =
            json!({"title": "Knock", "principle": "Knock at every door.", "when_to_apply": "At a door."});
        Ok(ChatReply::text(json!([skill]).to_string(), Usage { input: 5, output: 1, ..Usage::default() }))
    }))
}

fn trainer(run: &Path, model: &Bigram, settings: &RlSettings, n_asked: &Arc<AtomicUsize>) -> RlTrainer {
    trainer_with(run, model, settings, teacher(n_asked, false))
}

fn trainer_with(run: &Path, model: &Bigram, settings: &RlSettings, teacher: Arc<dyn ChatModel>) -> RlTrainer {
    let mut initial = Bank::new();
    candidate(&mut initial, "Shout");
    let retrieval = Retrieval::new(RetrievalSettings::default()).unwrap();
    let mut evolution = BankSettings::default();
    evolution.weak_below = 0.6;
    // One of four groups: the runs are short.
    evolution.hide_share = 0.25;
    let bank = RlBank::new(initial, retrieval, TeacherPrompts::embedded().unwrap())
        .with_settings(evolution)
        .with_teacher(teacher, 2_048);
    with_bank(run, model, settings, bank)
}

fn with_bank(run: &Path, model: &Bigram, settings: &RlSettings, bank: RlBank) -> RlTrainer {
    let store = StateStore::new(run.join(CHECKPOINTS_DIR));
    let (backend, writer) = (Arc::new(model.clone()), Arc::new(model.clone()));
    let (env, source): (Arc<dyn Env>, _) = (Arc::new(Advised::new()), document(&SkillDoc::default()));
    let games = EnvGames::new(Arc::clone(&env), Arc::clone(&source), text(), 3).with_limits(1_000, 2);
    RlTrainer::new(env, source, backend, store, writer, text())
        .with_settings(settings.clone())
        .with_bank(bank)
        .with_games(Arc::new(games))
}

pub(crate) async fn train(run: &Path, settings: &RlSettings) -> (RlSummary, Bigram, usize) {
    let (model, n_asked) = (bigram(run), Arc::default());
    let summary = trainer(run, &model, settings, &n_asked).train(run).await.unwrap();
    (summary, model, n_asked.load(Ordering::Relaxed))
}

/// Dies in this call of the model.
pub(crate) async fn train_dying(run: &Path, settings: &RlSettings, call: usize) {
    let dying = bigram(run).failing_at(call, || TrainError::Cancelled);
    let ended = trainer(run, &dying, settings, &Arc::default()).train(run).await;
    assert!(ended.is_err() || call >= dying.n_calls(), "{ended:?}");
}

#[tokio::test]
async fn what_helps_is_admitted_and_what_harms_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let (summary, _, n_asked) = train(&run, &settings()).await;
    let bank = Bank::from_log(&std::fs::read_to_string(run.join("bank/log.jsonl")).unwrap()).unwrap();
    let states: Vec<(String, State)> = bank
        .skills()
        .map(|skill| {
            let version = skill.versions.last().unwrap();
            (version.content.title().to_owned(), version.state)
        })
        .collect();
    assert_eq!(states, [("Shout".to_owned(), State::Retired), ("Knock".to_owned(), State::Active)]);
    let iterations: Vec<RlIteration> = lines(&run.join("iterations.jsonl"));
    let of_bank = |record: &RlIteration| record.bank.clone().unwrap();
    assert_eq!(of_bank(&iterations[0]).trial.as_deref(), Some("doo_001"), "the candidate is tried at once");
    assert!(iterations.iter().any(|record| of_bank(record).proposed == ["doo_002"]), "the teacher is asked");
    let admitted = iterations.iter().position(|record| of_bank(record).admitted == ["doo_002"]).unwrap();
    // From then on it is hidden only where it is measured; before, half of some groups was shown it.
    let is_shown = |record: &&RlIteration| of_bank(record).hidden.is_empty();
    let measuring = admitted + 1..admitted + 3;
    let behind = &iterations[measuring.end..];
    assert!(behind.iter().filter(is_shown).all(|record| record.won == record.episodes));
    assert!(behind.iter().any(|record| of_bank(record).hidden == ["doo_002"]));
    assert!(iterations[..admitted].iter().all(|record| record.won < record.episodes));
    let measured: Vec<RlMeasured> = iterations.iter().flat_map(|record| of_bank(record).measured).collect();
    assert_eq!(measured.len(), 1, "{measured:?}");
    assert_eq!((&*measured[0].skill, measured[0].occasion), ("doo_002", Occasion::AfterAdmission));
    let [won, shown] = measured[0].numbers.with;
    assert!(won == shown && shown > 0 && measured[0].numbers.difference > 0.0, "{measured:?}");
    let log = std::fs::read_to_string(run.join("bank/log.jsonl")).unwrap();
    assert_eq!(log.matches("\"after_admission\"").count(), 1);
    let summed = summary.bank.unwrap();
    assert_eq!((summed.active, summed.trials), (1, [2, 1]));
    let known: Vec<Occasion> = summed.measured.iter().map(|measured| measured.occasion).collect();
    assert_eq!(known, [Occasion::AfterAdmission, Occasion::Standing]);
    assert_eq!(summary.after.unwrap().won, 3);
    assert!(summed.without.unwrap().won < 3, "without the skills of the bank the policy is what it was");
    assert!(n_asked >= 1);
}

#[tokio::test]
async fn a_run_with_a_bank_that_dies_ends_with_the_same_bytes_and_pays_no_reply_twice() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings();
    settings.iterations = 8;
    let whole = dir.path().join("whole");
    let (_, model, n_expected) = train(&whole, &settings).await;
    let is_process = |name: &str| name.starts_with("journal") || name.starts_with("cache");
    let comparable = |run: &Path| {
        let mut files = files(run);
        files.retain(|name, _| !is_process(name));
        files
    };
    let (expected, n_calls) = (comparable(&whole), model.n_calls());
    assert!(expected.keys().any(|name| name.starts_with("bank/")), "{:?}", expected.keys());
    for call in (0..n_calls).step_by(3) {
        let run = dir.path().join(format!("killed-{call}"));
        let dying = bigram(&run).failing_at(call, || TrainError::Cancelled);
        let n_asked = Arc::default();
        trainer(&run, &dying, &settings, &n_asked).train(&run).await.unwrap_err();
        let (_, _, again) = train(&run, &settings).await;
        assert_eq!(n_asked.load(Ordering::Relaxed) + again, n_expected, "call {call}");
        check_same_files(&comparable(&run), &expected, &format!("after a death in call {call}"));
    }
}

#[tokio::test]
async fn a_run_whose_teacher_fails_continues_to_the_same_bytes_once_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings();
    settings.iterations = 8;
    let (whole, run) = (dir.path().join("whole"), dir.path().join("run"));
    let (_, _, n_expected) = train(&whole, &settings).await;
    let away = teacher(&Arc::default(), true);
    let error = trainer_with(&run, &bigram(&run), &settings, away).train(&run).await.unwrap_err();
    assert!(
        matches!(&error, PipelineError::Optimizer { source: LlmError::QuotaExhausted { .. }, .. }),
        "{error:?}"
    );
    let (_, _, n_asked) = train(&run, &settings).await;
    assert_eq!(n_asked, n_expected);
    for name in ["bank/log.jsonl", "iterations.jsonl"] {
        let read = |run: &Path| std::fs::read_to_string(run.join(name)).unwrap();
        assert_eq!(read(&run), read(&whole), "{name}");
    }
}

fn retired(run: &Path) -> Vec<(SkillRef, Reason)> {
    let bank = Bank::from_log(&std::fs::read_to_string(run.join("bank/log.jsonl")).unwrap()).unwrap();
    let events = bank.log().iter().filter_map(|record| match &record.event {
        BankEvent::Retired { skill, reason } => Some((skill.clone(), *reason)),
        _ => None,
    });
    events.collect()
}

async fn train_with(initial: Bank, settings: &RlSettings, hide_share: f64) -> (tempfile::TempDir, RlSummary) {
    let dir = tempfile::tempdir().unwrap();
    let retrieval = Retrieval::new(RetrievalSettings::default()).unwrap();
    let mut evolution = BankSettings::default();
    evolution.hide_share = hide_share;
    evolution.max_trial_rollouts = 320;
    let bank = RlBank::new(initial, retrieval, TeacherPrompts::embedded().unwrap()).with_settings(evolution);
    let model = bigram(dir.path());
    let summary = with_bank(dir.path(), &model, settings, bank).train(dir.path()).await.unwrap();
    (dir, summary)
}

#[tokio::test]
async fn groups_too_small_to_be_halved_stay_whole() {
    let mut settings = settings();
    settings.iterations = 6;
    settings.withdraw_below = 2.0;
    for group_size in [2, 3] {
        settings.group_size = group_size;
        let (mut bank, _) = unmeasured("Breathe");
        candidate(&mut bank, "Shout");
        let (run, summary) = train_with(bank, &settings, 0.5).await;
        let summed = summary.bank.unwrap();
        assert_eq!((summed.active, summed.trials, retired(run.path())), (1, [0, 0], Vec::new()));
    }
}

#[tokio::test]
async fn a_shown_skill_that_harms_is_found_by_hiding_it() {
    let (bank, skill) = unmeasured("Shout");
    let (run, summary) = train_with(bank.clone(), &settings(), 0.5).await;
    assert_eq!(retired(run.path()), [(skill.clone(), Reason::Harmful)]);
    assert_eq!(summary.bank.unwrap().active, 0);
    // Where nothing is hidden, nothing is found.
    let (run, summary) = train_with(bank, &settings(), 0.0).await;
    assert_eq!((retired(run.path()), summary.bank.unwrap().active), (Vec::new(), 1));
}

#[tokio::test]
async fn a_skill_that_the_policy_no_longer_needs_is_withdrawn_where_that_is_configured() {
    let mut settings = settings();
    let (bank, skill) = unmeasured("Breathe");
    let (run, _) = train_with(bank.clone(), &settings, 0.0).await;
    assert_eq!(retired(run.path()), [], "by default skills stay");
    settings.withdraw_below = 2.5;
    let (run, summary) = train_with(bank, &settings, 0.0).await;
    assert_eq!(retired(run.path()), [(skill, Reason::Internalized)]);
    let summed = summary.bank.unwrap();
    assert_eq!((summed.active, summed.internalized), (0, 1));
    let log = std::fs::read_to_string(run.path().join("bank/log.jsonl")).unwrap();
    assert_eq!(log.matches("\"withdrawal\"").count(), 1);
    // One that helps stays, however often its withdrawal is tried.
    let (bank, _) = unmeasured("Knock");
    let (run, summary) = train_with(bank, &settings, 0.0).await;
    assert_eq!((retired(run.path()), summary.bank.unwrap().active), (Vec::new(), 1));
}
