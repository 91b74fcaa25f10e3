//! What several modules of tests use.

use crate::recorded::folder;
use skill_bank::episode::{Episode, TrainEpisode, TrainItems};
use skill_core::ItemId;

/// A file of the recorded data.
pub(crate) fn conformance(path: &str) -> String {
    let path = folder().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn conformance_json(path: &str) -> serde_json::Value {
    serde_json::from_str(&conformance(path)).unwrap()
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
