//! Demonstrations for fine-tuning: the same for a seed, apart from the test games, in the agent loop's own words.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use skill_envs::alfworld::Play;
use skill_llm::Role;
use skill_sim::demonstrations::{Demonstration, EpisodePrompt, Part, SmallHouseholds, Turn};
use std::collections::BTreeSet;
use std::sync::Arc;

fn made(part: Part, n: usize) -> Vec<Demonstration> {
    SmallHouseholds::default().demonstrations(part).take(n).collect()
}

/// The receptacles of a room, as its first observation lists them, in any order.
fn room(demonstration: &Demonstration) -> BTreeSet<&str> {
    let observation = &demonstration.walk[0].observation;
    let (room, _) = observation.split_once("\n\nYour task is to: ").unwrap();
    let (_, list) = room.rsplit_once("you see ").unwrap();
    list.trim_end_matches('.').split(", ").map(|name| name.trim_start_matches("and ")).collect()
}

#[test]
fn a_seed_gives_the_same_walks() {
    let walks = |part| made(part, 40).into_iter().map(|made| (made.number, made.walk)).collect::<Vec<_>>();
    assert_eq!(walks(Part::Train), walks(Part::Train));
    let other = SmallHouseholds { seed: 8, ..SmallHouseholds::default() };
    let others: Vec<_> = other.demonstrations(Part::Train).take(40).map(|made| made.walk).collect();
    assert_ne!(walks(Part::Train).into_iter().map(|(_, walk)| walk).collect::<Vec<_>>(), others);
}

#[test]
fn no_test_room_is_a_training_room() {
    let (train, test) = (made(Part::Train, 1_500), made(Part::Test, 200));
    let rooms: BTreeSet<BTreeSet<&str>> = train.iter().map(room).collect();
    let numbers: BTreeSet<u64> = train.iter().map(|made| made.number).collect();
    assert!(rooms.len() > 200, "{}", rooms.len());
    for made in &test {
        assert!(!rooms.contains(&room(made)), "{:?}", made.walk[0]);
        assert!(!numbers.contains(&made.number));
    }
}

#[test]
fn every_walk_wins_in_time_and_both_kinds_of_task_are_there() {
    for part in [Part::Train, Part::Test] {
        let demonstrations = made(part, 60);
        let kinds: BTreeSet<_> = demonstrations.iter().map(|made| made.task_type).collect();
        assert_eq!(kinds.len(), 2);
        for made in demonstrations {
            assert!((1..=20).contains(&made.walk.len()));
            let mut play = Play::new(Arc::clone(&made.game));
            let mut observation = play.reset().observation.to_owned();
            let mut won = false;
            for Turn { observation: seen, command, is_slip } in &made.walk {
                assert_eq!(*seen, observation);
                let turn = play.step(command);
                assert_eq!(turn.understood, !is_slip, "{command}");
                (observation, won) = (turn.observation.to_owned(), turn.won);
            }
            assert!(won);
        }
    }
}

#[test]
fn a_slip_stands_before_some_commands_and_never_ends_a_walk() {
    let slips = |walks: &[Demonstration]| {
        walks.iter().flat_map(|made| &made.walk).filter(|turn| turn.is_slip).count()
    };
    let walks = made(Part::Train, 200);
    let n_turns: usize = walks.iter().map(|made| made.walk.len()).sum();
    let share = slips(&walks) as f64 / n_turns as f64;
    assert!((0.05..0.15).contains(&share), "{share}");
    assert!(walks.iter().all(|made| !made.walk.last().unwrap().is_slip));
    let without = SmallHouseholds { slips: 0.0, ..SmallHouseholds::default() };
    let walks: Vec<Demonstration> = without.demonstrations(Part::Train).take(50).collect();
    assert_eq!(slips(&walks), 0);
}

#[test]
fn a_conversation_has_the_skills_of_its_task_and_every_turn() {
    let prompt = EpisodePrompt::new().unwrap();
    for made in made(Part::Train, 20) {
        let messages = prompt.conversation(&made).unwrap();
        let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
        assert_eq!(roles[0], Role::System);
        assert_eq!(roles.len(), 1 + 2 * made.walk.len());
        assert!(messages[0].text().contains("### General Principles"));
        let first = messages[1].text();
        // As the agent loop does, it names the task once.
        assert_eq!(first.matches(made.game.task()).count(), 1, "{first}");
        assert_eq!(first, made.walk[0].observation.trim());
        for (turn, Turn { observation, command, .. }) in made.walk.iter().enumerate() {
            assert!(messages[1 + 2 * turn].text().ends_with(observation.as_str()));
            assert_eq!(EpisodePrompt::command(&messages[2 + 2 * turn].text()), Some(command.as_str()));
        }
    }
}
