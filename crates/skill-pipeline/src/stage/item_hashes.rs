//! What the items of a run hold, hashed once and not in each of the stages that read them.

use parking_lot::Mutex;
use skill_core::ItemId;
use skill_core::canonical::canonical_hash;
use skill_envs::Item;
use std::collections::HashMap;
use std::sync::Arc;

/// The hashes of items by their ids.
///
/// An id stands for one item, so this is good for as long as nobody changes the data of an item: for one run.
#[derive(Debug, Default)]
pub struct ItemHashes(Mutex<HashMap<ItemId, Arc<str>>>);

impl ItemHashes {
    /// The canonical hash of an item's data.
    pub fn of(&self, item: &Item) -> Arc<str> {
        // What is locked is whole after every statement, so a panic elsewhere cannot have broken it.
        let mut hashes = self.0.lock();
        // Most are there, and a look needs no copy of the id.
        if let Some(hash) = hashes.get(&item.id) {
            return Arc::clone(hash);
        }
        let hash: Arc<str> = canonical_hash(&item.data).into();
        hashes.insert(item.id.clone(), Arc::clone(&hash));
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_item_has_the_hash_of_its_data_however_often_it_is_asked_for() {
        let items: Vec<Item> =
            (0..20).map(|n| Item::new(format!("q{n}"), json!({"n": n, "a": [n]}))).collect();
        let hashes = ItemHashes::default();
        for item in items.iter().chain(&items) {
            assert_eq!(*hashes.of(item), *canonical_hash(&item.data));
        }
    }
}
