//! The end of an epoch: slow update, meta skill, a run without a gate, and the last skill as the best one.

use crate::run_files::files;
use crate::world::{
    Counted, INITIAL_SKILL, Job, changed, changed_settings, optimizer, settings, target, text,
};
use crate::{actions, read};
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_core::{EditBudget, EditBudgetSchedule, PairPolicy, Role, SkillDoc, slow_update_guidance};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, Usage};
use skill_pipeline::{Acceptance, EarlyStop, EpochEnd, PipelineError, SlowUpdate, TrainSettings};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the optimizer says at the end of an epoch.
#[derive(Clone, Copy)]
enum Guidance {
    /// A rule for the first task that fails.
    Useful,
    /// Something that helps no task.
    Useless,
    /// Nothing.
    None,
}

const NOTES: &str = "- Rules with a single word are followed.";

/// The usual optimizer, which can also write guidance and notes; it keeps what it was asked, and breaks down at a call.
struct Teacher {
    usual: Arc<dyn ChatModel>,
    guidance: Guidance,
    fails_at: usize,
    n_calls: AtomicUsize,
    asked: Mutex<Vec<(String, String)>>,
}

impl Teacher {
    fn new(guidance: Guidance, fails_at: usize) -> Arc<Self> {
        let (n_calls, asked) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { usual: optimizer(), guidance, fails_at, n_calls, asked })
    }

    /// The places that asked, and what they asked.
    fn asked(&self) -> Vec<(String, String)> {
        self.asked.lock().clone()
    }

    fn model(self: &Arc<Self>) -> Arc<dyn ChatModel> {
        let teacher = Arc::clone(self);
        let usual = Arc::clone(&self.usual);
        Arc::new(Boxed { id: usual.id().clone(), teacher })
    }
}

struct Boxed {
    id: skill_llm::ModelId,
    teacher: Arc<Teacher>,
}

#[async_trait::async_trait]
impl ChatModel for Boxed {
    fn id(&self) -> &skill_llm::ModelId {
        &self.id
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let teacher = &self.teacher;
        if teacher.n_calls.fetch_add(1, Ordering::Relaxed) >= teacher.fails_at {
            let (provider, message) = ("test".to_owned(), "busy".to_owned());
            return Err(LlmError::ServerError { provider, status: 503, message, retry_after: None });
        }
        let prompt = request.text_of(Role::User);
        teacher.asked.lock().push((call.place.to_string(), prompt.clone()));
        let missing = prompt.lines().find_map(|line| line.strip_prefix("Why it failed: missing: "));
        let text = if prompt.contains("# Present guidance") {
            let guidance = match (teacher.guidance, missing) {
                (Guidance::Useful, Some(word)) => format!("- rule {word}"),
                (Guidance::Useless, _) => "- useless".to_owned(),
                (Guidance::Useful, None) | (Guidance::None, _) => String::new(),
            };
            json!({"reasoning": "sr", "slow_update_content": guidance})
        } else if prompt.contains("# Your present notes") {
            json!({"reasoning": "mr", "meta_skill_content": NOTES})
        } else {
            return teacher.usual.chat(request, call).await;
        };
        Ok(ChatReply::text(text.to_string(), Usage { input: 100, output: 20, ..Usage::default() }))
    }
}

fn with(epoch_end: EpochEnd) -> TrainSettings {
    let edit_budget = EditBudget::new(EditBudgetSchedule::Constant, 1, 1).unwrap();
    TrainSettings { epochs: 3, epoch_end, edit_budget, ..settings() }
}

fn few(slow_update: SlowUpdate) -> EpochEnd {
    EpochEnd { slow_update, samples: 4, ..EpochEnd::default() }
}

/// Every way to end an epoch, by name.
fn ways() -> Vec<(&'static str, TrainSettings)> {
    let changed = EpochEnd { pair_policy: PairPolicy::Changed, ..few(SlowUpdate::Gated) };
    let unchanged =
        EpochEnd { pair_policy: PairPolicy::Unchanged, meta_skill: false, ..few(SlowUpdate::Force) };
    vec![
        ("gated", with(few(SlowUpdate::Gated))),
        ("changed", with(changed)),
        ("forced", with(unchanged)),
        ("notes alone", with(few(SlowUpdate::Off))),
        ("no gate", TrainSettings { acceptance: Acceptance::Always, ..with(few(SlowUpdate::Gated)) }),
    ]
}

fn job(settings: TrainSettings, guidance: Guidance) -> Job {
    Job { settings, optimizer: Teacher::new(guidance, usize::MAX).model(), ..Job::default() }
}

fn run(settings: TrainSettings, guidance: Guidance) -> (tempfile::TempDir, skill_pipeline::Summary) {
    let dir = tempfile::tempdir().unwrap();
    let summary = job(settings, guidance).run(dir.path()).unwrap();
    (dir, summary)
}

fn slow(dir: &Path, epoch: u32) -> Value {
    read(dir.join(format!("slow_update/epoch_{epoch:02}/slow_result.json")))
}

fn slow_actions(dir: &Path) -> Vec<String> {
    (1..=3).map(|epoch| slow(dir, epoch)["action"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_epoch_ends_with_guidance_and_notes_and_leaves_the_evidence() {
    let (dir, summary) = run(with(few(SlowUpdate::Gated)), Guidance::Useful);
    let names: Vec<String> = files(dir.path()).into_keys().filter(|name| !name.contains("step_")).collect();
    insta::assert_snapshot!(names.join("\n"));
    insta::assert_json_snapshot!("slow_result", slow(dir.path(), 2));
    insta::assert_json_snapshot!(
        "meta_skill_result",
        read(dir.path().join("meta_skill/epoch_02/meta_skill_result.json"))
    );
    let pairs = read(dir.path().join("slow_update/epoch_02/comparison_pairs.json"));
    insta::assert_json_snapshot!("comparison_pair", pairs[0]);
    assert_eq!(pairs.as_array().unwrap().len(), 4);
    let counts = summary.epoch_ends.unwrap();
    assert_eq!((counts.slow_skips, counts.meta_skills), (1, 2));
    assert!(counts.slow_accepts > 0, "{:?}", slow_actions(dir.path()));
    let tokens = &summary.token_summary;
    assert_eq!((tokens["slow_update"].calls, tokens["meta_skill"].calls), (2, 2));
    let best = SkillDoc::new(text(dir.path().join("best_skill.md")));
    assert!(slow_update_guidance(&best).is_some_and(|guidance| guidance.starts_with("- rule ")), "{best:?}");
}

#[test]
fn the_first_epoch_gets_an_empty_region_and_keeps_its_score() {
    let (dir, _) = run(with(few(SlowUpdate::Gated)), Guidance::None);
    assert_eq!(slow_actions(dir.path()), ["inject_placeholder", "no_content", "no_content"]);
    let (before, after) =
        (text(dir.path().join("skills/skill_v0003.md")), text(dir.path().join("skills/skill_epoch_01.md")));
    insta::assert_compact_debug_snapshot!(
        after.strip_prefix(&before),
        @r#"Some("\n<!-- SLOW_UPDATE_START -->\n<!-- SLOW_UPDATE_END -->\n")"#
    );
    let history = read(dir.path().join("history.json"));
    assert_eq!(history[2]["current_score"], history[3]["score_before"]);
}

#[test]
fn guidance_has_to_pass_the_gate() {
    let (dir, summary) = run(with(few(SlowUpdate::Gated)), Guidance::Useless);
    assert_eq!(slow_actions(dir.path()), ["inject_placeholder", "reject", "reject"]);
    assert_eq!(summary.epoch_ends.unwrap().slow_rejects, 2);
    for name in ["current_skill.md", "best_skill.md"] {
        assert!(!text(dir.path().join(name)).contains("- useless"), "{name}");
    }
    let record = slow(dir.path(), 2);
    assert_eq!(record["selection_hard"], Value::Null, "it is rejected before every item is measured");
    assert!(record["selection_n_seen"].as_u64() < record["selection_n"].as_u64(), "{record}");
}

#[test]
fn early_rejection_decides_about_guidance_as_the_whole_evaluation_does() {
    for (name, settings) in ways() {
        for guidance in [Guidance::Useful, Guidance::Useless] {
            let [early, whole] = [EarlyStop::Exact, EarlyStop::Off]
                .map(|early_stop| run(TrainSettings { early_stop, ..settings.clone() }, guidance).0);
            assert_eq!(actions(early.path()), actions(whole.path()), "{name}");
            let current = |dir: &tempfile::TempDir| text(dir.path().join("current_skill.md"));
            assert_eq!(current(&early), current(&whole), "{name}");
        }
    }
}

/// Defect 13 of the reference: it goes on with the score of the skill before.
#[test]
fn forced_guidance_is_measured_and_the_best_skill_stays() {
    let (dir, _) = run(with(few(SlowUpdate::Force)), Guidance::Useful);
    assert_eq!(slow(dir.path(), 2)["action"], "force_accept");
    let record = slow(dir.path(), 2);
    let words = crate::WORDS.iter();
    let skill = text(dir.path().join("slow_update/epoch_02/candidate_skill.md"));
    let share = words.filter(|word| skill.contains(&format!("- rule {word}"))).count() as f64 / 10.0;
    assert_eq!(record["selection_hard"], share);
    assert_eq!(record["current_score"], share);
    assert!(share > record["score_before"].as_f64().unwrap());
    assert_eq!(record["best_score"], record["score_before"], "the best one is another's");
    assert_eq!(read(dir.path().join("history.json"))[6]["score_before"], share);
}

#[test]
fn a_last_skill_that_is_better_than_the_best_is_the_best_at_the_end() {
    let settings = TrainSettings { epochs: 2, ..with(few(SlowUpdate::Force)) };
    let (dir, summary) = run(settings, Guidance::Useful);
    let state = read(dir.path().join("runtime_state.json"));
    assert!(summary.best_selection_score > state["best_score"].as_f64().unwrap());
    assert_eq!(summary.best_selection_score, summary.current_selection_score);
    assert_eq!(summary.best_slow_epoch.map(|epoch| epoch.0), Some(2));
    assert_eq!(text(dir.path().join("best_skill.md")), text(dir.path().join("current_skill.md")));
    assert_eq!(summary.test_hard, Some(summary.best_selection_score), "the test is of that skill");
}

#[test]
fn without_a_gate_every_candidate_is_the_next_skill_and_the_best_is_kept() {
    let settings = TrainSettings {
        acceptance: Acceptance::Always,
        ..TrainSettings { epochs: 3, epoch_end: EpochEnd::OFF, ..settings() }
    };
    let dir = tempfile::tempdir().unwrap();
    let forgetful = Arc::new(ScriptedModel::from_fn("optimizer", |request: &ChatRequest, call: &CallCtx| {
        let prompt = request.text_of(Role::User);
        let is_early = call.place.to_string().starts_with("step 1 ");
        let edit = match (is_early, prompt.contains("- rule golf")) {
            (true, _) => json!({"op": "append", "content": "- rule golf"}),
            (false, true) => json!({"op": "delete", "target": "- rule golf"}),
            (false, false) => json!({"op": "append", "content": "- nothing"}),
        };
        let reply = json!({"reasoning": "r", "edits": [edit], "no_change": false, "selected_indices": [0]});
        Ok(ChatReply::text(reply.to_string(), Usage::default()))
    }));
    let summary = Job { settings, optimizer: forgetful, ..Job::default() }.run(dir.path()).unwrap();
    let done = actions(dir.path());
    assert_eq!(done.first().map(String::as_str), Some("force_accept"));
    assert!(done.iter().all(|action| action == "force_accept" || action == "skip_no_op"), "{done:?}");
    assert_eq!(summary.best_step.0, 1);
    assert!(text(dir.path().join("best_skill.md")).contains("- rule golf"));
    assert!(!text(dir.path().join("current_skill.md")).contains("- rule golf"));
    assert!(summary.current_selection_score < summary.best_selection_score);
}

#[test]
fn notes_are_shown_in_the_next_epoch_and_to_the_optimizer_alone() {
    let teacher = Teacher::new(Guidance::Useful, usize::MAX);
    let dir = tempfile::tempdir().unwrap();
    Job { settings: with(few(SlowUpdate::Gated)), optimizer: teacher.model(), ..Job::default() }
        .run(dir.path())
        .unwrap();
    let mut n_shown = 0;
    for (place, prompt) in teacher.asked() {
        let step: u32 = place.split([' ', '/']).nth(1).unwrap().parse().unwrap();
        let is_third_epoch = step > 6 || place.starts_with("step 9 ");
        assert_eq!(prompt.contains(NOTES), is_third_epoch, "{place}");
        n_shown += u32::from(is_third_epoch);
    }
    assert!(n_shown > 2);
    assert!(!text(dir.path().join("current_skill.md")).contains(NOTES));
}

#[test]
fn a_policy_says_which_pairs_are_looked_at_and_changed_draws_more() {
    let of = |pair_policy| {
        let settings = with(EpochEnd { pair_policy, ..few(SlowUpdate::Gated) });
        let (dir, _) = run(settings, Guidance::Useful);
        let pairs = |name: &str| {
            let path = dir.path().join("slow_update/epoch_02").join(name);
            if path.exists() { read(path).as_array().unwrap().clone() } else { Vec::new() }
        };
        (pairs("comparison_pairs.json"), pairs("comparison_pairs_all.json"))
    };
    let categories = |pairs: &[Value]| -> Vec<String> {
        pairs.iter().map(|pair| pair["category"].as_str().unwrap().to_owned()).collect()
    };
    let (mixed, none) = of(PairPolicy::Mixed);
    assert_eq!((mixed.len(), none.len()), (4, 0));
    let (changed, all) = of(PairPolicy::Changed);
    assert!(categories(&changed).iter().all(|category| category == "improved"), "{changed:?}");
    assert_eq!(all.len(), 10, "the whole split was drawn for want of changed tasks");
    let (unchanged, all) = of(PairPolicy::Unchanged);
    assert_eq!(all.len(), 4);
    assert!(categories(&unchanged).iter().all(|category| category != "improved"), "{unchanged:?}");
}

#[test]
fn equal_skills_are_rolled_out_once() {
    let job = |target: Arc<Counted>| Job {
        settings: TrainSettings { eval_test: false, ..with(few(SlowUpdate::Gated)) },
        optimizer: Arc::new(ScriptedModel::answering("silent", |_| json!({"edits": []}).to_string())),
        target,
        ..Job::default()
    };
    let (dir, asked) = (tempfile::tempdir().unwrap(), target(usize::MAX));
    job(asked.clone()).run(dir.path()).unwrap();
    // The baseline, three epochs, and a sample at the end of the second and of the third.
    assert_eq!(asked.n_calls.load(Ordering::Relaxed), 10 + 30 + 8);
}

#[test]
fn one_worker_and_a_thousand_end_epochs_with_the_same_files() {
    for (name, settings) in ways() {
        let [one, many] = [1, 1000].map(|workers| {
            let (dir, _) = run(TrainSettings { workers, ..settings.clone() }, Guidance::Useful);
            files(dir.path())
        });
        assert_eq!(one, many, "{name}");
    }
}

#[test]
fn a_run_that_fails_at_any_call_goes_on_to_the_files_of_an_undisturbed_one() {
    for (name, settings) in ways().into_iter().filter(|(name, _)| ["changed", "forced"].contains(name)) {
        let undisturbed = tempfile::tempdir().unwrap();
        let (whole, teacher) = (target(usize::MAX), Teacher::new(Guidance::Useful, usize::MAX));
        let job = |target: &Arc<Counted>, teacher: &Arc<Teacher>| Job {
            // One at a time, so that no rollout beyond an early rejection is under way.
            settings: TrainSettings { workers: 1, ..settings.clone() },
            target: target.clone(),
            optimizer: teacher.model(),
            ..Job::default()
        };
        job(&whole, &teacher).run(undisturbed.path()).unwrap();
        let n_calls = whole.n_calls.load(Ordering::Relaxed);
        let n_asked = teacher.asked().len();
        let faults = (65..n_calls).step_by(47).map(|call| (call, usize::MAX));
        let faults = faults.chain((11..n_asked).step_by(7).map(|call| (usize::MAX, call)));
        for (target_fails, optimizer_fails) in faults {
            let dir = tempfile::tempdir().unwrap();
            let (first, rest) = (target(target_fails), target(usize::MAX));
            let teachers = [optimizer_fails, usize::MAX].map(|at| Teacher::new(Guidance::Useful, at));
            job(&first, &teachers[0]).run(dir.path()).unwrap_err();
            job(&rest, &teachers[1]).run(dir.path()).unwrap();
            let place = format!("{name}: target {target_fails}, optimizer {optimizer_fails}");
            assert_eq!(files(dir.path()), files(undisturbed.path()), "{place}");
            let n_replies = |target: &Counted| target.n_replies.load(Ordering::Relaxed);
            assert_eq!(n_replies(&first) + n_replies(&rest), n_calls, "{place}");
            assert_eq!(
                teachers.iter().map(|teacher| teacher.asked().len()).sum::<usize>(),
                n_asked,
                "{place}"
            );
        }
    }
}

#[test]
fn a_run_that_is_stopped_before_the_end_of_an_epoch_ends_it_first() {
    for (name, settings) in ways() {
        let (undisturbed, _) = run(settings.clone(), Guidance::Useful);
        for stop_after in [3, 6] {
            let dir = tempfile::tempdir().unwrap();
            let stopped =
                Job { stop_after, ..job(settings.clone(), Guidance::Useful) }.run(dir.path()).unwrap_err();
            assert!(matches!(stopped, PipelineError::Stopped { last_step, .. } if last_step == stop_after));
            assert!(!dir.path().join(format!("skills/skill_epoch_{:02}.md", stop_after / 3)).exists());
            assert!(!dir.path().join("test_eval_baseline").exists(), "the test split is for the end");
            job(settings.clone(), Guidance::Useful).run(dir.path()).unwrap();
            assert_eq!(
                files(dir.path()),
                files(undisturbed.path()),
                "{name}: stopped after step {stop_after}"
            );
        }
    }
}

#[test]
fn a_run_that_is_extended_is_one_that_was_longer_from_the_start() {
    for (name, settings) in ways() {
        let (long, _) = run(settings.clone(), Guidance::Useful);
        let (dir, _) = run(TrainSettings { epochs: 2, ..settings.clone() }, Guidance::Useful);
        job(settings, Guidance::Useful).run(dir.path()).unwrap();
        let [extended, long] = [dir.path(), long.path()].map(files);
        assert_eq!(extended, long, "{name}");
    }
}

#[test]
fn a_finished_run_with_ends_of_epochs_makes_no_call() {
    for (name, settings) in ways() {
        let (dir, summary) = run(settings.clone(), Guidance::Useful);
        let before = files(dir.path());
        let teacher = Teacher::new(Guidance::Useful, 0);
        let again = Job { settings, optimizer: teacher.model(), target: target(0), ..Job::default() };
        assert_eq!(again.run(dir.path()).unwrap(), summary, "{name}");
        assert_eq!(files(dir.path()), before, "{name}");
    }
}

#[test]
fn ends_of_epochs_are_part_of_what_a_run_is() {
    let dir = tempfile::tempdir().unwrap();
    let stopped = Job { stop_after: 1, ..job(with(few(SlowUpdate::Gated)), Guidance::Useful) };
    stopped.run(dir.path()).unwrap_err();
    let changes = changed_settings(job(with(few(SlowUpdate::Force)), Guidance::Useful).run(dir.path()));
    assert_eq!(changes, [changed("train.slow_update", "gated", "force")]);
    let changes = changed_settings(job(with(EpochEnd::OFF), Guidance::Useful).run(dir.path()));
    assert!(changes.contains(&changed("train.meta_skill", true, Value::Null)), "{changes:?}");
    assert!(text(dir.path().join("skills/skill_v0000.md")) == INITIAL_SKILL);
}

#[test]
fn a_changed_snapshot_of_an_epoch_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    Job { stop_after: 4, ..job(with(few(SlowUpdate::Gated)), Guidance::Useful) }.run(dir.path()).unwrap_err();
    let path = dir.path().join("skills/skill_epoch_01.md");
    std::fs::write(&path, "# Another\n").unwrap();
    let error = job(with(few(SlowUpdate::Gated)), Guidance::Useful).run(dir.path()).unwrap_err();
    let is_of_skill = |file: &Path| file.ends_with("skills/skill_epoch_01.md");
    assert!(matches!(&error, PipelineError::Corrupt { path, .. } if is_of_skill(path)), "{error:?}");
}
