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

/// One value, outermost node first.
#[derive(Debug, Default)]
pub(super) struct Tape {
    nodes: Vec<Node>,
    /// The content of all strings and keys, in the order of their nodes.
    pub(super) text: String,
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

    /// The value; null if there is none.
    pub(super) fn value(&self) -> Value {
        Builder { nodes: self.nodes.iter(), text: &self.text }.value()
    }
}

struct Builder<'a> {
    nodes: std::slice::Iter<'a, Node>,
    text: &'a str,
}

impl Builder<'_> {
    /// The next value. Recursion ends where the parser's does: at [`super::MAX_DEPTH`].
    fn value(&mut self) -> Value {
        match self.nodes.next() {
            None | Some(Node::Null) => Value::Null,
            Some(Node::Bool(value)) => Value::Bool(*value),
            Some(Node::Number(number)) => Value::Number(number.clone()),
            Some(Node::Text(length) | Node::Key(length)) => Value::String(self.string(*length)),
            Some(Node::Array(length)) => Value::Array((0..*length).map(|_| self.value()).collect()),
            Some(Node::Object(length)) => Value::Object(self.object(*length)),
        }
    }

    fn object(&mut self, length: usize) -> Map<String, Value> {
        let mut members = Map::with_capacity(length);
        for _ in 0..length {
            if let Some(Node::Key(length)) = self.nodes.next() {
                let key = self.string(*length);
                let value = self.value();
                members.insert(key, value);
            }
        }
        members
    }

    fn string(&mut self, length: usize) -> String {
        let (string, rest) = self.text.split_at_checked(length).unwrap_or_default();
        self.text = rest;
        string.to_owned()
    }
}
