//! A look at all records before there is a configuration: which fields are free text that a model may be shown, which
//! of those give the answer away or name people, and which answers are class labels.
//!
//! Nothing here decides what is sent: callers say what was found, and ask.

mod forms;
#[cfg(test)]
mod tests;

use super::answers::{answers_in, answers_of, is_blank_answer, labels_in, list_in};
use super::sample::{DataSample, files, is_named_as_id};
use super::task::{ANSWER_FIELDS, CHOICE_FIELDS, ID_FIELDS, SHOWN_FIELDS, TYPE_FIELDS, value_at};
use crate::data::read_records;
use crate::error::EnvError;
use crate::score::{ColumnKind, column_kind};
use forms::{are_sets, choice_fields, named_by};
use regex::Regex;
use serde_json::{Map, Value};
use skill_core::decoration::has_entities;
use skill_core::labels::{class_counts, class_label, respelled};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

/// A field gives the answer away if it does so in more than this share of the rows.
pub const LEAK_SHARE: f64 = 0.95;
/// Free text has at least so many words on average, and so many different values among those that are there.
const MIN_WORDS: f64 = 3.0;
const MIN_DISTINCT_SHARE: f64 = 0.5;
/// Free text is there in this share of the rows at least, and this share of its signs is letters.
const MIN_FILLED_SHARE: f64 = 0.5;
const MIN_LETTER_SHARE: f64 = 0.5;
/// So few rows tell nothing of what a field gives away.
const MIN_ROWS_OF_LEAK: usize = 8;
/// Names of fields with a title of the input, which many rows may share.
const TITLES: [&str; 4] = ["subject", "headline", "title", "heading"];
/// The fewest words of a title, on average.
const MIN_WORDS_OF_TITLE: f64 = 1.5;
/// Words in the names of fields with personal data, which are no free text.
const PERSONAL_NAMES: [&str; 9] =
    ["mail", "phone", "telephone", "mobile", "address", "street", "surname", "first name", "full name"];

/// Names of texts that are judged together, which may be short.
const PAIRS: [&str; 8] =
    ["premise", "hypothesis", "sentence1", "sentence2", "question1", "question2", "text1", "text2"];
/// Words in the names of fields that hold a right answer or how it is found.
const ANSWER_NAMES: [&str; 8] =
    ["answer", "explanation", "rationale", "solution", "reasoning", "cot", "gold", "justification"];

/// An e-mail address.
static EMAIL: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)\b[a-z0-9._%+-]+@[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}\b").ok());
/// A telephone number: with a country's or a trunk prefix, in the American form, or behind a word that says so.
static PHONE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?ix)(?:^|[^\w+.-])(?:
            \+\d{1,3}[\s./()-]*(?:\d[\s./()-]*){6,12}\d
            | \(?0\d{2,4}\)?[\s/-]+\d{3,4}(?:[\s-]?\d{2,4}){1,3}
            | \(?\d{3}\)?[\s.-]\d{3}[.-]\d{4}
            | 555-\d{4}
            | (?:tel|phone|telephone|mobile|fax|cell)\.?:?\s*\+?\(?\d[\d\s./()-]{5,}\d
        )(?:$|[^\w-])",
    )
    .ok()
});

/// What all records of a data set have in common.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct DataSurvey {
    /// Records, with those that have no answer.
    pub n_records: usize,
    /// Records with the fields and values of an earlier one, which are not among these.
    pub n_duplicates: usize,
    /// Records whose answer is missing or blank.
    pub n_unanswered: usize,
    /// Records whose answer is a list of several texts, any of which is right.
    pub n_lists: usize,
    /// How many items have each label, if the answers are class labels: see [`class_counts`]. Of a list each entry counts;
    /// spellings that [`respelled`] replaces are counted with their label.
    pub labels: Option<BTreeMap<String, usize>>,
    /// Spellings of labels that differ from their label in case and blanks alone, with the label; none where an answer is
    /// a list.
    pub respelled: BTreeMap<String, String>,
    /// Labels that are to count as others and that no record has.
    pub unknown_folds: Vec<String>,
    /// An answer that is right in all records.
    pub only_answer: Option<String>,
    /// The words of the median answer; 0 where none is a text.
    pub answer_words: usize,
    /// The field with a name such as `ticket_id` whose values are all different, where no field has a usual name of an id.
    pub id_field: Option<String>,
    /// The fields that are neither answer, id, choices nor type, in the order of the data.
    pub fields: Vec<FieldSurvey>,
    /// Whether several labels of an answer belong together, so that all of them are right and one of them is not.
    pub are_sets: bool,
    /// The fields with one choice each, where the answers name or count them; empty where there are none.
    pub choice_fields: Vec<String>,
    /// The members of answers that are objects.
    pub members: Vec<String>,
    /// The field that has one text for each label that is a number, such as `label_text`, with these texts.
    pub named_by: Option<(String, BTreeMap<String, String>)>,
    /// An answer with an entity of HTML, such as `&amp;`.
    pub entity: Option<String>,
    /// What the answers are to the scorer of numbers.
    column: ColumnKind,
    are_objects: bool,
}

/// What all values of a field have in common.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct FieldSurvey {
    /// The name.
    pub name: String,
    /// True for long texts that are mostly distinct, and for texts in a field with the usual name of what is asked.
    pub is_free_text: bool,
    /// True for short texts, which rows may share, in a field that is named as a title.
    is_title: bool,
    /// How many rows have an answer and a text here.
    pub n_rows: usize,
    /// In how many rows there is nothing here, or blanks alone.
    pub n_blank: usize,
    /// In how many of [`n_rows`](Self::n_rows) the text gives the answer away.
    pub n_telling: usize,
    /// In how many rows there is an e-mail address.
    pub n_emails: usize,
    /// In how many rows there is a telephone number.
    pub n_phones: usize,
    /// The characters of the mean text.
    mean_length: f64,
}

/// True for a name such as `long_answer`.
pub fn is_named_as_answer(name: &str) -> bool {
    let lower = name.to_lowercase();
    lower.split(|sign: char| !sign.is_alphanumeric()).any(|word| ANSWER_NAMES.contains(&word))
}

impl FieldSurvey {
    /// True if it gives the answer away in more than [`LEAK_SHARE`] of the rows.
    pub fn tells_answer(&self) -> bool {
        self.n_rows >= MIN_ROWS_OF_LEAK && self.n_telling as f64 > LEAK_SHARE * self.n_rows as f64
    }
}

impl DataSurvey {
    /// Reads all records at a path; the right answers are in this field, if there are any.
    ///
    /// # Errors
    ///
    /// Data that cannot be read.
    pub fn read(
        path: &Path,
        answer_field: Option<&str>,
        folds: &BTreeMap<String, String>,
    ) -> Result<Self, EnvError> {
        let (mut records, mut seen, mut n_duplicates) = (Vec::new(), BTreeSet::new(), 0);
        for file in files(path)?.0 {
            for record in read_records(&file)? {
                match seen.insert(Value::Object(record.fields.clone()).to_string()) {
                    true => records.push(record.fields),
                    false => n_duplicates += 1,
                }
            }
        }
        Ok(Self { n_duplicates, ..Self::of(&records, answer_field, folds) })
    }

    fn of(
        records: &[Map<String, Value>],
        answer_field: Option<&str>,
        folds: &BTreeMap<String, String>,
    ) -> Self {
        let answer_of = |record: &Map<String, Value>| {
            let answer = value_at(record, answer_field?).filter(|answer| !is_blank_answer(answer))?;
            // What cannot be compared as text has none.
            Some(answers_of(answer_field?, answer).unwrap_or_default())
        };
        let mut answers: Vec<Option<Vec<String>>> = records.iter().map(answer_of).collect();
        let choice_fields = choice_fields(records, answer_field);
        let are_sets = choice_fields.is_empty() && are_sets(records, answer_field);
        if are_sets {
            let labels = |record: &Map<String, Value>| {
                let answer = value_at(record, answer_field?).filter(|answer| !is_blank_answer(answer))?;
                Some(labels_in("answer", answer).unwrap_or_default())
            };
            answers = records.iter().map(labels).collect();
        }
        let texts: Vec<&str> = answers.iter().flatten().flatten().map(String::as_str).collect();
        let are_texts = !answers.iter().flatten().any(Vec::is_empty);
        let n_lists = answers.iter().flatten().filter(|answer| answer.len() > 1).count();
        let is_merged = are_texts && records.iter().all(|record| !is_list(record, answer_field));
        let respelled = if is_merged { respelled(texts.iter().copied()) } else { BTreeMap::new() };
        let label_of = |text: &str| {
            let label = class_label(text).into_owned();
            let label = respelled.get(&label).cloned().unwrap_or(label);
            folds.get(&label).cloned().unwrap_or(label)
        };
        let is_there = |from: &str| {
            let spelled = |text: &&str| {
                class_label(text) == from || respelled.get(&*class_label(text)).is_some_and(|to| to == from)
            };
            texts.iter().any(spelled)
        };
        let unknown_folds = folds.keys().filter(|from| !is_there(from)).cloned().collect();
        let column = column_kind(texts.iter().copied());
        let spelled = || texts.iter().map(|text| label_of(text));
        // Few whole numbers in many rows are classes, as words are; amounts and shares are none.
        let is_plain = |text: &&str| text.trim().parse::<f64>().is_ok();
        let can_be_classes = match column {
            ColumnKind::Texts => true,
            ColumnKind::Numbers => texts.iter().all(is_plain),
            ColumnKind::Codes => false,
        };
        let are_labels = are_texts && can_be_classes && choice_fields.is_empty();
        let labels =
            are_labels.then(|| class_counts(spelled().collect::<Vec<_>>().iter().map(String::as_str)));
        let labels = labels.flatten();
        let mut words: Vec<usize> = texts.iter().map(|text| text.split_whitespace().count()).collect();
        words.sort_unstable();
        let is_everywhere = |label: &String| {
            let has = |answer: &Vec<String>| answer.iter().any(|text| label_of(text) == *label);
            are_texts && answers.iter().flatten().all(has)
        };
        let n_answers = answers.iter().flatten().count();
        let first = answers.iter().flatten().next().into_iter().flatten().map(|text| label_of(text));
        let only_answer = first.filter(|_| n_answers > 1).find(is_everywhere);
        let rows = Rows { records, answers: &answers, labels: labels.as_ref(), label_of: &label_of };
        Self {
            n_records: records.len(),
            n_duplicates: 0,
            n_unanswered: if answer_field.is_some() { records.len() - n_answers } else { 0 },
            n_lists,
            only_answer,
            unknown_folds,
            answer_words: words.get(words.len() / 2).copied().unwrap_or_default(),
            id_field: id_field(records, answer_field),
            fields: field_names(records, answer_field).into_iter().map(|name| rows.field(name)).collect(),
            respelled: if labels.is_some() { respelled.clone() } else { BTreeMap::new() },
            named_by: labels.as_ref().and_then(|labels| named_by(records, answer_field, labels)),
            labels,
            column,
            are_sets,
            choice_fields,
            entity: texts.iter().find(|text| has_entities(text)).map(|text| (*text).to_owned()),
            members: first_answer(records, answer_field)
                .and_then(Value::as_object)
                .map(|object| object.keys().cloned().collect())
                .unwrap_or_default(),
            are_objects: first_answer(records, answer_field)
                .is_some_and(|answer| answer.as_object().is_some_and(|object| answers_in(object).is_none())),
        }
    }

    /// The scorer that fits the answers: `choice`, `numeric`, `exact` for codes, `json_fields` or `em_f1`.
    pub fn scorer(&self, sample: &DataSample) -> &'static str {
        match self.column {
            _ if sample.has_choices || !self.choice_fields.is_empty() => "choice",
            _ if self.are_sets => "label_set",
            ColumnKind::Numbers => "numeric",
            // `1038` is not `01038`.
            ColumnKind::Codes => "exact",
            ColumnKind::Texts if self.are_objects => "json_fields",
            ColumnKind::Texts => "em_f1",
        }
    }

    /// The fields that a model is shown where nobody names them: free text, or where there is none, the longest texts.
    pub fn shown(&self) -> Vec<String> {
        let is_choice = |field: &FieldSurvey| self.choice_fields.contains(&field.name);
        let free = |field: &&FieldSurvey| field.is_free_text && !is_choice(field);
        // Where nothing else is there, a text is shown whatever its name.
        let only_these = self.fields.iter().filter(free).all(|field| is_named_as_answer(&field.name));
        let is_answer = |name: &str| is_named_as_answer(name) && !only_these;
        let free: Vec<&FieldSurvey> =
            self.fields.iter().filter(free).filter(|field| !is_answer(&field.name)).collect();
        let usual: Vec<String> = SHOWN_FIELDS
            .into_iter()
            .filter(|name| free.iter().any(|field| field.name == *name))
            .map(str::to_owned)
            .collect();
        // A subject belongs to what is asked; a title beside questions is that of their source.
        let has_subject = self
            .fields
            .iter()
            .any(|field| field.is_title && field.name.trim().eq_ignore_ascii_case("subject"));
        if usual.len() == free.len() && !usual.is_empty() && !has_subject {
            return usual;
        }
        if !free.is_empty() {
            let is_shown = |field: &&FieldSurvey| {
                field.is_title || field.is_free_text && !is_choice(field) && !is_answer(&field.name)
            };
            return self.fields.iter().filter(is_shown).map(|field| field.name.clone()).collect();
        }
        let is_text =
            |field: &&FieldSurvey| field.mean_length > 0.0 && !is_personal(&field.name) && !is_choice(field);
        let longest = self
            .fields
            .iter()
            .filter(is_text)
            .max_by(|left, right| left.mean_length.total_cmp(&right.mean_length));
        longest.map(|field| field.name.clone()).into_iter().collect()
    }

    /// What is known of a field.
    pub fn field(&self, name: &str) -> Option<&FieldSurvey> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// All records, with what is right.
struct Rows<'a> {
    records: &'a [Map<String, Value>],
    answers: &'a [Option<Vec<String>>],
    labels: Option<&'a BTreeMap<String, usize>>,
    label_of: &'a dyn Fn(&str) -> String,
}

impl Rows<'_> {
    fn field(&self, name: &str) -> FieldSurvey {
        let values = || self.records.iter().map(|record| record.get(name).and_then(only_text));
        let texts: Vec<&str> = values().flatten().filter(|text| !text.trim().is_empty()).collect();
        let total = |count: &dyn Fn(&str) -> f64| texts.iter().map(|text| count(text)).sum::<f64>();
        let n_texts = texts.len().max(1) as f64;
        let distinct: BTreeSet<&str> = texts.iter().copied().collect();
        let is_filled =
            !texts.is_empty() && texts.len() as f64 >= MIN_FILLED_SHARE * self.records.len() as f64;
        let letters = total(&|text| text.chars().filter(|sign| sign.is_alphabetic()).count() as f64);
        let signs = total(&|text| text.chars().filter(|sign| !sign.is_whitespace()).count() as f64);
        let is_long = total(&n_words) / n_texts >= MIN_WORDS
            && distinct.len() as f64 / n_texts >= MIN_DISTINCT_SHARE
            && letters >= MIN_LETTER_SHARE * signs;
        let is_usual = SHOWN_FIELDS.contains(&name.trim().to_lowercase().as_str());
        let has = |pattern: &LazyLock<Option<Regex>>| {
            texts.iter().filter(|text| pattern.as_ref().is_some_and(|found| found.is_match(text))).count()
        };
        let (n_rows, n_telling) = self.telling(name, is_usual);
        FieldSurvey {
            name: name.to_owned(),
            is_free_text: (is_usual || PAIRS.contains(&name)) && !texts.is_empty()
                || is_filled && is_long && !is_personal(name),
            is_title: is_filled
                && TITLES.contains(&name.trim().to_lowercase().as_str())
                && total(&n_words) / n_texts >= MIN_WORDS_OF_TITLE,
            n_rows,
            n_blank: self.records.iter().filter(|record| record.get(name).is_none_or(is_blank)).count(),
            n_telling,
            n_emails: has(&EMAIL),
            n_phones: has(&PHONE),
            mean_length: total(&|text| text.chars().count() as f64) / n_texts,
        }
    }

    /// How many rows have a text and an answer, and in how many of them the text names the answer: a label as the only
    /// one, or in a field that is not one of those with which tasks are usually asked, any answer.
    fn telling(&self, name: &str, is_usual: bool) -> (usize, usize) {
        let (mut n_rows, mut n_telling) = (0, 0);
        let folded_labels: Vec<String> =
            self.labels.into_iter().flat_map(BTreeMap::keys).map(|label| folded(label)).collect();
        for (record, answer) in self.records.iter().zip(self.answers) {
            let (Some(text), Some(answer)) = (record.get(name).and_then(only_text), answer) else {
                continue;
            };
            if text.trim().is_empty() {
                continue;
            }
            n_rows += 1;
            let text = folded(text);
            let names = |answer: &String| !answer.trim().is_empty() && text.contains(answer.as_str());
            let own: Vec<String> = match self.labels {
                Some(_) => answer.iter().map(|answer| folded(&(self.label_of)(answer))).collect(),
                None => answer.iter().map(|answer| folded(answer)).collect(),
            };
            let is_other = |label: &&String| !own.iter().any(|own| own.contains(label.as_str()));
            let tells = match self.labels {
                Some(_) => own.iter().any(&names) && !folded_labels.iter().filter(is_other).any(&names),
                None => !is_usual && own.iter().any(names),
            };
            n_telling += usize::from(tells);
        }
        (n_rows, n_telling)
    }
}

/// Letters and digits in lower case, as words with a blank around each.
fn folded(text: &str) -> String {
    let words = text.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(str::to_lowercase).collect();
    if words.is_empty() { String::new() } else { format!(" {} ", words.join(" ")) }
}

/// Words with a letter in them; two signs of a script without blanks count as one.
fn n_words(text: &str) -> f64 {
    let n_dense = text.chars().filter(|sign| ('\u{2e80}'..='\u{ffdc}').contains(sign)).count();
    let is_word = |word: &&str| word.chars().any(char::is_alphabetic);
    (text.split_whitespace().filter(is_word).count() as f64).max(n_dense as f64 / 2.0)
}

/// A text, or the only member of an object where it is one.
fn only_text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Object(members) if members.len() == 1 => members.values().next()?.as_str(),
        Value::Object(_) | Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

fn first_answer<'a>(records: &'a [Map<String, Value>], answer_field: Option<&str>) -> Option<&'a Value> {
    records
        .iter()
        .filter_map(|record| value_at(record, answer_field?))
        .find(|answer| !is_blank_answer(answer))
}

fn is_list(record: &Map<String, Value>, answer_field: Option<&str>) -> bool {
    match answer_field.and_then(|name| value_at(record, name)) {
        Some(Value::String(text)) => list_in(text).is_some(),
        Some(answer) => answer.is_array() || answer.is_object(),
        None => false,
    }
}

fn is_personal(name: &str) -> bool {
    let name = name.to_lowercase().replace(['_', '-'], " ");
    PERSONAL_NAMES.iter().any(|word| name.contains(word)) || name == "name" || name.ends_with(" name")
}

/// The fields that could be shown, in the order in which the records have them.
fn field_names<'a>(records: &'a [Map<String, Value>], answer_field: Option<&str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    let mut seen = BTreeSet::new();
    for name in records.iter().flat_map(Map::keys) {
        let is_other = answer_field
            .is_some_and(|answer| answer == name || answer.split('.').next() == Some(name))
            || is_named_as_id(name)
            || [&ID_FIELDS[..], &CHOICE_FIELDS, &TYPE_FIELDS, &ANSWER_FIELDS]
                .concat()
                .contains(&name.as_str());
        if !is_other && seen.insert(name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// The field that is named as an id and has another value in every record; none where one has a usual name.
fn id_field(records: &[Map<String, Value>], answer_field: Option<&str>) -> Option<String> {
    let first = records.first().filter(|_| records.len() > 1)?;
    if ID_FIELDS.iter().any(|name| first.contains_key(*name)) {
        return None;
    }
    let is_candidate = |name: &&String| Some(name.as_str()) != answer_field && is_named_as_id(name);
    let all_differ = |name: &&String| {
        let mut seen = BTreeSet::new();
        records.iter().all(|record| match record.get(name.as_str()) {
            Some(Value::String(text)) => !text.trim().is_empty() && seen.insert(text.clone()),
            Some(Value::Number(number)) => seen.insert(number.to_string()),
            Some(_) | None => false,
        })
    };
    first.keys().filter(is_candidate).find(all_differ).cloned()
}
