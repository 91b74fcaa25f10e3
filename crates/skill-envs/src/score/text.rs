//! Scores of a text against texts: exact match, token F1, containment.

use super::{Score, share};
use serde_json::Value;
use skill_core::decoration::{folded, of_cell, undecorated};
use skill_core::text::{composed, is_python_space};
use std::collections::{BTreeMap, BTreeSet};

/// Exact match and F1 as SQuAD's evaluation has them (Rajpurkar et al. 2016, section 6.1).
///
/// Both texts are brought to lower case, ASCII punctuation and the articles *a*, *an*, *the* are left out, and
/// white space is collapsed.
/// `hard` is 1 if an answer then equals the prediction.
/// `soft` is the best F1 of the tokens as multisets, `2pr / (p + r)` with precision `p` and recall `r`, not
/// rounded; two texts of which nothing is left agree fully.
///
/// ```
/// use skill_envs::score::em_f1;
///
/// assert_eq!(em_f1("The Beatles!", &["beatles"]).hard, 1.0);
/// assert_eq!(em_f1("John F. Kennedy", &["Kennedy", "JFK"]).soft, 0.5);
/// ```
pub fn em_f1(prediction: &str, answers: &[impl AsRef<str>]) -> Score {
    let prediction = squad_normalized(prediction);
    let mut best = Score::default();
    for answer in answers {
        let answer = squad_normalized(answer.as_ref());
        if answer == prediction {
            return Score::RIGHT;
        }
        best.soft = best.soft.max(multiset_f1(&prediction, &answer));
    }
    best
}

/// Containment, as skillrl 1.0 scores its questions.
///
/// Both texts are brought to lower case and to composed characters (NFC), and white space is collapsed; characters of no
/// width do not count, and blank answers are passed over.
/// `hard` is 1 if an answer equals the prediction or is in it.
/// Otherwise `soft` is the best F1 over the answers, rounded to 4 digits (half to even): `common` is the number
/// of different tokens that are in both, precision is `common` by the number of the prediction's tokens,
/// recall is `common` by the number of the answer's, repeats counted in both.
///
/// ```
/// use skill_envs::score::contains;
///
/// assert_eq!(contains("It is Paris, I think.", &["paris"]).hard, 1.0);
/// assert_eq!(contains("New York", &["New York City"]).soft, 0.8);
/// ```
pub fn contains(prediction: &str, answers: &[impl AsRef<str>]) -> Score {
    let plain = |text: &str| collapsed(&composed(text).to_lowercase());
    let prediction = plain(prediction);
    let mut best_f1 = 0.0_f64;
    for answer in answers {
        let answer = plain(answer.as_ref());
        if answer.is_empty() {
            continue;
        }
        if prediction.contains(&answer) {
            return Score::RIGHT;
        }
        best_f1 = best_f1.max(token_set_f1(&prediction, &answer));
    }
    Score { hard: 0.0, soft: rounded_to_4_digits(best_f1) }
}

/// Equality of canonically equivalent texts (NFC), after white space is collapsed, characters of no width are left out and,
/// where that is asked for, case is ignored.
///
/// ```
/// use skill_envs::score::exact;
///
/// assert_eq!(exact("  New   York\n", &["New York"], false).hard, 1.0);
/// assert_eq!(exact("new york", &["New York"], false).hard, 0.0);
/// assert_eq!(exact("new york", &["New York"], true).hard, 1.0);
/// assert_eq!(exact("**New York**.", &["New York"], false).hard, 1.0);
/// ```
///
/// The texts as they are come first. Where none is equal, the emphasis, the code marks and one full stop around the
/// prediction are taken off, and entities of HTML are read in both: see [`skill_core::decoration::undecorated`].
pub fn exact(prediction: &str, answers: &[impl AsRef<str>], ignores_case: bool) -> Score {
    if is_equal(prediction, answers, ignores_case) || is_equal_undecorated(prediction, answers, ignores_case)
    {
        Score::RIGHT
    } else {
        Score::default()
    }
}

/// True if the texts are equal as they are.
pub(crate) fn is_equal(prediction: &str, answers: &[impl AsRef<str>], ignores_case: bool) -> bool {
    let prediction = compared(prediction, ignores_case);
    answers.iter().any(|answer| compared(answer.as_ref(), ignores_case) == prediction)
}

fn is_equal_undecorated(prediction: &str, answers: &[impl AsRef<str>], ignores_case: bool) -> bool {
    let bare = undecorated(prediction);
    let prediction = compared(bare.as_deref().unwrap_or(prediction), ignores_case);
    answers.iter().any(|answer| {
        let answer = answer.as_ref();
        // A name such as `__init__` is decorated by nobody: of a reference only what frames a cell is taken off.
        let cell = compared(&of_cell(answer), ignores_case);
        let is_framed = answer.contains(['*', '`']) || answer.ends_with('.');
        let plain = undecorated(answer).filter(|_| is_framed).map(|answer| compared(&answer, ignores_case));
        cell == prediction || plain.is_some_and(|plain| plain == prediction)
    })
}

fn compared(text: &str, ignores_case: bool) -> String {
    let text = collapsed(&composed(text));
    if ignores_case { text.to_lowercase() } else { text }
}

/// What is between the labels of a text.
const SEPARATORS: [char; 7] = [',', ';', '|', '\n', '，', '；', '、'];
/// What people write between two labels besides.
const JOINTS: [&str; 4] = [" and ", " & ", " + ", " / "];

/// How far two sets of labels agree: `hard` is 1 if they are the same, whatever the order, and `soft` is their F1, 1 where
/// both are empty.
///
/// The prediction is a JSON list, also as the member of an object or in the tag of an answer, or labels between commas,
/// semicolons, bars, line breaks or *and* and its signs, with list marks or numbers or without; case and marks around a label do not count. A label that holds a comma itself is found as a whole.
///
/// ```
/// use skill_envs::score::label_set;
///
/// assert_eq!(label_set("Refund, Billing", &["Billing", "Refund"]).hard, 1.0);
/// assert_eq!(label_set("Billing", &["Billing", "Refund"]).soft, 2.0 / 3.0);
/// ```
pub fn label_set(prediction: &str, answers: &[impl AsRef<str>]) -> Score {
    let plain = |label: &str| collapsed(&composed(&folded(label)));
    let expected: BTreeSet<String> = answers.iter().map(|answer| plain(answer.as_ref())).collect();
    let whole = plain(prediction);
    if expected.contains(&whole) {
        return agreement(&BTreeSet::from([whole]), &expected);
    }
    let listed = |labels: Vec<String>| -> BTreeSet<String> {
        labels.iter().map(|label| plain(label)).filter(|label| !label.is_empty()).collect()
    };
    let found = listed(labels_of(prediction));
    if found == expected {
        return Score::RIGHT;
    }
    let apart = |label: &String| -> Vec<String> {
        let bare = unnumbered(label);
        match [label.as_str(), bare].into_iter().find(|label| expected.contains(*label)) {
            Some(known) => vec![known.to_owned()],
            None => {
                let bare = bare.strip_prefix("and ").unwrap_or(bare).to_owned();
                JOINTS.iter().fold(vec![bare], |parts, joint| parted_at(parts, joint, &expected))
            }
        }
    };
    let parted = |found: &BTreeSet<String>| listed(found.iter().flat_map(apart).collect());
    let score = agreement(&parted(&found), &expected);
    let (taken, mut rest) = taken_out(prediction, answers);
    if taken.is_empty() {
        return score;
    }
    // What is left of a list mark is not a label.
    rest.retain(|label| label.contains(char::is_alphabetic));
    let mut found = parted(&listed(rest));
    found.extend(listed(taken));
    let other = agreement(&found, &expected);
    if other.soft > score.soft { other } else { score }
}

/// Labels, of which those that are none of the expected ones are parted at these words.
fn parted_at(labels: Vec<String>, joint: &str, expected: &BTreeSet<String>) -> Vec<String> {
    let part = |label: String| match expected.contains(label.trim()) {
        true => vec![label],
        false => label.split(joint).map(str::to_owned).collect(),
    };
    labels.into_iter().flat_map(part).collect()
}

/// The score of labels that were found.
fn agreement(found: &BTreeSet<String>, expected: &BTreeSet<String>) -> Score {
    if found == expected {
        return Score::RIGHT;
    }
    let n_common = found.intersection(expected).count();
    let sum = found.len() + expected.len();
    Score { hard: 0.0, soft: if sum == 0 { 0.0 } else { 2.0 * share(n_common, sum) } }
}

/// A label without the number of its place in a list, such as `1. ` or `2) `.
fn unnumbered(label: &str) -> &str {
    let rest = label.trim_start_matches(|sign: char| sign.is_ascii_digit());
    let behind = rest.strip_prefix(['.', ')']).filter(|_| rest.len() < label.len());
    behind.and_then(|behind| behind.strip_prefix(' ')).map_or(label, str::trim_start)
}

/// The labels with a separator in them that a text names, and the labels that the rest of it lists.
fn taken_out(text: &str, labels: &[impl AsRef<str>]) -> (Vec<String>, Vec<String>) {
    let lower = |text: &str| composed(text).trim().to_lowercase();
    let mut rest = lower(text);
    let mut long: Vec<String> = labels.iter().map(|label| lower(label.as_ref())).collect();
    long.retain(|label| label.contains(SEPARATORS));
    // One may be a part of another.
    long.sort_by_key(|label| std::cmp::Reverse(label.len()));
    let mut taken = Vec::new();
    for label in long {
        let is_apart = |at: usize| {
            let before = rest.get(..at).and_then(|before| before.chars().next_back());
            let behind = rest.get(at + label.len()..).and_then(|behind| behind.chars().next());
            ![before, behind].into_iter().flatten().any(char::is_alphanumeric)
        };
        let place = rest.match_indices(label.as_str()).map(|(at, _)| at).find(|at| is_apart(*at));
        if let Some(at) = place {
            rest.replace_range(at..at + label.len(), "\n");
            taken.push(label);
        }
    }
    (taken, labels_of(&rest))
}

/// A text without the tag of an answer around it as a whole: `<answer>B</answer>`.
pub(super) fn in_answer_tag(text: &str) -> &str {
    let text = text.trim();
    let inner = ["answer", "final_answer", "choice", "label", "labels"]
        .iter()
        .find_map(|name| text.strip_prefix(&format!("<{name}>"))?.strip_suffix(&format!("</{name}>")));
    inner.unwrap_or(text)
}

/// The list that is the only list of texts in a JSON object, such as `{"labels": ["a", "b"]}`.
fn labels_of_object(text: &str) -> Option<Vec<String>> {
    let Value::Object(members) = serde_json::from_str(text.trim()).ok()? else { return None };
    let mut lists = members.into_iter().filter_map(|(_, value)| serde_json::from_value(value).ok());
    lists.next().filter(|_| lists.next().is_none())
}

/// The labels that a text lists.
pub(crate) fn labels_of(text: &str) -> Vec<String> {
    let tagged = in_answer_tag(text);
    let plain = undecorated(tagged).unwrap_or_else(|| tagged.to_owned());
    if let Ok(listed) = serde_json::from_str::<Vec<String>>(plain.trim()) {
        return listed;
    }
    if let Some(listed) = labels_of_object(&plain) {
        return listed;
    }
    let plain = plain.trim();
    // The tags of a question in an export of Stack Overflow: `<python><pandas>`.
    if let Some(tags) = plain.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'))
        && tags.contains("><")
        && !tags.contains(['/', ' '])
    {
        return tags.split("><").map(str::to_owned).collect();
    }
    let lead = plain.split_once(':').filter(|(lead, _)| {
        let lead = lead.trim().to_lowercase();
        lead.ends_with("labels")
            || lead.ends_with("label")
            || lead.ends_with("answer")
            || lead.ends_with("categories")
    });
    let plain = lead.map_or(plain, |(_, rest)| rest);
    let parts = plain.split(SEPARATORS).map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// True if the prediction contains an answer or an answer contains the prediction, after SQuAD's normalization.
///
/// Reports of SearchQA give this number beside exact match and F1; every answer contains the empty prediction.
pub fn substring_match(prediction: &str, answers: &[impl AsRef<str>]) -> bool {
    let prediction = squad_normalized(prediction);
    answers
        .iter()
        .map(|answer| squad_normalized(answer.as_ref()))
        .any(|answer| prediction.contains(&answer) || answer.contains(&prediction))
}

/// Exact match and F1 as SkillOpt scores OfficeQA.
///
/// Texts are brought to lower case; commas and all ASCII punctuation but `.`, `-` and `%` are left out, and so are the
/// words *million*, *billion*, *dollar* (with or without an *s*) and *nominal*.
/// What is left is compared as [`em_f1`] does: `1.0` is not `1`, and `12.5%` is not `12.5 %`.
///
/// ```
/// use skill_envs::score::office_qa;
///
/// assert_eq!(office_qa("$1,234.5 million", &["1234.5"]).hard, 1.0);
/// assert_eq!(office_qa("1.0", &["1"]).hard, 0.0);
/// ```
pub fn office_qa(prediction: &str, answers: &[impl AsRef<str>]) -> Score {
    let prediction = office_normalized(prediction);
    let mut best = Score::default();
    for answer in answers {
        let answer = office_normalized(answer.as_ref());
        if answer == prediction {
            return Score::RIGHT;
        }
        best.soft = best.soft.max(multiset_f1(&prediction, &answer));
    }
    best
}

fn office_normalized(text: &str) -> String {
    const UNITS: [&str; 7] = ["million", "millions", "billion", "billions", "dollar", "dollars", "nominal"];
    let lower = text.to_lowercase();
    let plain: String = lower
        .chars()
        .filter(|character| !character.is_ascii_punctuation() || matches!(character, '.' | '-' | '%'))
        .collect();
    collapsed(&without_words(&plain, &UNITS))
}

/// A text as SQuAD compares it; see [`em_f1`].
pub(crate) fn squad_normalized(text: &str) -> String {
    let lower = text.to_lowercase();
    let plain: String = lower.chars().filter(|character| !character.is_ascii_punctuation()).collect();
    collapsed(&without_words(&plain, &["a", "an", "the"]))
}

/// Replaces these words by a space, where a word is a run of letters and digits.
fn without_words(text: &str, left_out: &[&str]) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word_end = rest.find(|character: char| !character.is_alphanumeric()).unwrap_or(rest.len());
        let (word, after_word) = rest.split_at(word_end);
        kept.push_str(if left_out.contains(&word) { " " } else { word });
        let gap_end = after_word.find(char::is_alphanumeric).unwrap_or(after_word.len());
        let (gap, after_gap) = after_word.split_at(gap_end);
        kept.push_str(gap);
        rest = after_gap;
    }
    kept
}

/// The words of a text, joined by single spaces.
pub(super) fn collapsed(text: &str) -> String {
    words(text).collect::<Vec<_>>().join(" ")
}

pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_python_space).filter(|word| !word.is_empty())
}

fn multiset_f1(prediction: &str, answer: &str) -> f64 {
    let mut available = BTreeMap::<&str, usize>::new();
    for token in words(answer) {
        *available.entry(token).or_default() += 1;
    }
    let n_common = words(prediction)
        .filter(|token| match available.get_mut(token) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        })
        .count();
    f1(n_common, prediction, answer)
}

fn token_set_f1(prediction: &str, answer: &str) -> f64 {
    let predicted: BTreeSet<&str> = words(prediction).collect();
    let expected: BTreeSet<&str> = words(answer).collect();
    f1(predicted.intersection(&expected).count(), prediction, answer)
}

fn f1(n_common: usize, prediction: &str, answer: &str) -> f64 {
    if n_common == 0 {
        return 0.0;
    }
    let precision = ratio(n_common, words(prediction).count());
    let recall = ratio(n_common, words(answer).count());
    (2.0 * precision * recall) / (precision + recall)
}

fn ratio(part: usize, whole: usize) -> f64 {
    // Counts of words stay far below 2^53, where f64 is exact.
    part as f64 / whole as f64
}

/// Rounds by the exact decimal expansion, half to even, as Python's `round(x, 4)` does.
fn rounded_to_4_digits(value: f64) -> f64 {
    format!("{value:.4}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check_em_f1(prediction: &str, answers: &[&str], hard: f64, soft: f64) {
        assert_eq!(em_f1(prediction, answers), Score { hard, soft }, "{prediction:?} {answers:?}");
    }

    #[track_caller]
    fn check_contains(prediction: &str, answers: &[&str], hard: f64, soft: f64) {
        assert_eq!(contains(prediction, answers), Score { hard, soft }, "{prediction:?} {answers:?}");
    }

    #[track_caller]
    fn check_normalized(text: &str, expect: &str) {
        assert_eq!(squad_normalized(text), expect, "{text:?}");
    }

    #[test]
    fn squad_normalisation() {
        check_normalized("The  Beatles!", "beatles");
        check_normalized("the U.S.A. ", "usa");
        check_normalized("a an the", "");
        check_normalized("theory of a band", "theory of band");
        check_normalized("THE\tEnd\r\n", "end");
        // Punctuation goes before the articles, so that `a-b` is one word and `a.` an article.
        check_normalized("a-b", "ab");
        check_normalized("a. b", "b");
        check_normalized("snake_case", "snakecase");
        // Only ASCII punctuation is left out, and it does separate words.
        check_normalized("“Hamlet”", "“hamlet”");
        check_normalized("the–end", "–end");
        check_normalized("l’a", "l’");
        check_normalized("one\u{a0}two\u{1c}three\u{3000}four", "one two three four");
        check_normalized("ΟΔΟΣ Straße", "οδος straße");
        check_normalized("а the", "а");
        check_normalized("3a a3", "3a a3");
        check_normalized("", "");
        check_normalized("!?", "");
    }

    #[test]
    fn exact_match_and_f1() {
        // Measured on the reference's evaluator.
        check_em_f1("The Beatles!", &["beatles"], 1.0, 1.0);
        check_em_f1("Paris, France", &["Paris"], 0.0, 0.6666666666666666);
        check_em_f1("John F. Kennedy", &["Kennedy", "JFK"], 0.0, 0.5);
        check_em_f1("the  U.S.A.", &["USA"], 1.0, 1.0);
        check_em_f1("", &["x"], 0.0, 0.0);
        check_em_f1("“Hamlet”", &["Hamlet"], 0.0, 0.0);

        check_em_f1("Paris", &["London", "Paris"], 1.0, 1.0);
        check_em_f1("Paris", &[], 0.0, 0.0);
        check_em_f1("The", &["a"], 1.0, 1.0);
        check_em_f1("", &["", "x"], 1.0, 1.0);
        check_em_f1("x", &["the"], 0.0, 0.0);
        // Repeats count as often as they are in both.
        check_em_f1("x x x y", &["x x z"], 0.0, 0.5714285714285715);
        check_em_f1("b c", &["c b"], 0.0, 1.0);
        check_em_f1("1,000", &["1000"], 1.0, 1.0);
        check_em_f1("12.5%", &["125"], 1.0, 1.0);
        check_em_f1("ÉCOLE", &["école"], 1.0, 1.0);
    }

    #[test]
    fn containment() {
        check_contains("Paris", &["paris"], 1.0, 1.0);
        check_contains("It is PARIS, I think.", &["paris"], 1.0, 1.0);
        check_contains("the city of new\n  york", &["New York"], 1.0, 1.0);
        check_contains("comparison", &["Paris"], 1.0, 1.0);
        check_contains("Lyon", &["Nice", " ", "lyon "], 1.0, 1.0);
        // Blank answers are no answers, and nothing is in an empty reply.
        check_contains("anything", &["", " \t"], 0.0, 0.0);
        check_contains("", &["x"], 0.0, 0.0);
        check_contains("", &[""], 0.0, 0.0);
        check_contains("x", &[], 0.0, 0.0);
        check_contains("New York", &["New York City"], 0.0, 0.8);
        check_contains("York, New", &["New York"], 0.0, 0.5);
        check_contains("b a", &["a b"], 0.0, 1.0);
        // A repeat makes both texts longer and is common once.
        check_contains("x x x y", &["x x z"], 0.0, 0.2857);
        check_contains("one two three", &["three four five"], 0.0, 0.3333);
        check_contains("one two", &["one three", "two one four"], 0.0, 0.8);
        // 1/32 lies exactly between two values of 4 digits.
        check_contains(&format!("x{}", " y".repeat(61)), &["x z"], 0.0, 0.0312);
        check_contains("ΟΔΟΣ", &["οδος"], 1.0, 1.0);
        check_contains("notre e\u{301}quipe", &["\u{e9}quipe"], 1.0, 1.0);
    }

    #[test]
    fn equality() {
        let check = |prediction: &str, answers: &[&str], ignores_case, expect: f64| {
            let score = exact(prediction, answers, ignores_case);
            assert_eq!(score, Score { hard: expect, soft: expect }, "{prediction:?} {answers:?}");
        };
        check("Paris", &["Paris"], false, 1.0);
        check(" a\tb\n", &["x", "a b"], false, 1.0);
        check("paris", &["Paris"], false, 0.0);
        check("PARIS", &["Paris"], true, 1.0);
        for marked in ["Paris.", "**Paris**", "`Paris`", "**Paris.**", "*Paris*", "Paris&nbsp;"] {
            check(marked, &["Paris"], false, 1.0);
        }
        check("Billing & Payments", &["Billing &amp; Payments"], false, 1.0);
        check("init", &["__init__"], false, 0.0);
        check("00123", &["=\"00123\""], false, 1.0);
        check("**Lyon**", &["Paris"], false, 0.0);
        check("\"Paris\"", &["Paris"], false, 0.0);
        check("", &[""], false, 1.0);
        check("x", &[], false, 0.0);
        check("e\u{301}quipe", &["\u{e9}quipe"], false, 1.0);
        check("\u{feff}Par\u{200b}is", &["Paris"], false, 1.0);
        check("E\u{301}QUIPE", &["\u{e9}quipe"], true, 1.0);
        check("equipe", &["\u{e9}quipe"], false, 0.0);
        // Half an emoji is another emoji.
        check("\u{1f469}\u{200d}\u{1f4bb}", &["\u{1f469}\u{1f4bb}"], false, 0.0);
    }

    #[test]
    fn sets_of_labels() {
        let check = |prediction: &str, answers: &[&str], hard: f64, soft: f64| {
            assert_eq!(label_set(prediction, answers), Score { hard, soft }, "{prediction:?} {answers:?}");
        };
        for same in [
            "Billing, Refund",
            "Refund,Billing",
            "refund; billing",
            "- Billing\n- Refund",
            "[\"Refund\", \"Billing\"]",
            "Billing and Refund",
            "**Billing**, **Refund**",
            "Labels: Billing, Refund.",
            "Billing | Refund",
            "Billing, Refund, Billing",
            "Billing, and Refund",
            "1. Billing\n2. Refund",
            "1) Billing, 2) Refund",
            "Billing & Refund",
            "Billing / Refund",
            "Billing + Refund",
            "Billing，Refund",
            "Refund、Billing",
            "<answer>Billing, Refund</answer>",
            "{\"labels\": [\"Billing\", \"Refund\"]}",
            "```json\n{\"labels\": [\"Billing\", \"Refund\"]}\n```",
        ] {
            check(same, &["Billing", "Refund"], 1.0, 1.0);
        }
        check("Billing", &["Billing", "Refund"], 0.0, 2.0 / 3.0);
        check("Billing, Refund, Account", &["Billing", "Refund"], 0.0, 0.8);
        check("Shipping", &["Billing", "Refund"], 0.0, 0.0);
        check("", &["Billing"], 0.0, 0.0);
        check("Terms, Conditions", &["Terms, Conditions"], 1.0, 1.0);
        check("Billing, Refund, and Account", &["Account", "Billing", "Refund"], 1.0, 1.0);
        for both in
            ["Payments, Billing, Refund", "Refund, payments, billing", "1. Payments, Billing\n2. Refund"]
        {
            check(both, &["Payments, Billing", "Refund"], 1.0, 1.0);
        }
        check("Refund", &["Payments, Billing", "Refund"], 0.0, 2.0 / 3.0);
        check("1. FC Köln", &["1. FC Köln"], 1.0, 1.0);
        check("Billing & Refund, Account", &["Billing & Refund", "Account"], 1.0, 1.0);
    }

    #[test]
    fn office_qa_answers() {
        let check = |prediction: &str, answer: &str, hard: f64, soft: f64| {
            assert_eq!(office_qa(prediction, &[answer]), Score { hard, soft }, "{prediction:?} {answer:?}");
        };
        // Measured on the reference's evaluator.
        check("$1,234.5 million", "1234.5", 1.0, 1.0);
        check("(3.2)", "3.2", 1.0, 1.0);
        check("-3.2", "3.2", 0.0, 0.0);
        check("", "x", 0.0, 0.0);
        check("1.0", "1", 0.0, 0.0);
        check("12.5%", "12.5 %", 0.0, 0.0);
        check("12 Billions of dollars", "12", 0.0, 0.6666666666666666);
        check("nominal", "dollars", 1.0, 1.0);
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![any::<String>(), "[aAbthe .,!-]{0,12}", "[\\s\\x1c-\\x1f“a]{0,8}"]
    }

    proptest! {
        #[test]
        fn scores_are_in_the_unit_interval_and_right_answers_are_fully_right(
            prediction in text(),
            answers in proptest::collection::vec(text(), 0..4),
        ) {
            for score in [em_f1(&prediction, &answers), contains(&prediction, &answers)] {
                prop_assert!(score.hard == 0.0 || score.hard == 1.0);
                prop_assert!((0.0..=1.0).contains(&score.soft));
                prop_assert!(score.hard == 0.0 || score.soft == 1.0);
            }
        }

        #[test]
        fn a_text_answers_itself(text in text()) {
            prop_assert_eq!(em_f1(&text, &[&text]), Score::RIGHT);
            let blank = collapsed(&composed(&text)).is_empty();
            prop_assert_eq!(contains(&text, &[&text]) == Score::RIGHT, !blank);
        }

        #[test]
        fn one_more_answer_never_lowers_a_score(prediction in text(), first in text(), second in text()) {
            let both = [&first, &second];
            for (one, two) in [
                (em_f1(&prediction, &[&first]), em_f1(&prediction, &both)),
                (contains(&prediction, &[&first]), contains(&prediction, &both)),
            ] {
                prop_assert!(two.hard >= one.hard && two.soft >= one.soft);
            }
        }
    }
}
