//! Which key or word was meant.

use super::keys::{self, KeySpec, SectionSpec};

/// Below this similarity (0 to 1) a name is not taken for a misspelling of another one.
const MIN_SIMILARITY: f64 = 0.55;

/// What to say about a name that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suggestion {
    /// It is a misspelling of this.
    Nearest(String),
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
            Self::BelongsTo { name, sections } => {
                write!(f, "`{name}` belongs to {}", any_of(sections.iter().map(|name| format!("[{name}]"))))
            }
            Self::Valid(names) => write!(f, "valid are {}", names.join(", ")),
        }
    }
}

/// `a`, `a or b`, `a, b or c`.
pub(super) fn any_of(words: impl IntoIterator<Item = String>) -> String {
    let mut words: Vec<String> = words.into_iter().collect();
    match words.pop() {
        None => String::new(),
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} or {last}", words.join(", ")),
    }
}

/// The most similar of some words, if one is similar enough.
pub(super) fn nearest<'a>(name: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(name);
    let mut best: Option<(f64, &'a str)> = None;
    for word in words {
        let candidate = fold(word);
        let similarity = if candidate == folded {
            2.0
        } else {
            strsim::normalized_damerau_levenshtein(&folded, &candidate)
        };
        if similarity >= MIN_SIMILARITY && best.is_none_or(|(score, _)| similarity > score) {
            best = Some((similarity, word));
        }
    }
    best.map(|(_, word)| word)
}

/// Case, hyphens and underscores are what people get wrong first.
fn fold(name: &str) -> String {
    name.chars().filter(|letter| !matches!(letter, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

/// What a key that a known section does not have was meant to be.
pub(super) fn for_key(section: &SectionSpec, name: &str) -> Suggestion {
    let names = || section.keys().map(|key| key.name);
    if let Some(key) = names().find(|key| fold(key) == fold(name)) {
        return Suggestion::Nearest(format!("{}.{key}", section.path));
    }
    if let Some(suggestion) = elsewhere(name) {
        return suggestion;
    }
    if let Some(key) = nearest(name, names()) {
        return Suggestion::Nearest(format!("{}.{key}", section.path));
    }
    anywhere(name).unwrap_or_else(|| Suggestion::Valid(names().map(str::to_owned).collect()))
}

/// What a name in no known section was meant to be; `path` is the whole dotted name.
pub(super) fn for_path(path: &str) -> Suggestion {
    let last = path.rsplit('.').next().unwrap_or(path);
    let sections = || keys::sections().iter().map(|section| section.path);
    if let Some(section) = sections().find(|section| last_segment(section) == last) {
        return Suggestion::Nearest(section.to_owned());
    }
    if let Some((section_path, name)) = path.rsplit_once('.')
        && let Some(section) = nearest(section_path, sections()).and_then(keys::section)
    {
        return match section.key(name) {
            Some(key) => Suggestion::Nearest(section.path_of(key)),
            None => for_key(section, name),
        };
    }
    if let Some(suggestion) = elsewhere(last) {
        return suggestion;
    }
    let near_section = nearest(path, sections())
        .or_else(|| nearest(last, sections().map(last_segment)).and_then(section_with_last_segment));
    if let Some(section) = near_section {
        return Suggestion::Nearest(section.to_owned());
    }
    anywhere(last).unwrap_or_else(|| Suggestion::Valid(sections().map(|name| format!("[{name}]")).collect()))
}

/// What an unknown section was meant to be.
pub(super) fn for_section(path: &str) -> Suggestion {
    let last = last_segment(path);
    let sections = || keys::sections().iter().map(|section| section.path);
    nearest(path, sections())
        .or_else(|| nearest(last, sections().map(last_segment)).and_then(section_with_last_segment))
        .map_or_else(
            || Suggestion::Valid(sections().map(|name| format!("[{name}]")).collect()),
            |section| Suggestion::Nearest(section.to_owned()),
        )
}

fn last_segment(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn section_with_last_segment(last: &str) -> Option<&'static str> {
    keys::sections().iter().map(|section| section.path).find(|section| last_segment(section) == last)
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
