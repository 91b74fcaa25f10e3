//! Measures jobs through a real broker, and makes what tests need: `measure URL linear|jobs`, `measure URL flood`, which
//! sends nonsense to the drivers that are there, `measure nkey`.
//!
//! Driver and workers are in this process, each with a connection of its own.

#![expect(clippy::print_stdout, reason = "an example prints what it measures")]

use async_trait::async_trait;
use bytes::Bytes;
use skill_core::RolloutResult;
use skill_core::canonical::hex_sha256;
use skill_envs::source::document;
use skill_envs::{
    Env, EnvError, Item, JobLink, JobSkill, RolloutCtx, RolloutJob, RolloutRunner as _, Shown, SkillSource,
    Split,
};
use skill_llm::{CallPlace, ChatModel, ScriptedModel};
use skill_nats::client::NatsConnect;
use skill_nats::{
    Announcement, BrokerAddress, Connect as _, DriverConfig, FetchContent, NatsRunner, Times, Worker,
    WorkerAgent, WorkerConfig, WorkerStop, Workshop,
};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const SETUP: &[u8] = b"nothing";
const SLOTS: u32 = 4;
/// Each rollout takes so long where workers are compared.
const WAIT: Duration = Duration::from_millis(50);
const SECONDS: u64 = 6;
const N_JOBS: usize = 20_000;

/// Rollouts that wait, and ask no model.
struct Waits {
    items: Vec<Item>,
    wait: Duration,
}

#[async_trait]
impl Env for Waits {
    fn name(&self) -> &str {
        "waits"
    }

    fn items(&self, split: Split) -> &[Item] {
        if split == Split::Train { &self.items } else { &[] }
    }

    async fn rollout(
        &self,
        item: &Item,
        _: &dyn SkillSource,
        _: &dyn ChatModel,
        _: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        if !self.wait.is_zero() {
            tokio::time::sleep(self.wait).await;
        }
        Ok(RolloutResult::new(item.id.clone(), 1.0, 1.0))
    }
}

struct Given(Arc<Waits>);

#[async_trait]
impl Workshop for Given {
    async fn open(&self, _: &Bytes, _: &dyn FetchContent) -> Result<WorkerAgent, Vec<String>> {
        let target = Arc::new(ScriptedModel::answering("none", |_| String::new()));
        Ok(WorkerAgent { env: Arc::clone(&self.0) as Arc<dyn Env>, target, judge: None })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["nkey"] => {
            let key = nkeys::KeyPair::new_user();
            println!("{} {}", key.seed()?, key.public_key());
        }
        [url, "linear"] => {
            let mut alone = None;
            for n_workers in [1, 2, 4, 8] {
                let per_second = u64::from(SLOTS) * n_workers * 1000 / WAIT.as_millis() as u64;
                let n_jobs = usize::try_from(per_second * SECONDS)?;
                let rate = rate(url, n_workers, SLOTS, n_jobs, WAIT).await?;
                let share = rate / (*alone.get_or_insert(rate) * n_workers as f64);
                println!("{n_workers} workers: {rate:.1} jobs/s, {share:.3} of linear");
            }
        }
        [url, "jobs"] => {
            let rate = rate(url, 4, 32, N_JOBS, Duration::ZERO).await?;
            println!("{rate:.0} jobs/s");
        }
        [url, "flood"] => flood(url).await?,
        _ => return Err("measure URL linear|jobs|flood, or measure nkey".into()),
    }
    Ok(())
}

/// Sends 10,000 messages a second to the first driver that is announced, and to all workers, until it is killed.
async fn flood(url: &str) -> Result<(), Box<dyn Error>> {
    let broker = NatsConnect::new(BrokerAddress::new(url), "flood")?.connect().await?;
    let mut announcements = broker.subscribe("skillrl.announce").await?;
    let announced = announcements.next().await.ok_or("the connection was closed")?;
    let run = serde_json::from_slice::<Announcement>(&announced)?.run;
    println!("flooding {run}");
    let driver = format!("skillrl.{run}.driver");
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    let mut n_messages = 0_u64;
    loop {
        tick.tick().await;
        for _ in 0..100 {
            n_messages += 1;
            let message = match n_messages % 4 {
                0 => "not JSON".to_owned(),
                1 => {
                    format!(r#"{{"protocol":1,"worker":"ghost-{n_messages}","body":{{"poll":{{"id":1}}}}}}"#)
                }
                2 => r#"{"protocol":1,"worker":"ghost","body":"dance"}"#.to_owned(),
                _ => format!("part x{n_messages} 0 2\nhalf of a message"),
            };
            broker.publish(&driver, message.clone().into()).await?;
            if n_messages.is_multiple_of(100) {
                broker.publish("skillrl.announce", message.into()).await?;
            }
        }
    }
}

/// Jobs per second, from the first one that is put into the queue to the last result.
async fn rate(
    url: &str,
    n_workers: u64,
    slots: u32,
    n_jobs: usize,
    wait: Duration,
) -> Result<f64, Box<dyn Error>> {
    let items = (0..n_jobs).map(|n| Item::new(format!("t{n}"), n.into())).collect();
    let env = Arc::new(Waits { items, wait });
    let connect = |who: &str| NatsConnect::new(BrokerAddress::new(url), who).map(Arc::new);
    let stop = WorkerStop::default();
    let mut workers = JoinSet::new();
    for n in 0..n_workers {
        let config = WorkerConfig {
            name: "measure".to_owned(),
            id: format!("w{n}-{n_workers}"),
            title: format!("w{n}"),
            version: "1".to_owned(),
            slots,
            times: Times::default(),
        };
        let worker =
            Worker::new(config, connect("worker")?, Arc::new(Given(Arc::clone(&env))), Arc::new(|_| {}));
        let until = stop.clone();
        workers.spawn(async move { worker.run(until).await });
    }
    let setup = hex_sha256(SETUP);
    let config = DriverConfig {
        name: "measure".to_owned(),
        run: format!("run{n_workers}"),
        session: format!("session{n_workers}"),
        title: "measure".to_owned(),
        version: "1".to_owned(),
        setup: setup.clone(),
        contents: Arc::new(BTreeMap::from([(setup, Bytes::from_static(SETUP))])),
        times: Times::default(),
    };
    let runner = Arc::new(NatsRunner::new(connect("driver")?, config));
    runner.start().await?;
    // Workers have set up, so that the first job does not wait for that.
    let watch = runner.watch();
    while watch().workers.iter().filter(|worker| worker.slots == slots).count() < usize::try_from(n_workers)?
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let begun = Instant::now();
    let mut jobs = JoinSet::new();
    for item in &env.items {
        let shown = Shown::new("Do nothing.".into(), Vec::new());
        let link = JobLink::new(document(&shown.skill));
        let place = CallPlace::new("measure").child(&item.id);
        let job =
            RolloutJob::new(format!("key-{}", item.id), "waits", item.clone(), JobSkill::Shown(shown), place);
        let runner = Arc::clone(&runner);
        jobs.spawn(async move {
            let key = job.key.clone();
            runner.run(job, link).await?;
            runner.acknowledge(&key).await;
            Ok::<(), EnvError>(())
        });
    }
    while let Some(made) = jobs.join_next().await {
        made??;
    }
    let seconds = begun.elapsed().as_secs_f64();
    runner.settle().await;
    stop.drain.cancel();
    stop.abort.cancel();
    while workers.join_next().await.is_some() {}
    Ok(n_jobs as f64 / seconds)
}
