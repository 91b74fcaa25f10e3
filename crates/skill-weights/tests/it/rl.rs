//! GRPO with a model of plain numbers, in a world that wants letters.

use crate::bigram::Bigram;
use crate::runs::lines;
use crate::setup::{bigram, check_same_files, files, text};
use async_trait::async_trait;
use parking_lot::Mutex;
use skill_core::{RolloutResult, SkillDoc};
use skill_envs::source::document;
use skill_envs::{Env, EnvError, Item, RolloutCtx, SkillSource, Split};
use skill_llm::{ChatModel, ChatRequest, Message};
use skill_pipeline::records::rl::{RlIteration, RlSummary};
use skill_pipeline::records::sft::CHECKPOINTS_DIR;
use skill_pipeline::records::signs::TrainingAlert;
use skill_pipeline::settings::RlSettings;
use skill_pipeline::{Event, EventSink, PipelineError, StopSignal, Warning};
use skill_train::TrainError;
use skill_train::checkpoint::StateStore;
use skill_train::seam::Ended;
use skill_weights::policy::WeightsCaps;
use skill_weights::rl::RlTrainer;
use std::path::Path;
use std::sync::Arc;

/// Two turns; a reply counts that begins with a letter.
struct Letters {
    items: Vec<Item>,
    /// What a reply is worth.
    worth: f64,
    /// Whether the second prompt holds what was said before.
    remembers: bool,
}

impl Letters {
    fn new(n_items: usize) -> Self {
        let item = |place: usize| {
            let mut item = Item::new(format!("task-{place}"), format!("say {place}").into());
            item.task_type = ["even", "odd"][place % 2].to_owned();
            item
        };
        Self { items: (0..n_items).map(item).collect(), worth: 1.0, remembers: true }
    }
}

#[async_trait]
impl Env for Letters {
    fn name(&self) -> &str {
        "letters"
    }

    fn items(&self, split: Split) -> &[Item] {
        if split == Split::Train { &self.items } else { &[] }
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let (skill, ctx) = ctx.show(source, item, "").await?;
        let mut messages =
            vec![Message::system(skill.agent_view().as_str()), Message::user(item.id.as_str())];
        let mut score = 0.0;
        for turn in 0..2 {
            let reply = target.chat(&ChatRequest::new(messages.clone()), &ctx.call).await?;
            let is_letter = reply.text.starts_with(|first: char| first.is_ascii_alphabetic());
            score += if is_letter { self.worth / 2.0 } else { 0.0 };
            if self.remembers {
                messages.push(Message::assistant(reply.text));
            }
            messages.push(Message::user(format!("again {turn}")));
        }
        Ok(RolloutResult::new(item.id.clone(), f64::from(u8::from(score >= 1.0)), score))
    }
}

pub(crate) fn settings() -> RlSettings {
    RlSettings {
        iterations: 12,
        tasks: 4,
        group_size: 6,
        batch_size: 12,
        learning_rate: 0.3,
        kl_coeff: 0.0,
        max_reply_tokens: 3,
        micro_batch_tokens: 2_000,
        ..RlSettings::default()
    }
}

fn trainer(run: &Path, env: Letters, model: &Bigram, settings: &RlSettings) -> RlTrainer {
    let store = StateStore::new(run.join(CHECKPOINTS_DIR));
    let (backend, writer) = (Arc::new(model.clone()), Arc::new(model.clone()));
    let source = document(&SkillDoc::new("Say letters."));
    RlTrainer::new(Arc::new(env), source, backend, store, writer, text()).with_settings(settings.clone())
}

pub(crate) async fn train(run: &Path, settings: &RlSettings) -> (RlSummary, Bigram) {
    let model = bigram(run);
    let summary = trainer(run, Letters::new(6), &model, settings).train(run).await.unwrap();
    (summary, model)
}

/// Ends behind the first iteration.
pub(crate) async fn train_capped(run: &Path, settings: &RlSettings) {
    let capped = trainer(run, Letters::new(6), &bigram(run), settings)
        .with_caps(WeightsCaps::new(Some(1), None))
        .train(run)
        .await;
    assert!(matches!(capped, Err(PipelineError::SftCapped { last_step: 1, .. })), "{capped:?}");
}

#[tokio::test]
async fn a_policy_learns_what_is_rewarded() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let mut settings = settings();
    settings.iterations = 40;
    let (summary, _) = train(&run, &settings).await;
    let iterations: Vec<RlIteration> = lines(&run.join("iterations.jsonl"));
    assert_eq!((iterations.len(), summary.iterations), (40, 40));
    let (first, last) = (&iterations[0], &iterations[39]);
    assert!(first.reward < 0.4 && last.reward > 0.8, "{} to {}", first.reward, last.reward);
    // Six tasks in passes of four and two.
    assert_eq!((first.tasks, first.episodes, iterations[1].tasks), (4, 24, 2));
    let played: usize = first.by_task_type.values().map(|[_, played]| played).sum();
    assert_eq!(played, 24);
    assert!(first.steps == 2 && first.grad_norm.unwrap() > 0.0 && first.tokens > first.sampled_tokens);
    assert!(run.join("policy/weights.bin").is_file());
}

#[tokio::test]
async fn an_iteration_is_measured_before_a_run_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let settings = settings();
    let model = bigram(&run);
    let policy = trainer(&run, Letters::new(6), &model, &settings);
    let cost = policy.measured().await.unwrap();
    assert_eq!((cost.measured_episodes, cost.episodes, cost.iterations), (6, 24, 12));
    assert!(cost.step_tokens > 0 && cost.play_seconds > 0.0 && cost.step_seconds > 0.0, "{cost:?}");
    let of_iteration = (cost.play_seconds + cost.step_seconds) * 4.0;
    assert!((cost.iteration_seconds - of_iteration).abs() < 1e-9, "{cost:?}");
    assert!((cost.seconds - 12.0 * of_iteration).abs() < 1e-9, "{cost:?}");
    assert!(!run.join("config.json").exists() && !run.join("iterations.jsonl").exists());
    // The weights are those that they were: a run on the same model is that of a new one.
    policy.train(&run).await.unwrap();
    let other = dir.path().join("other");
    trainer(&other, Letters::new(6), &bigram(&other), &settings).train(&other).await.unwrap();
    let lines = |run: &Path| lines::<RlIteration>(&run.join("iterations.jsonl"));
    assert_eq!(lines(&run)[0].reward, lines(&other)[0].reward);
    assert!(matches!(
        trainer(&run, Letters::new(0), &model, &settings).measured().await,
        Err(PipelineError::EmptySplit { .. })
    ));
}

/// A row is what was shown and sampled, to the token: each prompt begins with the prompt and reply before it.
#[tokio::test]
async fn no_token_of_an_episode_is_tokenized_twice() {
    let dir = tempfile::tempdir().unwrap();
    for (name, remembers) in [("grows", true), ("forgets", false)] {
        let run = dir.path().join(name);
        let model = bigram(&run);
        let mut settings = settings();
        settings.iterations = 1;
        let env = Letters { remembers, ..Letters::new(4) };
        trainer(&run, env, &model, &settings).train(&run).await.unwrap();
        let (sampled, rows) = model.seen();
        assert!(!rows.is_empty());
        for row in &rows {
            let parts: Vec<_> = sampled.iter().filter(|(prompt, _)| row.tokens.starts_with(prompt)).collect();
            let learnt: Vec<(usize, u32, f32)> = (0..row.tokens.len())
                .filter(|place| row.weights[*place] == 1.0)
                .map(|place| (place, row.tokens[place], row.old_logprobs[place]))
                .collect();
            let of_part = |prompt: &[u32], tokens: &[u32], logprobs: &[f32]| -> Vec<(usize, u32, f32)> {
                (prompt.len()..)
                    .zip(tokens)
                    .zip(logprobs)
                    .map(|((at, token), logprob)| (at, *token, *logprob))
                    .collect()
            };
            let fits = |(prompt, sample): &&&(Vec<u32>, skill_train::seam::Sample)| {
                row.tokens[prompt.len()..].starts_with(&sample.tokens)
            };
            let expected: Vec<_> = parts
                .iter()
                .filter(fits)
                .map(|(prompt, sample)| of_part(prompt, &sample.tokens, &sample.logprobs))
                .collect();
            // Equal prompts of a group can have equal replies, and give the same part twice.
            assert!(learnt.iter().all(|one| expected.iter().flatten().any(|other| other == one)), "{name}");
            assert_eq!(learnt.len(), row.weights.iter().filter(|weight| **weight != 0.0).count());
            assert!(
                row.weights
                    .iter()
                    .zip(&row.advantages)
                    .all(|(weight, advantage)| *weight == 1.0 || *advantage == 0.0)
            );
        }
        let n_turns = rows.iter().map(|row| {
            let starts = row.weights.windows(2).filter(|pair| pair[0] == 0.0 && pair[1] == 1.0);
            starts.count()
        });
        let expected = if remembers { 2 } else { 1 };
        assert!(n_turns.into_iter().all(|n| n == expected), "{name}");
        assert!(sampled.iter().any(|(_, sample)| sample.ended == Ended::Length));
    }
}

#[tokio::test]
async fn a_run_that_dies_in_any_call_ends_with_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings();
    settings.iterations = 3;
    settings.kl_coeff = 0.01;
    let whole = dir.path().join("whole");
    let (_, model) = train(&whole, &settings).await;
    let (expected, n_calls) = (files(&whole), model.n_calls());
    assert!(n_calls > 15, "{n_calls}");
    for call in 0..n_calls {
        let run = dir.path().join(format!("killed-{call}"));
        let dying = bigram(&run).failing_at(call, || TrainError::Cancelled);
        trainer(&run, Letters::new(6), &dying, &settings).train(&run).await.unwrap_err();
        let iterations = run.join("iterations.jsonl");
        let torn = std::fs::read(&iterations).unwrap_or_default();
        std::fs::write(&iterations, [torn.as_slice(), b"{\"iteration\":"].concat()).unwrap();
        train(&run, &settings).await;
        check_same_files(&files(&run), &expected, &format!("after a death in call {call}"));
    }
}

#[tokio::test]
async fn groups_of_equal_returns_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let mut settings = settings();
    settings.iterations = 1;
    let model = bigram(&run);
    let env = Letters { worth: 0.0, ..Letters::new(4) };
    trainer(&run, env, &model, &settings).train(&run).await.unwrap();
    let iterations: Vec<RlIteration> = lines(&run.join("iterations.jsonl"));
    assert_eq!((iterations[0].groups_without_signal, iterations[0].steps, iterations[0].rows), (1.0, 0, 0));
    assert!(std::fs::read(run.join("policy/weights.bin")).unwrap().iter().all(|byte| *byte == 0));
}

#[tokio::test]
async fn a_sign_is_a_warning_when_it_first_shows_also_over_several_processes() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let warned = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&warned);
    let see = move |event: &Event| {
        if let Event::Warning { step, warning: Some(Warning::TrainingSign { sign, .. }), message, .. } = event
        {
            assert!(message.contains(sign.advice()), "{message}");
            sink.lock().push((step.map(|step| step.0), *sign));
        }
    };
    let see: Arc<dyn EventSink> = Arc::new(see);
    for iterations in [2, 4, 6] {
        let mut settings = settings();
        settings.iterations = iterations;
        let env = Letters { worth: 0.0, ..Letters::new(4) };
        let trainer = trainer(&run, env, &bigram(&run), &settings).with_events(Arc::clone(&see));
        trainer.train(&run).await.unwrap();
    }
    let expected = [(Some(3), TrainingAlert::AllLost), (Some(3), TrainingAlert::NeverWon)];
    assert_eq!(*warned.lock(), expected);
}

#[tokio::test]
async fn what_cannot_be_learnt_from_ends_the_run_and_names_the_iteration() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str| dir.path().join(name);
    let mut single = settings();
    single.group_size = 1;
    let refused =
        trainer(&run("one"), Letters::new(4), &bigram(&run("one")), &single).train(&run("one")).await;
    assert!(matches!(refused, Err(PipelineError::Settings(_))), "{refused:?}");
    let model = bigram(&run("loss")).with_nan_at(2);
    let loss = trainer(&run("loss"), Letters::new(4), &model, &settings()).train(&run("loss")).await;
    assert!(matches!(loss, Err(PipelineError::Weights { step: 2, .. })), "{loss:?}");
    assert!(run("loss").join("rl_checkpoint.json").is_file(), "the first iteration is kept");
    // A world without tasks.
    let empty = trainer(&run("empty"), Letters::new(0), &bigram(&run("empty")), &settings())
        .train(&run("empty"))
        .await;
    assert!(matches!(empty, Err(PipelineError::EmptySplit { .. })), "{empty:?}");
}

#[tokio::test]
async fn a_capped_or_stopped_run_continues_to_the_same_weights() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings();
    settings.iterations = 4;
    train(&dir.path().join("whole"), &settings).await;
    let run = dir.path().join("capped");
    train_capped(&run, &settings).await;
    assert!(run.join("policy/weights.bin").is_file());
    let stop = StopSignal::default();
    stop.after_step.cancel();
    let stopped = trainer(&run, Letters::new(6), &bigram(&run), &settings).with_stop(stop).train(&run).await;
    assert!(matches!(stopped, Err(PipelineError::Stopped { last_step: 1, .. })), "{stopped:?}");
    train(&run, &settings).await;
    let weights = |name: &str| std::fs::read(dir.path().join(name).join("policy/weights.bin")).unwrap();
    assert!(weights("whole") == weights("capped"));
}
