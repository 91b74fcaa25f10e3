//! A toy world: an item is solved if its word is in the skill.

use crate::read;
use crate::run_files::files;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_core::canonical::hex_sha256;
use skill_core::random::Dice;
use skill_core::{RolloutResult, SkillDoc};
use skill_envs::{Env, EnvError, Item, RolloutCtx, SkillSource, Split};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{
    Budget, BudgetCaps, Budgeted, CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, Message, ModelId,
    Prices, Retried, RetryPolicy, Role, Spent, Usage,
};
use skill_pipeline::error::SettingChange;
use skill_pipeline::{
    EpochEnd, Event, EventSink, PipelineError, StopSignal, Summary, TrainSettings, Trainer,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(crate) const WORDS: [&str; 10] =
    ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet"];
pub(crate) const INITIAL_SKILL: &str = "# Skill\n\n- base\n";

pub(crate) struct Words {
    splits: [Vec<Item>; 3],
    /// How often each rollout breaks after its call before it succeeds, by the item's id.
    breaks: Option<(u32, Mutex<BTreeMap<String, u32>>)>,
    /// How many turns are talked before the one that counts.
    small_talk: u32,
    /// A judge that belongs to the world, and is asked nothing.
    pub(crate) judge: Option<Arc<dyn ChatModel>>,
    /// Whether the data say what is to be done, or only a reset does.
    pub(crate) knows_goals: bool,
    pub(crate) n_rollouts: AtomicUsize,
}

impl Words {
    pub(crate) fn new() -> Self {
        let items = |prefix: &str| {
            WORDS
                .iter()
                .enumerate()
                .map(|(idx, word)| Item::new(format!("{prefix}{idx}"), json!(word)))
                .collect()
        };
        Self {
            splits: [items("tr"), items("va"), items("te")],
            breaks: None,
            small_talk: 0,
            judge: None,
            knows_goals: false,
            n_rollouts: AtomicUsize::new(0),
        }
    }

    /// A world that breaks so often in the first rollout of each item.
    pub(crate) fn breaking(times: u32) -> Self {
        Self { breaks: Some((times, Mutex::default())), ..Self::new() }
    }

    /// A world of episodes: so many turns come before the one that counts.
    pub(crate) fn with_small_talk(turns: u32) -> Self {
        Self { small_talk: turns, ..Self::new() }
    }

    /// A world of so many tasks in each split; the words come again after the tenth.
    pub(crate) fn of(n_tasks: usize) -> Self {
        let items = |prefix: &str| {
            let words = WORDS.iter().cycle().take(n_tasks).enumerate();
            words.map(|(idx, word)| Item::new(format!("{prefix}{idx}"), json!(word))).collect()
        };
        Self { splits: [items("tr"), items("va"), items("te")], ..Self::new() }
    }

    pub(crate) fn without(split: Split) -> Self {
        let mut words = Self::new();
        words.splits[split as usize].clear();
        words
    }
}

#[async_trait]
impl Env for Words {
    fn name(&self) -> &str {
        "words"
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.splits[split as usize]
    }

    fn judge(&self) -> Option<&Arc<dyn ChatModel>> {
        self.judge.as_ref()
    }

    fn goal(&self, item: &Item) -> Option<String> {
        self.knows_goals.then(|| item.data.as_str().unwrap().to_owned())
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        self.n_rollouts.fetch_add(1, Ordering::Relaxed);
        let word = item.data.as_str().unwrap();
        let (skill, ctx) = ctx.show(source, item, word).await?;
        let mut talk = vec![Message::system(skill.agent_view())];
        for _ in 0..self.small_talk {
            // Every other turn asks the very same again: the unit of work tells them apart.
            talk.push(Message::user("well?"));
            let reply = target.chat(&ChatRequest::new(talk.clone()), &ctx.call).await?;
            talk.truncate(if talk.len() > 3 { 1 } else { talk.len() });
            if talk.len() > 1 {
                talk.push(Message::assistant(reply.text));
            }
        }
        let request = ChatRequest::new(vec![Message::system(skill.agent_view()), Message::user(word)]);
        let reply = target.chat(&request, &ctx.call).await?;
        if let Some((times, broken)) = &self.breaks {
            let mut broken = broken.lock();
            let count = broken.entry(item.id.to_string()).or_default();
            if *count < *times {
                *count += 1;
                return Err(EnvError::Broken { item: item.id.clone(), message: "it fell over".to_owned() });
            }
        }
        let is_solved = reply.text == "yes";
        let mut result = RolloutResult::new(
            item.id.clone(),
            f64::from(u8::from(is_solved)),
            if is_solved { 1.0 } else { 0.25 },
        );
        result.usage = reply.usage;
        result.fail_reason = if is_solved { String::new() } else { format!("missing: {word}") };
        Ok(result)
    }
}

/// Counts calls; a fault ends every call from the given one on.
pub(crate) struct Counted {
    inner: ScriptedModel,
    pub(crate) n_calls: AtomicUsize,
    pub(crate) n_replies: AtomicUsize,
    fails_from: usize,
    pub(crate) parameters: Value,
}

#[async_trait]
impl ChatModel for Counted {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    fn parameters(&self) -> Value {
        self.parameters.clone()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let call_idx = self.n_calls.fetch_add(1, Ordering::Relaxed);
        // Replies come in an order of their own, as from a real provider.
        for _ in 0..(call_idx * 7) % 5 {
            tokio::task::yield_now().await;
        }
        if call_idx >= self.fails_from {
            let provider = "test".to_owned();
            return Err(LlmError::ServerError {
                provider,
                status: 503,
                message: "busy".to_owned(),
                retry_after: None,
            });
        }
        self.n_replies.fetch_add(1, Ordering::Relaxed);
        self.inner.chat(request, call).await
    }
}

/// A server that fails a share of the requests with a transient error.
struct Failing {
    inner: Arc<dyn ChatModel>,
    dice: Dice,
    percent: u64,
    n_requests: AtomicUsize,
}

#[async_trait]
impl ChatModel for Failing {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    fn parameters(&self) -> Value {
        self.inner.parameters()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let number = self.n_requests.fetch_add(1, Ordering::Relaxed);
        if self.dice.unit(&number.to_string()) * 100.0 < self.percent as f64 {
            let (provider, message) = ("test".to_owned(), "busy".to_owned());
            return Err(LlmError::ServerError { provider, status: 503, message, retry_after: None });
        }
        self.inner.chat(request, call).await
    }
}

pub(crate) fn target(fails_from: usize) -> Arc<Counted> {
    let inner = ScriptedModel::from_fn("target", |request: &ChatRequest, _: &CallCtx| {
        let is_known = request.text_of(Role::System).contains(&request.text_of(Role::User));
        Ok(ChatReply::text(
            if is_known { "yes" } else { "no" },
            Usage { input: 10, output: 1, ..Usage::default() },
        ))
    });
    counted(inner, fails_from, Value::Null)
}

pub(crate) fn counted(inner: ScriptedModel, fails_from: usize, parameters: Value) -> Arc<Counted> {
    let (n_calls, n_replies) = (AtomicUsize::new(0), AtomicUsize::new(0));
    Arc::new(Counted { inner, n_calls, n_replies, fails_from, parameters })
}

/// A model of this name with these parameters.
pub(crate) fn with_parameters(name: &str, parameters: Value) -> Arc<Counted> {
    counted(ScriptedModel::answering(name, |_| "no".to_owned()), usize::MAX, parameters)
}

/// A target for which every skill is another throw of dice: half of the words, whatever it says.
pub(crate) fn fickle_target() -> Arc<Counted> {
    let inner = ScriptedModel::from_fn("target", |request: &ChatRequest, _: &CallCtx| {
        let thrown = hex_sha256(format!("{:?}", request.messages).as_bytes());
        let usage = Usage { input: 10, output: 1, ..Usage::default() };
        Ok(ChatReply::text(if thrown.as_bytes()[0] < b'8' { "yes" } else { "no" }, usage))
    });
    counted(inner, usize::MAX, Value::Null)
}

/// Proposes another rule in each step.
pub(crate) fn inventive_optimizer() -> Arc<dyn ChatModel> {
    Arc::new(ScriptedModel::from_fn("optimizer", |request: &ChatRequest, _: &CallCtx| {
        let rule = hex_sha256(request.text_of(Role::User).as_bytes());
        let edit = json!({"op": "append", "content": format!("- rule {}", rule.get(..8).unwrap())});
        let usage = Usage { input: 50, output: 5, ..Usage::default() };
        Ok(ChatReply::text(json!({"reasoning": "r", "edits": [edit]}).to_string(), usage))
    }))
}

/// A target that solves in the first draw what it can, and the first five words of a split in no other draw.
pub(crate) fn lucky_target() -> Arc<Counted> {
    let inner = ScriptedModel::from_fn("target", |request: &ChatRequest, call: &CallCtx| {
        let word = request.text_of(Role::User);
        let is_unlucky = call.place.as_str().contains("draw") && WORDS[..5].contains(&word.as_str());
        let is_known = request.text_of(Role::System).contains(&word) && !is_unlucky;
        let usage = Usage { input: 10, output: 1, ..Usage::default() };
        Ok(ChatReply::text(if is_known { "yes" } else { "no" }, usage))
    });
    counted(inner, usize::MAX, Value::Null)
}

/// The list that a prompt has in a block of JSON.
pub(crate) fn list_in(prompt: &str) -> Vec<Value> {
    let (_, list) = prompt.split_once("```json").unwrap();
    serde_json::from_str(list.split("```").next().unwrap()).unwrap()
}

/// The edits of the patches in a prompt; none in a prompt that has no patches.
pub(crate) fn edits_in(prompt: &str) -> Vec<Value> {
    if !prompt.contains("```json") {
        return Vec::new();
    }
    list_in(prompt).iter().flat_map(|patch| patch["edits"].as_array().unwrap().clone()).collect()
}

/// Proposes an append per missing word; every third analyst call proposes an edit that cannot land.
pub(crate) fn optimizer() -> Arc<dyn ChatModel> {
    Arc::new(ScriptedModel::from_fn("optimizer", |request: &ChatRequest, _: &CallCtx| Ok(edits_for(request))))
}

/// The same, which writes a skill with all words where it is asked for a whole one.
pub(crate) fn one_shot_optimizer() -> Arc<Counted> {
    let inner = ScriptedModel::from_fn("optimizer", |request: &ChatRequest, call: &CallCtx| {
        if !call.place.to_string().contains("one_shot") {
            return Ok(edits_for(request));
        }
        let candidates =
            json!([{"title": "all words", "new_skill": format!("# Skill\n\n{}\n", WORDS.join("\n"))}]);
        let reply = json!({"patch": {"skill_candidates": candidates}});
        Ok(ChatReply::text(reply.to_string(), Usage { input: 100, output: 20, ..Usage::default() }))
    });
    counted(inner, usize::MAX, Value::Null)
}

fn edits_for(request: &ChatRequest) -> ChatReply {
    let prompt = request.text_of(Role::User);
    let edits = if prompt.contains("# Failed trajectories") {
        let words: Vec<&str> =
            prompt.lines().filter_map(|line| line.strip_prefix("Why it failed: missing: ")).collect();
        if words.contains(&"hotel") {
            json!([{"op": "replace", "target": "- not there", "content": "- x"}])
        } else {
            words.iter().map(|word| json!({"op": "append", "content": format!("- rule {word}")})).collect()
        }
    } else {
        edits_in(&prompt).into()
    };
    let reply = json!({"reasoning": "r", "edits": edits, "selected_indices": [0, 1], "no_change": false});
    ChatReply::text(reply.to_string(), Usage { input: 100, output: 20, ..Usage::default() })
}

/// Proposes the same useless edit to everybody.
pub(crate) fn stubborn_optimizer() -> Arc<dyn ChatModel> {
    Arc::new(ScriptedModel::answering("stubborn", |_| {
        json!({"reasoning": "r", "edits": [{"op": "append", "content": "- useless"}]}).to_string()
    }))
}

/// Stops the run when a step is finished.
pub(crate) struct StopAfter {
    pub(crate) step: u32,
    pub(crate) stop: StopSignal,
    pub(crate) seen: Mutex<Vec<String>>,
}

impl EventSink for StopAfter {
    fn emit(&self, event: &Event) {
        self.seen.lock().push(serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned());
        if let Event::StepFinished { record } = event
            && record.step.0 == self.step
        {
            self.stop.after_step.cancel();
        }
    }
}

pub(crate) fn settings() -> TrainSettings {
    TrainSettings {
        epochs: 2,
        batch_size: 4,
        minibatch_size: 2,
        merge_batch_size: 2,
        edit_budget: skill_core::EditBudget::new(skill_core::EditBudgetSchedule::Cosine, 2, 1).unwrap(),
        epoch_end: EpochEnd::OFF,
        ..TrainSettings::default()
    }
}

pub(crate) struct Job {
    pub(crate) settings: TrainSettings,
    pub(crate) env: Words,
    pub(crate) target: Arc<Counted>,
    pub(crate) stop_after: u32,
    pub(crate) skill: &'static str,
    pub(crate) optimizer: Arc<dyn ChatModel>,
    /// Further settings of the trainer.
    pub(crate) further: Box<dyn FnOnce(Trainer) -> Trainer>,
    /// A cap on calls, and how many of them are lost: sent, and in no record.
    pub(crate) calls: Option<(u64, u64)>,
    /// The percentage of requests that fail and are retried, and the seed that picks them.
    pub(crate) failing: Option<(u64, u64)>,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            settings: settings(),
            env: Words::new(),
            target: target(usize::MAX),
            stop_after: u32::MAX,
            skill: INITIAL_SKILL,
            optimizer: optimizer(),
            further: Box::new(|trainer| trainer),
            calls: None,
            failing: None,
        }
    }
}

impl Job {
    pub(crate) fn run(self, dir: &Path) -> Result<Summary, PipelineError> {
        let stop = StopSignal::default();
        let events = StopAfter { step: self.stop_after, stop: stop.clone(), seen: Mutex::default() };
        let (mut target, mut optimizer): (Arc<dyn ChatModel>, _) = (self.target, self.optimizer);
        let budget = self.calls.map(|(calls, lost)| {
            let budget = Budget::new(BudgetCaps { calls: Some(calls), ..BudgetCaps::default() });
            budget.begin("lost", Spent { calls: lost, ..Spent::default() });
            budget
        });
        if let Some(budget) = &budget {
            let failing = self.failing;
            let capped = |model: Arc<dyn ChatModel>| -> Arc<dyn ChatModel> {
                let budgeted = |model| Arc::new(Budgeted::new(model, Arc::clone(budget), Prices::default()));
                let Some((percent, seed)) = failing else { return budgeted(model) };
                let dice = Dice::new(seed, &[&model.id().to_string()]);
                let failing = Failing { inner: model, dice, percent, n_requests: AtomicUsize::new(0) };
                let at_once =
                    RetryPolicy { max_attempts: 30, first_delay: Duration::ZERO, ..RetryPolicy::default() };
                Arc::new(Retried::new(budgeted(Arc::new(failing)), at_once, Arc::default()))
            };
            (target, optimizer) = (capped(target), capped(optimizer));
        }
        let trainer = Trainer::new(Arc::new(self.env), target, optimizer)
            .with_settings(self.settings)
            .with_initial_skill(SkillDoc::new(self.skill))
            .with_events(Arc::new(events))
            .with_stop(stop);
        let trainer = match budget {
            Some(budget) => trainer.with_budget(budget, Vec::new()),
            None => trainer,
        };
        let trainer = (self.further)(trainer);
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(trainer.train(dir))
    }
}

/// Checks that a run writes the same files with one worker and with many, when it is stopped after each of its first
/// `n_stops` steps and resumed, and when its target fails from each of these calls on and it is resumed.
#[track_caller]
pub(crate) fn check_same_files(
    what: &str,
    settings: &TrainSettings,
    job: impl Fn(TrainSettings) -> Job,
    n_stops: u32,
    fails_from: &[usize],
) {
    let with_workers = |workers| {
        let dir = tempfile::tempdir().unwrap();
        job(TrainSettings { workers, ..settings.clone() }).run(dir.path()).unwrap();
        files(dir.path())
    };
    let undisturbed = with_workers(1);
    assert_eq!(with_workers(1000), undisturbed, "{what} with many workers");
    for stop_after in 1..=n_stops {
        let dir = tempfile::tempdir().unwrap();
        let error = Job { stop_after, ..job(settings.clone()) }.run(dir.path()).unwrap_err();
        assert!(matches!(error, PipelineError::Stopped { .. }), "{error:?}");
        job(settings.clone()).run(dir.path()).unwrap();
        assert_eq!(files(dir.path()), undisturbed, "{what} stopped after step {stop_after}");
    }
    for call in fails_from {
        let dir = tempfile::tempdir().unwrap();
        Job { target: target(*call), ..job(settings.clone()) }.run(dir.path()).unwrap_err();
        job(settings.clone()).run(dir.path()).unwrap();
        assert_eq!(files(dir.path()), undisturbed, "{what} failed from call {call} on");
    }
}

/// The settings by which a run is refused.
#[track_caller]
pub(crate) fn changed_settings(outcome: Result<Summary, PipelineError>) -> Vec<SettingChange> {
    match outcome.unwrap_err() {
        PipelineError::Mismatch { changes, .. } => changes,
        other => panic!("{other:?}"),
    }
}

/// A setting with two values.
pub(crate) fn changed(name: &str, was: impl Into<Value>, is: impl Into<Value>) -> SettingChange {
    SettingChange::Value { name: name.to_owned(), was: was.into(), is: is.into() }
}

/// What a run has on record of a step.
pub(crate) fn record(dir: &Path, step: u32) -> Value {
    read(dir.join(format!("steps/step_{step:04}/step_record.json")))
}

pub(crate) fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap()
}
