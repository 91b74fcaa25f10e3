//! Workers make what one process makes, and send each request once.

use crate::cluster::{Driver, N_TURNS, SKILL, Turns, check_same, made_here, sending, start, start_version};
use async_trait::async_trait;
use skill_core::SkillPartId;
use skill_envs::{EnvError, Shown, SkillSource, TaskView};
use skill_llm::{BudgetCaps, CallCtx, JournalReader, LlmError, Usage};
use skill_nats::fake::{FakeServer, Faults};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const CALL: Duration = Duration::from_millis(200);

#[tokio::test(start_paused = true)]
async fn any_number_of_workers_makes_what_one_process_makes() {
    let env = Arc::new(Turns::new(20));
    for (n_workers, slots) in [(1, 1), (1, 16), (3, 2), (8, 4)] {
        let (dir, server, sent) = (tempfile::tempdir().unwrap(), FakeServer::default(), Arc::default());
        let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
        let workers: Vec<_> = (0..n_workers)
            .map(|n| start(&server, &format!("w{n}"), slots, &env, sending(CALL, &sent)))
            .collect();
        let made = driver.make(&env).await;
        check_same(made, &made_here(&env, &driver.source).await);
        assert_eq!(sent.total(), 20 * N_TURNS as u64, "{n_workers} workers");
        driver.runner.settle().await;
        assert_eq!(server.queue_names(), [] as [String; 0], "a stage leaves no stream");
        for worker in workers {
            worker.stop.drain.cancel();
            worker.ended().await;
        }
    }
}

use skill_envs::RolloutRunner as _;

#[tokio::test(start_paused = true)]
async fn a_reply_is_in_the_journal_before_the_worker_makes_its_next_call() {
    let env = Arc::new(Turns::new(3));
    let (dir, server, sent) = (tempfile::tempdir().unwrap(), FakeServer::default(), Arc::default());
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let path = dir.path().join("journal.sqlite");
    let n_sent = AtomicU64::new(0);
    let sent: Arc<crate::cluster::Sent> = sent;
    *sent.check.lock() = Some(Box::new(move |_: &CallCtx| {
        let totals = JournalReader::open(&path).unwrap().totals().unwrap();
        assert_eq!(totals.replies, n_sent.fetch_add(1, Ordering::Relaxed));
    }));
    let _worker = start(&server, "w", 1, &env, sending(CALL, &sent));
    let made = driver.make(&env).await;
    assert!(made.iter().all(Result::is_ok), "{made:?}");
    assert_eq!(sent.total(), 9);
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_lost_or_come_twice_change_nothing_and_cost_nothing() {
    let env = Arc::new(Turns::new(12));
    for (loses_one_in, repeats) in [(4, false), (0, true), (6, true)] {
        let (dir, server, sent) = (tempfile::tempdir().unwrap(), FakeServer::default(), Arc::default());
        server.set_faults(Faults { loses_one_in, repeats, ..Faults::default() });
        let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
        let _workers = ["a", "b"].map(|id| start(&server, id, 3, &env, sending(CALL, &sent)));
        let made = driver.make(&env).await;
        check_same(made, &made_here(&env, &driver.source).await);
        assert_eq!(sent.total(), 12 * N_TURNS as u64);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_larger_than_a_message_arrives_in_parts() {
    let env = Arc::new(Turns { padding: 300_000, ..Turns::new(2) });
    let (dir, server, sent) = (tempfile::tempdir().unwrap(), FakeServer::default(), Arc::default());
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let _worker = start(&server, "w", 2, &env, sending(CALL, &sent));
    let made = driver.make(&env).await;
    check_same(made, &made_here(&env, &driver.source).await);
}

#[tokio::test(start_paused = true)]
async fn caps_hold_over_all_workers() {
    let env = Arc::new(Turns::new(10));
    let (dir, server, sent) = (tempfile::tempdir().unwrap(), FakeServer::default(), Arc::default());
    let caps = BudgetCaps { calls: Some(7), ..BudgetCaps::default() };
    let driver = Driver::new(&server, dir.path(), caps);
    let _workers = ["a", "b", "c"].map(|id| start(&server, id, 4, &env, sending(CALL, &sent)));
    let made = driver.make(&env).await;
    let is_capped = |made: &Result<_, EnvError>| {
        matches!(made, Err(EnvError::Model(LlmError::BudgetExhausted { what: "calls", .. })))
    };
    assert!(
        made.iter().any(is_capped) && made.iter().all(|made| made.is_ok() || is_capped(made)),
        "{made:?}"
    );
    assert_eq!((sent.total(), driver.budget.spent().calls, driver.budget.spent().tokens), (7, 7, 49));
}

/// A source that asks no model, counts how often it is asked, and says that it used a call.
struct Bank(AtomicU64);

#[async_trait]
impl SkillSource for Bank {
    fn version(&self) -> String {
        "v1".to_owned()
    }

    async fn show(&self, task: &TaskView<'_>, call: &CallCtx) -> Result<Shown, EnvError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        call.scope.count(Usage { input: 11, ..Usage::default() });
        assert_eq!(task.goal, "get to the end");
        Ok(Shown::new(SKILL.into(), vec![SkillPartId::new("s1")]))
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_bank_shows_after_a_reset_is_decided_by_the_driver() {
    let env = Arc::new(Turns { has_goal: false, ..Turns::new(6) });
    let (dir, server, sent) = (tempfile::tempdir().unwrap(), FakeServer::default(), Arc::default());
    let bank = Arc::new(Bank(AtomicU64::new(0)));
    let driver = Driver {
        source: Arc::clone(&bank) as Arc<dyn SkillSource>,
        ..Driver::new(&server, dir.path(), BudgetCaps::default())
    };
    let _workers = ["a", "b"].map(|id| start(&server, id, 2, &env, sending(CALL, &sent)));
    let made = driver.make(&env).await;
    assert_eq!(bank.0.load(Ordering::Relaxed), 6);
    check_same(made, &made_here(&env, &driver.source).await);
}

#[tokio::test(start_paused = true)]
async fn who_looks_on_sees_workers_what_they_do_and_when_they_were_heard_of() {
    let env = Arc::new(Turns::new(4));
    let (dir, server, sent) = (tempfile::tempdir().unwrap(), FakeServer::default(), Arc::default());
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let watch = driver.runner.watch();
    assert_eq!(watch(), skill_nats::WorkersNow::default());
    let making = async { driver.make(&env).await };
    let looking = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let now = watch();
        assert_eq!((now.workers.len(), now.waiting), (0, 4));
        assert!(now.trouble.is_some());
        let slow = start(&server, "slow", 2, &env, sending(Duration::from_secs(30), &sent));
        let other = start_version(&server, "other", 2, &env, sending(CALL, &sent), "2");
        tokio::time::sleep(Duration::from_secs(8)).await;
        let now = watch();
        let seen: Vec<_> = now
            .workers
            .iter()
            .map(|worker| (worker.name.as_str(), worker.slots, worker.doing.len(), worker.problems.len()))
            .collect();
        assert_eq!(seen, [("host/other", 2, 0, 1), ("host/slow", 2, 2, 0)]);
        assert!(now.workers.iter().all(|worker| worker.seen_ago <= Duration::from_secs(2)), "{now:?}");
        assert_eq!((now.waiting, now.trouble), (2, None));
        (slow, other)
    };
    let (made, _workers) = tokio::join!(making, looking);
    check_same(made, &made_here(&env, &driver.source).await);
}
