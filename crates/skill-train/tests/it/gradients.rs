//! Gradients of every kind of variable against finite differences.

use serde_json::json;
use skill_core::random::PyRandom;
use skill_train::lora::{LINEAR_LAYERS, LoraConfig};
use skill_train::model::{Adapters, Batch, Coefficients, Decoder, Gradients, Keep, Target};
use skill_train::weights::HostTensor;

use crate::small;

const TEMPERATURE: f32 = 0.7;

/// Two sequences, one of them longer than a block of attention.
fn batch() -> (Batch, Vec<Target>) {
    let long: Vec<u32> = (0..150).map(|index| (index * 7 + index / 3) % 23).collect();
    let batch = Batch::new([[3, 1, 4, 1, 5].as_slice(), &long]);
    let scored = [0, 2, 3, 5, 60, 131, 140, 153];
    let targets = scored.map(|position| Target { position, token: batch.tokens()[position + 1] });
    (batch, targets.to_vec())
}

/// A loss of log-probabilities and entropies, each with another factor.
fn coefficients(n: usize) -> Vec<Coefficients> {
    let factor = |index: usize| 0.5 + 0.25 * index as f32;
    (0..n)
        .map(|index| Coefficients { by_logprob: -factor(index), by_entropy: 0.3 * factor(n - index) })
        .collect()
}

fn loss(model: &Decoder) -> f64 {
    let (batch, targets) = batch();
    let forward = model.forward(batch, Adapters::On, Keep::Nothing).unwrap();
    let scores = model.log_probs(&forward, &targets, TEMPERATURE).unwrap();
    let scores = scores.logprobs.iter().zip(&scores.entropies).zip(coefficients(targets.len()));
    scores
        .map(|((logprob, entropy), factors)| {
            f64::from(*logprob) * f64::from(factors.by_logprob)
                + f64::from(*entropy) * f64::from(factors.by_entropy)
        })
        .sum()
}

fn gradients(model: &Decoder, keep: Keep) -> Vec<(String, HostTensor)> {
    let (batch, targets) = batch();
    let forward = model.forward(batch, Adapters::On, keep).unwrap();
    let mut gradients = Gradients::default();
    let all = coefficients(targets.len());
    let (_, hidden) = model
        .score(&forward, &targets, TEMPERATURE, &mut gradients, |first, scores| {
            Ok(all[first..first + scores.logprobs.len()].to_vec())
        })
        .unwrap();
    model.backward(forward, hidden, &mut gradients).unwrap();
    model.named_gradients(&gradients).unwrap()
}

/// Every trainable variable has a gradient, and it is the derivative along itself and along a random direction.
#[track_caller]
fn check(model: &Decoder) {
    const STEP: f64 = 4e-3;
    let found = gradients(model, Keep::Activations);
    let again = gradients(model, Keep::LayerInputs);
    let trainable = model.trainable().unwrap();
    assert_eq!(found.len(), trainable.len(), "a variable has no gradient");
    let mut random = PyRandom::new(11);
    for (name, value) in &trainable {
        let (_, gradient) = found.iter().find(|(found, _)| found == name).unwrap();
        let (_, recomputed) = again.iter().find(|(found, _)| found == name).unwrap();
        assert_eq!(gradient, recomputed, "{name} differs where layers are computed a second time");
        assert_eq!(gradient.shape, value.shape);
        let directions = [
            gradient.values.iter().map(|value| f64::from(*value)).collect::<Vec<_>>(),
            gradient.values.iter().map(|_| random.random() - 0.5).collect(),
        ];
        for direction in directions {
            let length = direction.iter().map(|part| part * part).sum::<f64>().sqrt();
            assert!(length > 1e-7, "the gradient of {name} is zero");
            let moved = |sign: f64| {
                let mut new = value.clone();
                for (value, part) in new.values.iter_mut().zip(&direction) {
                    *value += (sign * STEP * part / length) as f32;
                }
                let mut model = model.clone();
                model.replace(&[(name.clone(), new)]).unwrap();
                loss(&model)
            };
            let measured = (moved(1.0) - moved(-1.0)) / (2.0 * STEP);
            let parts = gradient.values.iter().zip(&direction);
            let computed = parts.map(|(value, part)| f64::from(*value) * part / length).sum::<f64>();
            let error = (measured - computed).abs();
            assert!(error < 0.01 * computed.abs() + 4e-3, "{name}: measured {measured}, computed {computed}");
        }
    }
}

#[test]
fn llama_with_shared_embedding() {
    check(&small::model("llama", &[]));
}

#[test]
fn llama_with_all_biases_and_wide_heads() {
    let changes = [
        ("attention_bias", json!(true)),
        ("mlp_bias", json!(true)),
        ("head_dim", json!(6)),
        ("tie_word_embeddings", json!(false)),
    ];
    check(&small::model("llama", &changes));
}

#[test]
fn qwen2() {
    check(&small::model("qwen2", &[("tie_word_embeddings", json!(false))]));
}

#[test]
fn qwen3_with_normed_heads() {
    check(&small::model("qwen3", &[("head_dim", json!(8)), ("num_key_value_heads", json!(1))]));
}

#[test]
fn adapters_on_all_layers() {
    let mut model = small::model("qwen2", &[]);
    let n_base = model.trainable().unwrap().len();
    model.attach_new(LoraConfig::new(3, 7.5, &LINEAR_LAYERS, "small").unwrap(), 1).unwrap();
    let mut random = PyRandom::new(2);
    let moved: Vec<(String, HostTensor)> = model
        .trainable()
        .unwrap()
        .into_iter()
        .map(|(name, mut tensor)| {
            tensor.values.iter_mut().for_each(|value| *value += (0.4 * (random.random() - 0.5)) as f32);
            (name, tensor)
        })
        .collect();
    assert_eq!(moved.len(), 2 * LINEAR_LAYERS.len() * 2);
    assert_ne!(moved.len(), n_base);
    model.replace(&moved).unwrap();
    check(&model);
}
