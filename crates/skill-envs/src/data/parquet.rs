//! Records of a Parquet file: a row each, nested values as objects and lists.

use super::{Missing, Place, Record, bad_data};
use crate::error::{EnvError, read_error};
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use serde_json::Value;
use skill_core::member;
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
    /// The labels of a field by its description; `None` for a field without any. The error is what is wrong with the names
    /// of classes, without which their numbers would pass for answers.
    fn of(feature: &Value) -> Result<Option<Self>, String> {
        let each = |feature: Option<&Value>| {
            let labels = feature.map(Self::of).transpose()?.flatten();
            Ok(labels.map(Box::new).map(Self::Each))
        };
        let members = match feature {
            Value::Array(elements) => return each(elements.first()),
            Value::Object(members) => members,
            _ => return Ok(None),
        };
        match feature.get("_type").and_then(Value::as_str) {
            Some("ClassLabel") => {
                let names = member::list(members, "names").map_err(|error| error.to_string())?;
                let text = |name: &Value| name.as_str().map(str::to_owned);
                let names = names.map(|names| names.iter().map(text).collect::<Option<Vec<String>>>());
                match names {
                    None => Ok(None),
                    Some(names) => names
                        .map(Self::One)
                        .map(Some)
                        .ok_or("`names` holds something else than texts".to_owned()),
                }
            }
            Some(_) => each(feature.get("feature")),
            None => {
                let mut labels = Vec::new();
                for (name, feature) in members {
                    if let Some(of_member) = Self::of(feature)? {
                        labels.push((name.clone(), of_member));
                    }
                }
                Ok((!labels.is_empty()).then_some(Self::Members(labels)))
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
fn labels_of(reader: &SerializedFileReader<File>) -> Result<Vec<(String, Labels)>, String> {
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let described = metadata.into_iter().flatten().find(|entry| entry.key == FEATURES_KEY);
    described.and_then(|entry| entry.value.as_deref()).map_or_else(|| Ok(Vec::new()), described_labels)
}

/// The fields that hold class labels by this description.
fn described_labels(described: &str) -> Result<Vec<(String, Labels)>, String> {
    let wrong =
        |what: String| format!("has a wrong description of its fields (metadata `{FEATURES_KEY}`): {what}");
    let described: Value = serde_json::from_str(described).map_err(|error| wrong(error.to_string()))?;
    let features = described.pointer("/info/features").map(Labels::of).transpose();
    Ok(match features.map_err(wrong)?.flatten() {
        Some(Labels::Members(labels)) => labels,
        Some(Labels::One(_) | Labels::Each(_)) | None => Vec::new(),
    })
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
    let labels = labels_of(&reader).map_err(|what| bad_data(path, what))?;
    let file = Arc::new(path.to_path_buf());
    let mut records = Vec::new();
    for (row_idx, row) in reader.get_row_iter(None).map_err(fault)?.enumerate() {
        let place = Place { file: Arc::clone(&file), line: row_idx + 1, element: None, stem: None };
        let row = row.map_err(|error| place.error(format!("cannot be read: {error}")))?;
        let Value::Object(mut fields) = row.to_json_value() else {
            return Err(place.error("is a row without names of fields"));
        };
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
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_without_their_names_are_an_error() {
        for (features, expect) in [
            (r#"{"info": {"features": {"label": {"_type": "ClassLabel", "names": ["a", "b"]}}}}"#, Some(1)),
            (r#"{"info": {"features": {"labels": [{"_type": "ClassLabel", "names": ["a"]}]}}}"#, Some(1)),
            (
                r#"{"info": {"features": {"label": {"_type": "ClassLabel"}, "x": {"_type": "Value"}}}}"#,
                Some(0),
            ),
            (r#"{"info": {"features": {"label": {"_type": "ClassLabel", "names": [1, 2]}}}}"#, None),
            (
                r#"{"info": {"features": {"a": {"feature": {"_type": "ClassLabel", "names": "b"}, "_type": "List"}}}}"#,
                None,
            ),
            ("{", None),
        ] {
            assert_eq!(described_labels(features).ok().map(|labels| labels.len()), expect, "{features}");
        }
    }
}
