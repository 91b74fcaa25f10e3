//! The items of an `exec` environment: from data files, or from the program.

use super::config::ExecConfig;
use super::protocol::ItemLists;
use crate::data::Record;
use crate::error::EnvError;
use crate::item::{Item, Split, Splits};
use crate::tasks::Splitting;
use crate::tasks::load::{Source, load_splits};
use indexmap::IndexSet;
use serde_json::Value;
use skill_core::ItemId;
use skill_core::member::kind_of;
use std::path::Path;
use std::sync::Arc;

/// The items that the program has listed.
pub(super) fn of_program(lists: ItemLists, config: &ExecConfig) -> Result<Splits<Vec<Item>>, String> {
    let ItemLists { train, val, test } = lists;
    let splits = Splits { train, val, test }.map(|list| list.into_iter().map(Item::from).collect::<Vec<_>>());
    let mut seen = IndexSet::new();
    for item in splits.iter().flat_map(|(_, items)| items) {
        if let Some(fault) = ItemId::fault(item.id.as_str()) {
            return Err(format!("the `id` {:?} of an item {fault}", item.id.as_str()));
        }
        if !seen.insert(item.id.clone()) {
            return Err(format!("two items have the id `{}`; ids are unique over all splits", item.id));
        }
    }
    for (split, items) in splits.iter() {
        if items.is_empty() && !is_optional(split, config) {
            return Err(format!("the split `{split}` has no items"));
        }
    }
    Ok(splits)
}

/// The items in data files: every record is an item, with its `id` and, if it has one, its `task_type`.
pub(super) fn of_files(data: &Path, config: &ExecConfig) -> Result<Splits<Vec<Item>>, EnvError> {
    let splitting = Splitting::PartsOrRatio(config.split());
    let optional: &[Split] = if config.test_is_optional { &[Split::Test] } else { &[] };
    let source = Source { data, splitting: &splitting, optional, group_of: None, drops_duplicates: false };
    let (splits, _) = load_splits(&source, &mut |record, _| {
        let place = record.place.clone();
        of_record(record).map(|item| Some((item, ()))).map_err(|fault| place.error(fault))
    })?;
    Ok(splits.map(|items| items.into_iter().map(|(item, ())| item).collect()))
}

fn is_optional(split: Split, config: &ExecConfig) -> bool {
    config.test_is_optional && split == Split::Test
}

fn of_record(record: Record) -> Result<Item, String> {
    let id = match record.fields.get("id") {
        Some(Value::String(id)) => match ItemId::fault(id) {
            Some(fault) => return Err(format!("`id` {fault}")),
            None => id.clone(),
        },
        Some(Value::Number(id)) if id.is_i64() || id.is_u64() => id.to_string(),
        None | Some(Value::Null) => return Err("has no `id`; expected a string or an integer".to_owned()),
        Some(other) => return Err(format!("`id` is {}; expected a string or an integer", kind_of(other))),
    };
    let task_type = match record.fields.get("task_type") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(task_type)) => task_type.clone(),
        Some(other) => return Err(format!("`task_type` is {}; expected a string", kind_of(other))),
    };
    Ok(Item { id: ItemId::new(id), task_type, data: Arc::new(Value::Object(record.fields)) })
}
