//! Small models with random weights for tests.

use skill_core::random::PyRandom;
use skill_train::model::Decoder;
use skill_train::model_config::ModelConfig;
use skill_train::weights::HostTensor;

/// The text of a small configuration of this family, with some keys replaced or added.
pub(crate) fn config_text(family: &str, changes: &[(&str, serde_json::Value)]) -> String {
    let mut config = serde_json::json!({
        "model_type": family, "vocab_size": 23, "hidden_size": 16, "intermediate_size": 20,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 100.0,
        "tie_word_embeddings": true, "eos_token_id": 2, "hidden_act": "silu",
    });
    for (key, value) in changes {
        config[*key] = value.clone();
    }
    config.to_string()
}

pub(crate) fn config(family: &str, changes: &[(&str, serde_json::Value)]) -> ModelConfig {
    ModelConfig::from_json(&config_text(family, changes)).unwrap()
}

/// A model whose weights are large enough to matter, norms and biases too.
pub(crate) fn model(family: &str, changes: &[(&str, serde_json::Value)]) -> Decoder {
    let mut random = PyRandom::new(5);
    Decoder::build(config(family, changes), |name, shape| {
        let centre = if name.ends_with("norm.weight") { 1.0 } else { 0.0 };
        let values = (0..shape.iter().product()).map(|_| (centre + 0.8 * (random.random() - 0.5)) as f32);
        Ok(HostTensor { shape: shape.to_vec(), values: values.collect() })
    })
    .unwrap()
}
