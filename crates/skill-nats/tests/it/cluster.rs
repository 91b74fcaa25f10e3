//! A driver with workers, and an environment whose rollouts take several calls.

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use skill_core::RolloutResult;
use skill_envs::runner::{JobModels, ReplyRecord};
use skill_envs::source::document;
use skill_envs::{
    Env, EnvError, Item, JobLink, JobSkill, LocalRunner, RolloutCtx, RolloutJob, RolloutOutcome,
    RolloutRunner, Shown, SkillSource, Split,
};
use skill_llm::{
    Budget, BudgetCaps, Budgeted, CallCtx, CallPlace, ChatModel, ChatReply, ChatRequest, Journal,
    JournalOptions, Journaled, LlmError, Message, Metered, ModelId, Prices, Retried, RetryBudget,
    RetryPolicy, ScriptedModel, Usage,
};
use skill_nats::fake::{FakeClient, FakeConnect, FakeServer};
use skill_nats::{
    DriverConfig, FetchContent, NatsRunner, RemoteModel, Times, Worker, WorkerAgent, WorkerConfig,
    WorkerStop, Workshop,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};

/// The calls of each rollout.
pub(crate) const N_TURNS: usize = 3;
pub(crate) const SKILL: &str = "Answer in capitals.";

/// Rollouts of several calls, each of which builds on the reply before.
pub(crate) struct Turns {
    pub(crate) items: Vec<Item>,
    /// Characters that each request has besides.
    pub(crate) padding: usize,
    /// The item whose rollouts panic.
    pub(crate) panics_at: Option<&'static str>,
    /// Whether the goal is known without a reset.
    pub(crate) has_goal: bool,
}

impl Turns {
    pub(crate) fn new(n_items: usize) -> Self {
        let items = (0..n_items).map(|n| Item::new(format!("t{n}"), n.into())).collect();
        Self { items, padding: 0, panics_at: None, has_goal: true }
    }
}

#[async_trait]
impl Env for Turns {
    fn name(&self) -> &str {
        "turns"
    }

    fn items(&self, split: Split) -> &[Item] {
        if split == Split::Train { &self.items } else { &[] }
    }

    fn goal(&self, _: &Item) -> Option<String> {
        self.has_goal.then(String::new)
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        assert_ne!(self.panics_at, Some(item.id.as_str()), "the world fell off its turtle");
        let (skill, ctx) = ctx.show(source, item, "get to the end").await?;
        let mut said = Vec::new();
        for turn in 0..N_TURNS {
            let text = format!("{} {turn} {} {}", item.data, said.join(" "), "x".repeat(self.padding));
            let request = ChatRequest::new(vec![Message::system(skill.agent_view()), Message::user(text)]);
            said.push(target.chat(&request, &ctx.call.child(format!("turn {turn}"))).await?.text);
        }
        let mut result = RolloutResult::new(item.id.clone(), 1.0, 0.5);
        result.predicted_answer = said.join(" ");
        Ok(result)
    }
}

/// Answers after a while, and counts what it was sent.
pub(crate) struct Sending {
    inner: ScriptedModel,
    took: Duration,
    pub(crate) sent: Arc<Sent>,
}

/// Looks at a call before its request is sent.
pub(crate) type Check = Box<dyn Fn(&CallCtx) + Send + Sync>;

/// The requests that all workers have sent, and how often each.
#[derive(Default)]
pub(crate) struct Sent {
    pub(crate) total: AtomicU64,
    pub(crate) by_place: Mutex<BTreeMap<String, u64>>,
    /// Looks at each request before it is sent.
    pub(crate) check: Mutex<Option<Check>>,
}

impl Sent {
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl ChatModel for Sending {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        if let Some(check) = self.sent.check.lock().as_ref() {
            check(call);
        }
        self.sent.total.fetch_add(1, Ordering::Relaxed);
        *self.sent.by_place.lock().entry(call.place.to_string()).or_default() += 1;
        tokio::time::sleep(self.took).await;
        self.inner.chat(request, call).await
    }
}

pub(crate) fn scripted() -> ScriptedModel {
    ScriptedModel::from_fn("small", |request, _| {
        let text = request.text_of(skill_llm::Role::User);
        let sum = text.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        let usage = Usage { input: 5, output: 2, ..Usage::default() };
        Ok(ChatReply::text(format!("r{sum:08x}"), usage))
    })
}

pub(crate) fn sending(took: Duration, sent: &Arc<Sent>) -> Arc<dyn ChatModel> {
    Arc::new(Sending { inner: scripted(), took, sent: Arc::clone(sent) })
}

/// The model of a run, of which no request leaves the driver.
struct NotHere(ModelId);

#[async_trait]
impl ChatModel for NotHere {
    fn id(&self) -> &ModelId {
        &self.0
    }

    async fn chat(&self, _: &ChatRequest, _: &CallCtx) -> Result<ChatReply, LlmError> {
        panic!("the driver has sent a request")
    }
}

struct Committed(Journal);

#[async_trait]
impl ReplyRecord for Committed {
    async fn commit(&self) -> Result<(), LlmError> {
        Ok(self.0.flush().await?)
    }
}

/// The process that trains: a runner and the models of the run, over a journal.
pub(crate) struct Driver {
    pub(crate) runner: Arc<NatsRunner>,

    pub(crate) budget: Arc<Budget>,
    pub(crate) client: Arc<FakeClient>,
    pub(crate) models: JobModels,
    pub(crate) source: Arc<dyn SkillSource>,
}

impl Driver {
    pub(crate) fn new(server: &FakeServer, dir: &Path, caps: BudgetCaps) -> Self {
        Self::of_session(server, dir, caps, "first")
    }

    pub(crate) fn of_session(server: &FakeServer, dir: &Path, caps: BudgetCaps, session: &str) -> Self {
        let client = server.client();
        let config = DriverConfig {
            name: "team".to_owned(),
            run: "run".to_owned(),
            session: session.to_owned(),
            title: "my run".to_owned(),
            version: "1".to_owned(),
            setup: setup().0,
            contents: Arc::new(BTreeMap::from([setup()])),
            times: Times::default(),
        };
        let runner = Arc::new(NatsRunner::new(Arc::new(FakeConnect(Arc::clone(&client))), config));
        let journal = Journal::open(&dir.join("journal.sqlite"), JournalOptions::default()).unwrap();
        let budget = Budget::new(caps);
        let plain = Arc::new(RemoteModel::new(Arc::new(NotHere(scripted().id().clone()))));
        let budgeted = Arc::new(Budgeted::new(plain, Arc::clone(&budget), Prices::default()));
        let retried = Retried::new(budgeted, RetryPolicy::default(), Arc::new(RetryBudget::default()));
        let kept = Journaled::new(Arc::new(retried), journal.clone());
        let target: Arc<dyn ChatModel> = Arc::new(Metered::new(Arc::new(kept)));
        let record: Arc<dyn ReplyRecord> = Arc::new(Committed(journal.clone()));
        let models = JobModels { target, judge: None, record: Some(record) };
        Self { runner, budget, client, models, source: document(&SKILL.into()) }
    }

    /// Makes rollouts for so long and is killed then: nothing that it says afterwards arrives.
    pub(crate) async fn live_for(self, life: Duration, env: &Turns) {
        let mut making = Box::pin(self.make(env));
        drop(tokio::time::timeout(life, &mut making).await);
        self.client.set_cut(true);
    }

    /// Makes the rollouts of these items, and acknowledges each result.
    pub(crate) async fn make(&self, env: &Turns) -> Vec<Result<RolloutOutcome, EnvError>> {
        let mut made = JoinSet::new();
        for (index, item) in env.items.iter().enumerate() {
            let link = JobLink::new(Arc::clone(&self.source)).with_models(self.models.clone());
            let (runner, job) = (Arc::clone(&self.runner), job(item, env.has_goal));
            made.spawn(async move {
                let key = job.key.clone();
                let outcome = runner.run(job, link).await;
                if outcome.is_ok() {
                    runner.acknowledge(&key).await;
                }
                (index, outcome)
            });
        }
        let mut made = made.join_all().await;
        made.sort_by_key(|(index, _)| *index);
        made.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

pub(crate) fn job(item: &Item, has_goal: bool) -> RolloutJob {
    let skill = match has_goal {
        true => JobSkill::Shown(Shown::new(SKILL.into(), Vec::new())),
        false => JobSkill::AfterReset { version: "v1".to_owned() },
    };
    let place = CallPlace::new("step 1").child(&item.id);
    RolloutJob::new(format!("key-{}", item.id), "turns", item.clone(), skill, place)
}

fn setup() -> (String, Bytes) {
    let content = Bytes::from_static(b"the setup");
    (skill_core::canonical::hex_sha256(&content), content)
}

/// Gives every worker the same environment.
struct Given {
    env: Arc<dyn Env>,
    target: Arc<dyn ChatModel>,
}

#[async_trait]
impl Workshop for Given {
    async fn open(&self, setup: &Bytes, _: &dyn FetchContent) -> Result<WorkerAgent, Vec<String>> {
        if setup.as_ref() != b"the setup" {
            return Err(vec!["this is another setup".to_owned()]);
        }
        Ok(WorkerAgent { env: Arc::clone(&self.env), target: Arc::clone(&self.target), judge: None })
    }
}

/// A worker that runs.
pub(crate) struct Running {
    pub(crate) client: Arc<FakeClient>,
    pub(crate) stop: WorkerStop,
    task: JoinHandle<()>,
}

impl Running {
    /// Ends it like `kill -9`: nothing that it says arrives any longer.
    pub(crate) async fn kill(self) {
        self.client.set_cut(true);
        self.task.abort();
        drop(self.task.await);
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(self) {
        self.task.await.unwrap();
    }
}

pub(crate) fn start(
    server: &FakeServer,
    id: &str,
    slots: u32,
    env: &Arc<Turns>,
    target: Arc<dyn ChatModel>,
) -> Running {
    start_version(server, id, slots, env, target, "1")
}

pub(crate) fn start_version(
    server: &FakeServer,
    id: &str,
    slots: u32,
    env: &Arc<Turns>,
    target: Arc<dyn ChatModel>,
    version: &str,
) -> Running {
    let client = server.client();
    let config = WorkerConfig {
        name: "team".to_owned(),
        id: id.to_owned(),
        title: format!("host/{id}"),
        version: version.to_owned(),
        slots,
        times: Times::default(),
    };
    let workshop = Arc::new(Given { env: Arc::clone(env) as Arc<dyn Env>, target });
    let worker = Worker::new(config, Arc::new(FakeConnect(Arc::clone(&client))), workshop, Arc::new(|_| {}));
    let stop = WorkerStop::default();
    let until = stop.clone();
    let task = tokio::spawn(async move { worker.run(until).await.unwrap() });
    Running { client, stop, task }
}

/// What one process makes of the same jobs.
pub(crate) async fn made_here(env: &Arc<Turns>, source: &Arc<dyn SkillSource>) -> Vec<RolloutOutcome> {
    let target = Arc::new(Metered::new(Arc::new(scripted())));
    let runner = LocalRunner::new(Arc::clone(env) as Arc<dyn Env>, target, None);
    let mut made = Vec::new();
    for item in &env.items {
        made.push(runner.run(job(item, env.has_goal), JobLink::new(Arc::clone(source))).await.unwrap());
    }
    made
}

/// All went well, and came to what one process makes.
#[track_caller]
pub(crate) fn check_same(made: Vec<Result<RolloutOutcome, EnvError>>, here: &[RolloutOutcome]) {
    let made: Vec<RolloutOutcome> = made.into_iter().map(Result::unwrap).collect();
    assert_eq!(made, here);
}
