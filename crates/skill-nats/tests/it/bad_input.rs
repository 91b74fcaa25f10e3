//! Brokers that cannot be used, workers of another version, messages that nobody understands.

use crate::cluster::{Driver, N_TURNS, Turns, check_same, made_here, sending, start, start_version};
use skill_envs::FaultKind;
use skill_envs::{EnvError, Item};
use skill_llm::BudgetCaps;
use skill_nats::fake::{FakeServer, Faults};
use std::sync::Arc;
use std::time::Duration;

const CALL: Duration = Duration::from_millis(200);

#[track_caller]
fn check_fault(made: &[Result<skill_envs::RolloutOutcome, EnvError>], kind: &FaultKind, is_retryable: bool) {
    for made in made {
        let Err(EnvError::Remote(fault)) = made else { panic!("{made:?}") };
        assert_eq!((&fault.kind, fault.is_retryable), (kind, is_retryable), "{}", fault.message);
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_cannot_be_used_ends_the_run_with_the_reason() {
    let env = Arc::new(Turns::new(2));
    let cases = [
        (Faults { has_no_jetstream: true, ..Faults::default() }, false),
        (Faults { refuses: true, ..Faults::default() }, false),
        (Faults { is_full: true, ..Faults::default() }, true),
    ];
    for (faults, is_retryable) in cases {
        let (dir, server) = (tempfile::tempdir().unwrap(), FakeServer::default());
        server.set_faults(faults);
        let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
        check_fault(&driver.make(&env).await, &FaultKind::Unreachable, is_retryable);
    }
    let (dir, server) = (tempfile::tempdir().unwrap(), FakeServer::default());
    server.kill();
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    check_fault(&driver.make(&env).await, &FaultKind::Unreachable, true);
    // The same driver goes on once the broker is there.
    server.start();
    let sent = Arc::default();
    let _worker = start(&server, "w", 2, &env, sending(CALL, &sent));
    check_same(driver.make(&env).await, &made_here(&env, &driver.source).await);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_was_full_for_a_while_is_waited_for() {
    let env = Arc::new(Turns::new(4));
    let (dir, server, sent) = (tempfile::tempdir().unwrap(), FakeServer::default(), Arc::default());
    server.set_faults(Faults { is_full: true, ..Faults::default() });
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let _worker = start(&server, "w", 2, &env, sending(CALL, &sent));
    let making_room = async {
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert!(driver.runner.watch()().trouble.is_some());
        server.set_faults(Faults::default());
    };
    let (made, ()) = tokio::join!(driver.make(&env), making_room);
    check_same(made, &made_here(&env, &driver.source).await);
}

#[tokio::test(start_paused = true)]
async fn a_worker_of_another_version_takes_no_job() {
    let env = Arc::new(Turns::new(3));
    let (dir, server, sent) = (tempfile::tempdir().unwrap(), FakeServer::default(), Arc::default());
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let other = start_version(&server, "other", 4, &env, sending(CALL, &sent), "2");
    let coming = async {
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(sent.total(), 0);
        let now = driver.runner.watch()();
        assert_eq!(now.workers[0].problems.len(), 1, "{now:?}");
        assert!(now.trouble.is_some_and(|trouble| trouble.contains("version")));
        start(&server, "same", 1, &env, sending(CALL, &sent))
    };
    let (made, _same) = tokio::join!(driver.make(&env), coming);
    check_same(made, &made_here(&env, &driver.source).await);
    other.stop.drain.cancel();
    other.ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_with_other_data_says_so() {
    let env = Arc::new(Turns::new(2));
    let mut other = Turns::new(2);
    other.items[1] = Item::new("t1", "something else".into());
    let (dir, server, sent) = (tempfile::tempdir().unwrap(), FakeServer::default(), Arc::default());
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let _worker = start(&server, "w", 2, &Arc::new(other), sending(CALL, &sent));
    let made = driver.make(&env).await;
    assert!(made[0].is_ok());
    check_fault(&made[1..], &FaultKind::Data, false);
}

#[tokio::test(start_paused = true)]
async fn messages_that_nobody_understands_are_counted_and_change_nothing() {
    let env = Arc::new(Turns::new(8));
    let (dir, server, sent) = (tempfile::tempdir().unwrap(), FakeServer::default(), Arc::default());
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let _workers = ["a", "b"].map(|id| start(&server, id, 2, &env, sending(CALL, &sent)));
    let bad: &[&[u8]] = &[
        b"",
        b"{",
        b"null",
        b"\xff\xfe",
        b"part x 0 2\nhalf",
        br#"{"protocol":1}"#,
        br#"{"protocol":99,"worker":"a","body":{"leave":null}}"#,
        br#"{"protocol":1,"worker":"ghost","body":"dance"}"#,
        br#"{"protocol":1,"worker":"ghost","body":{"poll":{"id":7}}}"#,
        br#"{"protocol":1,"worker":"a","body":{"sent":{"id":0,"attempt":99,"outcome":{"Err":{"kind":"cancelled"}}}}}"#,
        br#"{"protocol":1,"worker":"ghost","body":{"ask":{"id":1,"question":{"claim":{"job":"no such job"}}}}}"#,
        br#"{"protocol":1,"session":"ghost","body":{"drop":{"job":"no such job"}}}"#,
        br#"{"protocol":1,"session":"ghost","body":{"answer":{"id":0,"answer":"dance"}}}"#,
    ];
    let disturbing = async {
        for round in 0..40 {
            tokio::time::sleep(Duration::from_millis(70)).await;
            for subject in server.subjects() {
                server.inject(&subject, bad[round % bad.len()]);
            }
            server.inject_job(bad[round % bad.len()]);
        }
        for _ in 0..10 {
            // A message of 10 MB that is not JSON.
            server.inject("team.run.driver", &vec![b'x'; 10 * 1024 * 1024]);
        }
    };
    let (made, ()) = tokio::join!(driver.make(&env), disturbing);
    check_same(made, &made_here(&env, &driver.source).await);
    assert_eq!(sent.total(), 8 * N_TURNS as u64);
    assert!(driver.runner.watch()().malformed >= 20);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_messages_a_second_from_nobody_take_limited_room_and_change_nothing() {
    let env = Arc::new(Turns::new(8));
    let (dir, server, sent) = (tempfile::tempdir().unwrap(), FakeServer::default(), Arc::default());
    let driver = Driver::new(&server, dir.path(), BudgetCaps::default());
    let _workers = ["a", "b"].map(|id| start(&server, id, 2, &env, sending(CALL, &sent)));
    let flooding = async {
        for round in 0..20 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            for n in 0..1000 {
                let (ghost, id) = (format!("ghost-{round}-{n}"), n);
                let message =
                    format!(r#"{{"protocol":1,"worker":"{ghost}","body":{{"poll":{{"id":{id}}}}}}}"#);
                server.inject("team.run.driver", message.as_bytes());
            }
        }
    };
    let (made, ()) = tokio::join!(driver.make(&env), flooding);
    check_same(made, &made_here(&env, &driver.source).await);
    assert_eq!(sent.total(), 8 * N_TURNS as u64);
    let now = driver.runner.watch()();
    assert_eq!(now.workers.len(), 2);
    assert!(now.malformed >= 10_000, "{}", now.malformed);
}

#[test]
fn no_message_holds_a_time_of_day() {
    // Clocks of two machines differ and jump: a deadline travels as the time that is left.
    use skill_envs::{JobSkill, RolloutJob, Shown};
    let mut job = RolloutJob::new(
        "k",
        "turns",
        Item::new("t", 1.into()),
        JobSkill::Shown(Shown::default()),
        skill_llm::CallPlace::new("step 1"),
    );
    assert_eq!(job.time_left(), None);
    // Long ago by this clock: no time is left, and nothing underflows.
    job.deadline_unix_ms = Some(1);
    assert_eq!(job.time_left(), Some(Duration::ZERO));
    job.deadline_unix_ms = Some(u64::MAX);
    assert!(job.time_left().is_some_and(|left| left > Duration::from_secs(1_000_000)));
}
