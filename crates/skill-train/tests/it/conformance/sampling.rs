//! Distributions of transformers' logits processors.

use crate::recorded::{self, Counted, Tolerance, close, ids, number, numbers};
use serde_json::Value;
use skill_train::sampling::SamplingSettings;

const PROBABILITY: Tolerance = Tolerance { relative: 0.0, absolute: 1e-6 };

fn settings(of: &Value) -> SamplingSettings {
    let mut settings = SamplingSettings::default();
    for (key, value) in of.as_object().unwrap() {
        match key.as_str() {
            "repetition_penalty" => settings.repetition_penalty = number(value),
            "temperature" => settings.temperature = number(value),
            "top_k" => settings.top_k = Some(usize::try_from(value.as_u64().unwrap()).unwrap()),
            "top_p" => settings.top_p = number(value),
            "min_p" => settings.min_p = number(value),
            other => panic!("an unknown setting: {other}"),
        }
    }
    settings
}

/// The ids before the token, without those that the attention mask hides.
fn previous(case: &Value) -> Vec<u32> {
    let ids = ids(&case["previous_ids"]);
    let Some(mask) = case.get("attention_mask") else { return ids };
    let mask = numbers(mask);
    ids.into_iter().zip(mask).filter(|(_, shown)| *shown > 0.0).map(|(id, _)| id).collect()
}

#[test]
fn conformance_of_sampling_distributions() {
    let recorded = recorded::json("sampling/sampling.json");
    let mut counted = Counted::new("sampling");
    for case in recorded["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        #[expect(clippy::cast_possible_truncation, reason = "recorded from f32")]
        let logits: Vec<f32> = numbers(&case["logits"]).into_iter().map(|logit| logit as f32).collect();
        let ours = settings(&case["settings"]).distribution(&logits, &previous(case)).unwrap();
        let kept: Vec<u32> = ours.tokens().iter().map(|(token, _)| *token).collect();
        assert_eq!(kept, ids(&case["kept"]), "{name}: kept");
        for (token, recorded) in (0_u32..).zip(numbers(&case["probabilities"])) {
            close(ours.probability(token), recorded, PROBABILITY, &format!("{name}: token {token}"));
        }
        counted.add();
    }
}
