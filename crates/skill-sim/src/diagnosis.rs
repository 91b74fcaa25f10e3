//! What went wrong, as a general class: the difference between an answer and its references.

use crate::clause::Words;
use crate::conventions::{Convention, is_code};
use crate::prompts::Trajectory;
use crate::values::{Quantity, Unit, find_clock, find_date, find_quantity};

/// A class of failure, which a rule in the skill may repair.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Finding {
    /// The answer is in a longer text.
    Wordy,
    /// The same day, written otherwise.
    DateForm,
    /// The same time, written otherwise.
    ClockForm,
    /// The same amount in another unit than this one.
    WrongUnit(&'static Unit),
    /// The same person with the names in another order.
    NameOrder,
    /// Something made up where this word was wanted.
    MadeUp(String),
    /// Nothing answered where there was an answer.
    OverAbstained,
    /// A word of the record (with its field) where this code was wanted.
    Word {
        /// The word.
        word: String,
        /// The code.
        code: String,
        /// The field's name.
        field: String,
    },
    /// A place and its number where a letter and two digits were wanted.
    PlaceInWords(String),
    /// The right entries in another order or with other signs between them.
    ListForm,
    /// Right but for capital letters.
    Casing,
    /// Right but for punctuation at the ends.
    Punctuation,
}

impl Finding {
    /// The convention that a skill without this failure would lay down, if there is a name for it.
    pub(super) fn convention(&self) -> Option<Convention> {
        match self {
            Self::Wordy => Some(Convention::BareValue),
            Self::DateForm => Some(Convention::IsoDates),
            Self::ClockForm => Some(Convention::Clock24),
            Self::WrongUnit(unit) if unit.symbol() == "kg" => Some(Convention::Kilograms),
            Self::WrongUnit(unit) if unit.symbol() == "m" => Some(Convention::Metres),
            Self::NameOrder => Some(Convention::SurnameFirst),
            Self::MadeUp(_) | Self::OverAbstained => Some(Convention::Unknown),
            Self::Word { .. } => Some(Convention::Codes),
            Self::PlaceInWords(_) => Some(Convention::BerthCodes),
            Self::ListForm => Some(Convention::SortedLists),
            Self::WrongUnit(_) | Self::Casing | Self::Punctuation => None,
        }
    }

    /// The class's name in a failure summary.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Wordy => "wordy answer",
            Self::DateForm => "date format",
            Self::ClockForm => "clock format",
            Self::WrongUnit(_) => "unit",
            Self::NameOrder => "name order",
            Self::MadeUp(_) => "invented answer",
            Self::OverAbstained => "needless abstention",
            Self::Word { .. } => "word instead of code",
            Self::PlaceInWords(_) => "place in words",
            Self::ListForm => "list form",
            Self::Casing => "capital letters",
            Self::Punctuation => "punctuation",
        }
    }
}

/// Words that say that there is no answer.
const ABSTENTIONS: &[&str] =
    &["unknown", "none", "n a", "not stated", "not recorded", "not given", "no answer"];
/// So many words more than the reference make an answer wordy, whatever form its value has.
const CHATTY_EXCESS: usize = 4;

/// All classes of failure that explain why this answer is not one of its references.
pub(super) fn diagnose(trajectory: &Trajectory) -> Vec<Finding> {
    let answer = trajectory.answer.trim();
    let mut findings = Vec::new();
    if answer.is_empty() || trajectory.references.iter().any(|reference| reference == answer) {
        return findings;
    }
    for reference in &trajectory.references {
        for finding in compare(answer, reference, trajectory) {
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }
    findings
}

fn compare(answer: &str, reference: &str, trajectory: &Trajectory) -> Vec<Finding> {
    let (said, wanted) = (Words::of(answer), Words::of(reference));
    let (said_words, wanted_words) = (said.iter().count(), wanted.iter().count());
    if wanted_words == 0 {
        return Vec::new();
    }
    let abstains = |words: &Words| ABSTENTIONS.iter().any(|phrase| *words == Words::of(phrase));
    match (abstains(&said), abstains(&wanted)) {
        (true, true) => return Vec::new(),
        (true, false) => return vec![Finding::OverAbstained],
        (false, true) => return vec![Finding::MadeUp(reference.to_owned())],
        (false, false) => {}
    }
    let mut findings = forms(answer, reference);
    findings.extend(word_for_code(answer, reference, trajectory));
    let phrase: Vec<&str> = wanted.iter().collect();
    let contained = said_words > wanted_words && said.has(&[&phrase.join(" ")]);
    if contained || !findings.is_empty() && said_words > wanted_words + CHATTY_EXCESS {
        findings.insert(0, Finding::Wordy);
    } else if findings.is_empty() && said == wanted {
        let punctuation = |c: char| !c.is_alphanumeric();
        let casing = answer.trim_matches(punctuation) != reference.trim_matches(punctuation);
        findings.push(if casing { Finding::Casing } else { Finding::Punctuation });
    }
    findings
}

/// The ways in which a value may be right but written otherwise.
fn forms(answer: &str, reference: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let (Some(said), Some(wanted)) = (find_date(answer), find_date(reference)) {
        let differs = said.of(answer) != wanted.of(reference) && wanted.of(reference) == wanted.value.iso();
        findings.extend((said.value == wanted.value && differs).then_some(Finding::DateForm));
    }
    if let (Some(said), Some(wanted)) = (find_clock(answer), find_clock(reference)) {
        let differs = said.of(answer) != wanted.of(reference) && wanted.of(reference) == wanted.value.hh_mm();
        findings.extend((said.value == wanted.value && differs).then_some(Finding::ClockForm));
    }
    if let (Some(said), Some(wanted)) = (find_quantity(answer), find_quantity(reference)) {
        let (said, wanted): (Quantity, Quantity) = (said.value, wanted.value);
        findings.extend(said.is_conversion_of(wanted).then_some(Finding::WrongUnit(wanted.unit)));
    }
    let said = Words::of(answer);
    let entries: Vec<&str> = reference.split(';').map(str::trim).collect();
    let turned = entries.iter().filter(|entry| {
        let Some((surname, given)) = entry.split_once(", ") else { return false };
        let straight: Vec<String> =
            Words::of(&format!("{given} {surname}")).iter().map(str::to_owned).collect();
        !straight.is_empty() && said.has(&[&straight.join(" ")])
    });
    let turned = turned.count();
    findings.extend((turned > 0).then_some(Finding::NameOrder));
    if entries.len() > 1 {
        let all_said = entries.iter().all(|entry| Words::of(entry).iter().all(|word| said.has(&[word])));
        let in_order: Vec<String> = Words::of(reference).iter().map(str::to_owned).collect();
        findings.extend((all_said && !said.has(&[&in_order.join(" ")])).then_some(Finding::ListForm));
    }
    findings.extend(place_in_words(answer, reference));
    findings
}

/// `North Quay 7` where `N07` was wanted.
fn place_in_words(answer: &str, reference: &str) -> Option<Finding> {
    let mut signs = reference.chars();
    let initial = signs.next().filter(char::is_ascii_uppercase)?;
    let number: u32 = signs.as_str().parse().ok().filter(|_| signs.as_str().len() == 2)?;
    let words: Vec<&str> =
        answer.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let at = words.iter().position(|word| word.parse() == Ok(number))?;
    let named = words.iter().take(at).rev().take(3).any(|word| word.starts_with(initial) && word.len() > 1);
    named.then(|| Finding::PlaceInWords(reference.to_owned()))
}

/// A short value of the record where a code was wanted that the record does not have.
fn word_for_code(answer: &str, reference: &str, trajectory: &Trajectory) -> Option<Finding> {
    if !is_code(reference) || Words::of(&trajectory.conversation).has(&[&reference.to_lowercase()]) {
        return None;
    }
    let plain = answer.to_lowercase();
    let (field, word) =
        trajectory.conversation.lines().filter_map(|line| line.split_once(": ")).find(|(_, value)| {
            let value = value.trim().to_lowercase();
            !value.is_empty() && value.len() < 40 && plain.trim_end_matches('.') == value
        })?;
    let field = field.rsplit(']').next().unwrap_or(field).trim();
    Some(Finding::Word {
        word: word.trim().to_lowercase(),
        code: reference.to_owned(),
        field: field.to_lowercase(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(answer: &str, references: &str, expect: &[&str]) {
        let trajectory = Trajectory {
            question: "?".to_owned(),
            references: references.split(" | ").map(str::to_owned).collect(),
            answer: answer.to_owned(),
            conversation: "[user] Context:\nShip: Auk\nState: under repair\nQuestion: ?\n".to_owned(),
        };
        let names: Vec<&str> = diagnose(&trajectory).iter().map(Finding::name).collect();
        assert_eq!(names, expect, "{answer} against {references}");
    }

    #[test]
    fn classes_of_failure() {
        check("The capital of Belgium is Brussels.", "Brussels", &["wordy answer"]);
        check("It was Albert Einstein who did.", "Albert Einstein | Einstein", &["wordy answer"]);
        check("Antwerp", "Brussels", &[]);
        check("Brussels", "Brussels", &[]);
        check("Brusselsish town", "Brussels", &[]);
        check("4 March 2025", "2025-03-04", &["date format"]);
        check("March 5, 2025", "2025-03-04", &[]);
        check("According to the record it is 4 March 2025.", "2025-03-04", &["wordy answer", "date format"]);
        check("4 March 2025, 2:35 pm", "2025-03-04 14:35", &["date format", "clock format"]);
        check("2:35 pm", "14:35", &["clock format"]);
        check("4.2 t", "4200 kg", &["unit"]);
        check("14 ft", "4.3 m", &["unit"]);
        check("14 ft", "9.3 m", &[]);
        check("Maja Lindqvist", "Lindqvist, Maja", &["name order"]);
        check("Tom Abara and Maja Lindqvist", "Abara, Tom; Lindqvist, Maja", &["name order", "list form"]);
        check("salt, wool and anvils", "anvils; salt; wool", &["list form"]);
        check("Maja Lindqvist", "unknown", &["invented answer"]);
        check("unknown", "Lindqvist, Maja", &["needless abstention"]);
        check("Unknown.", "unknown", &[]);
        check("under repair", "UR", &["word instead of code"]);
        check("The ship is under repair", "UR", &[]);
        check("North Quay 7", "N07", &["place in words"]);
        check("It lies at North Quay 7 tonight, I believe.", "N07", &["wordy answer", "place in words"]);
        check("au", "Au", &["capital letters"]);
        check("Au.", "Au", &["punctuation"]);
        check("", "Au", &[]);
        check("Au", "", &[]);
    }
}
