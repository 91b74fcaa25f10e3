//! What several modules of tests use.

use skill_bank::episode::{Episode, TrainEpisode, TrainItems};
use skill_core::ItemId;
use std::path::PathBuf;

/// The file of the recorded data, where there are any.
#[expect(clippy::print_stdout, reason = "a test that compares nothing says so")]
pub(crate) fn conformance(path: &str) -> Option<String> {
    let Some(directory) = std::env::var_os("SKILLRL_CONFORMANCE") else {
        println!("SKILLRL_CONFORMANCE is not set: {path} is not compared");
        return None;
    };
    Some(std::fs::read_to_string(PathBuf::from(directory).join("skillbank").join(path)).unwrap())
}

pub(crate) fn conformance_json(path: &str) -> Option<serde_json::Value> {
    Some(serde_json::from_str(&conformance(path)?).unwrap())
}

/// An episode of a task of its own.
pub(crate) fn episode(id: &str, task_type: &str, success: bool) -> Episode {
    let mut episode =
        Episode::new(id, ItemId::new(id), format!("reach goal of {id}"), success, f64::from(success));
    task_type.clone_into(&mut episode.task_type);
    episode
}

/// All of them as episodes for training.
pub(crate) fn train(episodes: Vec<Episode>) -> Vec<TrainEpisode> {
    TrainItems::of_collection(&episodes).take(episodes).0
}
