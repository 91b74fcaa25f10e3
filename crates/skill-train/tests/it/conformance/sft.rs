//! Supervised losses with their gradients, packed rows, accumulation, and ten steps of AdamW.

use serde_json::Value;
use skill_train::model::{Batch, Decoder, Gradients, Keep, Target};
use skill_train::optim::AdamW;
use skill_train::schedule::LearningRateSchedule;
use skill_train::seam::Decayed;

use super::local::{
    GRADIENT, GRADIENT_NORM, LOSS, PARAMETER, PARAMETER_NORM, adam, batch, compare, cross_entropy, model,
    norm, rows, targets, total_norm,
};
use crate::recorded::{Counted, close, ids, json, number};

fn recorded_batch(recorded: &Value, name: &str) -> (Batch, Vec<Target>) {
    let recorded = &recorded["batches"][name];
    let rows = rows(recorded);
    (batch(&rows), targets(&rows, &recorded["labels"]))
}

#[test]
fn conformance_sft_losses_and_gradients() {
    let recorded = json("sft/sft.json");
    let mut counted = Counted::new("sft, losses, norms and gradients");
    for (name, expected) in recorded["models"].as_object().unwrap() {
        let model = model(name);
        for batch_name in ["A", "B"] {
            let (batch, targets) = recorded_batch(&recorded, batch_name);
            let expected = &expected[batch_name];
            assert_eq!(targets.len() as u64, expected["n_target_tokens"].as_u64().unwrap());
            for keep in [Keep::Activations, Keep::LayerInputs] {
                let what = format!("{name} {batch_name} {keep:?}");
                let mut gradients = Gradients::default();
                let denominator = targets.len() as f64;
                let loss = cross_entropy(&model, batch.clone(), &targets, denominator, keep, &mut gradients);
                close(loss, number(&expected["loss"]), LOSS, &what);
                let grads = &expected["grads"];
                close(gradients.norm().unwrap(), number(&grads["total_norm"]), GRADIENT_NORM, &what);
                let found = model.named_gradients(&gradients).unwrap();
                compare(&found, &grads["params"], [GRADIENT_NORM, GRADIENT], &what);
                counted.add();
            }
        }
        accumulated(&recorded, &model, &expected["accumulated_AB"]);
        packed(&recorded, &model, &expected["packed"]);
        counted.add();
        counted.add();
    }
}

/// Micro-batches divided by the targets of all are one step over all of them.
fn accumulated(recorded: &Value, model: &Decoder, expected: &Value) {
    let batches = ["A", "B"].map(|name| recorded_batch(recorded, name));
    let denominator = batches.iter().map(|(_, targets)| targets.len()).sum::<usize>() as f64;
    let mut gradients = Gradients::default();
    let losses = batches.map(|(batch, targets)| {
        cross_entropy(model, batch, &targets, denominator, Keep::Activations, &mut gradients)
    });
    close(losses.iter().sum(), number(&expected["loss"]), LOSS, "accumulated loss");
    let norm = number(&expected["grads"]["total_norm"]);
    close(gradients.norm().unwrap(), norm, GRADIENT_NORM, "accumulated gradient");
}

/// Segments of a row are sequences of their own; without borders the row has another loss.
fn packed(recorded: &Value, model: &Decoder, expected: &Value) {
    let recorded = &recorded["packed"];
    let (tokens, segments) = (ids(&recorded["input_ids"][0]), ids(&recorded["segment_ids"][0]));
    let positions = ids(&recorded["position_ids"][0]);
    let is_first = |index: usize| index == 0 || segments[index] != segments[index - 1];
    let labels = recorded["labels"][0].as_array().unwrap();
    let is_target = |index: usize| labels[index].as_i64() != Some(-100) && index > 0;
    let targets: Vec<Target> = (0..tokens.len())
        .filter(|index| is_target(*index) && !is_first(*index))
        .map(|index| Target { position: index - 1, token: tokens[index] })
        .collect();
    let mut separate = Batch::default();
    let starts: Vec<usize> = (0..tokens.len()).filter(|index| is_first(*index)).collect();
    for (number, start) in starts.iter().enumerate() {
        let end = starts.get(number + 1).copied().unwrap_or(tokens.len());
        separate.push(&tokens[*start..end], positions[*start..end].iter().copied());
    }
    let mut gradients = Gradients::default();
    let denominator = targets.len() as f64;
    let loss = cross_entropy(model, separate, &targets, denominator, Keep::Activations, &mut gradients);
    close(loss, number(&expected["loss_block_diagonal"]), LOSS, "packed loss");
    let norm = number(&expected["grad_total_norm_block_diagonal"]);
    close(gradients.norm().unwrap(), norm, GRADIENT_NORM, "packed gradient");

    let mut joined = Batch::default();
    joined.push(&tokens, 0..u32::try_from(tokens.len()).unwrap());
    let joined =
        cross_entropy(model, joined, &targets, denominator, Keep::Activations, &mut Gradients::default());
    close(joined, number(&expected["loss_plain_causal_over_the_row"]), LOSS, "loss of one joined sequence");
}

#[test]
fn conformance_sft_steps_of_adamw() {
    let recorded = json("sft/sft.json");
    let mut counted = Counted::new("sft, optimizer steps");
    let training = &recorded["training"];
    let schedule = LearningRateSchedule::Cosine {
        n_warmup_steps: training["warmup_steps"].as_u64().unwrap(),
        n_steps: training["total_steps"].as_u64().unwrap(),
    };
    for (name, expected) in recorded["models"].as_object().unwrap() {
        for (run, decayed) in [("train_decay_2d_only", Decayed::Matrices), ("train_decay_all", Decayed::All)]
        {
            let expected = &expected[run];
            let (mut model, mut optimizer) = (model(name), AdamW::default());
            let mut settings = adam(training);
            settings.decayed = decayed;
            for (step, expected) in expected["steps"].as_array().unwrap().iter().enumerate() {
                let what = format!("{name} {run} step {step}");
                let (batch, targets) = recorded_batch(&recorded, expected["batch"].as_str().unwrap());
                settings.learning_rate = number(&training["lr"]) * schedule.factor(step as u64);
                let rate = number(&expected["lr"]);
                assert!((settings.learning_rate - rate).abs() < 1e-9, "{what}: rate {rate}");
                let mut gradients = Gradients::default();
                let denominator = targets.len() as f64;
                let loss =
                    cross_entropy(&model, batch, &targets, denominator, Keep::Activations, &mut gradients);
                close(loss, number(&expected["loss"]), LOSS, &what);
                let grad_norm = model.step(&mut optimizer, &settings, &gradients).unwrap();
                close(grad_norm, number(&expected["grad_norm"]), GRADIENT_NORM, &what);
                close(total_norm(&model), number(&expected["param_norm_after"]), PARAMETER_NORM, &what);
                let after = model.trainable().unwrap();
                for (name, expected) in expected["param_norms_after"].as_object().unwrap() {
                    let (_, tensor) = after.iter().find(|(found, _)| found == name).unwrap();
                    let mut tolerance = PARAMETER_NORM;
                    if name.ends_with("k_proj.bias") {
                        tolerance.relative = 1e-3;
                    }
                    close(norm(tensor), number(expected), tolerance, &format!("{what} {name}"));
                }
                counted.add();
            }
            let after = model.trainable().unwrap();
            compare(&after, &expected["final_params"], [PARAMETER_NORM, PARAMETER], run);
        }
    }
}
