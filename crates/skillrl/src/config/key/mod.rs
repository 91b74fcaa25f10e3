//! What is known of a key of the configuration file; `declare` makes it and the field that holds the key of one row.

pub(crate) mod declare;

/// The largest integer that every reader of JSON keeps exactly: 2^53 - 1.
pub(in crate::config) const MAX_SEED: u64 = 9_007_199_254_740_991;
pub(in crate::config) const MAX_TOKENS: u64 = 10_000_000;
pub(in crate::config) const MAX_COUNT: u64 = 1_000_000;
pub(in crate::config) const MAX_RATE: u64 = 1_000_000_000_000;
pub(in crate::config) const MAX_SECONDS: f64 = 31_536_000.0;

pub(in crate::config) const PRICE: ValueType = ValueType::Number { min: 0.0, max: f64::INFINITY };

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
            Self::Choice(words) => any_of(words.iter().map(|word| format!("\"{word}\""))),
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
    /// The value limits the length of a run. It may change on resume, and the files of the run record it.
    Length,
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
    pub(in crate::config) sections: &'static [&'static str],
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

/// `a`, `a or b`, `a, b or c`.
pub(in crate::config) fn any_of(words: impl IntoIterator<Item = String>) -> String {
    let mut words: Vec<String> = words.into_iter().collect();
    match words.pop() {
        None => String::new(),
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} or {last}", words.join(", ")),
    }
}
