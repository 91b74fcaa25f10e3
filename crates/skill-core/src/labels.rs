//! Class labels: answers that are the names of a few classes, such as the queue of a ticket.
//!
//! [`class_counts`] tells labels from free texts, [`similar_labels`] finds labels that look like misspellings of others,
//! and [`Confusion`] counts which label was answered where which one was expected.

use crate::text::composed;
use serde::Serialize;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// More different answers than these are taken for free texts.
pub const MAX_LABELS: usize = 200;
/// A longer text is an answer, not a label. Some data sets have whole phrases as classes.
pub(crate) const MAX_LABEL_CHARACTERS: usize = 120;
/// Labels with at least this many characters may differ by one edit and still look like the same word.
const MIN_CHARACTERS_ONE_EDIT: usize = 4;
/// The same for two edits.
const MIN_CHARACTERS_TWO_EDITS: usize = 8;
/// A misspelling is at least this many times rarer than the label that was meant.
const MIN_TIMES_RARER: usize = 5;

/// A grade before `+` or `-` has so many characters at most.
const MAX_GRADE_CHARACTERS: usize = 3;

/// Classes that are numbers, such as grades and ratings, are at most so many.
const MAX_NUMBERS: usize = 12;
/// The greatest number that is a class.
const MAX_NUMBER: f64 = 1000.0;
/// So many items have each number that is a class, on average.
const MIN_ITEMS_OF_NUMBER: usize = 4;

/// How many items have each label, if these answers are class labels: at least two and at most [`MAX_LABELS`] short
/// texts of one line, at least three items per label on average. `None` for any other answers.
///
/// Numbers are classes where they are few whole ones in a row, each in at least four items on average: 0 and 1, or grades
/// from 1 to 5.
///
/// ```
/// use skill_core::labels::class_counts;
///
/// let counts = class_counts(["spam", "ham", "spam", "ham", "ham", "spam"]).unwrap();
/// assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("ham".to_owned(), 3), ("spam".to_owned(), 3)]);
/// assert_eq!(class_counts(["Paris", "Lyon", "Nice"]), None);
/// ```
pub fn class_counts<'a>(answers: impl IntoIterator<Item = &'a str>) -> Option<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::<String, usize>::new();
    let mut n_items = 0_usize;
    for answer in answers {
        let label = class_label(answer);
        let label = &*label;
        let is_label =
            !label.is_empty() && label.chars().count() <= MAX_LABEL_CHARACTERS && !label.contains('\n');
        let number = label.parse::<f64>().ok().filter(|number| number.is_finite());
        let is_class = number.is_none_or(|number| number.fract() == 0.0 && number.abs() < MAX_NUMBER);
        if !is_label || !is_class {
            return None;
        }
        if let Some(count) = counts.get_mut(label) {
            *count += 1;
        } else if counts.len() == MAX_LABELS {
            return None;
        } else {
            counts.insert(label.to_owned(), 1);
        }
        n_items += 1;
    }
    let numbers: Vec<(f64, usize)> =
        counts.iter().filter_map(|(label, count)| Some((label.parse::<f64>().ok()?, *count))).collect();
    let numbers: Vec<(f64, usize)> = numbers.into_iter().filter(|(number, _)| number.is_finite()).collect();
    let (least, most) = numbers
        .iter()
        .fold((f64::MAX, f64::MIN), |(least, most), (number, _)| (least.min(*number), most.max(*number)));
    let n_numbered: usize = numbers.iter().map(|(_, count)| count).sum();
    let are_classes = numbers.len() <= MAX_NUMBERS
        && n_numbered >= MIN_ITEMS_OF_NUMBER * numbers.len()
        && (numbers.is_empty() || most - least < 2.0 * numbers.len() as f64);
    (counts.len() >= 2 && n_items >= 3 * counts.len() && are_classes).then_some(counts)
}

/// The label that an answer is: without the spaces around it, and the same in every form of Unicode.
pub fn class_label(answer: &str) -> Cow<'_, str> {
    match composed(answer) {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
        Cow::Owned(text) => Cow::Owned(text.trim().to_owned()),
    }
}

/// Labels that are the same but for case and blanks, by each spelling that is replaced: the spelling that most answers
/// have stands for all of them, of equally frequent ones the first in the order of texts. Empty where there are none.
///
/// ```
/// use skill_core::labels::respelled;
///
/// let found = respelled(["Billing", "BILLING", "billing ", "Billing", "Late  parcel", "Late parcel"]);
/// let pairs: Vec<_> = found.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
/// assert_eq!(pairs, [("BILLING", "Billing"), ("Late  parcel", "Late parcel"), ("billing", "Billing")]);
/// ```
pub fn respelled<'a>(answers: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, String> {
    let mut spellings = BTreeMap::<String, BTreeMap<String, usize>>::new();
    for answer in answers {
        let label = class_label(answer);
        let plain = label.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        *spellings.entry(plain).or_default().entry(label.into_owned()).or_default() += 1;
    }
    let mut replaced = BTreeMap::new();
    for counts in spellings.into_values() {
        // The single blank is the usual one, however often others occur.
        let is_plain = |label: &str| !label.contains("  ") && !label.contains(['\t', '\n']);
        let usual = counts.iter().max_by_key(|(label, count)| (is_plain(label), **count, Reverse(*label)));
        let Some((usual, _)) = usual.map(|(label, count)| (label.clone(), *count)) else { continue };
        let others = counts.into_keys().filter(|label| *label != usual);
        replaced.extend(others.map(|label| (label, usual.clone())));
    }
    replaced
}

/// Two labels that may be one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimilarLabels {
    /// The rarer label, which may be a misspelling.
    pub rare: String,
    /// Its items.
    pub n_rare: usize,
    /// The label that may be meant.
    pub usual: String,
    /// Its items.
    pub n_usual: usize,
}

/// Labels that look like another one: the same but for case, spaces and punctuation, or a much rarer one that is at most
/// two typing errors away. Labels that differ in digits alone are different ones.
///
/// ```
/// use skill_core::labels::similar_labels;
///
/// let counts = [("BILING", 1), ("BILLING", 20), ("TECH", 20)];
/// let found = similar_labels(&counts.into_iter().map(|(label, n)| (label.to_owned(), n)).collect());
/// assert_eq!((found.len(), found[0].rare.as_str(), found[0].usual.as_str()), (1, "BILING", "BILLING"));
/// ```
pub fn similar_labels(counts: &BTreeMap<String, usize>) -> Vec<SimilarLabels> {
    let mut found: Vec<SimilarLabels> = Vec::new();
    for (place, (first, n_first)) in counts.iter().enumerate() {
        for (second, n_second) in counts.iter().skip(place + 1) {
            let ((rare, n_rare), (usual, n_usual)) = if n_first <= n_second {
                ((first, *n_first), (second, *n_second))
            } else {
                ((second, *n_second), (first, *n_first))
            };
            let is_much_rarer = n_rare.saturating_mul(MIN_TIMES_RARER) <= n_usual;
            if folded(rare) == folded(usual) || is_much_rarer && is_misspelt(rare, usual) {
                found.push(SimilarLabels { rare: rare.clone(), n_rare, usual: usual.clone(), n_usual });
            }
        }
    }
    found
}

/// A label as people read it: letters and digits in lower case, and the signs that make it another one: `C++`, `C#`, `-1`,
/// `A+`, `<5`, `1-2`.
fn folded(label: &str) -> String {
    let label: Vec<char> = label.trim().chars().collect();
    let at = |place: usize| label.get(place).copied();
    let is_digit = |place: Option<usize>| place.and_then(at).is_some_and(char::is_numeric);
    let n_stem = label.iter().rposition(|sign| !"+#-%".contains(*sign)).map_or(0, |last| last + 1);
    let counts = |place: usize, sign: char| {
        let before = place.checked_sub(1);
        sign.is_alphanumeric()
            || "<>=≤≥".contains(sign)
            || is_digit(before) && is_digit(Some(place + 1))
            || before.is_none() && "-−".contains(sign) && is_digit(Some(place + 1))
            // `A-` is a grade, and behind a word a hyphen is nothing.
            || place >= n_stem && (sign != '-' || n_stem <= MAX_GRADE_CHARACTERS)
    };
    let kept = label.iter().enumerate().filter(|(place, sign)| counts(*place, **sign));
    let kept: String = kept.flat_map(|(_, sign)| sign.to_lowercase()).collect();
    if kept.is_empty() { label.iter().collect() } else { kept }
}

fn is_misspelt(rare: &str, usual: &str) -> bool {
    let (rare, usual) = (folded(rare), folded(usual));
    let without_digits =
        |text: &str| text.chars().filter(|character| !character.is_numeric()).collect::<String>();
    if without_digits(&rare) == without_digits(&usual) {
        return false;
    }
    let n_most = match rare.chars().count().min(usual.chars().count()) {
        length if length >= MIN_CHARACTERS_TWO_EDITS => 2,
        length if length >= MIN_CHARACTERS_ONE_EDIT => 1,
        _ => return false,
    };
    strsim::osa_distance(&rare, &usual) <= n_most
}

/// Which label an answer names; `None` if it names none. Case, spaces and punctuation around the label do not matter.
pub fn named_label<'a>(answer: &str, labels: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let trimmed = class_label(answer);
    let trimmed = &*trimmed;
    let bare = trimmed.trim_matches(|character: char| !character.is_alphanumeric());
    let is_named = |label: &str| {
        let lower = label.to_lowercase();
        lower == trimmed.to_lowercase() || !bare.is_empty() && lower == bare.to_lowercase()
    };
    let mut by_fold = None;
    for label in labels {
        if label == trimmed {
            return Some(label);
        }
        if by_fold.is_none() && is_named(label) {
            by_fold = Some(label);
        }
    }
    by_fold
}

/// How often each label was answered where each was expected.
///
/// ```
/// use skill_core::labels::Confusion;
///
/// let mut confusion = Confusion::new(["ham".to_owned(), "spam".to_owned()]);
/// confusion.add("spam", Some("spam"));
/// confusion.add("spam", Some("ham"));
/// confusion.add("ham", None);
/// assert_eq!(confusion.rows, [[0, 0, 1], [1, 1, 0]]);
/// assert_eq!((confusion.n_expected("spam"), confusion.n_right("spam")), (2, 1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confusion {
    /// The labels, in the order of rows and columns.
    pub labels: Vec<String>,
    /// For each expected label the answers: one count per label, and at the end that of all other answers.
    pub rows: Vec<Vec<usize>>,
}

impl Confusion {
    /// A matrix without answers.
    pub fn new(labels: impl IntoIterator<Item = String>) -> Self {
        let labels: Vec<String> = labels.into_iter().collect();
        let rows = vec![vec![0; labels.len() + 1]; labels.len()];
        Self { labels, rows }
    }

    /// Counts an answer; `None` is an answer that is none of the labels. An unknown expected label is not counted.
    pub fn add(&mut self, expected: &str, answered: Option<&str>) {
        let column = answered.and_then(|label| self.place(label)).unwrap_or(self.labels.len());
        let row = self.place(expected).and_then(|row| self.rows.get_mut(row));
        if let Some(count) = row.and_then(|row| row.get_mut(column)) {
            *count += 1;
        }
    }

    /// How many answers there are where this label was expected.
    pub fn n_expected(&self, label: &str) -> usize {
        self.row(label).iter().sum()
    }

    /// How many of them named it.
    pub fn n_right(&self, label: &str) -> usize {
        let place = self.place(label);
        place.and_then(|place| self.row(label).get(place)).copied().unwrap_or_default()
    }

    /// How many answers name this label, right or wrong.
    pub fn n_answered(&self, label: &str) -> usize {
        let Some(place) = self.place(label) else { return 0 };
        self.rows.iter().filter_map(|row| row.get(place)).sum()
    }

    fn place(&self, label: &str) -> Option<usize> {
        self.labels.iter().position(|known| known == label)
    }

    fn row(&self, label: &str) -> &[usize] {
        self.place(label).and_then(|place| self.rows.get(place)).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_classes(answers: &[&str], expect: Option<usize>) {
        let found = class_counts(answers.iter().copied());
        assert_eq!(found.map(|counts| counts.len()), expect, "{answers:?}");
    }

    #[test]
    fn classes_are_few_short_texts_of_several_items_each() {
        check_classes(&["a", "b", " a ", "b", "a", "b"], Some(2));
        check_classes(&["a", "a", "a", "a"], None);
        check_classes(&["a", "b", "a", "b", "a"], None);
        check_classes(&["1", "2", "1", "2", "1", "2"], None);
        check_classes(&["a", "", "a", "b", "b", "a"], None);
        // Few whole numbers in a row are classes, and quantities are not.
        check_classes(&["0", "1"].repeat(6), Some(2));
        check_classes(&["1", "2", "none"].repeat(4), Some(3));
        check_classes(&["nan", "good", "bad"].repeat(4), Some(3));
        check_classes(&["0.5", "1"].repeat(6), None);
        check_classes(&["3", "70", "12"].repeat(6), None);
        check_classes(&["a\nb", "c", "c", "c", "c", "c"], None);
        let long = "x".repeat(MAX_LABEL_CHARACTERS + 1);
        check_classes(&[&long, "b", "b", "b", "b", "b"], None);
        let many: Vec<String> = (0..=MAX_LABELS).map(|label| format!("class {label}")).collect();
        let many: Vec<&str> = many.iter().cycle().take(1000).map(String::as_str).collect();
        check_classes(&many, None);
        check_classes(
            &many.iter().copied().filter(|label| *label != "class 0").collect::<Vec<_>>(),
            Some(MAX_LABELS),
        );
    }

    #[track_caller]
    fn check_similar(counts: &[(&str, usize)], expect: &[(&str, &str)]) {
        let found = similar_labels(&counts.iter().map(|(label, n)| ((*label).to_owned(), *n)).collect());
        let pairs: Vec<(&str, &str)> =
            found.iter().map(|pair| (pair.rare.as_str(), pair.usual.as_str())).collect();
        assert_eq!(pairs, expect, "{counts:?}");
    }

    #[test]
    fn misspelt_labels_are_found_and_different_ones_are_not() {
        check_similar(&[("BILING", 1), ("BILLING", 40)], &[("BILING", "BILLING")]);
        check_similar(&[("BILLLING", 40), ("BILLING", 1)], &[("BILLING", "BILLLING")]);
        check_similar(&[("shipping", 40), ("shippnig", 2)], &[("shippnig", "shipping")]);
        check_similar(&[("Refund", 10), ("refund", 12)], &[("Refund", "refund")]);
        check_similar(&[("credit card", 10), ("credit_card", 90)], &[("credit card", "credit_card")]);
        // Both are usual, so that neither is an error.
        check_similar(&[("agree", 20), ("agreed", 20)], &[]);
        check_similar(&[("tier 1", 1), ("tier 2", 40)], &[]);
        check_similar(&[("yes", 1), ("yet", 40)], &[]);
        check_similar(&[("valid", 1), ("invalid", 40)], &[]);
        check_similar(&[("+", 20), ("-", 20)], &[]);
        for (first, second) in
            [("1", "-1"), ("C", "C++"), ("C", "C#"), ("A+", "A-"), ("<5", ">5"), ("1-2", "12"), ("1.0", "10")]
        {
            check_similar(&[(first, 20), (second, 20)], &[]);
        }
        check_similar(&[("Billing", 20), ("Billing-", 20)], &[("Billing", "Billing-")]);
        check_similar(&[("Billing", 20), ("- billing.", 20)], &[("- billing.", "Billing")]);
        check_similar(&[("positive", 1), ("negative", 40)], &[]);
    }

    #[test]
    fn an_answer_names_a_label_whatever_surrounds_it() {
        let labels = ["BILLING", "billing (old)", "-", "C++"];
        let named = |answer: &str| named_label(answer, labels);
        assert_eq!(named("BILLING"), Some("BILLING"));
        assert_eq!(named(" **billing.**\n"), Some("BILLING"));
        assert_eq!(named("billing (old)"), Some("billing (old)"));
        assert_eq!(named("c++"), Some("C++"));
        assert_eq!(named("-"), Some("-"));
        assert_eq!(named("The queue is BILLING"), None);
        assert_eq!(named(""), None);
    }

    #[test]
    fn answers_are_counted_where_they_belong() {
        let mut confusion = Confusion::new(["a", "b"].map(str::to_owned));
        for (expected, answered) in
            [("a", Some("a")), ("a", Some("b")), ("b", None), ("b", Some("c")), ("c", Some("a"))]
        {
            confusion.add(expected, answered);
        }
        assert_eq!(confusion.rows, [[1, 1, 0], [0, 0, 2]]);
        assert_eq!((confusion.n_expected("b"), confusion.n_right("b"), confusion.n_answered("b")), (2, 0, 1));
        assert_eq!((confusion.n_expected("c"), confusion.n_right("c"), confusion.n_answered("c")), (0, 0, 0));
    }
}
