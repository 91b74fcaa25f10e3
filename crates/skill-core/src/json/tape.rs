//! What a parser has read, written down before it is known whether anyone wants it.
//!
//! Most of what a hostile text holds is thrown away: it is cut off, one of many, or broken further on.
//! A node takes a fraction of what a [`Value`] takes, no allocation of its own, and nothing to drop.

use serde_json::{Map, Number, Value};

/// A part of a value; those inside a container follow it.
#[derive(Debug)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    /// A string: so many of the next bytes of the tape's text.
    Text(usize),
    /// A key, likewise; its value follows.
    Key(usize),
    /// An array of so many elements.
    Array(usize),
    /// An object of so many members, equal keys counted apart.
    Object(usize),
}

/// How many members an object may have for its map to be used for the next object: to clear a map takes time in
/// proportion to its capacity, however few members come into it the next time.
const MAX_REUSED_MEMBERS: usize = 16;

/// One value, outermost node first.
#[derive(Debug, Default)]
pub(super) struct Tape {
    nodes: Vec<Node>,
    /// The content of all strings and keys, in the order of their nodes.
    pub(super) text: String,
    /// The value that was made last.
    pub(super) built: Value,
    /// It is an object that never had many members.
    is_small: bool,
}

impl Tape {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.text.clear();
    }

    /// Adds a node and gives its place.
    #[inline]
    pub(super) fn push(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Says what the container at this place holds, now that it has ended.
    #[inline]
    pub(super) fn set(&mut self, place: usize, container: Node) {
        if let Some(node) = self.nodes.get_mut(place) {
            *node = container;
        }
    }

    /// Drops the node at this place and all after it.
    pub(super) fn drop_from(&mut self, place: usize) {
        self.nodes.truncate(place);
    }

    /// Drops the last key if its value never came.
    pub(super) fn drop_open_key(&mut self) {
        if matches!(self.nodes.last(), Some(Node::Key(_))) {
            self.nodes.pop();
        }
    }

    /// Makes the value; null if there is none.
    ///
    /// It takes the place of the one made last, and where both are small objects, its allocations too.
    #[inline]
    pub(super) fn build(&mut self) {
        let mut builder = Builder { nodes: self.nodes.iter(), text: &self.text };
        match (builder.nodes.as_slice(), &mut self.built) {
            ([Node::Object(length @ 0..=MAX_REUSED_MEMBERS), members @ ..], Value::Object(map))
                if self.is_small =>
            {
                builder.nodes = members.iter();
                if !builder.refill(map, *length) {
                    builder = Builder { nodes: members.iter(), text: &self.text };
                    map.clear();
                    builder.fill(map, *length);
                }
            }
            (nodes, built) => {
                self.is_small = matches!(nodes, [Node::Object(0..=MAX_REUSED_MEMBERS), ..]);
                // The old value may be as large as the new one: not both at once.
                *built = Value::Null;
                *built = builder.value();
            }
        }
    }

    /// True if a string holds a control character.
    #[inline]
    pub(super) fn has_control_characters(&self) -> bool {
        self.text.bytes().any(|byte| byte < 0x20)
    }

    /// Takes what stands on another tape, and gives what stands on this one; values that were made stay.
    pub(super) fn swap_content(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.nodes, &mut other.nodes);
        std::mem::swap(&mut self.text, &mut other.text);
    }
}

struct Builder<'a> {
    nodes: std::slice::Iter<'a, Node>,
    text: &'a str,
}

impl<'a> Builder<'a> {
    /// The next value. Recursion ends where the parser's does: at [`super::MAX_DEPTH`].
    fn value(&mut self) -> Value {
        match self.nodes.next() {
            None | Some(Node::Null) => Value::Null,
            Some(Node::Bool(value)) => Value::Bool(*value),
            Some(Node::Number(number)) => Value::Number(number.clone()),
            Some(Node::Text(length) | Node::Key(length)) => Value::String(self.string(*length).to_owned()),
            Some(Node::Array(length)) => Value::Array((0..*length).map(|_| self.value()).collect()),
            Some(Node::Object(length)) => {
                let mut members = Map::with_capacity(*length);
                self.fill(&mut members, *length);
                Value::Object(members)
            }
        }
    }

    /// Adds the next members, so many of them.
    fn fill(&mut self, members: &mut Map<String, Value>, length: usize) {
        for _ in 0..length {
            if let Some(Node::Key(length)) = self.nodes.next() {
                let key = self.string(*length);
                let value = self.value();
                match members.iter_mut().next_back() {
                    // A key that is said again and again takes no hash and no allocation.
                    Some((last, place)) if last == key => *place = value,
                    _ => drop(members.insert(key.to_owned(), value)),
                }
            }
        }
    }

    /// Gives the members of a map new values if the next members, so many of them, have the same keys in the
    /// same order: the objects of one text are often alike.
    fn refill(&mut self, members: &mut Map<String, Value>, length: usize) -> bool {
        members.len() == length
            && members.iter_mut().all(|(key, value)| {
                let is_same =
                    matches!(self.nodes.next(), Some(Node::Key(length)) if key == self.string(*length));
                if is_same {
                    *value = self.value();
                }
                is_same
            })
    }

    fn string(&mut self, length: usize) -> &'a str {
        let (string, rest) = self.text.split_at_checked(length).unwrap_or_default();
        self.text = rest;
        string
    }
}
