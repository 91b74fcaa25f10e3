//! Marks: the only parts of a text that have a meaning in these worlds; the words around them are ignored.
//!
//! A skill states rules in braces, such as `{B:f03=v7}`. A trajectory shows what was wanted and what was answered
//! without braces, such as `t012/B:f03=v7` and `t012/B:f03->?`. So a reply can depend on what a prompt shows, in
//! whatever words its author put around it.
//!
//! # Invariants
//!
//! - No reply of the bench depends on the words of a prompt or a skill, only on the marks in it. Held by
//!   `statements_are_read_from_their_lines_and_from_nothing_else`, `marks_are_read_out_of_json_and_prose`.

use std::fmt;

/// The kind of a rule that holds for every kind of task.
pub const ANY_KIND: &str = "_";

/// The longest mark; longer braces are prose or JSON.
const MAX_MARK_CHARS: usize = 32;

/// What one line of a skill says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statement {
    /// The value of a field.
    Rule {
        /// For which kind of task; [`ANY_KIND`] for all.
        kind: String,
        /// Which field.
        field: String,
        /// Its value.
        value: String,
    },
    /// A habit that spoils some tasks.
    Harm(String),
    /// A habit that changes nothing.
    Idle(String),
}

impl Statement {
    /// A rule.
    pub fn rule(kind: &str, field: &str, value: &str) -> Self {
        Self::Rule { kind: kind.to_owned(), field: field.to_owned(), value: value.to_owned() }
    }

    fn parse(inner: &str) -> Option<Self> {
        if let Some(name) = inner.strip_prefix('!') {
            return Some(Self::Harm(name.to_owned()));
        }
        if let Some(name) = inner.strip_prefix('~') {
            return Some(Self::Idle(name.to_owned()));
        }
        let (key, value) = inner.split_once('=')?;
        let (kind, field) = key.split_once(':')?;
        let is_word = |text: &str| !text.is_empty() && text.chars().all(is_word_char);
        (is_word(kind) && is_word(field) && is_word(value)).then(|| Self::rule(kind, field, value))
    }

    /// The statements of a text, in order.
    pub fn all_in(text: &str) -> Vec<Self> {
        text.split('{')
            .skip(1)
            .filter_map(|rest| rest.split_once('}').map(|(inner, _)| inner))
            .filter(|inner| inner.len() <= MAX_MARK_CHARS)
            .filter_map(Self::parse)
            .collect()
    }

    /// The line of a skill that states it.
    pub fn line(&self) -> String {
        match self {
            Self::Rule { kind, field, value } if kind == ANY_KIND => {
                format!("- Where field {field} is due, write {value}. {self}")
            }
            Self::Rule { kind, field, value } => {
                format!("- In tasks of kind {kind}, where field {field} is due, write {value}. {self}")
            }
            Self::Harm(_) => format!("- Keep every answer as short as you can. {self}"),
            Self::Idle(_) => format!("- Read the whole task before you answer. {self}"),
        }
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { kind, field, value } => write!(f, "{{{kind}:{field}={value}}}"),
            Self::Harm(name) => write!(f, "{{!{name}}}"),
            Self::Idle(name) => write!(f, "{{~{name}}}"),
        }
    }
}

/// What a trajectory shows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The task.
    pub item: String,
    /// What about it.
    pub shown: Shown,
}

/// One thing that a trajectory shows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shown {
    /// What a field should have been.
    Wanted(Place, String),
    /// What the agent wrote.
    Answered(Place, String),
    /// A habit by which the agent spoiled the task.
    Spoiled(String),
}

/// A field in a kind of task.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The kind of the task; [`ANY_KIND`] in worlds without kinds.
    pub kind: String,
    /// The field.
    pub field: String,
}

impl Mark {
    /// The marks of a text, in order.
    pub fn all_in(text: &str) -> Vec<Self> {
        text.split(|character: char| !(is_word_char(character) || "/:=->!?".contains(character)))
            .filter_map(Self::parse)
            .collect()
    }

    fn parse(word: &str) -> Option<Self> {
        let (item, rest) = word.split_once('/')?;
        let mark = |shown| Some(Self { item: item.to_owned(), shown });
        if let Some(name) = rest.strip_prefix('!') {
            return mark(Shown::Spoiled(name.to_owned()));
        }
        let (kind, rest) = rest.split_once(':')?;
        let place = |field: &str| Place { kind: kind.to_owned(), field: field.to_owned() };
        if let Some((field, value)) = rest.split_once("->") {
            return mark(Shown::Answered(place(field), value.to_owned()));
        }
        let (field, value) = rest.split_once('=')?;
        mark(Shown::Wanted(place(field), value.to_owned()))
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { item, shown } = self;
        match shown {
            Shown::Wanted(Place { kind, field }, value) => write!(f, "{item}/{kind}:{field}={value}"),
            Shown::Answered(Place { kind, field }, value) => write!(f, "{item}/{kind}:{field}->{value}"),
            Shown::Spoiled(name) => write!(f, "{item}/!{name}"),
        }
    }
}

fn is_word_char(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_read_from_their_lines_and_from_nothing_else() {
        let all = [
            Statement::rule("B", "f03", "v7"),
            Statement::rule(ANY_KIND, "f1", "v0"),
            Statement::Harm("h3".to_owned()),
            Statement::Idle("n1".to_owned()),
        ];
        let text = all.iter().map(Statement::line).collect::<Vec<_>>().join("\n");
        assert_eq!(Statement::all_in(&text), all);
        assert_eq!(Statement::all_in("{\"op\": \"append\"} {} t1/B:f03=v7 {B:f03}"), []);
    }

    #[test]
    fn marks_are_read_out_of_json_and_prose() {
        let place = Place { kind: "B".to_owned(), field: "f03".to_owned() };
        let marks = [Shown::Wanted(place.clone(), "v7".to_owned()), Shown::Answered(place, "?".to_owned())]
            .map(|shown| Mark { item: "t012".to_owned(), shown });
        let text = format!("{{\"a\": \"{}\"}} [user] ({})", marks[0], marks[1]);
        assert_eq!(Mark::all_in(&text), marks);
    }
}
