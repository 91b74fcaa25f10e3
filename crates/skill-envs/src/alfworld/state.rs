//! What changes while a game is played.

use super::bits::BitTable;
use super::game::{LocationIdx, ObjectIdx};

/// What can be done to an object for good, or until the opposite is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Mark {
    Clean = 1,
    Hot = 2,
    Cool = 4,
    Sliced = 8,
    Toggled = 16,
    On = 32,
}

/// What is true now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    /// Where the player is.
    pub(super) at: LocationIdx,
    /// What is in the player's hand.
    pub(super) holding: Option<ObjectIdx>,
    /// One row: which receptacles are open.
    pub(super) opened: BitTable,
    /// A row for each receptacle: the objects in it.
    pub(super) contents: BitTable,
    /// A row for each receptacle: the objects that were taken out of it and not put back.
    ///
    /// The original's `look` lists what is here and is not there, and takes for that only what it has seen leave.
    pub(super) taken_from: BitTable,
    /// A row for each location: the objects that are there.
    pub(super) object_at: BitTable,
    /// The [`Mark`]s of each object.
    pub(super) marks: Box<[u8]>,
}

impl State {
    pub(super) fn is_marked(&self, object: ObjectIdx, mark: Mark) -> bool {
        self.marks.get(usize::from(object)).is_some_and(|marks| marks & mark as u8 != 0)
    }

    pub(super) fn mark(&mut self, object: ObjectIdx, mark: Mark, value: bool) {
        if let Some(marks) = self.marks.get_mut(usize::from(object)) {
            *marks = if value { *marks | mark as u8 } else { *marks & !(mark as u8) };
        }
    }

    /// Becomes a copy of another state, in the room that is there.
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.at = other.at;
        self.holding = other.holding;
        self.opened.copy_from(&other.opened);
        self.contents.copy_from(&other.contents);
        self.taken_from.copy_from(&other.taken_from);
        self.object_at.copy_from(&other.object_at);
        self.marks.clone_from(&other.marks);
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.opened.heap_bytes()
            + self.contents.heap_bytes()
            + self.taken_from.heap_bytes()
            + self.object_at.heap_bytes()
            + self.marks.len()
    }
}
