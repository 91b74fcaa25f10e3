//! What a death of the machine leaves: a write-ahead log that ends in the middle, and half-written files.

use crate::child::{Commits, Death, DeathPoint, Said};
use crate::world::{Size, Start, Undisturbed, World};
use skillrl::llm::journal::SCHEMA_VERSION;
use std::path::Path;

/// The append that the run dies at: in the second step, after a finished one.
const DEATH: Death = Death { point: DeathPoint::After, entry: 40 };

/// SQLite's write-ahead log: a header, then frames of a header and a page of a journal each.
const LOG_HEADER: u64 = 32;
const FRAME: u64 = 24 + 8192;

fn dead() -> World {
    let mut world = World::new(Size::Small, 1);
    assert!(world.kill_at(DEATH, Commits::Paced));
    let state = std::fs::read_to_string(world.run_dir().join("runtime_state.json")).unwrap();
    assert!(state.contains("\"last_completed_step\": 1"), "{state}");
    world
}

/// What a finished step stands on was on the disk before the step was, so that a death of the machine takes none of it:
/// a journal without it was cut by somebody. Says which of the two it was.
#[track_caller]
fn check_cut(world: World, undisturbed: &Undisturbed) -> bool {
    let has_lost = world.requests_in_journal() < world.requests_noted();
    if has_lost {
        let text = assert_refused(world);
        assert!(text.contains(" requests that the run is known to have sent"), "{text}");
    } else {
        check(world, undisturbed);
    }
    has_lost
}

/// Starts the run, which is not gone on with; returns why.
#[track_caller]
fn assert_refused(mut world: World) -> String {
    let n_asked = world.requests().len();
    let ended = world.start(&Start::default()).end();
    let Some(Said::Stopped { failure, text, .. }) = ended.last else { panic!("{ended:?}") };
    assert_eq!(failure, "RunDir", "{text}");
    assert_eq!(world.requests().len(), n_asked, "nobody is asked");
    text
}

/// Goes on with what is left, and asks at most what is no longer committed.
#[track_caller]
fn check(mut world: World, undisturbed: &Undisturbed) -> World {
    world.forget_what_was_cut();
    let mut ended = world.start(&Start::default());
    assert!(!ended.wait_until(|_| false));
    assert!(ended.end().status.success());
    world.assert_nothing_committed_was_asked_again();
    world.assert_is(undisturbed);
    world
}

#[test]
fn a_log_that_was_cut_loses_what_was_cut() {
    let undisturbed = World::undisturbed(Size::Small);
    let dead = dead();
    let log = dead.run_dir().join("journal.sqlite-wal");
    let length = std::fs::metadata(&log).unwrap().len();
    assert_eq!(
        (length - LOG_HEADER) % FRAME,
        0,
        "the log is made of frames, and schema {SCHEMA_VERSION} is in it"
    );
    let cuts = [1, 23, 24, 25, FRAME - 25, FRAME - 1, FRAME, FRAME + 1, 3 * FRAME + 100, length / 2];
    for cut in cuts {
        let world = dead.copy();
        cut_log(&world, length - cut);
        println!("cut {cut} of {length}");
        let is_refused = check_cut(world, &undisturbed);
        assert!(!is_refused || cut > FRAME + 1, "the last page belongs to the step under way");
        assert!(is_refused || cut < length / 2, "half of the log is more than the step under way");
    }
}

fn cut_log(world: &World, length: u64) {
    let path = world.run_dir().join("journal.sqlite-wal");
    std::fs::File::options().write(true).open(path).unwrap().set_len(length).unwrap();
}

#[test]
fn a_log_that_lost_what_a_finished_step_stands_on_is_refused() {
    let dead = dead();
    for length in [LOG_HEADER + FRAME, LOG_HEADER, LOG_HEADER - 1, 1, 0] {
        let world = dead.copy();
        cut_log(&world, length);
        let text = assert_refused(world);
        assert!(text.contains("the run has come to step 1"), "{text}");
    }
}

#[test]
fn a_log_with_a_page_that_never_came_loses_what_follows() {
    let undisturbed = World::undisturbed(Size::Small);
    let dead = dead();
    let n_bytes = std::fs::metadata(dead.run_dir().join("journal.sqlite-wal")).unwrap().len();
    let mut n_refused = 0;
    // The file is long enough already, and some of its last pages are of zeros or of something else.
    for (from_end, n_wrong, byte) in
        [(FRAME, FRAME, 0), (1, 1, 0xff), (FRAME, 24, 0), (2 * FRAME, 100, 0x55), (n_bytes / 2, 4096, 0x55)]
    {
        let world = dead.copy();
        let path = world.run_dir().join("journal.sqlite-wal");
        let mut bytes = std::fs::read(&path).unwrap();
        let first = usize::try_from(n_bytes - from_end).unwrap();
        for wrong in &mut bytes[first..][..usize::try_from(n_wrong).unwrap()] {
            *wrong ^= if byte == 0 { *wrong } else { byte };
        }
        std::fs::write(&path, bytes).unwrap();
        println!("{n_wrong} wrong bytes {from_end} before the end");
        n_refused += usize::from(check_cut(world, &undisturbed));
    }
    assert_eq!(n_refused, 1, "half of the log is more than the step under way");
}

#[test]
fn half_written_files_are_cleared_away() {
    let undisturbed = World::undisturbed(Size::Small);
    let world = dead();
    for dir in ["", "skills", "steps", "steps/step_0001", "steps/step_0002", "baseline_selection_eval"] {
        let path = world.run_dir().join(dir).join(".writing-a1B2c3");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "{\"half\": ").unwrap();
    }
    // What is in `events.jsonl` may end in the middle of a line too.
    let events = world.run_dir().join("events.jsonl");
    let n_bytes = std::fs::metadata(&events).unwrap().len();
    std::fs::File::options().write(true).open(&events).unwrap().set_len(n_bytes - 7).unwrap();
    let world = check(world, &undisturbed);
    let text = std::fs::read_to_string(world.run_dir().join("events.jsonl")).unwrap();
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
}

#[test]
fn a_machine_that_died_at_the_first_page_leaves_a_journal_to_begin_with() {
    let undisturbed = World::undisturbed(Size::Small);
    let mut first = World::new(Size::Small, 1);
    assert!(first.kill_at(Death { point: DeathPoint::Before, entry: 1 }, Commits::Paced));
    for (name, n_bytes) in [
        ("journal.sqlite", 0),
        ("journal.sqlite-wal", 0),
        ("journal.sqlite-wal", 31),
        ("journal.sqlite-shm", 0),
    ] {
        let world = first.copy();
        let path = world.run_dir().join(name);
        assert!(Path::exists(&path), "{name}");
        std::fs::File::options().write(true).open(path).unwrap().set_len(n_bytes).unwrap();
        println!("{name} has {n_bytes} bytes");
        check(world, &undisturbed);
    }
}
