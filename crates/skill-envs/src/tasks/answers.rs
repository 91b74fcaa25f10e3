//! The right answers of a record, in the forms that public data sets have for them.

use super::python_literal::structured;
use crate::data::is_kept_digit_for_digit;
use crate::score::up_to_brace;
use serde_json::{Map, Value};
use skill_core::member::kind_of;

/// References as texts: one, or any of several; a text that is a list of texts in JSON or Python is that list, as in CSV
/// files. Objects are read in the forms of public data sets: see [`answers_in`].
pub(super) fn answers_of(name: &str, value: &Value) -> Result<Vec<String>, String> {
    if let Some(answers) = value.as_object().and_then(answers_in) {
        return texts_of(name, &Value::Array(answers));
    }
    // Tables hold objects as texts.
    if let Some(answers) = value.as_str().and_then(object_in).as_ref().and_then(answers_in) {
        return texts_of(name, &Value::Array(answers));
    }
    if let Some(answers) = value.as_array().and_then(|list| answers_in_each(list)) {
        return texts_of(name, &Value::Array(answers));
    }
    match value {
        Value::String(text) if is_of_promptfoo(name) => Ok(vec![of_assertion(name, text)?]),
        Value::String(text) => match (list_in(text), final_answer(text).or_else(|| boxed_answer(text))) {
            (Some(list), _) => texts_of(name, &list),
            (None, Some(answer)) => Ok(vec![answer.to_owned()]),
            (None, None) => texts_of(name, value),
        },
        value => texts_of(name, value),
    }
}

/// The answer behind `####` in the last line of a worked solution, as GSM8K has it.
fn final_answer(text: &str) -> Option<&str> {
    let (_, answer) = text.trim_end().rsplit_once("\n####")?;
    Some(answer.trim()).filter(|answer| !answer.is_empty() && !answer.contains('\n'))
}

/// The answer in the last box of a worked solution, as MATH has it; `None` for a box without words before it.
fn boxed_answer(text: &str) -> Option<&str> {
    let (before, inside) = text.rsplit_once("\\boxed{")?;
    let answer = up_to_brace(inside)?.trim();
    (!answer.is_empty() && before.contains(char::is_alphabetic)).then_some(answer)
}

/// Names of members that say the answer of an object.
const ANSWER_MEMBERS: [&str; 13] = [
    "ground_truth",
    "answer",
    "value",
    "output",
    "text",
    "label",
    "result",
    "expected",
    "content",
    "input_text",
    "span_text",
    "spans",
    "texts",
];

/// Names of members that say something of an answer and are no part of it, and the ends of further ones.
const NOTES: [&str; 24] = [
    "start",
    "end",
    "offset",
    "index",
    "idx",
    "id",
    "type",
    "types",
    "kind",
    "status",
    "score",
    "confidence",
    "style",
    "source",
    "url",
    "annotator",
    "worker",
    "user",
    "comment",
    "timestamp",
    "created_at",
    "question",
    "turn_id",
    "metadata",
];
const NOTE_ENDINGS: [&str; 9] =
    ["_start", "_end", "_id", "_ids", "_type", "_index", "_offset", "_score", "_by"];

/// The references in an object as public data sets have it: the texts of SQuAD (`text` beside `answer_start`), value and
/// aliases of TriviaQA, `ground_truth` of verl, and the one member of an object that has no other. `None` for an object that
/// is itself the answer.
pub(super) fn answers_in(object: &Map<String, Value>) -> Option<Vec<Value>> {
    let texts = |value: &Value| match value {
        Value::Array(values) => values.clone(),
        value => vec![value.clone()],
    };
    let is_plain = |value: &Value| match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => true,
        Value::Array(values) => {
            values.iter().all(|value| matches!(value, Value::String(_) | Value::Number(_)))
        }
        Value::Null | Value::Object(_) => false,
    };
    let plain = |name: &str| object.get(name).filter(|value| is_plain(value));
    if object.contains_key("answer_start") {
        return plain("text").map(texts);
    }
    if let (Some(value), Some(aliases)) = (plain("value"), plain("aliases")) {
        let mut answers = texts(value);
        for alias in texts(aliases) {
            if !answers.contains(&alias) {
                answers.push(alias);
            }
        }
        return Some(answers);
    }
    if let Some(truth) = plain("ground_truth") {
        return Some(texts(truth));
    }
    let is_note = |name: &str| {
        let name = name.to_lowercase();
        NOTES.contains(&name.as_str()) || NOTE_ENDINGS.iter().any(|ending| name.ends_with(ending))
    };
    let mut others = object.keys().filter(|name| !is_note(name));
    let name = others.next().filter(|_| others.next().is_none())?;
    plain(name).filter(|_| ANSWER_MEMBERS.contains(&name.as_str())).map(texts)
}

/// The references in a list of objects that each hold some, as the original files of SQuAD have it, each once.
fn answers_in_each(list: &[Value]) -> Option<Vec<Value>> {
    let each = list.iter().map(|value| value.as_object().and_then(answers_in));
    let mut answers: Vec<Value> = Vec::new();
    for found in each.collect::<Option<Vec<_>>>()?.into_iter().flatten() {
        if !answers.contains(&found) {
            answers.push(found);
        }
    }
    (!list.is_empty()).then_some(answers)
}

/// The object that a text is in JSON or Python.
fn object_in(text: &str) -> Option<Map<String, Value>> {
    match structured(text)? {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// True if an answer is not there, in whatever form data sets say so.
pub(super) fn is_blank_answer(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => {
            text.trim().is_empty()
                || object_in(text).is_some_and(|object| is_blank_answer(&Value::Object(object)))
        }
        Value::Array(values) => {
            answers_in_each(values).map_or(values.is_empty(), |answers| answers.is_empty())
        }
        Value::Object(object) => {
            answers_in(object).is_some_and(|answers| answers.iter().all(is_blank_answer))
        }
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// All labels of a reference: a list, or a text with labels between commas, semicolons, bars or line breaks.
pub(super) fn labels_in(name: &str, value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(text) => match list_in(text) {
            Some(list) => texts_of(name, &list),
            None => Ok(crate::score::labels_of(text)),
        },
        value => texts_of(name, value),
    }
}

/// True for the column with the assertions of a test file of promptfoo.
pub(super) fn is_of_promptfoo(name: &str) -> bool {
    name.strip_prefix("__expected").is_some_and(|rest| rest.chars().all(|letter| letter.is_ascii_digit()))
}

/// The beginnings of promptfoo's assertions without a value.
const BARE_ASSERTIONS: [&str; 6] =
    ["is-", "not-is-", "contains-json", "contains-sql", "contains-xml", "contains-html"];

/// The text that an assertion of promptfoo expects.
fn of_assertion(name: &str, text: &str) -> Result<String, String> {
    let (kind, rest) = match text.split_once(':') {
        Some((kind, rest)) => (kind.trim(), Some(rest.trim())),
        None => (text.trim(), None),
    };
    let is_word = |kind: &str| kind.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
    // A threshold is in brackets: `similar(0.8): x`.
    let is_number = |inner: &str| inner.strip_suffix(')').is_some_and(|inner| inner.parse::<f64>().is_ok());
    let bare = kind.split_once('(').filter(|(_, inner)| is_number(inner)).map_or(kind, |(kind, _)| kind);
    let is_assertion = match rest {
        Some(rest) if matches!(kind, "equals" | "iequals" | "contains" | "icontains") => {
            return Ok(rest.to_owned());
        }
        Some(_) => is_word(bare) && (bare.len() > 3 || bare == "fn"),
        // Some stand alone, such as `is-json`.
        None => is_word(bare) && BARE_ASSERTIONS.iter().any(|start| bare.starts_with(start)),
    };
    if !is_assertion {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{name}` holds the assertion `{bare}` of promptfoo, which is not read as a right answer; write the text that is \
         expected, or grade with `--rubric`"
    ))
}

/// The list of texts that a text is in JSON or Python.
pub(super) fn list_in(text: &str) -> Option<Value> {
    let list = structured(text)?;
    let is_of_texts =
        list.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_string));
    is_of_texts.then_some(list)
}

pub(super) fn texts_of(name: &str, value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Array(list) => list
            .iter()
            .enumerate()
            .map(|(index, value)| text_of(&format!("{name}[{index}]"), value))
            .collect(),
        value => Ok(vec![text_of(name, value)?]),
    }
}

pub(super) fn text_of(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Number(number) if is_kept_digit_for_digit(number) => Ok(number.to_string()),
        Value::Number(_) => Err(format!("`{name}` is a number with too many digits; write it as a string")),
        other => Err(format!("`{name}` is {}; expected a string or a number", kind_of(other))),
    }
}

/// Why a reference is not a number: it has none, or it is more than one, such as a range, a ratio or a time.
pub(super) fn not_a_number(name: &str, text: &str) -> String {
    if text.contains(char::is_numeric) {
        return format!(
            "`{name}` is {text:?}, which is not one number as a whole; write it as one (such as \"12.5\" or \"1/2\"), or \
             compare texts with another scorer (such as `exact`)"
        );
    }
    format!("`{name}` is {text:?}, which holds no number")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(cell: &str, expect: &[&str]) {
        assert_eq!(answers_of("answer", &Value::from(cell)).unwrap(), expect, "{cell}");
    }

    #[test]
    fn assertions_of_promptfoo_are_answers_or_are_refused_by_name() {
        let read = |text: &str| answers_of("__expected", &Value::from(text));
        for (text, answer) in [("equals: Paris", "Paris"), ("Paris", "Paris"), ("is it so", "is it so")] {
            assert_eq!(read(text).unwrap(), [answer], "{text}");
        }
        for (text, kind) in [
            ("similar(0.8): Paris", "`similar`"),
            ("levenshtein(5): Paris", "`levenshtein`"),
            ("fn: output.length > 3", "`fn`"),
            ("javascript: true", "`javascript`"),
            ("is-json", "`is-json`"),
            ("contains-json", "`contains-json`"),
        ] {
            let fault = read(text).unwrap_err();
            assert!(fault.contains(kind), "{text}: {fault}");
        }
    }

    #[test]
    fn objects_of_public_data_sets_say_their_answers() {
        let read = |value: Value| answers_of("answers", &value).ok();
        for (value, expect) in [
            (json!({"text": ["Paris"], "answer_start": [3]}), "Paris"),
            (json!("{'text': ['Paris'], 'answer_start': [3]}"), "Paris"),
            (
                json!("{'text': array(['Paris'], dtype=object), 'answer_start': array([3], dtype=int32)}"),
                "Paris",
            ),
            (json!("{\"text\": [\"Paris\"], \"answer_start\": [3]}"), "Paris"),
            (json!([{"text": "Paris", "answer_start": 3}, {"text": "Paris", "answer_start": 9}]), "Paris"),
            (json!({"input_text": "Paris", "span_start": 3, "span_end": 8}), "Paris"),
            (json!({"spans": ["Paris"], "types": ["span"]}), "Paris"),
            (json!({"value": "Paris", "status": "submitted", "user_id": "u"}), "Paris"),
            (json!({"answer": "Paris", "confidence": 0.9}), "Paris"),
            (json!({"style": "rule", "ground_truth": "Paris"}), "Paris"),
        ] {
            assert_eq!(read(value.clone()), Some(vec![expect.to_owned()]), "{value}");
        }
        // What is a record stays one.
        for value in [json!({"city": "Paris", "country": "France"}), json!({"answer": "Paris", "unit": "km"})]
        {
            assert_eq!(read(value.clone()), None, "{value}");
        }
        for text in ["{x}", "{'a'}", "{\"city\": \"Paris\", \"n\": 2}"] {
            check(text, &[text]);
        }
        for value in [json!({"text": [], "answer_start": []}), json!("{'text': [], 'answer_start': []}")] {
            assert!(is_blank_answer(&value), "{value}");
        }
    }

    #[test]
    fn a_worked_solution_has_its_answer_in_the_last_line() {
        check("2 + 3 = 5.\nHe pays 5 dollars.\n#### 5", &["5"]);
        check("We have $2+3=5$, so the sum is $\\boxed{5}$.", &["5"]);
        check("Halve it, and so the rest is \\[\\boxed{\\frac{1}{2}}\\]", &["\\frac{1}{2}"]);
        for text in ["#### 5", "a\n####", "a\n#### 5\nb", "\\boxed{5}", "It is in a \\boxed{5"] {
            check(text, &[text]);
        }
    }

    #[test]
    fn a_cell_with_a_list_of_texts_holds_several_answers() {
        check("['A. Miller', \"O'Brien\"]", &["A. Miller", "O'Brien"]);
        check("[\"a\", \"b\"]", &["a", "b"]);
        check("['a' 'b'\n 'c']", &["a", "b", "c"]);
        check("array(['a', 'b'], dtype=object)", &["a", "b"]);
        for text in ["[1, 2]", "['a'", "'a'", "[]", "[0, 1)", "a"] {
            check(text, &[text]);
        }
    }
}
