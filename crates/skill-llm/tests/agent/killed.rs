//! Programs that are killed: at a deadline, by a cancellation, or by what they print, with all that they started.

use super::{Fake, ask, question};
use skill_llm::agent::{AgentKind, AgentModel};
use skill_llm::{AgentProject, CallCtx, ChatModel as _, ErrorClass, LlmError};
use std::time::{Duration, Instant};

/// Starts a child that outlives its parent unless the whole group is killed, and says so in a file.
const LINGERING: &str = "sh -c 'sleep 30; touch \"$LAB/survived\"' & echo $! > \"$LAB/child\"; export LAB;";

#[track_caller]
fn assert_child_is_gone(fake: &Fake) {
    let child = fake.read("child").trim().to_owned();
    let deadline = Instant::now() + Duration::from_secs(20);
    // The system may take a moment to collect it.
    while is_running(&child) {
        assert!(Instant::now() < deadline, "the child {child} lives on");
        std::thread::yield_now();
    }
}

fn is_running(pid: &str) -> bool {
    let state = std::process::Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap();
    let state = String::from_utf8_lossy(&state.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

#[test]
fn at_the_deadline_a_program_is_killed_with_all_that_it_started() {
    let fake = Fake::new(&format!("{LINGERING} echo half; wait"));
    let mut config = fake.config(AgentKind::Command);
    config.timeout = Duration::from_secs(2);
    config.trace_dir = Some(fake.path("traces"));
    let error = ask(config, &question(), &CallCtx::default()).unwrap_err();
    assert!(matches!(error, LlmError::Timeout { after, .. } if after.as_secs() == 2), "{error:?}");
    assert_eq!(fake.read("traces/call-1.stdout.txt"), "half\n", "what it had printed is kept");
    assert_child_is_gone(&fake);
}

/// The time limit of work on a project is a part of the task, and reaching it a result that is recorded; the deadline of a
/// call is none.
#[test]
fn work_on_a_project_that_reaches_its_time_limit_is_a_reply_and_a_deadline_is_an_error() {
    let fake = Fake::new("sleep 30");
    let ask_within = |limit: Duration, left: Option<Duration>| {
        let mut config = fake.config(AgentKind::Pi);
        config.timeout = limit;
        let deadline = left.map(|left| tokio::time::Instant::now() + left);
        ask(config, &question(), &CallCtx { deadline, ..CallCtx::default().with(AgentProject::default()) })
    };
    let (short, long) = (Duration::from_millis(300), Duration::from_secs(60));
    let reply = ask_within(short, None).unwrap();
    assert_eq!(reply.finish.used_up(), Some("time"));
    assert!(reply.agent_work().is_some_and(|work| work.milliseconds >= 300));
    let error = ask_within(long, Some(short)).unwrap_err();
    assert!(matches!(error, LlmError::Timeout { .. }), "{error:?}");
}

#[test]
fn what_a_program_leaves_running_ends_with_it() {
    let fake = Fake::new(&format!("{LINGERING} echo done"));
    assert_eq!(ask(fake.config(AgentKind::Command), &question(), &CallCtx::default()).unwrap().text, "done");
    assert_child_is_gone(&fake);
}

/// A program may put its children into sessions of their own; the mark in their environment gives them away.
#[cfg(target_os = "linux")]
#[test]
fn what_has_left_the_process_group_ends_with_the_program_too() {
    let lingering = "setsid sh -c 'echo $$ > \"$LAB/child\"; exec sleep 30' >/dev/null 2>&1 &";
    let wait = "while ! [ -s \"$LAB/child\" ]; do sleep 0.01; done;";
    let fake = Fake::new(&format!("export LAB; {lingering} {wait} echo done"));
    assert_eq!(ask(fake.config(AgentKind::Command), &question(), &CallCtx::default()).unwrap().text, "done");
    assert_child_is_gone(&fake);
}

#[test]
fn cancelling_kills_the_program() {
    let fake = Fake::new(&format!("{LINGERING} wait"));
    let model = AgentModel::new(fake.config(AgentKind::Command)).unwrap();
    let call = CallCtx::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (request, cancel) = (question(), call.cancel.clone());
    let outcome = runtime.block_on(async {
        let (outcome, ()) = tokio::join!(model.chat(&request, &call), async {
            while !fake.path("child").exists() || fake.read("child").trim().is_empty() {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        });
        outcome
    });
    assert!(matches!(outcome, Err(LlmError::Cancelled)), "{outcome:?}");
    assert_child_is_gone(&fake);
}

#[test]
fn endless_output_is_cut_and_the_program_killed() {
    let fake = Fake::new("yes 'all work and no play'");
    let error = ask(fake.config(AgentKind::Command), &question(), &CallCtx::default()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::InvalidReply);
    assert!(error.to_string().contains("more than 16777216 bytes"), "{error}");
}
