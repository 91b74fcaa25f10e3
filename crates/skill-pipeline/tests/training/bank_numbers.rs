//! What a run that trains a bank counts: trials, e-values, times, and calls of embedding models.

use crate::bank_faults::breaking_target;
use crate::banks::{Run, bank_settings, opens, record, teaches};
use crate::run_files::files;
use crate::world::{Counted, counted};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use skill_bank::retrieve::{Retrieval, RetrievalMode, RetrievalSettings};
use skill_bank::{Author, Bank, BankEvent, Content, Evidence, SkillProvenance, Tier, TrialVerdict};
use skill_core::ItemId;
use skill_core::random::Dice;
use skill_llm::scripted::ScriptedModel;
use skill_llm::{
    CallCtx, ChatReply, ChatRequest, EmbeddingModel, EmbeddingReply, EmbeddingRequest, LlmError, ModelId,
    Role, Usage,
};
use skill_pipeline::run_dir::timings::Timings;
use skill_pipeline::{Event, Trainer};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seconds of the parts of stages, by step and stage.
type Parts = BTreeMap<(u32, String), Vec<f64>>;

/// A bank with one candidate for stuck doors, made from these tasks.
fn bank_with_candidate(evidence: &[String]) -> Bank {
    let mut bank = Bank::new();
    let tier = Tier::of_type("stuck");
    let content = Content::principle("Use force", "Lean in and push hard.", "It does not move.");
    let mut of_tasks = Evidence::default();
    of_tasks.items = evidence.iter().map(ItemId::new).collect();
    let proposed =
        BankEvent::proposed(bank.next_skill(&tier), tier, content, SkillProvenance::Distilled, of_tasks);
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
                TrialVerdict::Admit => {
                    assert!(together >= 19.999, "{trial:?}");
                    n_admitted_together += usize::from(decision.numbers.e_better < 19.0);
                    break;
                }
                TrialVerdict::Reject => break,
                TrialVerdict::Undecided => e_before = Some(together),
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
                    seen.lock().entry(key).or_default().push(*seconds);
                }
            };
            base.with_events(Arc::new(sink))
        });
        Run { base, ..run }
    };
    timed(Run { target: breaking_target(120), ..Run::default() }).run(dir.path()).unwrap_err();
    timed(Run::default()).run(dir.path()).unwrap();
    let timings = Timings::read_or_new(dir.path()).unwrap();
    let seconds = seconds.lock();
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
