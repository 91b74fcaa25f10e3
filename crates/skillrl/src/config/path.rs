//! Paths as the configuration has them.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A path to the letter, with the directory that it is relative to: that of the configuration file, or the current one
/// for a path that was given by `--set`.
///
/// The run directory's files hold only the letters, so that they say the same on every machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct ConfigPath {
    text: String,
    /// Empty for the current directory.
    dir: PathBuf,
}

impl ConfigPath {
    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The path to open.
    pub(crate) fn to_path(&self) -> PathBuf {
        self.dir.join(&self.text)
    }

    pub(crate) fn set_dir(&mut self, dir: &Path) {
        dir.clone_into(&mut self.dir);
    }
}

/// A path that is relative to the current directory.
impl From<String> for ConfigPath {
    fn from(text: String) -> Self {
        Self { text, dir: PathBuf::new() }
    }
}

impl From<ConfigPath> for String {
    fn from(path: ConfigPath) -> Self {
        path.text
    }
}
