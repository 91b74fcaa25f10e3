//! From data files to checked items in three splits.

use super::config::QaConfig;
use super::item::QaItem;
use crate::data::{DataFiles, Place, find, read_records};
use crate::env::{Item, Split};
use crate::error::EnvError;
use indexmap::IndexMap;
use indexmap::map::Entry;
use skill_core::ItemId;
use skill_core::split::split_by_ratio;
use std::path::Path;

/// An item in both of its forms: as the environment lists it, and as it is asked and scored.
pub(super) type LoadedItem = (Item, QaItem);

/// Reads the items of all splits, in the order of [`Split::ALL`].
pub(super) fn load_splits(config: &QaConfig) -> Result<[Vec<LoadedItem>; 3], EnvError> {
    let mut seen = IndexMap::new();
    match find(&config.data, config.optional_splits())? {
        DataFiles::Whole(file) => {
            let items = load_file(&file, &mut seen)?;
            if items.is_empty() {
                return Err(empty(&file, "holds no items".to_owned()));
            }
            split(&file, items, config)
        }
        DataFiles::Parts(files) => {
            let mut splits = [Vec::new(), Vec::new(), Vec::new()];
            for (split, items) in Split::ALL.into_iter().zip(&mut splits) {
                let Some((_, file)) = files.iter().find(|(part, _)| *part == split) else { continue };
                *items = load_file(file, &mut seen)?;
                if items.is_empty() && !config.optional_splits().contains(&split) {
                    return Err(empty(file, format!("holds no items, so the split `{split}` is empty")));
                }
            }
            Ok(splits)
        }
    }
}

fn split(file: &Path, items: Vec<LoadedItem>, config: &QaConfig) -> Result<[Vec<LoadedItem>; 3], EnvError> {
    let [train, val, test] = config.split_ratio;
    if [train, val, test] == [0, 0, 0] {
        let message = "`split_ratio` is 0:0:0; expected weights such as 2:1:7".to_owned();
        return Err(EnvError::Configuration { message });
    }
    let n_items = items.len();
    let splits = split_by_ratio(items, config.split_ratio, config.split_seed);
    for (name, items) in Split::ALL.into_iter().zip(&splits) {
        if items.is_empty() && !config.optional_splits().contains(&name) {
            let message = format!(
                "holds {n_items} items; split {train}:{val}:{test} they leave the split `{name}` empty, \
                 so give more items or another `split_ratio`"
            );
            return Err(empty(file, message));
        }
    }
    Ok(splits)
}

fn load_file(file: &Path, seen: &mut IndexMap<ItemId, Place>) -> Result<Vec<LoadedItem>, EnvError> {
    let mut items = Vec::new();
    for record in read_records(file)? {
        let question = QaItem::parse(&record.fields).map_err(|fault| record.place.error(fault))?;
        match seen.entry(question.id.clone()) {
            Entry::Occupied(first) => {
                let message = format!(
                    "the id `{}` is taken by {}; ids are unique over all splits",
                    question.id,
                    first.get()
                );
                return Err(record.place.error(message));
            }
            Entry::Vacant(entry) => {
                entry.insert(record.place);
            }
        }
        let item = Item {
            id: question.id.clone(),
            task_type: question.task_type.clone(),
            data: record.fields.into(),
        };
        items.push((item, question));
    }
    Ok(items)
}

fn empty(file: &Path, message: String) -> EnvError {
    EnvError::BadData { path: file.to_path_buf(), message }
}
