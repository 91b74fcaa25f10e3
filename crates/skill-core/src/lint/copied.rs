//! Text that comes from training items: a skill with answers in it is good at the items that it was trained on.

use super::{Finding, Severity, numbered, words};
use std::collections::{BTreeMap, BTreeSet};

/// This many words in a row are no coincidence.
const N_GRAM: usize = 8;
/// An answer of this many words is found wherever it stands.
const LONG_ANSWER_WORDS: usize = 3;
/// As is one of so many characters.
const LONG_ANSWER_CHARS: usize = 16;
/// A shorter answer must be in a line with this many words of its question that few items share.
const MIN_QUESTION_WORDS: usize = 3;
/// Shorter words say nothing about a question.
const MIN_WORD_CHARS: usize = 4;
/// What more than this share of the items has is not a mark of one item.
const COMMON_SHARE: f64 = 0.02;
/// Of few items, what this many have.
const COMMON_ITEMS: usize = 2;
/// The most words of an item that are looked at.
const MAX_WORDS: usize = 20_000;

/// What of a training item must not be in a skill.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrainingText {
    /// The item.
    pub id: String,
    /// What it asks, with everything that is shown for it.
    pub question: String,
    /// What is right.
    pub answers: Vec<String>,
}

struct ItemWords<'a> {
    id: &'a str,
    question: Vec<String>,
    answers: Vec<Vec<String>>,
}

/// A file's words with the line of each.
struct FileWords<'a> {
    path: &'a str,
    words: Vec<String>,
    lines: Vec<usize>,
    by_line: BTreeMap<usize, BTreeSet<String>>,
}

pub(super) fn check(files: &[(&str, &str)], training: &[TrainingText]) -> Vec<Finding> {
    if training.is_empty() {
        return Vec::new();
    }
    let items: Vec<ItemWords<'_>> = training
        .iter()
        .map(|item| ItemWords {
            id: &item.id,
            question: words(&item.question).take(MAX_WORDS).collect(),
            answers: item.answers.iter().map(|answer| words(answer).take(MAX_WORDS).collect()).collect(),
        })
        .collect();
    let common = Common::of(&items);
    let files: Vec<FileWords<'_>> = files.iter().map(|(path, text)| FileWords::of(path, text)).collect();
    let mut findings = Vec::new();
    for file in &files {
        let places = file.n_gram_lines();
        for item in &items {
            findings.extend(copied_answer(file, item, &common));
            findings.extend(copied_question(file, &places, item, &common));
        }
    }
    findings
}

fn copied_answer(file: &FileWords<'_>, item: &ItemWords<'_>, common: &Common) -> Option<Finding> {
    item.answers.iter().filter(|answer| !common.answers.contains(*answer)).find_map(|answer| {
        let n_chars: usize = answer.iter().map(|word| word.chars().count()).sum();
        let is_long = answer.len() >= LONG_ANSWER_WORDS || n_chars >= LONG_ANSWER_CHARS;
        let line =
            file.lines_of(answer).find(|line| is_long || file.speaks_of(*line, item, answer, common))?;
        let message = format!("the answer of the training item {:?} is here", item.id);
        let advice = "write the rule behind the case, not the case: an unseen item has another answer";
        Some(Finding::new("copied-answer", Severity::Error, (file.path, line), message, advice))
    })
}

fn copied_question(
    file: &FileWords<'_>,
    places: &BTreeMap<&[String], usize>,
    item: &ItemWords<'_>,
    common: &Common,
) -> Option<Finding> {
    let line = item
        .question
        .windows(N_GRAM)
        .filter(|n_gram| !common.n_grams.contains(*n_gram))
        .find_map(|n_gram| places.get(n_gram))?;
    let message = format!("{N_GRAM} or more words in a row are those of the training item {:?}", item.id);
    let advice = "say what all such items have in common, in other words";
    Some(Finding::new("copied-text", Severity::Warning, (file.path, *line), message, advice))
}

impl<'a> FileWords<'a> {
    fn of(path: &'a str, text: &str) -> Self {
        let mut file = Self { path, words: Vec::new(), lines: Vec::new(), by_line: BTreeMap::new() };
        for (line, content) in numbered(text) {
            for word in words(content) {
                file.by_line.entry(line).or_default().insert(word.clone());
                file.words.push(word);
                file.lines.push(line);
            }
        }
        file
    }

    /// The line of the first word of each run of [`N_GRAM`] words.
    fn n_gram_lines(&self) -> BTreeMap<&[String], usize> {
        let mut lines = BTreeMap::new();
        for (n_gram, line) in self.words.windows(N_GRAM).zip(&self.lines) {
            lines.entry(n_gram).or_insert(*line);
        }
        lines
    }

    /// The lines where these words are in a row.
    fn lines_of<'f>(&'f self, answer: &'f [String]) -> impl Iterator<Item = usize> + 'f {
        let n_words = answer.len().max(1);
        self.words
            .windows(n_words)
            .zip(&self.lines)
            .filter(move |(window, _)| *window == answer)
            .map(|(_, line)| *line)
    }

    /// Whether a line is about the item's question.
    fn speaks_of(&self, line: usize, item: &ItemWords<'_>, answer: &[String], common: &Common) -> bool {
        let Some(here) = self.by_line.get(&line) else { return false };
        let rare: BTreeSet<&String> = item
            .question
            .iter()
            .filter(|word| {
                word.chars().count() >= MIN_WORD_CHARS
                    && !common.words.contains(*word)
                    && !answer.contains(word)
            })
            .collect();
        rare.into_iter().filter(|word| here.contains(*word)).count() >= MIN_QUESTION_WORDS
    }
}

/// What many items have: templates, usual answers, usual words.
#[derive(Default)]
struct Common {
    n_grams: BTreeSet<Vec<String>>,
    answers: BTreeSet<Vec<String>>,
    words: BTreeSet<String>,
}

impl Common {
    fn of(items: &[ItemWords<'_>]) -> Self {
        let (mut n_grams, mut answers, mut words) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for item in items {
            count(&mut n_grams, item.question.windows(N_GRAM));
            count(&mut answers, item.answers.iter().map(Vec::as_slice));
            count(&mut words, item.question.iter());
        }
        let least = ((items.len() as f64 * COMMON_SHARE) as usize).max(COMMON_ITEMS);
        let is_common = |n_items: usize| n_items > least;
        Self {
            n_grams: n_grams
                .into_iter()
                .filter(|(_, n)| is_common(*n))
                .map(|(n_gram, _)| n_gram.to_vec())
                .collect(),
            answers: answers
                .into_iter()
                .filter(|(_, n)| is_common(*n))
                .map(|(answer, _)| answer.to_vec())
                .collect(),
            words: words.into_iter().filter(|(_, n)| is_common(*n)).map(|(word, _)| word.clone()).collect(),
        }
    }
}

/// Adds 1 for each thing that an item has, however often it has it.
fn count<T: Ord>(counts: &mut BTreeMap<T, usize>, things: impl Iterator<Item = T>) {
    let once: BTreeSet<T> = things.collect();
    for thing in once {
        *counts.entry(thing).or_default() += 1;
    }
}
