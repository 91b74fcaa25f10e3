//! Rollouts that are made elsewhere: jobs, results and faults are data.

use crate::run_files::files;
use crate::world::{Job, Words, target};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use skill_envs::{EnvError, JobLink, LocalRunner, RolloutFault, RolloutJob, RolloutOutcome, RolloutRunner};
use skill_llm::journal::JournalReader;
use skill_llm::{ChatModel, Journal, JournalOptions, Metered};
use skill_pipeline::PipelineError;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A worker that is sent texts and answers in texts.
struct Worker {
    local: LocalRunner,
    made: Mutex<BTreeSet<String>>,
    acknowledged: Mutex<BTreeSet<String>>,
}

impl Worker {
    fn new(env: Words, target: Arc<dyn ChatModel>) -> Arc<Self> {
        let local = LocalRunner::new(Arc::new(env), Arc::new(Metered::new(target)), None);
        Arc::new(Self { local, made: Mutex::default(), acknowledged: Mutex::default() })
    }
}

fn sent<T: Serialize + DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

#[async_trait]
impl RolloutRunner for Worker {
    async fn run(&self, job: RolloutJob, link: JobLink) -> Result<RolloutOutcome, EnvError> {
        let job = sent(&job);
        assert_eq!(job.env, "words");
        assert!(self.made.lock().insert(job.key.clone()), "{} was made before", job.key);
        match self.local.run(job, link).await {
            Ok(outcome) => Ok(sent(&outcome)),
            Err(error) => Err(sent(&RolloutFault::from(&error)).into()),
        }
    }

    fn keeps_results(&self) -> bool {
        true
    }

    async fn acknowledge(&self, key: &str) {
        self.acknowledged.lock().insert(key.to_owned());
    }

    async fn settle(&self) {
        self.local.settle().await;
    }
}

fn job_on(worker: &Arc<Worker>) -> Job {
    let worker = Arc::clone(worker);
    Job { further: Box::new(|trainer| trainer.with_runner(worker)), ..Job::default() }
}

#[test]
fn a_run_made_elsewhere_writes_the_same_files() {
    let [here, there] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    Job::default().run(here.path()).unwrap();
    let worker = Worker::new(Words::new(), target(usize::MAX));
    job_on(&worker).run(there.path()).unwrap();
    assert_eq!(files(here.path()), files(there.path()));
    assert_eq!(*worker.made.lock(), *worker.acknowledged.lock());
}

#[test]
fn a_fault_elsewhere_stops_the_run_and_is_no_score() {
    let dir = tempfile::tempdir().unwrap();
    let worker = Worker::new(Words::new(), target(25));
    let error = job_on(&worker).run(dir.path()).unwrap_err();
    let PipelineError::Rollout { source: source @ EnvError::Remote(_), .. } = error else {
        panic!("{error:?}");
    };
    assert!(source.is_retryable());
    // What came before is kept: the rest alone is made by the next process.
    let rest = Worker::new(Words::new(), target(usize::MAX));
    job_on(&rest).run(dir.path()).unwrap();
    let (made, before) = (rest.made.lock(), worker.acknowledged.lock());
    assert!(!before.is_empty() && made.is_disjoint(&before));
}

/// A runner that looks into the journal when a result is acknowledged.
struct Doubter {
    local: LocalRunner,
    path: std::path::PathBuf,
    n_committed: Mutex<Vec<u64>>,
}

#[async_trait]
impl RolloutRunner for Doubter {
    async fn run(&self, job: RolloutJob, link: JobLink) -> Result<RolloutOutcome, EnvError> {
        self.local.run(job, link).await
    }

    fn keeps_results(&self) -> bool {
        true
    }

    async fn acknowledge(&self, _: &str) {
        let totals = JournalReader::open(&self.path).unwrap().totals().unwrap();
        self.n_committed.lock().push(totals.results);
    }
}

#[test]
fn a_result_is_acknowledged_once_it_is_committed() {
    use skill_envs::Split;
    use skill_envs::source::document;
    use skill_pipeline::stage::StageCtx;
    use skill_pipeline::stage::evaluate::evaluate;
    use skill_pipeline::stage::rollout::Rollouts;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.sqlite");
    let (env, target) = (Arc::new(Words::new()), target(usize::MAX));
    let local = LocalRunner::new(Arc::clone(&env) as _, Arc::clone(&target) as _, None);
    let doubter = Arc::new(Doubter { local, path: path.clone(), n_committed: Mutex::default() });
    let rollouts = Rollouts::local(env, target, None).with_runner(Arc::clone(&doubter) as _);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let journal = Journal::open(&path, JournalOptions::default()).unwrap();
        let ctx = StageCtx {
            journal: Some(journal),
            ..StageCtx::new(skill_pipeline::Stage::Baseline, &skill_pipeline::NoEvents)
        };
        evaluate(&rollouts, Split::Val, &document(&"base".into()), &ctx).await.unwrap();
    });
    assert_eq!(*doubter.n_committed.lock(), (1..=10).collect::<Vec<u64>>());
}

/// A runner that keeps the tasks of its jobs.
struct Keeper {
    local: LocalRunner,
    tasks: Mutex<Vec<Arc<serde_json::Value>>>,
}

#[async_trait]
impl RolloutRunner for Keeper {
    async fn run(&self, job: RolloutJob, link: JobLink) -> Result<RolloutOutcome, EnvError> {
        self.tasks.lock().push(Arc::clone(&job.item.data));
        self.local.run(job, link).await
    }
}

#[test]
fn a_job_shares_its_task_with_the_environment() {
    use skill_envs::source::document;
    use skill_envs::{Env as _, Split};
    use skill_pipeline::stage::StageCtx;
    use skill_pipeline::stage::evaluate::evaluate;
    use skill_pipeline::stage::rollout::Rollouts;
    let (env, target) = (Arc::new(Words::new()), target(usize::MAX));
    let local = LocalRunner::new(Arc::clone(&env) as _, Arc::clone(&target) as _, None);
    let keeper = Arc::new(Keeper { local, tasks: Mutex::default() });
    let rollouts = Rollouts::local(Arc::clone(&env) as _, target, None).with_runner(Arc::clone(&keeper) as _);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ctx = StageCtx::new(skill_pipeline::Stage::Baseline, &skill_pipeline::NoEvents);
    runtime.block_on(evaluate(&rollouts, Split::Val, &document(&"base".into()), &ctx)).unwrap();
    let tasks = keeper.tasks.lock();
    assert_eq!(tasks.len(), env.items(Split::Val).len());
    for item in env.items(Split::Val) {
        assert!(tasks.iter().any(|task| Arc::ptr_eq(task, &item.data)), "{} was copied", item.id);
    }
}
