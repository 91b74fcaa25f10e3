//! Generated games: solvable by the planner and by a player who sees only what is shown, the same for a seed, and the
//! same when they were written and read again.
#![expect(clippy::panic, reason = "a test fails by panicking")]

use skill_envs::alfworld::{
    Expert, GameFile, Play, RoomKind, RoomLimits, TaskType, generate, generate_small,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many games of each kind of task.
const N_GAMES: u64 = 100;
/// The most commands that the scripted player takes: twice what it takes to look into everything of a large room.
const MAX_STEPS: usize = 120;

/// How many commands the expert takes.
#[track_caller]
pub(super) fn expert_steps(name: &str, mut play: Play) -> usize {
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

/// Plays a plan from the start: each of its commands is understood, and the last one wins.
#[track_caller]
pub(super) fn check_plan(name: &str, play: &mut Play, plan: &[String]) {
    let mut won = play.reset().won;
    for command in plan {
        let turn = play.step(command);
        assert!(turn.understood, "{name}: {command} of {plan:?}");
        won = turn.won;
    }
    assert!(won, "{name}: {plan:?}");
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
            check_plan(&name, &mut play, &game.plan);
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

#[test]
fn small_rooms_are_within_their_limits_and_solved() {
    let limits = RoomLimits { max_receptacles: 6, max_other_classes: 5 };
    for task in TaskType::ALL {
        let mut n_made = 0;
        for seed in 0..N_GAMES {
            // The room of a task that cannot be given in a small one is an error.
            let Ok(made) = generate_small(seed, "test/1", task, limits) else { continue };
            n_made += 1;
            let name = format!("{task} {seed}");
            let classes = |suffix: &str| -> BTreeSet<&str> {
                let types =
                    made.problem.lines().map(str::trim_end).filter(|line| line.starts_with("(objectType"));
                types
                    .filter_map(|line| line.trim_end_matches(')').split(' ').nth(2))
                    .filter(|class| class.ends_with(suffix))
                    .collect()
            };
            let n_receptacles =
                made.problem.lines().filter(|line| line.starts_with("(receptacleType")).count();
            assert!(n_receptacles <= limits.max_receptacles, "{name}: {n_receptacles}");
            // The object of the task and the lamp are not counted.
            assert!(classes("Type").len() <= limits.max_other_classes + 2, "{name}: {:?}", classes("Type"));
            assert!(expert_steps(&name, Play::new(Arc::new(made.game))) <= 40, "{name}");
        }
        assert!(n_made * 10 >= N_GAMES * 9, "{task}: {n_made}");
    }
}
