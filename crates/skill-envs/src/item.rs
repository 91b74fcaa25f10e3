//! Items, the tasks of a data set, and its splits.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skill_core::ItemId;
use std::fmt;
use std::ops::{Index, IndexMut};
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

/// Something of each split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Splits<T> {
    /// Of [`Split::Train`].
    pub train: T,
    /// Of [`Split::Val`].
    pub val: T,
    /// Of [`Split::Test`].
    pub test: T,
}

impl<T> Splits<T> {
    /// The same of each split, in their order.
    pub fn map<U>(self, mut of: impl FnMut(T) -> U) -> Splits<U> {
        Splits { train: of(self.train), val: of(self.val), test: of(self.test) }
    }

    /// Each split with what belongs to it, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (Split, &T)> {
        Split::ALL.into_iter().map(|split| (split, &self[split]))
    }
}

/// In the order of [`Split::ALL`].
impl<T> From<[T; 3]> for Splits<T> {
    fn from([train, val, test]: [T; 3]) -> Self {
        Self { train, val, test }
    }
}

/// In the order of [`Split::ALL`].
impl<T> From<Splits<T>> for [T; 3] {
    fn from(Splits { train, val, test }: Splits<T>) -> Self {
        [train, val, test]
    }
}

impl<T> Index<Split> for Splits<T> {
    type Output = T;

    fn index(&self, split: Split) -> &T {
        match split {
            Split::Train => &self.train,
            Split::Val => &self.val,
            Split::Test => &self.test,
        }
    }
}

impl<T> IndexMut<Split> for Splits<T> {
    fn index_mut(&mut self, split: Split) -> &mut T {
        match split {
            Split::Train => &mut self.train,
            Split::Val => &mut self.val,
            Split::Test => &mut self.test,
        }
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
