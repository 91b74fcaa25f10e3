//! The configuration files that `skillrl init` and `skillrl train DATA` write: of every setting, or of a few.

use super::draft::{Draft, TARGET, TARGETS};
use super::env::WORLD_KINDS;
use super::error::ConfigError;
use super::key::{KeyDefault, KeySpec};
use super::keys::{self, SectionSpec};
use super::models::{AGENT_KIND, LOCAL_KIND, SET_BY_PROVIDER};
use super::{Config, FILE_NAME, value};
use std::fmt::Write as _;

/// Writes a file with every key and what it does; keys that are not set stand as comments, like
/// `#temperature = 0.0`.
///
/// `overrides` have the form `KEY=VALUE` of [`Config::parse`]; paths in them are written to the letter, and so
/// are relative to the file. Without overrides the file sets the defaults, and an example for every key that
/// has none.
///
/// # Errors
///
/// Overrides that [`Config::parse`] would refuse.
pub fn default_file(overrides: &[String]) -> Result<String, ConfigError> {
    let mut draft = Draft::new(FILE_NAME);
    draft.read_overrides(overrides);
    draft.check_kinds();
    draft.check()?;
    let mut file = String::from(
        "# The configuration of a skillrl run. Lines like `#key = value` are settings that are off.\n",
    );
    for section in keys::sections() {
        write_section(&mut file, &draft, section);
    }
    Config::parse(&file, FILE_NAME, &[])?;
    Ok(file)
}

/// Writes a file with these settings and nothing else; `head` becomes the comment at its top.
///
/// `overrides` have the form `KEY=VALUE` of [`Config::parse`]; later ones win. Paths are written to the letter.
///
/// # Errors
///
/// Overrides that [`Config::parse`] would refuse, and settings that are not a whole configuration.
pub fn short_file(overrides: &[String], head: &str) -> Result<String, ConfigError> {
    Config::parse("", FILE_NAME, overrides)?;
    let mut draft = Draft::new(FILE_NAME);
    draft.read_overrides(overrides);
    let mut file: String = head.lines().map(|line| format!("# {line}\n")).collect();
    let named = draft.take_targets();
    let mut write = |shown: String| {
        if !shown.is_empty() {
            file += &format!("\n{shown}");
        }
    };
    for section in keys::sections() {
        write(draft.shown_section(section, section.path));
    }
    if let Some(section) = keys::section(TARGET) {
        for (name, draft) in &named {
            write(draft.shown_section(section, &format!("{TARGETS}.{name}")));
        }
    }
    Config::parse(&file, FILE_NAME, &[])?;
    Ok(file)
}

fn write_section(file: &mut String, draft: &Draft, section: &SectionSpec) {
    if draft.lacks(section) {
        return write_absent_section(file, section);
    }
    // Writing to a text cannot fail.
    let _ = writeln!(file, "\n# {}\n[{}]", section.doc, section.path);
    for key in section.keys() {
        let names = key.kinds.names();
        // There are many of them, and whoever plays no world needs none; nor does a world need those of data, or a
        // server those of a program.
        let is_world = |name: &str| WORLD_KINDS.contains(&name);
        let of_other_kinds = !names.is_empty() && !draft.has_key(section, key);
        if of_other_kinds
            && (names.iter().all(|name| is_world(name) || [AGENT_KIND, LOCAL_KIND].contains(name))
                || draft.kind_of(section).is_some_and(|kind| is_world(&kind)))
        {
            continue;
        }
        let kinds = match key.kinds.names() {
            names if names.is_empty() || draft.has_key(section, key) => String::new(),
            names => format!("{} only: ", names.join(" or ")),
        };
        let _ = writeln!(file, "# {kinds}{}", key.doc().replace('\n', "\n# "));
        let off = if is_set(draft, section, key) { "" } else { "#" };
        let value = draft
            .entry(&section.path_of(key))
            .map_or_else(|| key.default.toml().to_owned(), |entry| value::to_toml(&entry.value));
        let _ = writeln!(file, "{off}{} = {value}", key.name);
    }
}

/// A section that is not needed: its name and what it takes at least, as comments.
fn write_absent_section(file: &mut String, section: &SectionSpec) {
    let _ = writeln!(file, "\n# {}\n#[{}]", section.doc, section.path);
    for key in section.keys() {
        // A section of defaults shows all of them.
        if section.modes.is_empty() && section.key("kind").is_none()
            || key.name == "kind"
            || matches!(key.default, KeyDefault::Required { .. }) && key.kinds.has("openai")
        {
            let _ = writeln!(file, "#{} = {}", key.name, key.default.toml());
        }
    }
}

fn is_set(draft: &Draft, section: &SectionSpec, key: &KeySpec) -> bool {
    if draft.entry(&section.path_of(key)).is_some() {
        return true;
    }
    let by_default = match key.default {
        KeyDefault::Value(_) if is_model(section) && SET_BY_PROVIDER.contains(&key.name) => false,
        // An address of one's own says more than whose it could be.
        KeyDefault::Suggested { .. } if is_model(section) && key.name == "provider" => {
            draft.entry(&format!("{}.base_url", section.path)).is_none()
        }
        KeyDefault::Required { .. } | KeyDefault::Suggested { .. } => true,
        // Defaults of special kinds stay off, so that a change of the kind is not refused because of them.
        KeyDefault::Value(_) => default_kind(section).is_none_or(|kind| key.kinds.has(kind)),
        KeyDefault::Absent { .. } => false,
    };
    by_default && draft.has_key(section, key)
}

fn is_model(section: &SectionSpec) -> bool {
    section.path.starts_with("models.")
}

fn default_kind(section: &SectionSpec) -> Option<&'static str> {
    section.key("kind").map(|key| key.default.toml().trim_matches('"'))
}
