//! Episodes as this program writes them: one JSON object a line, each with the version of the format.

use super::Episode;
use serde::Serialize;
use serde_json::Value;
use skill_core::RolloutResult;

/// The version of the format that this program writes.
pub(crate) const EPISODE_VERSION: u64 = 1;
/// The key of the version, by which a line is known to be an episode.
const VERSION_KEY: &str = "episode_version";

#[derive(Serialize)]
struct Written<'a> {
    episode_version: u64,
    #[serde(flatten)]
    episode: &'a Episode,
}

/// An episode as a line of JSON.
pub fn episode_line(episode: &Episode) -> String {
    let written = Written { episode_version: EPISODE_VERSION, episode };
    serde_json::to_string(&written).expect("an episode serializes") + "\n"
}

pub(super) fn is_episode(record: &Value) -> bool {
    record.get(VERSION_KEY).is_some()
}

/// The version of a record that is an episode of a later one.
pub(super) fn newer_version(record: &Value) -> Option<u64> {
    record.get(VERSION_KEY).and_then(Value::as_u64).filter(|version| *version > EPISODE_VERSION)
}

pub(super) fn read(record: Value) -> Result<Episode, String> {
    let episode: Episode = serde_json::from_value(record).map_err(|error| error.to_string())?;
    if episode.id.is_empty() || episode.item.as_str().is_empty() {
        return Err("`id` or `item` is missing".to_owned());
    }
    Ok(episode)
}

/// True if a record is a rollout result, as the files of runs hold them.
pub(super) fn is_rollout(record: &Value) -> bool {
    ["id", "hard", "soft"].iter().all(|key| record.get(*key).is_some())
}

pub(super) fn read_rollout(record: Value) -> Result<Episode, String> {
    let result: RolloutResult = serde_json::from_value(record).map_err(|error| error.to_string())?;
    let id = match result.trajectory.sample {
        0 => result.id.to_string(),
        sample => format!("{}#{sample}", result.id),
    };
    Ok(Episode::of_rollout(id, "", &result))
}
