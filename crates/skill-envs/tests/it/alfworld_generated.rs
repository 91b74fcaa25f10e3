//! Generated games: solvable by the planner and by a player who sees only what is shown, the same for a seed, and the
//! same when they were written and read again.
#![expect(clippy::panic, reason = "a test fails by panicking")]

use skill_envs::alfworld::{Expert, GameFile, Play, RoomKind, TaskType, generate};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many games of each kind of task.
const N_GAMES: u64 = 100;
/// The most commands that the scripted player takes: twice what it takes to look into everything of a large room.
const MAX_STEPS: usize = 120;

/// How many commands the expert takes.
#[track_caller]
fn expert_steps(name: &str, mut play: Play) -> usize {
    let mut observation = play.reset().observation.to_owned();
    let mut expert = Expert::new(&observation);
    let mut said = Vec::new();
    for step in 1..=MAX_STEPS {
        let command = expert.act(&observation, &play.admissible());
        let turn = play.step(&command);
        assert!(turn.understood, "{name}: {command} after {said:?}");
        observation = turn.observation.to_owned();
        let done = turn.done;
        said.push(command);
        if done {
            return step;
        }
    }
    panic!("{name}: not solved; {}; {said:?}", play.game().task());
}

#[test]
fn every_generated_game_is_solved() {
    let mut rooms: BTreeMap<RoomKind, usize> = BTreeMap::new();
    let mut n_within_fifty = 0;
    for task in TaskType::ALL {
        for seed in 0..N_GAMES {
            let name = format!("{task} {seed}");
            let game = generate(seed, "test/1", task).unwrap();
            *rooms.entry(game.room).or_default() += 1;
            let mut play = Play::new(Arc::new(game.game));
            assert_eq!(play.game().task_type(), task, "{name}");
            assert!(!play.reset().won, "{name}");
            let (last, before) = game.plan.split_last().unwrap();
            for command in before {
                let turn = play.step(command);
                assert!(turn.understood, "{name}: {command}");
            }
            assert!(play.step(last).won, "{name}");
            n_within_fifty += usize::from(expert_steps(&name, play) <= 50);
        }
    }
    assert_eq!(rooms.len(), RoomKind::ALL.len(), "{rooms:?}");
    assert!(n_within_fifty * 10 >= 6 * 9 * usize::try_from(N_GAMES).unwrap(), "{n_within_fifty}");
}

#[test]
fn a_seed_and_a_key_stand_for_one_game() {
    let text = |seed, key| generate(seed, key, TaskType::HeatAndPlace).unwrap().problem;
    assert_eq!(text(7, "train/1"), text(7, "train/1"));
    assert_ne!(text(7, "train/1"), text(7, "train/2"));
    assert_ne!(text(7, "train/1"), text(8, "train/1"));
}

#[test]
fn a_game_that_was_written_is_read_as_it_was() {
    for task in TaskType::ALL {
        let made = generate(3, "val/9", task).unwrap();
        let text = serde_json::to_string(&made.file()).unwrap();
        let file: GameFile<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!(file.game().unwrap(), made.game);
        assert_eq!(file.walkthrough.as_ref(), Some(&made.plan));
        assert_eq!(serde_json::to_string(&file).unwrap(), text);
    }
}
