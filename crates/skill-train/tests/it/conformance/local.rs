//! What the conformance tests of the local back end share.

use std::path::PathBuf;

use serde_json::Value;
use skill_train::loss::{TokenGradient, TokenInput};
use skill_train::model::{Adapters, Batch, Coefficients, Decoder, Gradients, Keep, Scores, Target};
use skill_train::seam::{AdamSettings, Loss, LossMetrics};
use skill_train::weights::HostTensor;

use crate::recorded::{self, Tolerance, close, ids, number, numbers};

pub(super) const LOGITS: Tolerance = Tolerance { relative: 0.0, absolute: 5e-5 };
/// Without an absolute part, which would hide an optimizer that drifts.
pub(super) const LOSS: Tolerance = Tolerance { relative: 5e-6, absolute: 0.0 };
pub(super) const GRADIENT_NORM: Tolerance = Tolerance { relative: 1e-4, absolute: 1e-7 };
pub(super) const GRADIENT: Tolerance = Tolerance { relative: 1e-3, absolute: 1e-5 };
pub(super) const PARAMETER_NORM: Tolerance = Tolerance { relative: 1e-5, absolute: 1e-7 };
pub(super) const PARAMETER: Tolerance = Tolerance { relative: 0.0, absolute: 5e-4 };

/// The recorded files of a folder whose names begin so and end in `.json`.
pub(super) fn files(folder: &str, prefix: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(recorded::path(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix))
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files
}

pub(super) fn model(name: &str) -> Decoder {
    Decoder::open(&recorded::path(&format!("models/{name}"))).unwrap()
}

/// One row of a recorded batch: the real tokens, their positions in the row and their position ids.
pub(super) struct RecordedRow {
    pub(super) columns: Vec<usize>,
    pub(super) tokens: Vec<u32>,
    pub(super) position_ids: Vec<u32>,
}

/// Rows without their padding; position ids count the real tokens where none are recorded.
pub(super) fn rows(batch: &Value) -> Vec<RecordedRow> {
    let row_ids = |row: &Value| row.as_array().map(|_| ids(row));
    let masks = batch["attention_mask"].as_array().unwrap();
    let rows = batch["input_ids"].as_array().unwrap().iter().zip(masks).enumerate();
    rows.map(|(index, (tokens, mask))| {
        let (tokens, mask) = (ids(tokens), ids(mask));
        let columns: Vec<usize> = (0..tokens.len()).filter(|column| mask[*column] == 1).collect();
        let recorded = row_ids(&batch["position_ids"][index]);
        let position_ids = columns.iter().enumerate().map(|(count, column)| match &recorded {
            Some(recorded) => recorded[*column],
            None => u32::try_from(count).unwrap(),
        });
        RecordedRow {
            position_ids: position_ids.collect(),
            tokens: columns.iter().map(|column| tokens[*column]).collect(),
            columns,
        }
    })
    .collect()
}

pub(super) fn batch(rows: &[RecordedRow]) -> Batch {
    let mut batch = Batch::default();
    for row in rows {
        batch.push(&row.tokens, row.position_ids.iter().copied());
    }
    batch
}

/// The targets of labels: columns of a row with a label other than -100, except the first.
pub(super) fn targets(rows: &[RecordedRow], labels: &Value) -> Vec<Target> {
    let mut targets = Vec::new();
    let mut start = 0;
    for (row, labels) in rows.iter().zip(labels.as_array().unwrap()) {
        for (index, column) in row.columns.iter().enumerate().skip(1) {
            if let Some(token) = labels[*column].as_i64().filter(|label| *label != -100) {
                targets.push(Target { position: start + index - 1, token: u32::try_from(token).unwrap() });
            }
        }
        start += row.tokens.len();
    }
    targets
}

/// Cross-entropy over targets divided by the denominator, with its gradient added up.
pub(super) fn cross_entropy(
    model: &Decoder,
    batch: Batch,
    targets: &[Target],
    denominator: f64,
    keep: Keep,
    gradients: &mut Gradients,
) -> f64 {
    let mut metrics = LossMetrics::default();
    let forward = model.forward(batch, Adapters::On, keep).unwrap();
    let (_, hidden) = model
        .score(&forward, targets, 1.0, gradients, |_, scores| {
            Ok(coefficients(scores, |_, scored| Loss::CrossEntropy.token(&scored, denominator, &mut metrics)))
        })
        .unwrap();
    model.backward(forward, hidden, gradients).unwrap();
    metrics.loss
}

/// Calls a loss for each scored token.
pub(super) fn coefficients(
    scores: &Scores,
    mut loss: impl FnMut(usize, TokenInput) -> TokenGradient,
) -> Vec<Coefficients> {
    let scored = scores.logprobs.iter().zip(&scores.entropies).enumerate();
    scored
        .map(|(index, (logprob, entropy))| {
            let mut input = TokenInput::default();
            (input.weight, input.logprob, input.entropy) = (1.0, f64::from(*logprob), f64::from(*entropy));
            let gradient = loss(index, input);
            Coefficients { by_logprob: gradient.by_logprob as f32, by_entropy: gradient.by_entropy as f32 }
        })
        .collect()
}

pub(super) fn norm(tensor: &HostTensor) -> f64 {
    tensor.values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt()
}

/// The norm over all parameters that are trained.
pub(super) fn total_norm(model: &Decoder) -> f64 {
    model.trainable().unwrap().iter().map(|(_, tensor)| norm(tensor).powi(2)).sum::<f64>().sqrt()
}

/// Compares norms and first values of tensors with recorded ones; every recorded name must be there, and no other.
#[track_caller]
pub(super) fn compare(
    found: &[(String, HostTensor)],
    recorded: &Value,
    [norms, values]: [Tolerance; 2],
    what: &str,
) -> usize {
    let recorded = recorded.as_object().unwrap();
    assert_eq!(found.len(), recorded.len(), "{what}: other parameters");
    for (name, expected) in recorded {
        let (_, tensor) =
            found.iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("{what}: no {name}"));
        // README: a constant added to all keys cancels, so this gradient is zero but for rounding.
        let is_rounding = name.ends_with("k_proj.bias");
        let extra = if is_rounding { Tolerance { relative: 1e-3, absolute: 1e-6 } } else { norms };
        close(norm(tensor), number(&expected["norm"]), extra, &format!("{what}, norm of {name}"));
        for (index, expected) in numbers(&expected["first8"]).into_iter().enumerate() {
            close(f64::from(tensor.values[index]), expected, values, &format!("{what}, {name}[{index}]"));
        }
    }
    recorded.len()
}

/// Settings of AdamW as the recordings name them.
pub(super) fn adam(recorded: &Value) -> AdamSettings {
    let limit = recorded.get("max_grad_norm").or_else(|| recorded.get("grad_clip")).unwrap();
    AdamSettings {
        learning_rate: number(&recorded["lr"]),
        beta1: number(&recorded["betas"][0]),
        beta2: number(&recorded["betas"][1]),
        epsilon: number(&recorded["eps"]),
        weight_decay: number(&recorded["weight_decay"]),
        max_grad_norm: Some(number(limit)),
        ..AdamSettings::default()
    }
}
