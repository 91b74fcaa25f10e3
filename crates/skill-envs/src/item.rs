//! Items, the tasks of a data set, and its splits.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skill_core::ItemId;
use std::fmt;
use std::sync::Arc;

/// A part of the data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// What the optimizer learns from.
    Train,
    /// What the gate decides by; also called the selection split.
    Val,
    /// What the final claim is measured on, once, at the end.
    Test,
}

impl Split {
    /// All splits, in order.
    pub const ALL: [Self; 3] = [Self::Train, Self::Val, Self::Test];

    /// The name used in files and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Val => "val",
            Self::Test => "test",
        }
    }

    /// The split of this name; the reference systems' aliases are understood.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "train" => Some(Self::Train),
            "val" | "selection" | "valid_seen" | "validation" => Some(Self::Val),
            "test" | "valid_unseen" => Some(Self::Test),
            _ => None,
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One task of a data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Unique over all splits.
    pub id: ItemId,
    /// A category for reports; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task_type: String,
    /// The task itself, in the shape that its environment understands. Copies of an item share it, so that the job of
    /// a rollout holds no copy of a long task.
    pub data: Arc<Value>,
}

impl Item {
    /// An item without a category.
    pub fn new(id: impl Into<ItemId>, data: Value) -> Self {
        Self { id: id.into(), task_type: String::new(), data: Arc::new(data) }
    }
}
