//! `config.toml` of a run repeats it, with everything that the command line has set.

use crate::bank_training::household;
use crate::context::{TestContext, assert_same_files, set};
use crate::said::assert_names;

#[test]
fn the_copy_of_a_configuration_repeats_the_run() {
    let context = TestContext::with_scripted_task();
    context.succeed(&["train", "task/skillrl.toml", "--quiet", "--set", "train.memory_steps=1"]);
    let copy = context.read("task/run/config.toml");
    assert_names(
        &copy,
        &["#: --set train.memory_steps=1", "#: run.seed: ", "#: data.val: ", "#: Written by skillrl "],
    );
    assert!(copy.ends_with(&context.read("task/skillrl.toml")), "{copy}");
    context.succeed(&["train", "task/run/config.toml", "--quiet", "--set", "run.dir=other"]);
    assert_same_files(&context.untimed_files("task/run"), &context.untimed_files("other"));
    assert!(context.untimed_files("other").contains_key(std::path::Path::new("config.toml")));
    // The copy of the second run does so too.
    context.succeed(&["train", "other/config.toml", "--quiet", "--set", "run.dir=third"]);
    assert_same_files(&context.untimed_files("task/run"), &context.untimed_files("third"));
    // Without another directory it is the run itself, which is finished.
    context.succeed(&["train", "task/run/config.toml", "--quiet"]);
    context.succeed(&["check", "task/run"]);
}

#[test]
fn the_copy_of_a_run_that_trains_a_bank_repeats_it() {
    let context = household();
    let settings = [
        "train.mode=bank",
        "evolution.rounds=1",
        "evolution.max_trials=1",
        "evolution.max_trial_rollouts=64",
    ];
    context.succeed(&[&["train", "household.toml", "--quiet"][..], &set(&settings)].concat());
    let copy = context.read("run/config.toml");
    assert_names(
        &copy,
        &["#: --set train.mode=\"bank\"", "#: --set evolution.max_trials=1", "#: data.train: "],
    );
    // Settings that follow from others are not listed.
    assert_eq!(copy.matches("#: --set ").count(), settings.len(), "{copy}");
    context.succeed(&["train", "run/config.toml", "--quiet", "--set", "run.dir=other"]);
    assert_same_files(&context.untimed_files("run"), &context.untimed_files("other"));
}
