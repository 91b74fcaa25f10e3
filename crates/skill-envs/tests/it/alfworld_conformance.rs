//! Every transcript in `data/alfworld/` is played again: observations to the byte, admissible commands as sets.
//!
//! The transcripts are recorded from the real engine; a file that is dropped in is tested too.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, and names the transcript")]

use super::alfworld_generated::{check_plan, expert_steps};
use serde::Deserialize;
use skill_envs::alfworld::{GameFile, Play};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

#[derive(Deserialize)]
struct Transcript<'a> {
    #[serde(borrow)]
    game: GameFile<'a>,
    intro: String,
    admissible: Vec<String>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    command: String,
    feedback: String,
    admissible: Vec<String>,
    won: bool,
    reward: f64,
    done: bool,
}

/// All transcripts, with their names.
fn transcripts() -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/alfworld");
    let mut transcripts: Vec<(String, String)> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| (path.file_name().unwrap().display().to_string(), fs::read_to_string(path).unwrap()))
        .collect();
    transcripts.sort();
    transcripts
}

/// The engine may list a command twice; what matters is which there are.
fn set(commands: &[String]) -> BTreeSet<&str> {
    commands.iter().map(String::as_str).collect()
}

#[track_caller]
fn replay(name: &str, text: &str) -> usize {
    let transcript: Transcript<'_> = serde_json::from_str(text).unwrap();
    let game = transcript.game.game().unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut play = Play::new(Arc::new(game));
    // Twice, so that a reset is known to leave nothing behind.
    for _ in 0..2 {
        assert_eq!(play.reset().observation, transcript.intro, "{name}");
        assert_eq!(set(&play.admissible()), set(&transcript.admissible), "{name}");
        for (step, number) in transcript.steps.iter().zip(1..) {
            let place = format!("{name}, step {number}: {:?}", step.command);
            let turn = play.step(&step.command);
            assert_eq!(turn.observation, step.feedback, "{place}");
            assert_eq!((turn.won, turn.reward, turn.done), (step.won, step.reward, step.done), "{place}");
            assert_eq!(turn.understood, step.feedback != "Nothing happens.", "{place}");
            let admissible = play.admissible();
            assert_eq!(set(&admissible), set(&step.admissible), "{place}");
            assert!(admissible.is_sorted(), "{place}");
        }
    }
    transcript.steps.len()
}

#[test]
fn every_transcript_is_played_as_it_was_recorded() {
    let files = transcripts();
    let n_steps: usize = files.iter().map(|(name, text)| replay(name, text)).sum();
    assert!(files.len() >= 37, "{} transcripts", files.len());
    assert!(n_steps >= 1200, "{n_steps} steps");
}

#[test]
fn the_planner_solves_what_was_recorded() {
    for (name, text) in transcripts() {
        let transcript: Transcript<'_> = serde_json::from_str(&text).unwrap();
        let game = transcript.game.game().unwrap();
        let plan = game.plan().unwrap_or_else(|error| panic!("{name}: {error}"));
        check_plan(&name, &mut Play::new(Arc::new(game)), &plan);
    }
}

/// Who sees only what is shown solves the recorded games too: all but those about slicing, of which it knows nothing,
/// and one whose task does not say all that its goal asks for.
#[test]
fn the_scripted_player_solves_what_was_recorded() {
    for (name, text) in transcripts() {
        let transcript: Transcript<'_> = serde_json::from_str(&text).unwrap();
        let game = transcript.game.game().unwrap();
        if game.task().contains("slice") || name == "large-classes.json" {
            continue;
        }
        expert_steps(&name, Play::new(Arc::new(game)));
    }
}
