//! Groups about the slow update.

use super::Verdict::{self, Ours};
use serde_json::{Value, json};
use skill_core::{
    PairPolicy, RolloutResult, SkillDoc, comparison_pairs as pairs_of, inject_slow_update,
    replace_slow_update, slow_update_guidance,
};
use skill_pipeline::records::epoch::PairRecord;

fn skill(value: &Value) -> SkillDoc {
    SkillDoc::new(value.as_str().unwrap())
}

pub(crate) fn slow_inject(input: &Value, _: &Value) -> Verdict {
    Ours(json!(inject_slow_update(&skill(input))))
}

pub(crate) fn slow_replace(input: &Value, _: &Value) -> Verdict {
    Ours(json!(replace_slow_update(&skill(&input[0]), input[1].as_str().unwrap())))
}

pub(crate) fn slow_extract(input: &Value, _: &Value) -> Verdict {
    Ours(json!(slow_update_guidance(&skill(input)).unwrap_or_default()))
}

pub(crate) fn longitudinal_policy(input: &Value, _: &Value) -> Verdict {
    Ours(json!(PairPolicy::from_reference(input.as_str().unwrap()).unwrap()))
}

pub(crate) fn comparison_pairs(input: &Value, _: &Value) -> Verdict {
    let results = |key: &str| -> Vec<RolloutResult> {
        input[key].as_array().unwrap().iter().map(|row| result(row, &input["items"])).collect()
    };
    let pairs = pairs_of(&results("prev"), &results("curr"));
    Ours(json!(pairs.iter().map(PairRecord::from).collect::<Vec<_>>()))
}

/// The reference takes what was asked from the item's own fields, and an answer from either of two.
fn result(row: &Value, items: &Value) -> RolloutResult {
    let text = |row: &Value, keys: &[&str]| -> String {
        keys.iter().find_map(|key| row.get(key)?.as_str()).unwrap_or_default().to_owned()
    };
    let number = |key: &str| row.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    let item = items.as_array().unwrap().iter().find(|item| item["id"] == row["id"]).unwrap();
    let mut result =
        RolloutResult::new(row["id"].to_string().as_str().into(), number("hard"), number("soft"));
    result.predicted_answer = text(row, &["predicted_answer", "answer"]);
    result.fail_reason = text(row, &["fail_reason"]);
    result.question = text(item, &["question"]);
    result.task_description = text(item, &["task_description", "instruction"]);
    result
}
