//! Paths as they were asked for.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What a relative path is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PathBase {
    /// The directory of the configuration file.
    #[default]
    ConfigFile,
    /// The current directory: the path was given by `--set`.
    CurrentDirectory,
}

/// A path to the letter, with what it is relative to.
///
/// The run directory's files hold only the letters, so that they say the same on every machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct AskedPath {
    text: String,
    base: PathBase,
}

impl AskedPath {
    /// A path with its base.
    pub fn new(text: impl Into<String>, base: PathBase) -> Self {
        Self { text: text.into(), base }
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What it is relative to.
    pub fn base(&self) -> PathBase {
        self.base
    }

    /// The path to open, given the directory of the configuration file.
    pub fn resolve(&self, config_dir: &Path) -> PathBuf {
        match self.base {
            PathBase::ConfigFile => config_dir.join(&self.text),
            PathBase::CurrentDirectory => PathBuf::from(&self.text),
        }
    }

    pub(super) fn set_base(&mut self, base: PathBase) {
        self.base = base;
    }
}

impl From<String> for AskedPath {
    fn from(text: String) -> Self {
        Self::new(text, PathBase::ConfigFile)
    }
}

impl From<AskedPath> for String {
    fn from(path: AskedPath) -> Self {
        path.text
    }
}
