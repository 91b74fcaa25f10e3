//! Which key or word was meant.

use super::key::{KeySpec, any_of};
use super::keys::{self, SectionSpec};
use skill_core::spelling::folded as fold;

pub use skill_core::spelling::nearest;

/// What to say about a name that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suggestion {
    /// It is a misspelling of this.
    Nearest(String),
    /// It is a misspelling of this section.
    Section(String),
    /// The key exists, in these sections.
    BelongsTo {
        /// The key's name.
        name: String,
        /// The sections' names.
        sections: Vec<String>,
    },
    /// It is like nothing that is known; these are.
    Valid(Vec<String>),
}

impl std::fmt::Display for Suggestion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nearest(name) => write!(f, "did you mean `{name}`?"),
            Self::Section(name) => write!(f, "did you mean [{name}]?"),
            Self::BelongsTo { name, sections } => {
                write!(f, "`{name}` belongs to {}", any_of(sections.iter().map(|name| format!("[{name}]"))))
            }
            Self::Valid(names) => write!(f, "valid are {}", names.join(", ")),
        }
    }
}

/// What a key that a known section does not have was meant to be.
pub(super) fn for_key(section: &SectionSpec, name: &str) -> Suggestion {
    let names = || section.keys().map(|key| key.name);
    if let Some(key) = names().find(|key| fold(key) == fold(name)) {
        return Suggestion::Nearest(format!("{}.{key}", section.path));
    }
    if let Some(suggestion) = elsewhere(name) {
        // `url` in the section of a model is its `base_url`, and not the `url` of another section.
        let is_end = |key: &&str| key.rsplit_once('_').is_some_and(|(_, end)| end == name);
        let own = names().find(is_end).map(|key| Suggestion::Nearest(format!("{}.{key}", section.path)));
        return own.unwrap_or(suggestion);
    }
    if let Some(key) = nearest(name, names()) {
        return Suggestion::Nearest(format!("{}.{key}", section.path));
    }
    anywhere(name).unwrap_or_else(|| Suggestion::Valid(names().map(str::to_owned).collect()))
}

/// What a name in no known section was meant to be; `path` is the whole dotted name.
pub(super) fn for_path(path: &str) -> Suggestion {
    let last = last_segment(path);
    if let Some((before, _)) = path.rsplit_once('.') {
        if let Some((section, key)) = keys::find(before) {
            return Suggestion::Nearest(section.path_of(key));
        }
        let is_group = keys::sections().iter().any(|section| starts_with_segment(section.path, before));
        if !is_group && let Some(section) = nearest_section(before) {
            return match section.key(last) {
                Some(key) => Suggestion::Nearest(section.path_of(key)),
                None => for_key(section, last),
            };
        }
    }
    elsewhere(last)
        .or_else(|| nearest_section(path).map(|section| Suggestion::Section(section.path.to_owned())))
        .or_else(|| anywhere(last))
        .unwrap_or_else(all_sections)
}

/// What an unknown section was meant to be.
pub(super) fn for_section(path: &str) -> Suggestion {
    nearest_section(path).map_or_else(all_sections, |section| Suggestion::Section(section.path.to_owned()))
}

/// By the whole name, or else by its last part: `[target]` is `[models.target]`.
fn nearest_section(path: &str) -> Option<&'static SectionSpec> {
    let sections = keys::sections();
    nearest(path, sections.iter().map(|section| section.path)).and_then(keys::section).or_else(|| {
        let part = nearest(last_segment(path), sections.iter().map(|section| last_segment(section.path)))?;
        sections.iter().find(|section| last_segment(section.path) == part)
    })
}

fn all_sections() -> Suggestion {
    Suggestion::Valid(keys::sections().iter().map(|section| format!("[{}]", section.path)).collect())
}

/// Whether a dotted name starts with these segments and goes on.
pub(super) fn starts_with_segment(path: &str, start: &str) -> bool {
    path.strip_prefix(start).is_some_and(|rest| rest.starts_with('.'))
}

fn last_segment(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn elsewhere(name: &str) -> Option<Suggestion> {
    let owners: Vec<(&SectionSpec, &KeySpec)> =
        keys::keys().filter(|(_, key)| fold(key.name) == fold(name)).collect();
    let (_, first) = owners.first()?;
    let sections = owners.iter().map(|(section, _)| section.path.to_owned()).collect();
    Some(Suggestion::BelongsTo { name: first.name.to_owned(), sections })
}

fn anywhere(name: &str) -> Option<Suggestion> {
    let nearest = nearest(name, keys::keys().map(|(_, key)| key.name))?;
    let (section, key) = keys::keys().find(|(_, key)| key.name == nearest)?;
    Some(Suggestion::Nearest(section.path_of(key)))
}
