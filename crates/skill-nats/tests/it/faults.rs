//! Deaths of workers, of the broker and of the driver. The results stay the same, and at most the calls that were out are
//! sent again.

use crate::cluster::{Driver, N_TURNS, Running, Sent, Turns, check_same, job, made_here, sending, start};
use serde_json::{Value, json};
use skill_core::random::Dice;
use skill_envs::FaultKind;
use skill_envs::{EnvError, JobLink, RolloutRunner as _};
use skill_llm::{BudgetCaps, ChatRequest, Message};
use skill_nats::fake::{FakeServer, Faults};
use skill_nats::{Broker as _, PROTOCOL, Times};
use std::sync::Arc;
use std::time::Duration;

const CALL: Duration = Duration::from_millis(400);
const N_ITEMS: usize = 16;
const N_CALLS: u64 = (N_ITEMS * N_TURNS) as u64;

fn cluster(n_items: usize) -> (tempfile::TempDir, FakeServer, Arc<Sent>, Arc<Turns>) {
    (tempfile::tempdir().unwrap(), FakeServer::default(), Arc::default(), Arc::new(Turns::new(n_items)))
}

#[tokio::test(start_paused = true)]
async fn a_killed_worker_loses_at_most_one_call_per_slot() {
    for seed in 0..12_u64 {
        let (dir, server, sent, env) = cluster(N_ITEMS);
        let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
        let slots = 3;
        let victim = start(&server, "victim", slots, &env, sending(CALL, &sent));
        let other = start(&server, "other", 2, &env, sending(CALL, &sent));
        let killing = async {
            tokio::time::sleep(Duration::from_millis(100 + 150 * seed)).await;
            victim.kill().await;
        };
        let (made, ()) = tokio::join!(driver.make(&env), killing);
        check_same(made, &made_here(&env, &driver.source).await);
        let twice = sent.total() - N_CALLS;
        assert!(twice <= u64::from(slots), "seed {seed}: {twice} calls were sent twice");
        drop(other);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_asked_to_end_gives_its_jobs_back_at_once() {
    let (dir, server, sent, env) = cluster(4);
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let leaver = start(&server, "leaver", 4, &env, sending(Duration::from_secs(50), &sent));
    let leaving = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        leaver.stop.abort.cancel();
        leaver.ended().await;
        let begun = tokio::time::Instant::now();
        (begun, start(&server, "next", 4, &env, sending(CALL, &sent)))
    };
    let (made, (begun, _next)) = tokio::join!(driver.make(&env), leaving);
    check_same(made, &made_here(&env, &driver.source).await);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(driver.runner.watch()().lost, 0);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_dies_costs_no_call_whatever_it_has_lost() {
    for seed in 0..12_u64 {
        let (dir, server, sent, env) = cluster(N_ITEMS);
        server.set_faults(Faults { orphans_one_in: 3, ..Faults::default() });
        let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
        let _workers = ["a", "b"].map(|id| start(&server, id, 2, &env, sending(CALL, &sent)));
        let killing = async {
            for round in 0..3 {
                tokio::time::sleep(Duration::from_millis(300 + 130 * seed)).await;
                server.kill();
                tokio::time::sleep(Duration::from_secs(2 + 20 * (seed % 2))).await;
                if (seed + round).is_multiple_of(3) {
                    server.lose_files();
                }
                server.start();
            }
        };
        let (made, ()) = tokio::join!(driver.make(&env), killing);
        check_same(made, &made_here(&env, &driver.source).await);
        assert_eq!(sent.total(), N_CALLS, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_is_started_again_costs_no_call_while_its_workers_live() {
    for seed in 0..12_u64 {
        let (dir, server, sent, env) = cluster(N_ITEMS);
        let _workers = ["a", "b"].map(|id| start(&server, id, 3, &env, sending(CALL, &sent)));
        for round in 0..3_u64 {
            let driver =
                Driver::of_session(&server, dir.path(), BudgetCaps::default(), &format!("session {round}"));
            let life = Duration::from_millis(200 + 170 * (seed + round));
            driver.live_for(life, &env).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let driver = Driver::of_session(&server, dir.path(), BudgetCaps::default(), "last");
        let made = driver.make(&env).await;
        check_same(made, &made_here(&env, &driver.source).await);
        assert_eq!(sent.total(), N_CALLS, "seed {seed}: {:?}", sent.by_place.lock());
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_cut_off_for_a_minute_comes_back() {
    let (dir, server, sent, env) = cluster(N_ITEMS);
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let cut = start(&server, "cut", 2, &env, sending(CALL, &sent));
    let cutting = async {
        tokio::time::sleep(Duration::from_millis(900)).await;
        cut.client.set_cut(true);
        tokio::time::sleep(Duration::from_secs(60)).await;
        cut.client.set_cut(false);
    };
    // Nobody else is there: it has to be the one that was away.
    let (made, ()) = tokio::join!(driver.make(&env), cutting);
    check_same(made, &made_here(&env, &driver.source).await);
    assert!(sent.total() <= N_CALLS + 2, "{}", sent.total());
}

#[tokio::test(start_paused = true)]
async fn everything_dies_now_and_then() {
    for seed in 0..8_u64 {
        let (dir, server, sent, env) = cluster(24);
        let dice = |what: &str, round: u64| Dice::new(seed, &[what]).unit(&round.to_string());
        let n_calls = (24 * N_TURNS) as u64;
        let mut workers: Vec<Running> =
            (0..3).map(|n| start(&server, &format!("w{n}"), 2, &env, sending(CALL, &sent))).collect();
        let mut killed_slots = 0;
        for round in 0..6_u64 {
            let driver =
                Driver::of_session(&server, dir.path(), BudgetCaps::default(), &format!("session {round}"));
            let life = Duration::from_millis(300 + (1500.0 * dice("life", round)) as u64);
            driver.live_for(life, &env).await;
            if dice("worker", round) < 0.6 {
                workers.remove(0).kill().await;
                killed_slots += 2;
                workers.push(start(&server, &format!("w{}", 10 + round), 2, &env, sending(CALL, &sent)));
            }
            if dice("broker", round) < 0.6 {
                server.kill();
            }
            tokio::time::sleep(Duration::from_millis((9_000.0 * dice("pause", round)) as u64)).await;
            server.start();
        }
        let driver = Driver::of_session(&server, dir.path(), BudgetCaps::default(), "last");
        let made = driver.make(&env).await;
        check_same(made, &made_here(&env, &driver.source).await);
        let by_place = sent.by_place.lock();
        let twice: Vec<_> = by_place.iter().filter(|(_, n)| **n > 1).collect();
        assert!(
            sent.total() <= n_calls + killed_slots,
            "seed {seed}: {twice:?}, {killed_slots} slots killed"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_ends_every_worker_ends_as_a_fault() {
    let (dir, server, sent, env) = cluster(1);
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let dying = async {
        for n in 0..4 {
            let worker = start(&server, &format!("w{n}"), 1, &env, sending(Duration::from_secs(1000), &sent));
            tokio::time::sleep(Duration::from_secs(5)).await;
            worker.kill().await;
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
    };
    let (made, ()) = tokio::join!(driver.make(&env), dying);
    let Err(EnvError::Remote(fault)) = &made[0] else { panic!("{made:?}") };
    assert_eq!(fault.kind, FaultKind::Broken);
    assert!(fault.message.contains("t0") && fault.message.contains("host/w3"), "{}", fault.message);
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_environment_panics_ends_as_a_fault_and_the_others_go_on() {
    let (dir, server, sent, _) = cluster(1);
    let env = Arc::new(Turns { panics_at: Some("t1"), ..Turns::new(4) });
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let _worker = start(&server, "w", 2, &env, sending(CALL, &sent));
    let made = driver.make(&env).await;
    let is_ok: Vec<bool> = made.iter().map(Result::is_ok).collect();
    assert_eq!(is_ok, [true, false, true, true]);
    let Err(EnvError::Remote(fault)) = &made[1] else { panic!("{made:?}") };
    assert_eq!(fault.kind, FaultKind::Program);
    assert!(fault.message.contains("turtle"), "{}", fault.message);
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_nobody_waits_for_ends_and_sends_nothing_more() {
    let (dir, server, sent, env) = cluster(4);
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let _worker = start(&server, "w", 4, &env, sending(CALL, &sent));
    drop(tokio::time::timeout(Duration::from_millis(300), driver.make(&env)).await);
    driver.runner.settle().await;
    let n_sent = sent.total();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(sent.total(), n_sent);
    assert_eq!(server.queue_names(), [] as [String; 0]);
    let made = driver.make(&env).await;
    check_same(made, &made_here(&env, &driver.source).await);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_asked_to_end_gives_up_jobs_whose_driver_is_gone() {
    let (dir, server, sent, env) = cluster(2);
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let worker = start(&server, "w", 2, &env, sending(CALL, &sent));
    driver.live_for(Duration::from_millis(600), &env).await;
    worker.stop.drain.cancel();
    let ended = tokio::time::timeout(Times::default().abandon * 2, worker.ended()).await;
    assert!(ended.is_ok(), "it waits for a driver that does not come back");
}

#[tokio::test(start_paused = true)]
async fn jobs_of_a_stream_that_is_lost_in_an_instant_are_queued_again_at_once() {
    let (dir, server, sent, env) = cluster(N_ITEMS);
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let _worker = start(&server, "w", 2, &env, sending(CALL, &sent));
    let killing = async {
        // Between two looks of the driver at its connection.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        server.kill();
        server.lose_files();
        server.start();
    };
    let begun = tokio::time::Instant::now();
    let (made, ()) = tokio::join!(driver.make(&env), killing);
    check_same(made, &made_here(&env, &driver.source).await);
    assert!(begun.elapsed() < Times::default().requeue, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_wanted_again_is_queued_again() {
    let (dir, server, sent, env) = cluster(1);
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let first = start(&server, "first", 1, &env, sending(CALL, &sent));
    drop(tokio::time::timeout(Duration::from_millis(600), driver.make(&env)).await);
    first.kill().await;
    let _second = start(&server, "second", 1, &env, sending(CALL, &sent));
    let begun = tokio::time::Instant::now();
    let made = driver.make(&env).await;
    check_same(made, &made_here(&env, &driver.source).await);
    assert!(begun.elapsed() < Times::default().requeue, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_its_worker_no_longer_waits_for_holds_up_no_other_one() {
    let (dir, server, _, env) = cluster(1);
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let job = job(&env.items[0], true);
    let client = server.client();
    let mut heard = client.subscribe("team.run.worker.ghost").await.unwrap();
    let say = async |body: Value| {
        let message = json!({ "protocol": PROTOCOL, "worker": "ghost", "body": body });
        client.publish("team.run.driver", message.to_string().into()).await.unwrap();
    };
    let beat = |open: Value| {
        let facts = json!({ "name": "ghost", "version": "1", "slots": 1 });
        let jobs = json!([{ "job": &job.key, "item": "t0", "calls": 0 }]);
        json!({ "beat": { "facts": facts, "jobs": jobs, "open": open } })
    };
    let call = |id: u64| {
        let question = json!({
            "job": &job.key, "role": "target", "place": &job.place, "occurrence": 0,
            "request": ChatRequest::new(vec![Message::user("hello")]), "deadline_ms": null,
        });
        json!({ "ask": { "id": id, "question": { "call": question } } })
    };
    let ghost = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        say(json!({ "ask": { "id": 0, "question": { "claim": { "job": &job.key } } } })).await;
        say(call(1)).await;
        say(call(2)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The first of the two equal calls is not waited for any longer.
        say(beat(json!({ "ids": [2], "next": 3 }))).await;
        while let Some(message) = heard.next().await {
            let message: Value = serde_json::from_slice(&message).unwrap();
            if message.pointer("/body/send/id") == Some(&json!(2)) {
                return;
            }
        }
    };
    let told = async {
        tokio::select! { _ = driver.make(&env) => panic!("nobody has made it"), () = ghost => {} }
    };
    tokio::time::timeout(Duration::from_secs(10), told).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stage_begins_at_once_though_requests_of_the_one_before_are_never_answered() {
    let (dir, server, sent, env) = cluster(4);
    server.set_faults(Faults { forgets_requests: true, ..Faults::default() });
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let worker = start(&server, "w", 4, &env, sending(CALL, &sent));
    let expected = made_here(&env, &driver.source).await;
    let alone = CALL * u32::try_from(N_TURNS).unwrap();
    for stage in 0..4 {
        let begun = tokio::time::Instant::now();
        check_same(driver.make(&env).await, &expected);
        driver.runner.settle().await;
        // The first stage also connects.
        let took = begun.elapsed();
        assert!(stage == 0 || took < alone * 2, "stage {stage}: {took:?}");
    }
    drop(driver);
    let begun = tokio::time::Instant::now();
    worker.stop.drain.cancel();
    worker.ended().await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_to_end_does_not_wait_for_a_driver_that_never_gave_it_the_job() {
    let (dir, server, sent, env) = cluster(1);
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let worker = start(&server, "w", 2, &env, sending(CALL, &sent));
    check_same(driver.make(&env).await, &made_here(&env, &driver.source).await);
    driver.client.set_cut(true);
    server.inject_job(json!({ "protocol": PROTOCOL, "job": "of nobody" }).to_string().as_bytes());
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = tokio::time::Instant::now();
    worker.stop.drain.cancel();
    worker.ended().await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_result_that_nobody_acknowledges_holds_its_worker_no_longer_than_its_stage() {
    let (dir, server, sent, env) = cluster(4);
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let worker = start(&server, "w", 2, &env, sending(CALL, &sent));
    // As when a gate decides before the last results of a stage are recorded.
    for item in env.items.iter().take(2) {
        let link = JobLink::new(Arc::clone(&driver.source)).with_models(driver.models.clone());
        driver.runner.run(job(item, true), link).await.unwrap();
    }
    driver.runner.settle().await;
    let begun = tokio::time::Instant::now();
    check_same(driver.make(&env).await, &made_here(&env, &driver.source).await);
    driver.runner.settle().await;
    assert!(begun.elapsed() < Times::default().lost, "{:?}", begun.elapsed());
    drop(driver);
    let begun = tokio::time::Instant::now();
    worker.stop.drain.cancel();
    worker.ended().await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_slot_makes_the_next_rollout_while_a_result_waits_to_be_recorded() {
    let (dir, server, sent, env) = cluster(2);
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let _worker = start(&server, "w", 1, &env, sending(CALL, &sent));
    let begun = tokio::time::Instant::now();
    for item in &env.items {
        let link = JobLink::new(Arc::clone(&driver.source)).with_models(driver.models.clone());
        driver.runner.run(job(item, true), link).await.unwrap();
    }
    // Only the calls take time, not the start of the run.
    let calls = CALL * u32::try_from(2 * N_TURNS).unwrap();
    assert!(begun.elapsed() < calls + Times::default().greet / 2, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn rollouts_that_take_longer_than_every_wait_are_made_once() {
    let (dir, server, sent, env) = cluster(4);
    let Times { ack_wait, lost, requeue, .. } = Times::default();
    let call = requeue.max(ack_wait).max(lost);
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let _slow = start(&server, "slow", 4, &env, sending(call, &sent));
    let begun = tokio::time::Instant::now();
    let making = driver.make(&env);
    let idle = async {
        // It starts when all jobs are taken, and would get any job that is queued again.
        tokio::time::sleep(lost).await;
        start(&server, "idle", 4, &env, sending(CALL, &sent))
    };
    let (made, _idle) = tokio::join!(making, idle);
    check_same(made, &made_here(&env, &driver.source).await);
    assert_eq!(sent.total(), u64::try_from(4 * N_TURNS).unwrap());
    let calls = call * u32::try_from(N_TURNS).unwrap();
    assert!(begun.elapsed() < calls + lost, "{:?}", begun.elapsed());
}
