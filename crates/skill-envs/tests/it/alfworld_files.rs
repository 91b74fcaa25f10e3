//! Games in the data set's layout: what is found, what is left out, and what is wrong with a file.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use skill_envs::alfworld::{
    AlfworldConfig, AlfworldWorld, GeneratedConfig, Play, Rooms, TaskType, Unplayable, generate, load,
    split_of_room,
};
use skill_envs::{Split, Splits, World};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A data set with a game of each kind in each split, some of which no text games are made.
fn data_set() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (split, seed) in [("train", 1), ("valid_seen", 2), ("valid_unseen", 3)] {
        for task in TaskType::ALL {
            write_game(&directory.path().join(split), seed, task);
        }
    }
    let movable = directory.path().join("train/pick_and_place_with_movable_recep-Pen-Bowl-Desk-301/trial_T1");
    fs::create_dir_all(&movable).unwrap();
    fs::write(movable.join("traj_data.json"), trajectory("pick_and_place_with_movable_recep")).unwrap();
    fs::write(movable.join("initial_state.pddl"), "no game was made of this").unwrap();
    directory
}

fn trajectory(task: &str) -> String {
    format!(
        r#"{{"task_type": "{task}", "task_id": "trial_T1", "scene": {{"scene_num": 1}}, "pddl_params": {{"object_target":
        "Mug", "parent_target": "Desk", "toggle_target": "", "mrecep_target": "", "object_sliced": false}}}}"#
    )
}

fn write_game(split: &Path, seed: u64, task: TaskType) -> PathBuf {
    let made = generate(seed, "data", task).unwrap();
    let trial = split.join(format!("{task}-Some-None-Thing-{seed}/trial_T1"));
    fs::create_dir_all(&trial).unwrap();
    fs::write(trial.join("traj_data.json"), trajectory(task.as_str())).unwrap();
    fs::write(trial.join("initial_state.pddl"), &made.problem).unwrap();
    let file = trial.join("game.tw-pddl");
    fs::write(&file, serde_json::to_string(&made.file()).unwrap()).unwrap();
    file
}

fn config(data: &TempDir) -> AlfworldConfig {
    AlfworldConfig { data: Some(data.path().to_path_buf()), ..AlfworldConfig::default() }
}

fn ids(world: &AlfworldWorld, split: Split) -> Vec<String> {
    world.items(split).iter().map(|item| item.id.to_string()).collect()
}

#[track_caller]
fn check_error(config: &AlfworldConfig, data: &TempDir, expect: &str) {
    match AlfworldWorld::new(config) {
        Ok(_) => panic!("taken; expected {expect}"),
        Err(error) => {
            assert_eq!(error.to_string().replace(&data.path().display().to_string(), "DATA"), expect);
        }
    }
}

#[tokio::test]
async fn a_data_set_is_played_by_its_splits() {
    let data = data_set();
    let world = AlfworldWorld::new(&config(&data)).unwrap();
    for split in Split::ALL {
        assert_eq!(world.items(split).len(), 6, "{split}");
        for item in world.items(split) {
            let mut episode = world.episode(item).unwrap();
            let first = episode.reset().await.unwrap();
            assert!(first.text.ends_with(episode.task().unwrap()), "{}", first.text);
            assert!(first.admissible.unwrap().contains(&"look".to_owned()));
            let plan = world.game(item).unwrap().plan().unwrap();
            let mut reward = 0.0;
            for command in plan.iter().map(String::as_str).chain(["look"]) {
                let observation = episode.step(command).await.unwrap();
                reward += observation.reward;
            }
            // What was won is worth 1, however long it stays so.
            assert_eq!(reward, 1.0, "{}", item.id);
            assert!(!episode.step("dance").await.unwrap().understood);
        }
    }
    assert_eq!(ids(&world, Split::Train)[0], "train/look_at_obj_in_light-Some-None-Thing-1/trial_T1");
    assert_eq!(world.items(Split::Train)[0].task_type, "look_at_obj_in_light");
}

#[test]
fn kinds_of_task_limits_and_lists_choose_games() {
    let data = data_set();
    let tasks = vec![TaskType::HeatAndPlace, TaskType::LookInLight];
    let limits = Splits { val: Some(1), test: Some(0), ..Splits::default() };
    let chosen = AlfworldConfig { task_types: tasks, limits, ..config(&data) };
    let world = AlfworldWorld::new(&chosen).unwrap();
    assert_eq!(Split::ALL.map(|split| world.items(split).len()), [2, 1, 0]);

    fs::write(
        data.path().join("train.json"),
        r#"[{"id": "7", "gamefile": "/elsewhere/json_2.1.1/valid_seen/pick_two_obj_and_place-Some-None-Thing-2/trial_T1/game.tw-pddl"},
            "train/pick_and_place_simple-Some-None-Thing-1/trial_T1"]"#,
    )
    .unwrap();
    fs::write(
        data.path().join("val.txt"),
        "# chosen by hand\n\nvalid_seen/look_at_obj_in_light-Some-None-Thing-2/trial_T1/game.tw-pddl\n",
    )
    .unwrap();
    let splits = Splits { train: Some("train.json".into()), val: Some("val.txt".into()), test: None };
    let world = AlfworldWorld::new(&AlfworldConfig { splits, ..config(&data) }).unwrap();
    assert_eq!(
        ids(&world, Split::Train),
        [
            "valid_seen/pick_two_obj_and_place-Some-None-Thing-2/trial_T1",
            "train/pick_and_place_simple-Some-None-Thing-1/trial_T1"
        ]
    );
    assert_eq!(ids(&world, Split::Val).len(), 1);
    assert_eq!(ids(&world, Split::Test).len(), 6);
}

#[test]
fn lists_that_name_no_game_are_refused() {
    let data = data_set();
    let with = |name: &str, text: &str| {
        fs::write(data.path().join(name), text).unwrap();
        let splits = Splits { train: Some(name.into()), ..Splits::default() };
        AlfworldConfig { splits, ..config(&data) }
    };
    check_error(
        &with("a.txt", "\ntrain/nowhere\n"),
        &data,
        "DATA/a.txt, line 2: no game found at `train/nowhere` below DATA",
    );
    check_error(
        &with("b.json", r#"[{"id": 3}]"#),
        &data,
        "DATA/b.json, element 1 (line 1): names no game; expected a path, or an object with `gamefile`",
    );
    check_error(
        &with("c.json", "[\"train"),
        &data,
        "DATA/c.json, line 1: is not an array of games: EOF while parsing a string at line 1 column 7",
    );
    let twice = with("d.txt", "valid_seen/pick_two_obj_and_place-Some-None-Thing-2/trial_T1");
    check_error(
        &twice,
        &data,
        "the game `valid_seen/pick_two_obj_and_place-Some-None-Thing-2/trial_T1` is in two splits",
    );
    let nowhere = Splits { val: Some("val.txt".into()), ..Splits::default() };
    check_error(
        &AlfworldConfig { splits: nowhere, ..config(&data) },
        &data,
        "there is nothing at val.txt, named for the split `val`",
    );
    fs::remove_dir_all(data.path().join("valid_seen")).unwrap();
    check_error(&config(&data), &data, "DATA: has no directory `valid_seen` for the split `val`");
    fs::create_dir_all(data.path().join("valid_seen")).unwrap();
    check_error(
        &config(&data),
        &data,
        "DATA/valid_seen: has no game that can be played, so the split `val` is empty",
    );
}

/// Damages one game of the data set.
#[track_caller]
fn check_damaged(damage: impl Fn(&str) -> String, expect: &str) {
    let data = data_set();
    let file = data.path().join("train/pick_and_place_simple-Some-None-Thing-1/trial_T1/game.tw-pddl");
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, damage(&good)).unwrap();
    let expect =
        expect.replace("GAME", "DATA/train/pick_and_place_simple-Some-None-Thing-1/trial_T1/game.tw-pddl");
    check_error(&config(&data), &data, &expect);
    let left_out = AlfworldConfig { unplayable: Unplayable::LeaveOut, ..config(&data) };
    let world = AlfworldWorld::new(&left_out).unwrap();
    assert_eq!(world.items(Split::Train).len(), 5);
    let told = world.left_out()[0].replace(&data.path().display().to_string(), "DATA");
    assert_eq!(told, expect);
}

#[test]
fn a_damaged_game_is_named_with_its_file_or_left_out() {
    check_damaged(
        |good| good.replace("(pickupable ", "(pickuppable "),
        "GAME: the problem, line 188, column 2: unknown predicate `pickuppable`; did you mean `pickupable`?",
    );
    check_damaged(
        |good| good.chars().take(5000).collect(),
        "GAME, line 1: is no game file: EOF while parsing a string at line 1 column 5000; the file is cut",
    );
    check_damaged(
        |good| good.replace("alfworld-0.4", "alfworld-9.9"),
        "GAME, line 1: is no game file: unknown variant `alfworld-9.9`, expected `alfworld-0.2` or `alfworld-0.4` at \
         line 1 column 23",
    );
    check_damaged(
        |good| good.replace("(pickupable ", "(moveable ").replace("\"solvable\":true", "\"solvable\":null"),
        "GAME: no plan reaches the goal: bowl 1 cannot be picked up",
    );
}

#[test]
fn a_game_that_its_file_calls_unsolvable_is_not_played() {
    let data = data_set();
    let file = data.path().join("train/pick_and_place_simple-Some-None-Thing-1/trial_T1/game.tw-pddl");
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, good.replace("\"solvable\":true", "\"solvable\":false")).unwrap();
    let world = AlfworldWorld::new(&config(&data)).unwrap();
    assert_eq!(world.items(Split::Train).len(), 5);
    assert!(world.left_out().is_empty());
}

#[test]
fn an_item_is_another_one_when_its_file_has_changed() {
    let data = data_set();
    let file = data.path().join("train/look_at_obj_in_light-Some-None-Thing-1/trial_T1/game.tw-pddl");
    let items = || AlfworldWorld::new(&config(&data)).unwrap().items(Split::Train).to_vec();
    let before = items();
    assert_eq!(items(), before);
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, good.replace("look at ", "examine ")).unwrap();
    let after = items();
    assert_ne!(after[0], before[0]);
    assert_eq!((&after[0].id, &after[1..]), (&before[0].id, &before[1..]));
}

#[test]
fn a_directory_without_a_game_file_is_played_from_its_problem() {
    let data = data_set();
    let trial = data.path().join("train/pick_and_place_simple-Some-None-Thing-1/trial_T1");
    fs::remove_file(trial.join("game.tw-pddl")).unwrap();
    let loaded = load(&trial).unwrap();
    assert_eq!((loaded.game.task(), loaded.solvable), ("put a mug in desk.", None));
    assert_eq!(loaded.file, trial.join("initial_state.pddl"));
    assert!(loaded.game.plan().is_ok());
    let text = fs::read_to_string(&loaded.file).unwrap();
    fs::write(&loaded.file, text.replace("(:init", "(:init (loves agent1)")).unwrap();
    let expect = format!("{}, line 108: column 9: unknown predicate `loves`", loaded.file.display());
    let said = load(&trial).unwrap_err().to_string();
    let line = text.lines().position(|line| line.starts_with("(:init")).unwrap() + 1;
    assert_eq!(said, expect.replace("line 108", &format!("line {line}")));
    fs::write(trial.join("traj_data.json"), "{}").unwrap();
    let said = load(&trial).unwrap_err().to_string();
    assert!(said.ends_with("is no trajectory: missing field `task_type` at line 1 column 2"), "{said}");
}

#[test]
fn without_data_games_are_generated() {
    let generated = GeneratedConfig { seed: 5, train: 7, val: 2, test: 1, ..GeneratedConfig::default() };
    let world = AlfworldWorld::new(&AlfworldConfig { generated, ..AlfworldConfig::default() }).unwrap();
    assert_eq!(Split::ALL.map(|split| world.items(split).len()), [7, 2, 1]);
    assert_eq!(ids(&world, Split::Train)[6], "generated-5/train/7-pick_and_place_simple");
    let again = AlfworldWorld::new(&AlfworldConfig { generated, ..AlfworldConfig::default() }).unwrap();
    for (one, other) in world.items(Split::Train).iter().zip(again.items(Split::Train)) {
        assert_eq!(world.game(one).unwrap(), again.game(other).unwrap());
    }
    let only = vec![TaskType::CoolAndPlace];
    let cool = AlfworldConfig { generated, task_types: only, ..AlfworldConfig::default() };
    let world = AlfworldWorld::new(&cool).unwrap();
    assert!(world.items(Split::Train).iter().all(|item| item.task_type == "pick_cool_then_place_in_recep"));
}

#[test]
fn small_rooms_are_shared_by_no_two_splits() {
    let generated = GeneratedConfig { seed: 5, train: 60, val: 20, test: 20, rooms: Rooms::Small };
    let small = AlfworldConfig {
        generated,
        task_types: vec![TaskType::PickAndPlace, TaskType::LookInLight],
        ..AlfworldConfig::default()
    };
    let world = AlfworldWorld::new(&small).unwrap();
    let again = AlfworldWorld::new(&small).unwrap();
    for split in Split::ALL {
        assert_eq!(ids(&world, split), ids(&again, split));
        for item in world.items(split) {
            let mut play = Play::new(Arc::new(world.game(item).unwrap()));
            let opening = play.reset().observation.to_owned();
            assert_eq!(split_of_room(&opening), split, "{opening}");
            assert!(opening.matches(" 1").count() <= 8, "a room is not small: {opening}");
        }
    }
    assert!(ids(&world, Split::Train)[0].starts_with("generated-5/small/train/"));
}

#[test]
fn unknown_keys_are_refused() {
    let read = |text: &str| serde_json::from_str::<AlfworldConfig>(text);
    assert_eq!(read("{}").unwrap(), AlfworldConfig::default());
    let said = read(r#"{"generated": {"seeds": 3}}"#).unwrap_err().to_string();
    assert!(said.starts_with("unknown field `seeds`"), "{said}");
    let config = read(r#"{"task_types": ["look_at_obj_in_light"], "unplayable": "leave_out"}"#).unwrap();
    assert_eq!((config.task_types, config.unplayable), (vec![TaskType::LookInLight], Unplayable::LeaveOut));
}
