//! Examples as TRL cuts and labels them.

use crate::recorded::{self, Counted, ids};
use serde_json::Value;
use skill_train::examples::{LeftOut, SftExample};

/// The label of a token that is not learnt.
const NO_TARGET: i64 = -100;

fn labels(of: &Value) -> Vec<i64> {
    of.as_array().unwrap().iter().map(|label| label.as_i64().unwrap()).collect()
}

#[test]
fn conformance_of_sft_examples() {
    let recorded = recorded::json("sft/sft.json");
    let max_tokens = usize::try_from(recorded["max_length"].as_u64().unwrap()).unwrap();
    let mut counted = Counted::new("sft examples");
    for (batch, examples) in recorded["examples"].as_object().unwrap() {
        let mut n_targets = 0;
        for (place, case) in examples.as_array().unwrap().iter().enumerate() {
            let what = format!("batch {batch}, example {place}");
            let (prompt, completion) = (ids(&case["prompt"]), ids(&case["completion"]));
            let ours = SftExample::from_tokens(&prompt, &completion, max_tokens);
            let labels = labels(&case["labels"]);
            if labels.iter().all(|label| *label == NO_TARGET) {
                let expect = if completion.is_empty() { LeftOut::EmptyCompletion } else { LeftOut::CutAway };
                assert_eq!(ours, Err(expect), "{what}");
            } else {
                let ours = ours.unwrap();
                assert_eq!(ours.tokens, ids(&case["input_ids"]), "{what}");
                let learnt: Vec<bool> = ours.weights.iter().map(|weight| *weight == 1.0).collect();
                let expect: Vec<bool> = labels.iter().map(|label| *label != NO_TARGET).collect();
                assert_eq!(learnt, expect, "{what}");
                assert_eq!(ours.cut, prompt.len() + completion.len() > max_tokens, "{what}");
                n_targets += ours.n_targets();
            }
            counted.add();
        }
        let recorded = &recorded["batches"][batch]["n_target_tokens"];
        assert_eq!(recorded.as_u64(), u64::try_from(n_targets).ok(), "batch {batch}");
    }
}
