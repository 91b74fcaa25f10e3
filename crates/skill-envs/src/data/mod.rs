//! Records of a data set, read from JSON, JSON Lines, CSV, Parquet or a spreadsheet, each with the place where it is.
//!
//! This is the part of loading that every environment with a data file shares: finding the files of the
//! splits, reading records, and saying where a wrong one is. What a record means is the environment's business.

mod convert;
mod csv;
mod layout;
#[cfg(feature = "tables")]
mod number_format;
#[cfg(feature = "tables")]
mod parquet;
mod read;
#[cfg(feature = "tables")]
mod spreadsheet;

pub use convert::write_json_lines;
pub(crate) use layout::{
    DataFiles, all_files, bad_data, entry_names, find, part_names, train_and_val, unused_beside,
};
pub use layout::{split_of_file, splits_of_names};
pub use read::items_member_of;
pub(crate) use read::read_records;

use crate::error::EnvError;
use serde_json::{Map, Number, Value};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The formats of data files, for people; the last two need the feature `tables`.
pub const DATA_FORMATS: &str = "CSV, TSV, JSON Lines, JSON, Parquet or Excel";

/// How many fields a message names.
const MAX_NAMED_FIELDS: usize = 12;

/// One JSON object of a data file.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// The object.
    pub(crate) fields: Map<String, Value>,
    /// Where it is.
    pub(crate) place: Place,
    /// Fields that are `null` because the file has no value for them, with what it has.
    pub(crate) missing: Vec<Missing>,
}

/// A field without a value, which the file says in its own way.
#[cfg_attr(not(feature = "tables"), expect(dead_code, reason = "only tables have such values"))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Missing {
    /// A class label of -1, by which data sets say that nobody has labelled the row.
    Unlabelled {
        /// The name of the field.
        field: String,
    },
    /// A cell of a spreadsheet with an error.
    CellError {
        /// The name of the field.
        field: String,
        /// What the sheet shows, such as `#N/A`.
        error: String,
    },
}

impl Missing {
    /// The name of the field.
    pub(crate) fn field(&self) -> &str {
        match self {
            Self::Unlabelled { field } | Self::CellError { field, .. } => field,
        }
    }
}

/// Where a record is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    file: Arc<PathBuf>,
    line: usize,
    /// The number in the array, from 1, where the file is one.
    element: Option<usize>,
    /// The beginning of ids for records without one, where it is not the name of the file.
    stem: Option<Arc<str>>,
}

impl Place {
    /// An error at this place.
    pub(crate) fn error(&self, message: impl Into<String>) -> EnvError {
        let (path, line, message) = (self.file.as_ref().clone(), self.line, message.into());
        match self.element {
            Some(element) => EnvError::BadElement { path, element, line, message },
            None => EnvError::BadLine { path, line, message },
        }
    }

    /// The line, from 1.
    pub(crate) fn line(&self) -> usize {
        self.line
    }

    /// An id for the record with this number in its file, such as `train-12`.
    pub(crate) fn numbered(&self, number: usize) -> String {
        match &self.stem {
            Some(stem) => format!("{stem}-{number}"),
            None => format!("{}-{number}", self.file.file_stem().unwrap_or_default().to_string_lossy()),
        }
    }

    /// The same place, whose record gets an id that begins so where it has none.
    pub(crate) fn with_stem(self, stem: &Arc<str>) -> Self {
        Self { stem: Some(Arc::clone(stem)), ..self }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, ", self.file.display())?;
        match self.element {
            Some(element) => write!(f, "element {element} (line {})", self.line),
            None => write!(f, "line {}", self.line),
        }
    }
}

/// Integers beyond this lose digits as a 64-bit float: 2^53.
const MAX_EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;

/// Whether the number reads as it stood in the file: a large or tiny one is a float in scientific notation.
pub(crate) fn is_kept_digit_for_digit(number: &Number) -> bool {
    number.is_i64()
        || number.is_u64()
        || (number.as_f64().is_some_and(|value| value.abs() < MAX_EXACT_FLOAT)
            && !number.to_string().contains('e'))
}

/// The names of the fields for a message.
pub(crate) fn field_names(fields: &Map<String, Value>) -> String {
    let mut names: Vec<String> =
        fields.keys().take(MAX_NAMED_FIELDS).map(|name| format!("`{name}`")).collect();
    if fields.len() > MAX_NAMED_FIELDS {
        names.push(format!("{} more", fields.len() - MAX_NAMED_FIELDS));
    }
    names.join(", ")
}
