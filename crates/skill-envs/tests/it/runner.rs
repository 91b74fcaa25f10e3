//! Rollouts in this process: side by side, given up, and as data.
#![expect(clippy::panic, reason = "a test fails by panicking")]

use async_trait::async_trait;
use parking_lot::{Condvar, Mutex};
use skill_core::carried::CarriedFile;
use skill_core::{RolloutResult, SkillDoc, SkillPackage};
use skill_envs::source::document;
use skill_envs::{
    Env, EnvError, Item, JobLink, JobSkill, LocalRunner, RolloutCtx, RolloutJob, RolloutRunner as _, Shown,
    SkillSource, Split,
};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{CallPlace, ChatModel};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What a rollout does.
#[derive(Clone, Copy)]
enum Work {
    /// Computes, without an await, until so many rollouts do.
    Meets(usize),
    /// Waits for ever.
    Hangs,
    /// Panics.
    Panics,
}

/// Rollouts that compute or wait.
struct Busy {
    work: Work,
    here: Mutex<usize>,
    changed: Condvar,
    n_alive: Arc<AtomicUsize>,
}

impl Busy {
    fn new(work: Work) -> Arc<Self> {
        Arc::new(Self { work, here: Mutex::new(0), changed: Condvar::new(), n_alive: Arc::default() })
    }
}

struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Env for Busy {
    fn name(&self) -> &str {
        "busy"
    }

    fn items(&self, _: Split) -> &[Item] {
        &[]
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        _: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let _alive = Alive::new(&self.n_alive);
        ctx.show(source, item, "").await?;
        let met = match self.work {
            Work::Meets(expected) => {
                let mut here = self.here.lock();
                *here += 1;
                self.changed.notify_all();
                // Long enough for a busy machine, and never waited out where rollouts run side by side.
                let limit = Duration::from_secs(60);
                self.changed.wait_while_for(&mut here, |here| *here < expected, limit);
                *here >= expected
            }
            Work::Hangs => std::future::pending().await,
            Work::Panics => panic!("the world has a bug"),
        };
        Ok(RolloutResult::new(item.id.clone(), f64::from(u8::from(met)), 0.0))
    }
}

fn runner(env: &Arc<Busy>) -> LocalRunner {
    let target = Arc::new(ScriptedModel::answering("target", |_| String::new()));
    LocalRunner::new(Arc::clone(env) as _, target, None)
}

fn job(id: &str) -> RolloutJob {
    let skill = JobSkill::Shown(Shown::new(SkillDoc::new("Go left."), Vec::new()));
    RolloutJob::new(id, "busy", Item::new(id, "door".into()), skill, CallPlace::new("test"))
}

fn link() -> JobLink {
    JobLink::new(document(&SkillDoc::default()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollouts_that_compute_run_on_several_cores() {
    let env = Busy::new(Work::Meets(2));
    let runner = runner(&env);
    let (one, two) = tokio::join!(runner.run(job("a"), link()), runner.run(job("b"), link()));
    assert!(one.unwrap().result.is_success() && two.unwrap().result.is_success());
}

#[tokio::test]
async fn a_rollout_that_is_given_up_ends() {
    let env = Busy::new(Work::Hangs);
    let runner = runner(&env);
    let work = runner.run(job("a"), link());
    let given_up = tokio::time::timeout(Duration::from_millis(1), async {
        tokio::join!(work, async {
            while env.n_alive.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            std::future::pending::<()>().await;
        })
    });
    assert!(given_up.await.is_err());
    runner.settle().await;
    assert_eq!(env.n_alive.load(Ordering::SeqCst), 0);
}

#[tokio::test]
#[should_panic(expected = "the world has a bug")]
async fn a_panic_of_a_world_is_not_swallowed() {
    let _ = runner(&Busy::new(Work::Panics)).run(job("a"), link()).await;
}

#[test]
fn jobs_are_data() {
    let mut package = SkillPackage { main: "# Doors\n".to_owned(), ..SkillPackage::default() };
    package.carry("scripts/open.sh", CarriedFile::new(b"\0\xff".to_vec(), true));
    let skill = package.document().unwrap();
    let parts = vec![skill_core::SkillPartId::new("task_001")];
    for skill in
        [JobSkill::Shown(Shown::new(skill, parts)), JobSkill::AfterReset { version: "bank 7".to_owned() }]
    {
        let mut job = job("a").with_sample(3);
        job.skill = skill;
        job.deadline_unix_ms = Some(1_800_000_000_000);
        let text = serde_json::to_string(&job).unwrap();
        let arrived: RolloutJob = serde_json::from_str(&text).unwrap();
        assert_eq!(arrived, job);
        if let (JobSkill::Shown(arrived), JobSkill::Shown(sent)) = (&arrived.skill, &job.skill) {
            assert_eq!(arrived.skill.carried(), sent.skill.carried(), "files travel with the skill");
        }
    }
}
