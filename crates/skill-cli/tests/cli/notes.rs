//! `skillrl note`: what a person says is read by the next step, listed, and read again by a replay.

use crate::context::{TestContext, assert_same_files, code};
use crate::said::assert_names;

#[test]
fn a_note_reaches_the_next_step_and_a_replay_is_the_same() {
    let context = TestContext::with_demo();
    context.succeed(&["train", "demo/skillrl.toml", "--set", "train.epochs=1", "--quiet"]);
    let last = context.json("demo/run/history.json").as_array().unwrap().len();
    let item = context.json("demo/run/history.json")[0]["batch_item_ids"][0].as_str().unwrap().to_owned();
    context.succeed(&["note", "demo/run", "Captains count too.", "--item", &item]);
    let line = context.read("demo/run/current_skill.md").lines().last().unwrap().to_owned();
    assert_eq!(context.succeed_json(&["note", "demo/run", &line, "--pin", "--json"])["number"], 2);
    context.succeed(&["train", "demo/skillrl.toml", "--quiet"]);
    let step = format!("step_{:04}", last + 1);
    let read = context.json(&format!("demo/run/steps/{step}/notes.json"));
    assert_eq!(read["notes"][0]["text"], "Captains count too.");
    assert_eq!(read["pinned"][0], line.as_str());
    let list = context.succeed(&["note", "demo/run", "--list"]);
    assert_names(&list, &["Captains count too.", &format!("item {item}"), &format!("step {}", last + 1)]);
    assert_names(&context.succeed(&["check", "demo/run"]), &["whole"]);

    context.succeed(&["replay", "demo/run", "--quiet"]);
    assert_same_files(&context.untimed_files("demo/run"), &context.untimed_files("demo/run-replay"));
}

#[test]
fn notes_on_what_is_not_there_are_refused_with_what_is() {
    let context = TestContext::with_finished_demo();
    for (args, names) in [
        (&["x", "--item", "gone"][..], &["gone", "training items"][..]),
        (&["x", "--step", "99"], &["99", "steps 1 to"]),
        (&["x", "--step", "1", "--edit", "99"], &["99", "step 1", "skillrl show RUN --step N"]),
        (&["not a line", "--pin"], &["not a line"]),
        (&["--withdraw", "3"], &["3", "--list"]),
        (&["x", "--pin", "--step", "1"], &["--edit"]),
        (&["x", "--pin", "--step", "1", "--edit", "1"], &["leave the text out"]),
    ] {
        context.run(&[&["note", "demo/run"], args].concat()).fails(code::USAGE, names);
    }
    assert_eq!(context.succeed(&["note", "demo/run", "--list"]), "the run has no notes\n");
    let nowhere = context.run(&["note", "demo", "x"]);
    nowhere.assert_code(code::RUN_DIR);
}
