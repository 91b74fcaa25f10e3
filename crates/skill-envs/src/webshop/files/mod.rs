//! The files of WebShop: `items_shuffle*.json` (products), `items_ins_v2*.json` (attributes and instructions) and
//! `items_human_ins.json` (instructions of people), read one entry after the other.
//!
//! What the original drops is dropped here too, and counted; what makes it stop with an exception is an error with
//! the file and the place.

mod entry;
mod stream;

pub use entry::{AttributeEntry, GoalOptions, HumanInstruction};

use super::catalogue::{Catalogue, MAX_ASIN_CHARACTERS, NO_ATTRIBUTE};
use crate::error::EnvError;
use entry::ProductEntry;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

/// How many entries of the product file were left out, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// An asin that an earlier entry has.
    pub repeated: usize,
    /// The asin `nan`, or one of more than ten characters.
    pub unusable_asin: usize,
}

/// Reads `items_shuffle*.json`: an array of products, of which the first `limit` entries count.
///
/// # Errors
///
/// A file that cannot be read or holds no product, or an entry without a field that is needed, or with a price that
/// cannot be read, with its number and line.
pub(crate) fn read_products(
    path: &Path,
    limit: Option<usize>,
    attributes: &HashMap<String, AttributeEntry>,
) -> Result<(Catalogue, Dropped), EnvError> {
    let mut catalogue = Catalogue::default();
    let mut dropped = Dropped::default();
    stream::elements(path, limit, &mut |entry| add(&mut catalogue, &mut dropped, attributes, &entry))?;
    if catalogue.is_empty() {
        return Err(EnvError::BadData {
            path: path.to_path_buf(),
            message: "holds no product that can be used".to_owned(),
        });
    }
    Ok((catalogue, dropped))
}

/// The products of an array as the product file has it.
pub(super) fn catalogue_of(
    products: &Value,
    attributes: &HashMap<String, AttributeEntry>,
) -> Result<Catalogue, String> {
    let mut catalogue = Catalogue::default();
    for product in products.as_array().into_iter().flatten() {
        let entry = ProductEntry::deserialize(product).map_err(|error| error.to_string())?;
        add(&mut catalogue, &mut Dropped::default(), attributes, &entry)?;
    }
    Ok(catalogue)
}

/// Adds what an entry holds to the catalogue, or counts why not.
fn add(
    catalogue: &mut Catalogue,
    dropped: &mut Dropped,
    attributes: &HashMap<String, AttributeEntry>,
    entry: &ProductEntry,
) -> Result<(), String> {
    let asin = entry.asin()?;
    if asin == "nan" || asin.chars().count() > MAX_ASIN_CHARACTERS {
        dropped.unusable_asin += 1;
    } else if catalogue.position(asin).is_some() {
        dropped.repeated += 1;
    } else {
        let known = attributes.get(asin).and_then(|entry| entry.attributes.clone());
        let attributes = known.unwrap_or_else(|| vec![NO_ATTRIBUTE.to_owned()]);
        catalogue.add(entry.product(attributes)?);
    }
    Ok(())
}

/// Reads `items_ins_v2*.json`: an object of asins.
///
/// # Errors
///
/// A file that cannot be read, or an entry of another shape, with its line.
pub(crate) fn read_attributes(path: &Path) -> Result<HashMap<String, AttributeEntry>, EnvError> {
    read_object(path, AttributeEntry::from_json)
}

/// Reads `items_human_ins.json`: an object of asins with a list of instructions each.
///
/// # Errors
///
/// A file that cannot be read, or an entry of another shape, with its line.
pub(crate) fn read_human_instructions(
    path: &Path,
) -> Result<HashMap<String, Vec<HumanInstruction>>, EnvError> {
    read_object(path, HumanInstruction::list_from_json)
}

/// Reads an object of numbers, such as the prices that another process drew.
pub(super) fn read_numbers(path: &Path) -> Result<HashMap<String, f64>, EnvError> {
    read_object(path, |value| value.as_f64().ok_or_else(|| "is not a number".to_owned()))
}

/// Reads an object of lists of strings, such as nouns by name.
pub(super) fn read_lists(path: &Path) -> Result<HashMap<String, Vec<String>>, EnvError> {
    read_object(path, |value| entry::strings(value).ok_or_else(|| "is not a list of strings".to_owned()))
}

/// Reads an array of values of one shape; what `read` refuses is named with its place.
pub(super) fn read_array<T: DeserializeOwned>(
    path: &Path,
    mut read: impl FnMut(T) -> Result<(), String>,
) -> Result<(), EnvError> {
    stream::elements(path, None, &mut read)
}

fn read_object<T>(
    path: &Path,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Result<HashMap<String, T>, EnvError> {
    let mut found = HashMap::new();
    stream::members(path, &mut |name: String, value: Value| {
        let member = read(&value).map_err(|message| format!("`{name}` {message}"))?;
        found.insert(name, member);
        Ok(())
    })?;
    Ok(found)
}
