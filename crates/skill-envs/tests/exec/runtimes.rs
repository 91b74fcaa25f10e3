//! Programs that were started in another runtime than the one that waits for them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::context::*;
use skill_envs::EnvError;
use std::future::Future;
use tokio::runtime::{Builder, Runtime};

/// A runtime whose tasks run by themselves.
fn background() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn here<T>(work: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

#[track_caller]
fn check(error: &EnvError, expect: &str) {
    assert!(matches!(error, EnvError::Broken { .. }) && error.is_retryable(), "{error}");
    assert!(error.to_string().contains(expect), "{error}");
}

#[test]
fn a_program_whose_runtime_has_ended_is_an_error_and_is_started_again() {
    let runtime = background();
    let world = runtime.block_on(world(config("step", "none")));
    let mut episode = episode(&world, "good");
    let process = process_in(&runtime.block_on(episode.reset()).unwrap().text);
    drop(runtime);
    here(async {
        let error = episode.step("right").await.unwrap_err();
        check(&error, "was ended with the runtime that it was started in");
        assert_ne!(process_in(&episode.reset().await.unwrap().text), process);
        episode.step("right").await.unwrap();
    });
}

#[test]
fn whoever_waits_for_a_program_hears_that_its_runtime_has_ended() {
    let runtime = background();
    let world = runtime.block_on(world(config("step", "silent")));
    let mut episode = episode(&world, "bad");
    runtime.block_on(episode.reset()).unwrap();
    here(async {
        let (stepped, ()) = tokio::join!(episode.step("right"), async { runtime.shutdown_background() });
        check(&stepped.unwrap_err(), "was ended with the runtime that it was started in");
    });
}

/// Nobody runs the task that looks after the process, and nobody ends it either.
#[test]
fn a_deadline_holds_where_the_runtime_of_the_program_stands_still() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime.block_on(world(config("step", "none")));
    let mut episode = episode(&world, "good");
    runtime.block_on(episode.reset()).unwrap();
    let waiting = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let error = waiting.block_on(episode.step("right")).unwrap_err();
    check(&error, "gave no answer to `step`");
}
