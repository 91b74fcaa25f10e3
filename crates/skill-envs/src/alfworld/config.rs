//! What an `alfworld` environment is made from.

pub use crate::choices::{Rooms, Unplayable};

use super::task::TaskType;
use crate::item::{Split, Splits};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where the games are, or how they are made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AlfworldConfig {
    /// The directory of the data set, with `train`, `valid_seen` and `valid_unseen` in it or below `json_2.1.1`;
    /// without one, games are generated.
    pub data: Option<PathBuf>,
    /// A directory of games or a list of them for each split; a split that is not named is the data set's own directory
    /// (`train`, `valid_seen`, `valid_unseen`).
    ///
    /// A list is a `.txt` file with a path a line, or a `.json` file with an array of paths or of objects with `gamefile`.
    /// Paths are relative to the data directory.
    pub splits: Splits<Option<PathBuf>>,
    /// The kinds of task that are played; empty for all six.
    pub task_types: Vec<TaskType>,
    /// The most games of each split, from its start; none for all.
    pub limits: Splits<Option<usize>>,
    /// What happens with a game that cannot be played.
    pub unplayable: Unplayable,
    /// The games that are made where there is no data.
    pub generated: GeneratedConfig,
}

impl AlfworldConfig {
    /// The most games of a split.
    pub(super) fn limit(&self, split: Split) -> usize {
        self.limits[split].unwrap_or(usize::MAX)
    }
}

/// The games that are made where there is no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GeneratedConfig {
    /// Another seed makes other games.
    pub seed: u64,
    /// How many games of `train` are made.
    pub train: usize,
    /// How many of `val`.
    pub val: usize,
    /// How many of `test`.
    pub test: usize,
    /// How large the rooms are.
    pub rooms: Rooms,
}

impl Default for GeneratedConfig {
    fn default() -> Self {
        Self { seed: 42, train: 36, val: 18, test: 36, rooms: Rooms::Full }
    }
}

impl GeneratedConfig {
    /// How many games a split has.
    pub(super) fn of(&self, split: Split) -> usize {
        match split {
            Split::Train => self.train,
            Split::Val => self.val,
            Split::Test => self.test,
        }
    }
}
