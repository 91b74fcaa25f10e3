//! Which form the answers of a table have: sets of labels, choices in columns, or numbers that a column names in words.

use crate::tasks::answers::{is_blank_answer, labels_in, list_in};
use crate::tasks::choices::{first_choice, index_in};
use crate::tasks::task::value_at;
use serde_json::{Map, Value};
use skill_core::labels::{class_counts, class_label};
use std::collections::{BTreeMap, BTreeSet};

/// The word for a label that is a number has so many characters at most.
const MAX_NAME_CHARACTERS: usize = 40;
/// Words at the beginning of names of fields that hold one choice each.
const CHOICE_PREFIXES: [&str; 12] = [
    "option",
    "opt",
    "op",
    "choice",
    "sol",
    "solution",
    "ending",
    "answer",
    "ans",
    "alternative",
    "candidate",
    "mc",
];
/// This share of the answers has to name or count the choices.
const MIN_CHOICE_SHARE: f64 = 0.95;
/// This share of the parts of answers with several has to be in several different answers, if they are labels of sets.
const MIN_SHARED_PARTS: f64 = 0.9;

/// True if answers are several labels that belong together: lists of classes, or classes with a mark between them that most
/// of them share with other answers.
pub(super) fn are_sets(records: &[Map<String, Value>], answer_field: Option<&str>) -> bool {
    let answers: Vec<&Value> = records
        .iter()
        .filter_map(|record| value_at(record, answer_field?))
        .filter(|answer| !is_blank_answer(answer))
        .collect();
    let is_of_lists = answers
        .iter()
        .any(|answer| answer.is_array() || answer.as_str().is_some_and(|text| list_in(text).is_some()));
    if !answers.iter().all(|answer| answer.is_string() || answer.is_array()) {
        return false;
    }
    let sets: Vec<Vec<String>> =
        answers.iter().map(|answer| labels_in("answer", answer).unwrap_or_default()).collect();
    let n_several = sets.iter().filter(|set| set.len() > 1).count();
    if n_several == 0 || n_several * 20 < sets.len() {
        return false;
    }
    let parts: Vec<&str> = sets.iter().flatten().map(String::as_str).collect();
    if class_counts(parts.iter().copied()).is_none() {
        return false;
    }
    if is_of_lists {
        return true;
    }
    // A comma may be a part of a label: then what is behind it is behind it everywhere.
    let mut wholes = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (answer, set) in answers.iter().zip(&sets) {
        for part in set {
            wholes.entry(part).or_default().insert(answer.as_str().unwrap_or_default());
        }
    }
    let beside_others: Vec<&String> = sets.iter().filter(|set| set.len() > 1).flatten().collect();
    let is_shared = |part: &str| wholes.get(part).is_some_and(|wholes| wholes.len() > 1);
    let n_shared = beside_others.iter().filter(|part| is_shared(part)).count();
    // A semicolon or a bar is seldom a part of a label.
    let has_comma = sets.iter().zip(&answers).any(|(set, answer)| {
        set.len() > 1
            && !answer
                .as_str()
                .is_some_and(|text| !text.contains(',') && text.contains([';', '|', '>', '\n']))
    });
    match has_comma {
        true => n_shared as f64 >= MIN_SHARED_PARTS * beside_others.len() as f64,
        false => n_shared > 0,
    }
}

/// The fields with one choice each, by their names (`A` to `D`, `1` to `4`, `opa` to `opd`, `Option 1`), where the answers name or count
/// them or say their texts.
pub(super) fn choice_fields(records: &[Map<String, Value>], answer_field: Option<&str>) -> Vec<String> {
    let Some(answer_field) = answer_field else { return Vec::new() };
    // A record may lack a choice.
    let mut seen = BTreeSet::new();
    let names = records.iter().flat_map(Map::keys).filter(|name| name.as_str() != answer_field);
    let names: Vec<&String> = names.filter(|name| seen.insert(name.as_str())).collect();
    let group_of = |start: &String| -> Option<Vec<String>> {
        let mark = start.chars().next_back().filter(|mark| matches!(mark, 'A' | 'a' | '0' | '1'))?;
        let prefix = start.strip_suffix(mark)?;
        let plain = prefix.trim_end_matches([' ', '_', '-', '.']).to_lowercase();
        // A table without names for its columns counts them from 0.
        let is_known = CHOICE_PREFIXES.contains(&plain.as_str()) || plain.is_empty() && mark != '0';
        let later = (0_u32..26).map_while(|step| {
            let mark = char::from_u32(u32::from(mark) + step)?;
            let name = format!("{prefix}{mark}");
            names.iter().any(|known| **known == name).then_some(name)
        });
        let group: Vec<String> = later.collect();
        (is_known && group.len() >= 2).then_some(group)
    };
    let group = names.iter().find_map(|name| group_of(name)).unwrap_or_default();
    let answers: Vec<(&Map<String, Value>, &Value)> = records
        .iter()
        .filter_map(|record| Some((record, value_at(record, answer_field)?)))
        .filter(|(_, answer)| !is_blank_answer(answer))
        .collect();
    let names_one = |(record, answer): &&(&Map<String, Value>, &Value)| {
        let text = answer.as_str().map(str::trim).unwrap_or_default();
        let is_letter = group.iter().enumerate().any(|(index, name)| {
            text.eq_ignore_ascii_case(&crate::score::Choice::label_at(index)) || text == name
        });
        is_letter
            || group
                .iter()
                .any(|name| !text.is_empty() && record.get(name).and_then(Value::as_str) == Some(text))
    };
    let n_named = answers.iter().filter(names_one).count();
    let are_named = n_named > 0 && n_named as f64 >= MIN_CHOICE_SHARE * answers.len() as f64;
    let are_counted = answers.iter().all(|(_, answer)| index_in(answer).is_some())
        && first_choice(answers.iter().map(|(_, answer)| *answer), group.len()).is_some();
    if group.len() >= 2 && (are_named || are_counted) { group } else { Vec::new() }
}

/// The field that says each label that is a number in words, and these words.
pub(super) fn named_by(
    records: &[Map<String, Value>],
    answer_field: Option<&str>,
    labels: &BTreeMap<String, usize>,
) -> Option<(String, BTreeMap<String, String>)> {
    if !labels.keys().all(|label| label.parse::<f64>().is_ok()) {
        return None;
    }
    let plain = |value: &Value| match value {
        Value::String(text) => Some(class_label(text).into_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let mut names = records.first()?.keys().filter(|name| Some(name.as_str()) != answer_field);
    names.find_map(|name| {
        let mut words = BTreeMap::<String, String>::new();
        for record in records {
            let (Some(label), Some(text)) =
                (value_at(record, answer_field?).and_then(plain), record.get(name).and_then(Value::as_str))
            else {
                continue;
            };
            let text = text.trim();
            if text.is_empty() || text.chars().count() > MAX_NAME_CHARACTERS {
                return None;
            }
            if words.entry(label).or_insert_with(|| text.to_owned()) != text {
                return None;
            }
        }
        let different: BTreeSet<&String> = words.values().collect();
        let is_one_to_one = different.len() == words.len() && words.len() == labels.len();
        is_one_to_one.then(|| (name.clone(), words))
    })
}
