//! Records of a Parquet file: a row each, nested values as objects and lists.

use super::{Missing, Place, Record, bad_data};
use crate::error::{EnvError, read_error};
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// The key of the metadata in which Hugging Face's `datasets` describes the fields.
const FEATURES_KEY: &str = "huggingface";

/// What `datasets` writes for a class label that nobody has given.
const UNLABELLED: i64 = -1;

/// How a field holds class labels, which `datasets` writes as numbers.
enum Labels {
    /// One label, with the names of the classes.
    One(Vec<String>),
    /// A list of these.
    Each(Box<Labels>),
    /// An object of which some members hold labels.
    Members(Vec<(String, Labels)>),
}

impl Labels {
    /// The labels of a field by its description; `None` for a field without any.
    fn of(feature: &Value) -> Option<Self> {
        let members = match feature {
            Value::Array(elements) => return Self::of(elements.first()?).map(Box::new).map(Self::Each),
            Value::Object(members) => members,
            _ => return None,
        };
        match feature.get("_type").and_then(Value::as_str) {
            Some("ClassLabel") => {
                let names = feature.get("names")?.as_array()?.iter();
                names.map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>().map(Self::One)
            }
            Some(_) => Self::of(feature.get("feature")?).map(Box::new).map(Self::Each),
            None => {
                let labels = members.iter();
                let labels: Vec<_> =
                    labels.filter_map(|(name, feature)| Some((name.clone(), Self::of(feature)?))).collect();
                (!labels.is_empty()).then_some(Self::Members(labels))
            }
        }
    }

    /// Puts the names of classes in the place of their numbers; a missing label is `null`.
    ///
    /// The error is a number that is no index of a name.
    fn name(&self, value: &mut Value) -> Result<(), String> {
        match (self, value) {
            (Self::One(names), value @ Value::Number(_)) => {
                let index = value.as_u64().and_then(|number| usize::try_from(number).ok());
                *value = match index.and_then(|index| names.get(index)) {
                    Some(name) => Value::from(name.as_str()),
                    None if value.as_i64() == Some(UNLABELLED) => Value::Null,
                    None => {
                        let last = names.len().saturating_sub(1);
                        return Err(format!(
                            "holds the label {value}; its classes have the numbers 0 to {last}"
                        ));
                    }
                };
                Ok(())
            }
            (Self::Each(labels), Value::Array(elements)) => {
                elements.iter_mut().try_for_each(|element| labels.name(element))
            }
            // A list of objects is written as an object of lists.
            (Self::Each(labels), value @ Value::Object(_)) => labels.name(value),
            (Self::Members(labels), Value::Object(members)) => {
                for (name, labels) in labels {
                    if let Some(member) = members.get_mut(name) {
                        labels.name(member)?;
                    }
                }
                Ok(())
            }
            // Members of an object of lists.
            (Self::One(_) | Self::Members(_), Value::Array(elements)) => {
                elements.iter_mut().try_for_each(|element| self.name(element))
            }
            _ => Ok(()),
        }
    }
}

/// The fields that hold class labels.
fn labels_of(reader: &SerializedFileReader<File>) -> Vec<(String, Labels)> {
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let described = metadata.into_iter().flatten().find(|entry| entry.key == FEATURES_KEY);
    let described = described.and_then(|entry| serde_json::from_str::<Value>(entry.value.as_deref()?).ok());
    let features = described.as_ref().and_then(|described| described.pointer("/info/features"));
    match features.and_then(Labels::of) {
        Some(Labels::Members(labels)) => labels,
        Some(Labels::One(_) | Labels::Each(_)) | None => Vec::new(),
    }
}

/// All records of a file, in order; their lines are the numbers of the rows.
///
/// Bytes are texts in Base64, times and decimals texts, and numbers that JSON does not have are `null`. Labels that
/// Hugging Face's `datasets` has written as numbers are their names, and `null` where nobody has labelled the row.
///
/// # Errors
///
/// A file that cannot be read, or is not Parquet, or holds a number of no class.
pub(super) fn parquet_records(path: &Path) -> Result<Vec<Record>, EnvError> {
    let fault = |error: ParquetError| bad_data(path, format!("is not read as Parquet: {error}"));
    let file = File::open(path).map_err(|source| read_error(path, source))?;
    let reader = SerializedFileReader::new(file).map_err(fault)?;
    let labels = labels_of(&reader);
    let file = Arc::new(path.to_path_buf());
    let mut records = Vec::new();
    for (row_idx, row) in reader.get_row_iter(None).map_err(fault)?.enumerate() {
        let place = Place { file: Arc::clone(&file), line: row_idx + 1, element: None, stem: None };
        let row = row.map_err(|error| place.error(format!("cannot be read: {error}")))?;
        if let Value::Object(mut fields) = row.to_json_value() {
            let mut missing = Vec::new();
            for (field, labels) in &labels {
                let Some(value) = fields.get_mut(field).filter(|value| !value.is_null()) else { continue };
                labels.name(value).map_err(|fault| place.error(format!("`{field}` {fault}")))?;
                if value.is_null() {
                    missing.push(Missing::Unlabelled { field: field.clone() });
                }
            }
            records.push(Record { fields, place, missing });
        }
    }
    Ok(records)
}
