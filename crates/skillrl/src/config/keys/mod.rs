//! The table of all keys of the configuration file: the one source of truth for checking, for the search of
//! the nearest key, for the commented default file and for documentation.
//!
//! Nothing here reads a file. The keys are declared with the structs that hold them, in [`super::types`],
//! [`super::models`] and [`super::env`]; `declare` makes both of one row.

pub(crate) mod declare;
mod table;

use table::SECTIONS;
pub(super) use table::{MAX_COUNT, MAX_RATE, MAX_SECONDS, MAX_SEED, MAX_TOKENS, PRICE};

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueType {
    /// A text that is not empty.
    Text,
    /// A path that is not empty.
    Path(PathUse),
    /// The name of an environment variable, or nothing; its value is never shown.
    Variable,
    /// An `http` or `https` address without credentials; its value is never shown.
    Url,
    /// A whole number, both bounds included.
    Integer {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A number, both bounds included.
    Number {
        /// The least.
        min: f64,
        /// The greatest; infinite for no bound.
        max: f64,
    },
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Texts that are not empty, at least one.
    Texts,
    /// Tables of one member each, at least one: rules for answers.
    Rules,
    /// Three whole numbers, not all 0: the shares of train, val and test; or `auto`.
    Ratio,
    /// A table of texts, without secrets.
    Headers,
    /// A table of anything that JSON can say, without secrets.
    Body,
}

impl ValueType {
    /// Whether the key holds a string, so that `--set` takes its text to the letter.
    pub fn is_text(self) -> bool {
        match self {
            Self::Text | Self::Path(_) | Self::Variable | Self::Url | Self::Choice(_) => true,
            Self::Integer { .. }
            | Self::Number { .. }
            | Self::Flag
            | Self::Texts
            | Self::Rules
            | Self::Ratio
            | Self::Headers
            | Self::Body => false,
        }
    }

    /// Whether the key holds a table whose keys are free.
    pub fn is_table(self) -> bool {
        matches!(self, Self::Headers | Self::Body)
    }

    /// What is valid, as the end of "takes ...".
    pub fn expectation(self) -> String {
        match self {
            Self::Text => "a text that is not empty".to_owned(),
            Self::Path(_) => "a path that is not empty".to_owned(),
            Self::Variable => "the name of an environment variable".to_owned(),
            Self::Url => "an address that starts with http:// or https://".to_owned(),
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::Number { min, max } if max.is_infinite() => format!("a number of at least {min}"),
            Self::Number { min, max } => format!("a number from {min} to {max}"),
            Self::Flag => "true or false".to_owned(),
            Self::Choice(words) => super::suggest::any_of(words.iter().map(|word| format!("\"{word}\""))),
            Self::Texts => "a list of texts that are not empty, like [\"one\", \"two\"]".to_owned(),
            Self::Rules => {
                "a list of tables, like [{ contains = \"Berlin\" }, { max_words = 100 }]".to_owned()
            }
            Self::Ratio => {
                "\"auto\", or three whole numbers for train, val and test that are not all 0, like [2, 1, 7] or \"2:1:7\""
                    .to_owned()
            }
            Self::Headers => "a table of texts, like { x-title = \"skillrl\" }".to_owned(),
            Self::Body => "a table, like { reasoning_effort = \"low\" }".to_owned(),
        }
    }
}

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathUse {
    /// A directory that the run makes itself.
    Made,
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A file or a directory.
    FileOrDirectory,
    /// A skill: a Markdown file, or a directory with a `SKILL.md`.
    Skill,
}

/// Paths by what they lead to.
pub(super) const MADE: ValueType = ValueType::Path(PathUse::Made);
pub(super) const FILE: ValueType = ValueType::Path(PathUse::File);
pub(super) const DIRECTORY: ValueType = ValueType::Path(PathUse::Directory);
pub(super) const FILE_OR_DIRECTORY: ValueType = ValueType::Path(PathUse::FileOrDirectory);
pub(super) const SKILL: ValueType = ValueType::Path(PathUse::Skill);

/// What holds where a key is not given; values and examples are TOML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyDefault {
    /// The key must be given; the example stands in the default file.
    Required {
        /// A value that makes sense.
        example: &'static str,
    },
    /// This value.
    Value(&'static str),
    /// Nothing is set; the default file has the example as a comment.
    Absent {
        /// A value that makes sense.
        example: &'static str,
    },
    /// Nothing is set; the default file sets the example.
    Suggested {
        /// A value that most people want.
        example: &'static str,
    },
}

impl KeyDefault {
    /// The TOML of the default or of the example.
    pub fn toml(self) -> &'static str {
        match self {
            Self::Value(value) => value,
            Self::Required { example } | Self::Absent { example } | Self::Suggested { example } => example,
        }
    }
}

/// Whether another value means another result, and so another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The value decides the result: a run cannot go on with another one.
    Result,
    /// The value may differ between the processes of one run.
    Process,
}

/// One key of the configuration file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeySpec {
    /// The name inside its section.
    pub name: &'static str,
    /// What it takes.
    pub value: ValueType,
    doc: &'static str,
    /// What holds without it.
    pub default: KeyDefault,
    /// The `kind`s of its section that have it.
    pub kinds: Kinds,
    /// Whether a run can go on with another value.
    pub effect: Effect,
    sections: &'static [&'static str],
}

impl KeySpec {
    pub(in crate::config) const fn new(value: ValueType, effect: Effect, default: KeyDefault) -> Self {
        Self { name: "", value, doc: "", default, kinds: Kinds::All, effect, sections: &[] }
    }

    pub(in crate::config) const fn named(mut self, name: &'static str, doc: &'static str) -> Self {
        self.name = name;
        self.doc = doc;
        self
    }

    pub(in crate::config) const fn of_kinds(mut self, kinds: Kinds) -> Self {
        self.kinds = kinds;
        self
    }

    /// The same key, which these alone have of the sections that share their keys.
    pub(in crate::config) const fn of_sections(mut self, paths: &'static [&'static str]) -> Self {
        self.sections = paths;
        self
    }

    /// What it does, in sentences; a line break is one in the default file too.
    pub fn doc(&self) -> String {
        self.doc.lines().map(str::trim).collect::<Vec<_>>().join("\n")
    }
}

/// Which kinds of a section have a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kinds {
    /// All of them.
    All,
    /// These.
    Of(&'static [&'static str]),
}

impl Kinds {
    /// Whether this kind has the key.
    pub fn has(self, kind: &str) -> bool {
        match self {
            Self::All => true,
            Self::Of(names) => names.contains(&kind),
        }
    }

    /// The names, where not all kinds have the key.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::All => &[],
            Self::Of(names) => names,
        }
    }
}

/// One section of the configuration file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SectionSpec {
    /// The dotted name.
    pub path: &'static str,
    /// What it is for, in sentences.
    pub doc: &'static str,
    groups: &'static [&'static [KeySpec]],
    /// Whether the section is there only if a key of it is given, or what is trained needs it.
    pub is_optional: bool,
    /// The values of `train.mode` that need the section.
    pub modes: &'static [&'static str],
}

impl SectionSpec {
    const fn new(path: &'static str, doc: &'static str, groups: &'static [&'static [KeySpec]]) -> Self {
        Self { path, doc, groups, is_optional: false, modes: &[] }
    }

    const fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// The same, but that it is always there where this is trained.
    const fn of_modes(mut self, modes: &'static [&'static str]) -> Self {
        self.is_optional = true;
        self.modes = modes;
        self
    }

    /// The keys, in the order of the file.
    pub fn keys(&self) -> impl Iterator<Item = &'static KeySpec> + use<> {
        let path = self.path;
        self.groups
            .iter()
            .copied()
            .flatten()
            .filter(move |key| key.sections.is_empty() || key.sections.contains(&path))
    }

    /// The key of that name.
    pub fn key(&self, name: &str) -> Option<&'static KeySpec> {
        self.keys().find(|key| key.name == name)
    }

    /// The dotted path of one of its keys.
    pub fn path_of(&self, key: &KeySpec) -> String {
        format!("{}.{}", self.path, key.name)
    }
}

/// The value that a text of TOML is for a key; `None` for one that it does not take.
pub(crate) fn value_of(key: &KeySpec, toml: &str) -> Option<serde_json::Value> {
    let value = toml::de::DeValue::parse(toml).ok()?;
    super::value::check(key.name, key.value, value.get_ref()).ok()
}

/// All sections, in the order of the file.
pub fn sections() -> &'static [SectionSpec] {
    SECTIONS
}

/// All keys with their sections, in the order of the file.
pub fn keys() -> impl Iterator<Item = (&'static SectionSpec, &'static KeySpec)> {
    SECTIONS.iter().flat_map(|section| section.keys().map(move |key| (section, key)))
}

/// The section with that dotted name.
pub fn section(path: &str) -> Option<&'static SectionSpec> {
    SECTIONS.iter().find(|section| section.path == path)
}

/// The key with that dotted path, and its section.
pub fn find(path: &str) -> Option<(&'static SectionSpec, &'static KeySpec)> {
    let (section_path, name) = path.rsplit_once('.')?;
    let section = section(section_path)?;
    section.key(name).map(|key| (section, key))
}
