//! Configurations of other systems that are read as they are: JSON of krill or of SkillRL in Rust.

#[cfg(feature = "import")]
pub(crate) mod draft;
#[cfg(feature = "import")]
pub(crate) mod krill;

use super::ConfigError;
use serde::Serialize;
use std::path::Path;

/// Something that became something here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mapped {
    /// Its name there.
    pub key: String,
    /// Its name here.
    pub to: String,
}

/// Something without a counterpart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unmapped {
    /// Its name there.
    pub key: String,
    /// Its value; empty for files, and never a secret.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Why, and what to do about it.
    pub reason: String,
}

#[cfg(feature = "import")]
impl Unmapped {
    pub(crate) fn new(key: impl Into<String>, value: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.into(), reason: reason.into() }
    }
}

/// How the keys of a file of another system were read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Mapping {
    /// What became what.
    pub mapped: Vec<Mapped>,
    /// What has no counterpart and changes something.
    pub unmapped: Vec<Unmapped>,
    /// What has no counterpart, and no effect there either.
    pub idle: Vec<Unmapped>,
    /// What is missing before a run can begin, one line each.
    pub missing: Vec<String>,
}

impl Mapping {
    /// What has no counterpart, with an effect there or not.
    pub fn without_counterpart(&self) -> impl Iterator<Item = &Unmapped> {
        self.unmapped.iter().chain(&self.idle)
    }

    #[cfg(feature = "import")]
    pub(crate) fn map(&mut self, key: impl Into<String>, to: impl Into<String>) {
        self.mapped.push(Mapped { key: key.into(), to: to.into() });
    }

    /// Names what is missing before a run can begin, once.
    #[cfg(feature = "import")]
    pub(crate) fn need(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.missing.contains(&what) {
            self.missing.push(what);
        }
    }

    #[cfg(feature = "import")]
    pub(crate) fn lose(
        &mut self,
        key: impl Into<String>,
        value: impl Into<String>,
        reason: impl Into<String>,
    ) {
        self.unmapped.push(Unmapped::new(key, value, reason));
    }
}

/// The name of a file in JSON ends so.
const JSON: &str = "json";

/// The text of a configuration file in TOML; of a file in JSON, how it was mapped too.
pub(super) fn as_toml(path: &Path, text: String) -> Result<(String, Option<Mapping>), ConfigError> {
    if path.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case(JSON)) {
        return Ok((text, None));
    }
    mapped(path, &text)
}

#[cfg(feature = "import")]
fn mapped(path: &Path, text: &str) -> Result<(String, Option<Mapping>), ConfigError> {
    krill::configuration(path, text).map(|(text, mapping)| (text, Some(mapping)))
}

#[cfg(not(feature = "import"))]
fn mapped(path: &Path, _: &str) -> Result<(String, Option<Mapping>), ConfigError> {
    Err(ConfigError::Json {
        path: path.to_owned(),
        message: "is JSON, which needs the cargo feature `import` of skillrl".to_owned(),
        advice: "build with this feature, or write it as a skillrl.toml",
    })
}
