//! Records of a Parquet file: a row each, nested values as objects and lists.

use super::{Place, Record, bad_data, read_error};
use crate::error::EnvError;
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// The key of the metadata in which Hugging Face's `datasets` describes the fields.
const FEATURES_KEY: &str = "huggingface";

/// The names of classes by field, where `datasets` has written labels as numbers.
fn class_names(reader: &SerializedFileReader<File>) -> Vec<(String, Vec<String>)> {
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let described = metadata.into_iter().flatten().find(|entry| entry.key == FEATURES_KEY);
    let described = described.and_then(|entry| serde_json::from_str::<Value>(entry.value.as_deref()?).ok());
    let features = described.as_ref().and_then(|described| described.pointer("/info/features")?.as_object());
    let names = features.into_iter().flatten().filter_map(|(field, feature)| {
        let names = feature.get("names")?.as_array()?;
        let is_class = feature.get("_type").and_then(Value::as_str) == Some("ClassLabel");
        let names = names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?;
        is_class.then(|| (field.clone(), names))
    });
    names.collect()
}

/// Puts the name of a class in the place of its number.
fn name_class(value: &mut Value, names: &[String]) {
    let name = value.as_u64().and_then(|number| names.get(usize::try_from(number).ok()?));
    if let Some(name) = name {
        *value = Value::from(name.as_str());
    }
}

/// All records of a file, in order; their lines are the numbers of the rows.
///
/// Bytes are texts in Base64, times and decimals texts, and numbers that JSON does not have are `null`. Labels that
/// Hugging Face's `datasets` has written as numbers are their names.
///
/// # Errors
///
/// A file that cannot be read, or is not Parquet.
pub(super) fn parquet_records(path: &Path) -> Result<Vec<Record>, EnvError> {
    let fault = |error: ParquetError| bad_data(path, format!("is not read as Parquet: {error}"));
    let file = File::open(path).map_err(|source| read_error(path, source))?;
    let reader = SerializedFileReader::new(file).map_err(fault)?;
    let names = class_names(&reader);
    let file = Arc::new(path.to_path_buf());
    let mut records = Vec::new();
    for (row_idx, row) in reader.get_row_iter(None).map_err(fault)?.enumerate() {
        let place = Place { file: Arc::clone(&file), line: row_idx + 1, element: None };
        let row = row.map_err(|error| place.error(format!("cannot be read: {error}")))?;
        if let Value::Object(mut fields) = row.to_json_value() {
            for (field, names) in &names {
                if let Some(value) = fields.get_mut(field) {
                    name_class(value, names);
                }
            }
            records.push(Record { fields, place });
        }
    }
    Ok(records)
}
