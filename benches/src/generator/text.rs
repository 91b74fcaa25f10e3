//! Marks: the only parts of a text that have a meaning here; the words around them are ignored.
//!
//! A line of a skill states something in braces, such as `{B:f03=v7}`. Answers and references name each field of a
//! task, such as `t012/f03=v7`. So a prompt can be read whatever its author wrote around them.

use std::fmt;

/// The longest mark; longer braces are prose or JSON.
const MAX_MARK_CHARS: usize = 32;
/// What an answer has where the target knows nothing.
pub(super) const UNKNOWN: &str = "?";
/// What an answer has where the target did not keep to a rule that it has.
pub(super) const SLIP: &str = "~";
/// How fields begin that nothing can answer.
pub(super) const HOPELESS: char = 'x';
/// The kinds of tasks.
const KINDS: [char; 6] = ['A', 'B', 'C', 'D', 'E', 'F'];

/// What one line of a skill says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Line {
    /// The value of a field, for one kind of tasks or for all.
    Rule {
        /// The field.
        field: usize,
        /// The kind; `None` for all.
        kind: Option<usize>,
        /// The value.
        value: String,
    },
    /// A habit that spoils some tasks.
    Harm(usize),
    /// A habit without effect.
    Idle(usize),
    /// The answer of one task, which helps no other.
    Answer(String),
}

impl Line {
    fn parse(inner: &str) -> Option<Self> {
        let number = |text: &str, prefix: char| text.strip_prefix(prefix)?.parse().ok();
        if let Some(rest) = inner.strip_prefix('!') {
            return number(rest, 'h').map(Self::Harm);
        }
        if let Some(rest) = inner.strip_prefix('~') {
            return number(rest, 'n').map(Self::Idle);
        }
        if let Some(id) = inner.strip_prefix('#') {
            return Some(Self::Answer(id.to_owned()));
        }
        let (key, value) = inner.split_once('=')?;
        let (kind, field) = match key.split_once(':') {
            Some((kind, field)) => (Some(kind_of(kind)?), field),
            None => (None, key),
        };
        Some(Self::Rule { field: number(field, 'f')?, kind, value: value.to_owned() })
    }

    /// What a text states, in order.
    pub fn all_in(text: &str) -> Vec<Self> {
        let marks = text.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(inner, _)| inner));
        marks.filter(|inner| inner.len() <= MAX_MARK_CHARS).filter_map(Self::parse).collect()
    }

    /// The line of a skill that states it; `answer` is the text of [`Line::Answer`].
    pub fn text(&self, answer: &str) -> String {
        match self {
            Self::Rule { field, kind: None, value } => {
                format!("- Where field {} is due, write {value}. {self}", field_name(*field))
            }
            Self::Rule { field, kind: Some(kind), value } => {
                let (kind, field) = (kind_name(*kind), field_name(*field));
                format!("- In tasks of kind {kind}, where field {field} is due, write {value}. {self}")
            }
            Self::Harm(_) => format!("- Keep every answer as short as you can. {self}"),
            Self::Idle(_) => format!("- Read the whole task before you answer. {self}"),
            Self::Answer(id) => format!("- The answer of task {id} is: {answer} {self}"),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { field, kind: None, value } => write!(f, "{{{}={value}}}", field_name(*field)),
            Self::Rule { field, kind: Some(kind), value } => {
                write!(f, "{{{}:{}={value}}}", kind_name(*kind), field_name(*field))
            }
            Self::Harm(number) => write!(f, "{{!h{number}}}"),
            Self::Idle(number) => write!(f, "{{~n{number}}}"),
            Self::Answer(id) => write!(f, "{{#{id}}}"),
        }
    }
}

/// `f03`.
pub(super) fn field_name(field: usize) -> String {
    format!("f{field:02}")
}

/// `B`.
pub(super) fn kind_name(kind: usize) -> char {
    KINDS.get(kind).copied().unwrap_or('Z')
}

fn kind_of(name: &str) -> Option<usize> {
    KINDS.iter().position(|kind| name == kind.to_string())
}

/// What an answer or a reference says of one field of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) task: String,
    pub(super) field: String,
    pub(super) value: String,
    /// Habits that spoiled it.
    pub(super) harms: Vec<usize>,
}

impl Entry {
    /// The entries of a text, without the lines that are lines of a skill.
    pub(super) fn all_in(text: &str) -> Vec<Self> {
        let lines = text.lines().filter(|line| Line::all_in(line).is_empty());
        let words = lines.flat_map(|line| line.split(|character: char| !is_mark_char(character)));
        words.filter_map(Self::parse).collect()
    }

    fn parse(word: &str) -> Option<Self> {
        let (task, rest) = word.split_once('/')?;
        let (field, value) = rest.split_once('=')?;
        let mut parts = value.rsplit('!');
        let value = parts.next()?.to_owned();
        let harms = parts.rev().filter_map(|harm| harm.strip_prefix('h')?.parse().ok()).collect();
        let is_field = field.starts_with(['f', HOPELESS]) && field.len() > 1;
        is_field.then(|| Self { task: task.to_owned(), field: field.to_owned(), value, harms })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A spoiled entry does not contain the right one.
        write!(f, "{}/{}=", self.task, self.field)?;
        self.harms.iter().try_for_each(|harm| write!(f, "h{harm}!"))?;
        f.write_str(&self.value)
    }
}

/// Entries as an answer.
pub(super) fn written(entries: &[Entry]) -> String {
    entries.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn is_mark_char(character: char) -> bool {
    character.is_ascii_alphanumeric() || "/=?~!".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_from_their_marks_and_from_nothing_else() {
        let rule = |kind| Line::Rule { field: 3, kind, value: "v7".to_owned() };
        let all =
            [rule(Some(1)), rule(None), Line::Harm(3), Line::Idle(120), Line::Answer("t012".to_owned())];
        let text = all.iter().map(|line| line.text("t012/f03=v7") + "\n").collect::<String>();
        assert_eq!(Line::all_in(&text), all);
        let without = "{\"op\": \"append\"} {} t1/f03=v7 {f03} {B:x=v1}";
        assert_eq!(Line::all_in(without), []);
        assert_eq!(Entry::all_in(&text), [], "lines of a skill are no answers");
    }

    #[test]
    fn entries_are_read_out_of_json_and_prose() {
        let entry = |value: &str, harms: &[usize]| Entry {
            task: "t012".to_owned(),
            field: "f03".to_owned(),
            value: value.to_owned(),
            harms: harms.to_vec(),
        };
        let entries = [entry("v7", &[]), entry("?", &[]), entry("v7", &[1, 3]), entry("~", &[])];
        let text = format!(
            "{{\"a\": \"{} {}\"}} [user] ({}), '{}'.",
            entries[0], entries[1], entries[2], entries[3]
        );
        assert_eq!(Entry::all_in(&text), entries);
        assert_eq!(Entry::all_in("and/or a=b http://x/y?f=1 </answer>"), []);
    }
}
