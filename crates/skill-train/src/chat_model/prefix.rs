//! Computed beginnings of prompts, kept for prompts that begin alike.
//!
//! A tree of pieces of prompts: each node holds the keys and values of all tokens from the root to its end, and shares
//! those of its parent. What was used least recently is dropped first.

use std::collections::BTreeMap;

use crate::model::Cache;

/// The shortest common beginning of two pieces for which one of them is split.
pub(super) const MIN_SHARED_TOKENS: usize = 8;

/// A place in the tree; ids are never used twice, so that a place may be gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Place(u64);

impl Place {
    /// A place that no tree has: nothing is found there and nothing is kept.
    pub(super) const NOWHERE: Self = Self(u64::MAX);
}

#[derive(Debug)]
struct Node {
    parent: Place,
    /// The tokens that follow those of the parent.
    piece: Vec<u32>,
    cache: Cache,
    last_used: u64,
}

/// The tree; [`Place::default`] is its root, which holds no token.
#[derive(Debug)]
pub(super) struct Prefixes {
    nodes: BTreeMap<Place, Node>,
    next: u64,
    clock: u64,
    n_tokens: usize,
    /// Tokens that are kept at most.
    limit: usize,
}

/// The number of tokens with which both begin.
pub(super) fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Prefixes {
    pub(super) fn new(limit: usize) -> Self {
        Self { nodes: BTreeMap::new(), next: 1, clock: 0, n_tokens: 0, limit }
    }

    /// The longest kept piece behind `place` with which `rest` begins, as its place, length and cache.
    pub(super) fn descend(&mut self, place: Place, rest: &[u32]) -> Option<(Place, usize, Cache)> {
        self.clock += 1;
        let clock = self.clock;
        let found = self.children(place).filter(|(_, node)| rest.starts_with(&node.piece));
        let (found, _) = found.max_by_key(|(_, node)| node.piece.len())?;
        let node = self.nodes.get_mut(&found)?;
        node.last_used = clock;
        Some((found, node.piece.len(), node.cache.clone()))
    }

    /// The length of the longest common beginning of `rest` and a kept piece behind `place`.
    pub(super) fn partial(&self, place: Place, rest: &[u32]) -> usize {
        self.children(place).map(|(_, node)| common(&node.piece, rest)).max().unwrap_or(0)
    }

    /// Keeps what was computed for a piece behind `place`; `cache` holds everything up to its end. Returns the new place.
    pub(super) fn insert(&mut self, place: Place, piece: &[u32], cache: &mut Cache) -> Option<Place> {
        let is_gone = place != Place::default() && !self.nodes.contains_key(&place);
        if is_gone || piece.is_empty() || piece.len() > self.limit {
            return None;
        }
        self.clock += 1;
        let new = Place(self.next);
        self.next += 1;
        let node = Node { parent: place, piece: piece.to_vec(), cache: cache.fork(), last_used: self.clock };
        self.n_tokens += piece.len();
        self.nodes.insert(new, node);
        self.shrink(new);
        Some(new)
    }

    /// Tokens that are kept.
    #[cfg(test)]
    pub(super) fn n_tokens(&self) -> usize {
        self.n_tokens
    }

    fn children(&self, place: Place) -> impl Iterator<Item = (Place, &Node)> {
        self.nodes.iter().filter(move |(_, node)| node.parent == place).map(|(id, node)| (*id, node))
    }

    /// Drops leaves until the limit holds; `newest` and what it builds on stay.
    fn shrink(&mut self, newest: Place) {
        while self.n_tokens > self.limit {
            let is_leaf = |id: Place| !self.nodes.values().any(|node| node.parent == id);
            let leaves = self.nodes.iter().filter(|(id, _)| **id != newest && is_leaf(**id));
            let Some(oldest) = leaves.min_by_key(|(_, node)| node.last_used).map(|(id, _)| *id) else {
                return;
            };
            if let Some(node) = self.nodes.remove(&oldest) {
                self.n_tokens -= node.piece.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_found_by_their_tokens() {
        let mut prefixes = Prefixes::new(100);
        let root = Place::default();
        let first = prefixes.insert(root, &[1, 2, 3], &mut Cache::default()).unwrap();
        let second = prefixes.insert(first, &[4, 5], &mut Cache::default()).unwrap();
        assert_eq!(prefixes.descend(root, &[1, 2, 3, 4, 9]).map(|(at, n, _)| (at, n)), Some((first, 3)));
        assert_eq!(prefixes.descend(first, &[4, 5]).map(|(at, n, _)| (at, n)), Some((second, 2)));
        assert!(prefixes.descend(first, &[4, 9]).is_none());
        assert_eq!(prefixes.partial(first, &[4, 9]), 1);
        assert_eq!(prefixes.partial(root, &[7]), 0);
    }

    #[test]
    fn what_was_used_least_recently_is_dropped_and_never_what_others_build_on() {
        let mut prefixes = Prefixes::new(6);
        let root = Place::default();
        let base = prefixes.insert(root, &[1, 2], &mut Cache::default()).unwrap();
        let old = prefixes.insert(base, &[3, 4], &mut Cache::default()).unwrap();
        let used = prefixes.insert(base, &[5, 6], &mut Cache::default()).unwrap();
        assert!(prefixes.descend(base, &[3, 4]).is_some());
        prefixes.insert(base, &[7, 8], &mut Cache::default()).unwrap();
        assert_eq!(prefixes.n_tokens(), 6);
        assert!(prefixes.descend(base, &[3, 4]).is_some() && prefixes.descend(base, &[5, 6]).is_none());
        assert!(prefixes.descend(root, &[1, 2]).is_some());
        assert!(prefixes.insert(used, &[9], &mut Cache::default()).is_none(), "its place is gone");
        assert!(
            prefixes.insert(old, &[1; 7], &mut Cache::default()).is_none(),
            "it is longer than the limit"
        );
    }
}
