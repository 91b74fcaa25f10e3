//! Files that a package carries along: no edit changes them, and the text of the skill names them by their hash.

use crate::canonical::hex_sha256;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A carried file's identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CarriedName {
    /// The SHA-256 of its bytes, as 64 hexadecimal digits.
    pub sha256: String,
    /// Whether it can be started.
    pub is_executable: bool,
}

/// A carried file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarriedFile {
    bytes: Arc<[u8]>,
    name: CarriedName,
}

impl CarriedFile {
    /// A file of these bytes.
    pub fn new(bytes: impl Into<Arc<[u8]>>, is_executable: bool) -> Self {
        let bytes = bytes.into();
        let name = CarriedName { sha256: hex_sha256(&bytes), is_executable };
        Self { bytes, name }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it can be started.
    pub fn is_executable(&self) -> bool {
        self.name.is_executable
    }

    /// Its identity.
    pub fn name(&self) -> CarriedName {
        self.name.clone()
    }
}

/// Carried files by their path; cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CarriedFiles(Arc<BTreeMap<String, CarriedFile>>);

impl CarriedFiles {
    /// The file of this path.
    pub fn get(&self, path: &str) -> Option<&CarriedFile> {
        self.0.get(path)
    }

    /// Adds or replaces a file.
    pub fn insert(&mut self, path: String, file: CarriedFile) {
        Arc::make_mut(&mut self.0).insert(path, file);
    }

    /// All files, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &CarriedFile)> {
        self.0.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
