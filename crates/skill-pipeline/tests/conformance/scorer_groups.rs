//! The scorers of the benchmarks, and the order of multiple choice.

use crate::Verdict::{self, Differs, Ours};
use serde_json::{Value, json};
use skill_envs::score::{Choice, anls, em_f1, office_qa, shuffled_choices, substring_match};
use skill_envs::tasks::{DEFAULT_ANLS_THRESHOLD, Extraction, Extractor};

pub(crate) fn searchqa(input: &Value, _: &Value) -> Verdict {
    let (answer, gold) = (answer(&input[0]), texts(&input[1]));
    let score = em_f1(&answer, &gold);
    let sub_em = f64::from(u8::from(substring_match(&answer, &gold)));
    Ours(json!({
        "em": score.hard, "f1": score.soft, "sub_em": sub_em, "predicted_answer": answer, "gold_answers": gold,
    }))
}

pub(crate) fn officeqa(input: &Value, _: &Value) -> Verdict {
    let (answer, gold) = (answer(&input[0]), input[1].as_str().unwrap());
    let score = office_qa(&answer, &[gold]);
    Ours(json!({"em": score.hard, "f1": score.soft, "predicted_answer": answer, "gold_answer": gold}))
}

pub(crate) fn docvqa(input: &Value, _: &Value) -> Verdict {
    let (answer, mut gold) = (answer(&input[0]), texts(&input[1]));
    let score = anls(&answer, &gold, DEFAULT_ANLS_THRESHOLD);
    if input[0] == "a</answer>b<answer>c" {
        assert_eq!((answer.as_str(), score.soft), ("c", 1.0));
        return Differs("defect 30: a tag that is not closed reaches to the end");
    }
    // The reference writes down no reference as an empty one.
    if gold.is_empty() {
        gold.push(String::new());
    }
    Ours(json!({"anls": score.soft, "predicted_answer": answer, "gold_answers": gold}))
}

pub(crate) fn livemath_shuffle(input: &Value, _: &Value) -> Verdict {
    let choices: Vec<Choice> =
        (0..5).map(Choice::label_at).map(|label| Choice { text: format!("t{label}"), label }).collect();
    let (id, seed) = (input[0].as_str().unwrap(), input[1].as_u64().unwrap());
    let (shuffled, correct) = shuffled_choices(&choices, 2, seed, id);
    let shown: Vec<String> =
        shuffled.iter().map(|choice| format!("{}={}", choice.label, choice.text)).collect();
    Ours(json!([shown, shuffled[correct]]))
}

/// The answer that the benchmarks' presets take out of a reply.
fn answer(reply: &Value) -> String {
    let extraction = Extraction::LastTag { tag: "answer".to_owned() };
    Extractor::new(extraction).unwrap().extract(reply.as_str().unwrap()).answer
}

/// A list of texts, or the JSON text of one.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => serde_json::from_str(text).unwrap(),
        list => serde_json::from_value(list.clone()).unwrap(),
    }
}
