//! The target's side of a task prompt: a record of `Field: value` lines and a question about it.

use crate::clause::Words;

/// A task as the simulated target sees it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Task {
    /// The record's lines.
    pub(super) fields: Vec<Field>,
    /// What is asked.
    pub(super) question: String,
}

/// A line of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    /// The part before the colon.
    pub(super) name: String,
    /// The part after it; empty if nothing readable is there.
    pub(super) value: String,
}

/// A name longer than this is prose with a colon in it.
const MAX_NAME_WORDS: usize = 3;
const CONTEXT: &str = "Context:";
const QUESTION: &str = "Question:";

impl Task {
    /// Reads a user message; without a `Question:` line all of it is the question.
    pub(super) fn read(message: &str) -> Self {
        let mut task = Self::default();
        let mut question: Option<String> = None;
        for line in message.lines() {
            let line = line.trim().trim_start_matches("##").trim();
            if let Some(rest) = line.strip_prefix(QUESTION) {
                question = Some(rest.trim().to_owned());
            } else if let Some(asked) = question.as_mut().filter(|asked| asked.is_empty()) {
                *asked = line.to_owned();
            } else {
                task.fields.extend(Field::read(line.strip_prefix(CONTEXT).unwrap_or(line)));
            }
        }
        task.question = question.unwrap_or_else(|| message.trim().to_owned());
        task
    }

    /// The field that the question is about, by the words that both have.
    pub(super) fn asked(&self) -> Option<&Field> {
        const ENOUGH: f64 = 0.6;
        let question = Words::of(&self.question);
        let mut best: Option<(&Field, f64, usize)> = None;
        for field in &self.fields {
            let name = Words::of(&field.name);
            let total = name.iter().count();
            let shared = name.iter().filter(|word| question.iter().any(|asked| alike(word, asked))).count();
            #[expect(clippy::cast_precision_loss, reason = "a field's name has at most a few words")]
            let part = if total == 0 { 0.0 } else { shared as f64 / total as f64 };
            if part >= ENOUGH && best.is_none_or(|(_, before, count)| (shared, part) > (count, before)) {
                best = Some((field, part, shared));
            }
        }
        best.map(|(field, _, _)| field)
    }

    /// The value that stands for the answer when the record has none: what a careless reader would take.
    pub(super) fn readable(&self) -> Vec<&Field> {
        self.fields.iter().filter(|field| !field.value.is_empty()).collect()
    }
}

impl Field {
    fn read(line: &str) -> Option<Self> {
        let (name, value) = line.trim_start_matches(['-', '*', ' ']).split_once(':')?;
        let name = name.trim();
        let words = name.split_whitespace().count();
        let (value, spaced) = (value.trim(), value.is_empty() || value.starts_with(' '));
        let plausible = (1..=MAX_NAME_WORDS).contains(&words) && spaced;
        if !plausible || !name.starts_with(|c: char| c.is_alphabetic()) {
            return None;
        }
        let unreadable =
            ["", "-", "--", "–", "—", "?", "(blank)", "(left blank)", "(illegible)", "(ink blot)"];
        let value = if unreadable.contains(&value) { "" } else { value.trim_end_matches('.') };
        Some(Self { name: name.to_owned(), value: value.to_owned() })
    }

    /// Whether the field holds people, as far as its name says.
    pub(super) fn names_people(&self) -> bool {
        const OFFICES: &[&str] = &[
            "captain",
            "master",
            "skipper",
            "mate",
            "pilot",
            "agent",
            "clerk",
            "keeper",
            "cook",
            "owner",
            "surveyor",
            "harbourmaster",
            "bosun",
            "engineer",
            "passenger",
            "deckhands",
            "watch",
            "crew",
            "author",
            "surgeon",
        ];
        Words::of(&self.name).position(OFFICES).is_some()
    }

    /// Whether the field holds a berth, as far as its name says.
    pub(super) fn names_a_berth(&self) -> bool {
        Words::of(&self.name).has(&["berth", "mooring"])
    }
}

/// Whether two words are forms of one another: `arrived` and `arrive`, `weight` and `weigh`.
fn alike(a: &str, b: &str) -> bool {
    const LONG_ENOUGH: usize = 4;
    const ENDINGS: usize = 4;
    let shared = a.chars().zip(b.chars()).take_while(|(x, y)| x == y).count();
    let longest = a.chars().count().max(b.chars().count());
    a == b || shared >= LONG_ENOUGH && longest - shared < ENDINGS
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "Context:\nHarbour book, page 3.\nShip: Grey Heron\nCargo weight: 4.2 t\nCargo: salt, wool and tin\n\
        The gulls were loud.\nArrived: 4 March 2025, 2:35 pm\nPilot: (blank)\n\nQuestion: ";

    #[track_caller]
    fn check(question: &str, expect: Option<&str>) {
        let task = Task::read(&format!("{RECORD}{question}"));
        assert_eq!(task.asked().map(|field| field.value.as_str()), expect);
    }

    #[test]
    fn the_asked_field_is_found_by_its_words() {
        check("When did the Grey Heron arrive?", Some("4 March 2025, 2:35 pm"));
        check("What does her cargo weigh?", Some("4.2 t"));
        check("What is her cargo?", Some("salt, wool and tin"));
        check("Who was the pilot?", Some(""));
        check("Who was the mate?", None);
        check("", None);
    }

    #[test]
    fn plain_questions_have_no_record() {
        let question = "What is the capital of Belgium?";
        let task = Task::read(question);
        assert_eq!((task.asked(), task.question.as_str()), (None, question));
        assert_eq!(Task::read("## Question:\nWho?\n").question, "Who?");
    }
}
