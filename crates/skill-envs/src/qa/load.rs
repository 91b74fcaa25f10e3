//! From data files to checked items in three splits.

use super::config::QaConfig;
use super::item::QaItem;
use crate::error::EnvError;
use crate::item::{Item, Splits};
use crate::tasks::Splitting;
use crate::tasks::load::{Source, load_splits as load};
use std::sync::Arc;

/// Reads the items of all splits.
pub(super) fn load_splits(config: &QaConfig) -> Result<Splits<Vec<Item>>, EnvError> {
    let splitting = Splitting::PartsOrRatio(config.split());
    let source = Source {
        data: &config.data,
        splitting: &splitting,
        optional: config.optional_splits(),
        group_of: None,
        drops_duplicates: false,
    };
    let (splits, _) = load(&source, &mut |record, _| {
        let question = QaItem::parse(&record.fields).map_err(|fault| record.place.error(fault))?;
        let QaItem { id, task_type, .. } = question;
        Ok(Some((Item { id, task_type, data: Arc::new(record.fields.into()) }, ())))
    })?;
    Ok(splits.map(|split| split.into_iter().map(|(item, ())| item).collect()))
}
