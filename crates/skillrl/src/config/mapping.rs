//! Configurations of other systems that are read as they are: JSON of krill or of SkillRL in Rust.

use super::ConfigError;
use std::path::Path;

/// How the keys of a file of another system were read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Mapping {
    /// The keys that were taken: the name there, and the name here.
    pub mapped: Vec<(String, String)>,
    /// The keys without a counterpart, each with the reason. Keys of models are among them, and their values nowhere.
    pub unmapped: Vec<(String, String)>,
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
    let (text, mapping) = crate::import::krill_configuration(path, text)?;
    Ok((text, Some(mapping)))
}

#[cfg(not(feature = "import"))]
fn mapped(path: &Path, _: &str) -> Result<(String, Option<Mapping>), ConfigError> {
    Err(ConfigError::Json {
        path: path.to_owned(),
        message: "is JSON, which needs the cargo feature `import` of skillrl".to_owned(),
        advice: "build with this feature, or write it as a skillrl.toml",
    })
}
